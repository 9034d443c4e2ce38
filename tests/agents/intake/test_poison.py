"""A line or event on which our own code fails is set aside and named; all others are counted."""

from collections.abc import Mapping, Sequence

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.intake.poison import insert_whatever, parse_whatever
from agents.jobs.types import SqlType
from agents.sources.counters import Counters, Parsed
from agents.sources.format import make_format
from agents.worker import Worker
from tests.agents.plans import COLUMNS, events, plan_of


class Fragile:
    """A JSON format that fails on any chunk with the word poison in it."""

    name = "json"
    columns = None

    def parse(self, chunk: bytes, wanted: Mapping[str, SqlType], literals: Sequence[Sequence[str]] = ()) -> Parsed:
        if b"poison" in chunk:
            raise pl.exceptions.ComputeError("poisoned")
        return make_format("json").parse(chunk, wanted, literals)


@given(st.lists(st.booleans(), max_size=20), st.booleans())
def test_only_the_poison_is_rejected(lines: list[bool], newline: bool) -> None:
    text = [b"poison" if bad else b'{"ts":1767225600000,"product":"a","cents":1}' for bad in lines]
    data = b"\n".join(text) + (b"\n" if newline and text else b"")
    parts = list(parse_whatever(Fragile(), data, COLUMNS, ()))
    total = sum((part.counters for part in parts), Counters())
    assert total == Counters(read=len(lines), parsed=lines.count(False), rejected=lines.count(True))
    assert [reason for part in parts for _, reason in part.rejects] == ["failure:ComputeError"] * lines.count(True)
    assert pl.concat(part.events for part in parts).height == lines.count(False)


def test_an_event_a_plan_fails_on_is_left_out_and_labelled(monkeypatch: pytest.MonkeyPatch) -> None:
    plan = plan_of()
    worker, reduce = Worker(plan, "w1"), type(plan).reduce

    def fragile(self: object, frame: pl.DataFrame) -> pl.DataFrame:
        if (frame["cents"] == 13).any():
            raise pl.exceptions.ComputeError("poisoned")
        return reduce(plan, frame)

    monkeypatch.setattr(type(plan), "reduce", fragile)
    insert_whatever(worker, events([(0, "a", 1), (4_000, "a", 13), (5_000, "b", 2)]))
    assert worker.progress.gaps == ((2, 2),)
    assert sum(1 for snapshot in worker.seal(20_000) if snapshot.payload) == 2
