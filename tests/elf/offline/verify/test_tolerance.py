"""How near a cell has to be, by what it was computed from."""

from __future__ import annotations

import math
from typing import Any

import pytest

from elf.agents.language.query import parse_query
from elf.offline.verify.tolerance import EXACT, RELATIVE_SPREAD, Tolerance, tolerance_of


def of(text: str, items: str = "count(*) AS n") -> Tolerance:
    query = parse_query(f"SELECT {items}, {text} AS x FROM rows ORDER BY {text}")
    names = {item.name.lower(): item.node for item in query.items}
    return tolerance_of(query.order[0].this, names)


@pytest.mark.parametrize("text", ["count(DISTINCT s)", "sum(i) / 2", "collect_set(s)", "first(s)", "n", "max(d)"])
def test_exact(text: str) -> None:
    assert of(text) == EXACT


def test_sketches() -> None:
    assert of("approx_count_distinct(s)").relative == pytest.approx(0.25)
    assert of("approx_count_distinct(s, 0.01) + 1").relative == pytest.approx(0.05)
    assert of("approx_percentile(d, 0.5)").relative == pytest.approx(0.01)
    assert of("percentile_approx(d, 0.5, 1000) FILTER (WHERE f)").relative == pytest.approx(0.001)
    assert of("approx_percentile(d, 0.5) + approx_count_distinct(s)").relative == pytest.approx(0.25)
    assert of("stddev(d)").relative == RELATIVE_SPREAD
    assert of("about * 2", "approx_count_distinct(s) AS About").estimate


@pytest.mark.parametrize(
    ("near", "one", "other", "close"),
    [
        (EXACT, 1.0, 1.0 + 1e-12, True),
        (EXACT, 1.0, 1.001, False),
        (EXACT, 10**9, 10**9 + 1, False),
        (EXACT, math.nan, math.nan, True),
        (EXACT, None, None, True),
        (EXACT, None, 0.0, False),
        (EXACT, True, 1, False),
        (EXACT, [1.0, 2.0], [1.0, 2.0 + 1e-12], True),
        (EXACT, [1], [1, 2], False),
        (EXACT, "a", "a", True),
        (Tolerance(0.25, 2.0, True), 100, 124, True),
        (Tolerance(0.25, 2.0, True), 100, 150, False),
        (Tolerance(0.25, 2.0, True), 1, 3, True),
        (Tolerance(0.25, 2.0, True), None, 3, False),
        (Tolerance(0.25, 2.0, True), True, 1, False),
    ],
)
def test_cells(near: Tolerance, one: Any, other: Any, close: bool) -> None:
    assert near.close(one, other) is close
