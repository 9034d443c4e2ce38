"""The split of PAO frames over partitions: every row in one, by its key alone, whatever frame it stands in."""

from __future__ import annotations

import itertools

import numpy as np
import polars as pl
from hypothesis import given
from hypothesis import strategies as st

from elf.cbt import INTERVAL, PaoSchema, partitions_of, split
from elf.cbt.aggregates import aggregate

SCHEMA = PaoSchema(
    keys=(("name", pl.String()), ("number", pl.Int64()), ("share", pl.Float64()), ("flag", pl.Boolean())),
    aggregates=(("n", aggregate("count")),),
)
STATE = next(iter(SCHEMA.states))
keys = st.tuples(
    st.none() | st.text(max_size=3) | st.sampled_from(["", "a" * 13, "ä" * 40, "b" * 700]),
    st.none() | st.integers(-(2**63), 2**63 - 1),
    st.none() | st.sampled_from([0.0, 1.5, float("nan")]),
    st.none() | st.booleans(),
)
rows = st.tuples(st.integers(0, 3), keys)


def frame_of(found: list[tuple[int, tuple[object, ...]]]) -> pl.DataFrame:
    data = [(interval, *key, 1 + place) for place, (interval, key) in enumerate(found)]
    columns = {INTERVAL: pl.Int64(), **dict(SCHEMA.keys), STATE: SCHEMA.states[STATE]}
    return pl.DataFrame(data, schema=columns, orient="row")


@given(st.lists(rows, max_size=40), st.integers(1, 64))
def test_a_split_is_a_partition_and_keeps_the_order_of_rows(
    found: list[tuple[int, tuple[object, ...]]], count: int
) -> None:
    frame = frame_of(found)
    parts = split(frame, SCHEMA, count)
    assert len(parts) == count
    places = [part[STATE].to_list() for part in parts]
    assert all(each == sorted(each) for each in places)
    assert sorted(place for each in places for place in each) == list(range(1, len(found) + 1))
    assert pl.concat(parts).sort(STATE).equals(frame, null_equal=True)


@given(st.lists(rows, min_size=1, max_size=30), st.lists(st.integers(0, 29), max_size=6), st.integers(2, 64))
def test_a_key_is_of_one_partition_whatever_the_frame_and_the_interval(
    found: list[tuple[int, tuple[object, ...]]], borders: list[int], count: int
) -> None:
    frame = frame_of(found)
    whole = partitions_of(frame, SCHEMA, count).tolist()
    cuts = sorted({0, *(cut for cut in borders if cut < len(found)), len(found)})
    cut = [
        partition
        for start, end in itertools.pairwise(cuts)
        for partition in partitions_of(frame.slice(start, end - start), SCHEMA, count).tolist()
    ]
    alone = [int(partitions_of(frame[place], SCHEMA, count)[0]) for place in range(len(found))]
    elsewhere = partitions_of(frame.with_columns(pl.col(INTERVAL) + 17), SCHEMA, count).tolist()
    assert whole == cut == alone == elsewhere


def test_the_partition_of_a_key_is_the_same_for_ever() -> None:
    # Agents of different versions and machines must agree: these numbers may never change.
    frame = frame_of([(0, ("video", 7, 1.5, True)), (1, (None, None, None, None)), (2, ("b" * 700, -1, 0.0, False))])
    assert partitions_of(frame, SCHEMA, 64).tolist() == [1, 0, 62]


def test_keys_are_spread_evenly() -> None:
    frame = frame_of([(0, (f"key {number}", number, None, None)) for number in range(6_400)])
    counts = np.bincount(partitions_of(frame, SCHEMA, 16), minlength=16)
    assert counts.min() > 300 and counts.max() < 500
