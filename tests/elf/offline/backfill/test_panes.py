"""Computed rows as blocks that can be loaded."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import polars as pl
import pytest
from polars.testing import assert_frame_equal

from elf.agents.jobs.definition import Definition
from elf.agents.jobs.plan import Plan, compile_job
from elf.cbt import INTERVAL, decode
from elf.offline.backfill.panes import cut
from elf.offline.session import OfflineError

if TYPE_CHECKING:
    from tests.elf.offline.conftest import Shop

QUERY = "SELECT count(*) n, max(price_cents) m FROM clicks GROUP BY window(ts, '60 seconds', '20 seconds')"
KEYED = "SELECT user, count(*) n FROM clicks GROUP BY user, window(ts, '60 seconds', '20 seconds')"


def plan_of(shop: Shop, query: str = QUERY) -> Plan:
    definition = Definition(name="job", creator="shop", source="clicks", query=query, columns=shop.columns)
    return compile_job(definition, definition.types)


def test_blocks_cover_a_run_without_gaps(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("elf.offline.backfill.panes.INTERVALS_MAX", 2)
    plan = plan_of(shop)
    rows = plan.schema.merge([plan.reduce(shop.events)]).sort(INTERVAL)
    first = int(rows[INTERVAL][0]) - 5
    last = int(rows[INTERVAL][-1]) + 5
    runs = [(begin, end) for begin, end, _ in cut(rows, first, last)]
    assert (runs[0][0], runs[-1][1]) == (first, last)
    assert all(one[1] + 1 == other[0] for one, other in itertools.pairwise(runs))
    assert len(runs) == 4
    assert [run[:2] for run in cut(plan.schema.empty(), 3, 9)] == [(3, 9)]


def test_an_interval_that_is_too_large_for_a_block_is_refused(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("elf.offline.backfill.panes.PAYLOAD_BYTES_MAX", 64 << 10)
    plan = plan_of(shop)
    rows = plan.schema.merge([plan.reduce(shop.events)]).sort(INTERVAL)
    with pytest.raises(OfflineError, match="more than can be loaded at once; publish the job with a shorter"):
        list(cut(rows, int(rows[INTERVAL][0]), int(rows[INTERVAL][-1])))


def test_blocks_hold_the_rows_as_they_come(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    """One of each key: the master puts them into its own order."""
    monkeypatch.setattr("elf.offline.backfill.panes.INTERVALS_MAX", 2)
    plan = plan_of(shop, KEYED)
    rows = plan.schema.merge([plan.reduce(shop.events)]).sample(fraction=1.0, shuffle=True, seed=7)
    rows = rows.sort(INTERVAL, maintain_order=True)
    blocks = [block for _, _, block in cut(rows, int(rows[INTERVAL][0]), int(rows[INTERVAL][-1]))]
    assert len(blocks) > 1
    assert_frame_equal(pl.concat(decode(block, plan.schema) for block in blocks), rows)
