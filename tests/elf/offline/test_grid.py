"""Which windows share a pass, and which of them an event falls into."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

from hypothesis import given
from hypothesis import strategies as st

from elf.offline.grid import START, Grid, grids

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@given(st.sets(st.integers(-20, 20)), st.integers(1, 5), st.integers(1, 4), st.integers(1, 6))
def test_grids_hold_all_windows_once_in_few_runs(
    places: set[int], slide_ms: int, factor: int, windows_max: int
) -> None:
    windows = [(place * slide_ms, (place + factor) * slide_ms) for place in sorted(places)]
    found = grids(windows, slide_ms, windows_max)
    assert [(start, start + grid.size_ms) for grid in found for start in grid.starts] == windows
    assert all(len(grid.starts) <= windows_max for grid in found)
    for one, other in itertools.pairwise(found):
        assert len(one.starts) == windows_max or other.first_ms > one.last_ms + slide_ms


def test_windows_of_other_lengths_or_with_gaps_between_have_grids_of_their_own() -> None:
    assert grids([(0, 10), (5, 20), (10, 25)], 5, 9) == [Grid(0, 0, 10, 5), Grid(5, 10, 15, 5)]
    assert grids([(0, 2), (5, 7)], 5, 9) == [Grid(0, 0, 2, 2), Grid(5, 5, 2, 2)]


def test_every_event_falls_into_the_windows_around_it(spark: SparkSession) -> None:
    from pyspark.sql import functions as F

    events = spark.range(-70, 140).select(F.timestamp_millis("id").alias("ts"))
    made = [
        Grid(-60, 45, 35, 15),  # sliding, the size no multiple of the slide
        Grid(-40, 60, 20, 20),  # tumbling
        Grid(7, 7, 50, 50),  # one, not aligned
    ]
    placed = [
        grid.place(events, True).select(F.unix_millis("ts"), F.col(START), F.lit(i)) for i, grid in enumerate(made)
    ]
    rows = [tuple(row) for row in placed[0].union(placed[1]).union(placed[2]).collect()]
    wanted = [
        (at, start, i)
        for i, grid in enumerate(made)
        for start in grid.starts
        for at in range(-70, 140)
        if start <= at < start + grid.size_ms
    ]
    assert sorted(rows) == sorted(wanted)
