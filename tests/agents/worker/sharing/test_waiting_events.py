"""Events that wait, put together as far as workers cannot tell."""

from __future__ import annotations

import polars as pl
from hypothesis import given
from hypothesis import strategies as st

from elf.agents.language.types import SqlType
from elf.agents.worker.sharing.parse import Parsing
from elf.agents.worker.sharing.waiting_events import BYTES_MAX, ROWS_MAX, WaitingEvents
from tests.agents.plans import events

WHOLE = {"cents": SqlType.BIGINT}
FRACTIONS = {"cents": SqlType.DOUBLE}
FIRST, SECOND = Parsing(WHOLE), Parsing(FRACTIONS, [WHOLE])
rows = st.lists(st.tuples(st.integers(0, 9), st.sampled_from("ab"), st.integers(0, 9)), min_size=1, max_size=4)


@given(st.lists(st.tuples(st.sampled_from([FIRST, SECOND]), rows), max_size=8))
def test_those_that_are_parsed_alike_come_in_one_frame_in_their_order(
    told: list[tuple[Parsing, list[tuple[int, str, int]]]],
) -> None:
    waiting, taken = WaitingEvents(), []
    for parsing, some in told:
        if not waiting.fits(parsing):
            taken += waiting.take()
        waiting.add(events(some), parsing)
    taken += waiting.take()
    assert not waiting and waiting.take() == []
    for way in (FIRST, SECOND):
        found = [row for frame, parsing in taken if parsing == way for row in frame.rows()]
        assert found == [row for parsing, some in told if parsing == way for row in events(some).rows()]


def test_ways_of_one_source_wait_beside_each_other_and_no_others() -> None:
    waiting = WaitingEvents()
    assert waiting.fits(SECOND), "the first way may have had no event"
    waiting.add(events([(0, "a", 1)]), FIRST)
    assert waiting.fits(FIRST) and waiting.fits(SECOND)
    assert not waiting.fits(None) and not waiting.fits(Parsing(FRACTIONS)), "a plan might take both"
    assert not waiting.fits(Parsing(FRACTIONS, [{**WHOLE, "product": SqlType.STRING}]))


def test_columns_of_texts_that_only_some_frames_have_are_null_in_others() -> None:
    waiting = WaitingEvents()
    waiting.add(events([(0, "a", 1)]), FIRST)
    waiting.add(events([(1, "b", 2)]).with_columns(pl.lit("x").alias("cents[raw]")), FIRST)
    ((frame, parsing),) = waiting.take()
    assert frame["cents[raw]"].to_list() == [None, "x"] and frame["cents"].to_list() == [1, 2] and parsing == FIRST


def test_they_are_full_by_rows_or_by_bytes() -> None:
    waiting = WaitingEvents()
    waiting.add(events([(0, "a", 1)] * (ROWS_MAX - 1)), None)
    assert not waiting.is_full
    waiting.add(events([(0, "a", 1)]), None)
    assert waiting.is_full
    waiting.take()
    assert not waiting.is_full
    waiting.add(events([(0, "a" * BYTES_MAX, 1)]), None)
    assert waiting.is_full
