"""Merging frames of a schema, against Polars' group_by."""

from __future__ import annotations

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

from elf.cbt.aggregates import AggregateOverflow, aggregate
from elf.cbt.schema import PaoSchema
from tests.cbt.counting import COUNTS, counts

SCHEMA = PaoSchema(
    keys=(("k", pl.String()), ("i", pl.Int32())),
    aggregates=(
        ("a0", aggregate("count")),
        ("a1", aggregate("max", pl.String())),
        ("a2", aggregate("avg", pl.Int32())),
    ),
)
row = st.tuples(
    st.integers(0, 2),
    st.none() | st.sampled_from(["", "a", "b" * 20, "b" * 21, "c" * 40, "c" * 600]),
    st.none() | st.integers(0, 2),
    st.integers(1, 9),
    st.text(max_size=2),
    st.integers(-9, 9),
)
frames = st.lists(st.lists(row, max_size=8), max_size=4)


def made(rows: list[tuple[object, ...]]) -> pl.DataFrame:
    columns = {"interval": 0, "k": 1, "i": 2, "a0_n": 3, "a1_has": None, "a1_max": 4, "a2_n": 3, "a2_sum": 5}
    values = {name: [True if at is None else each[at] for each in rows] for name, at in columns.items()}
    return pl.DataFrame(values, schema_overrides=SCHEMA.columns).select(
        pl.col(name).cast(dtype) for name, dtype in SCHEMA.columns.items()
    )


def grouped(given: pl.DataFrame, keys: list[str]) -> pl.DataFrame:
    sums = pl.col("a0_n", "a2_n", "a2_sum").sum()
    return given.group_by(keys).agg(sums, pl.col("a1_has", "a1_max").max())


def assert_same(found: pl.DataFrame, wanted: pl.DataFrame, keys: list[str]) -> None:
    assert_frame_equal(found.sort(keys), wanted.select(found.columns).sort(keys))


def test_columns_stand_in_order() -> None:
    assert list(SCHEMA.columns)[:3] == ["interval", "k", "i"]
    assert set(SCHEMA.columns) == {"interval", "k", "i", *SCHEMA.states}
    assert SCHEMA.empty().schema == SCHEMA.columns
    assert SCHEMA.key_names == ("k", "i")


@settings(max_examples=60)
@given(frames)
def test_merge_groups_by_interval_and_keys(given: list[list[tuple[object, ...]]]) -> None:
    parts = [made(rows) for rows in given]
    keys = ["interval", "k", "i"]
    assert_same(SCHEMA.merge(parts), grouped(pl.concat([SCHEMA.empty(), *parts]), keys), keys)


@settings(max_examples=60)
@given(frames)
def test_merge_window_groups_by_keys_alone(given: list[list[tuple[object, ...]]]) -> None:
    parts = [made(rows) for rows in given]
    found = SCHEMA.merge_window(parts)
    assert "interval" not in found.columns
    assert_same(found, grouped(pl.concat([SCHEMA.empty(), *parts]), ["k", "i"]), ["k", "i"])


@settings(max_examples=60)
@given(frames)
def test_few_rows_merge_to_what_they_would_among_many(given: list[list[tuple[object, ...]]]) -> None:
    parts = [made(rows) for rows in given]
    merged = SCHEMA.merge(parts)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("elf.cbt.schema.FEW_ROWS", -1)
        assert SCHEMA.merge(parts).equals(merged)


def test_merging_again_changes_nothing() -> None:
    merged = COUNTS.merge([counts(["b", "a", None, "a", "x" * 99])])
    assert COUNTS.merge([merged]).equals(merged)
    assert COUNTS.merge([]).equals(COUNTS.empty())


def test_a_sum_too_large_names_its_column() -> None:
    with pytest.raises(AggregateOverflow, match="'a0_n'"):
        COUNTS.merge([counts(["a"], 2**62)] * 2)


def test_only_sums_can_be_taken_out_again() -> None:
    assert COUNTS.invertible
    assert not SCHEMA.invertible
    assert not PaoSchema(keys=(), aggregates=()).invertible
    assert PaoSchema(keys=(), aggregates=(("a0", aggregate("count_distinct", pl.String())),)).invertible


def test_slots_are_keys() -> None:
    schema = PaoSchema(keys=(), aggregates=(("a0", aggregate("count_distinct", pl.String())),))
    assert list(schema.columns) == ["interval", "a0_slot", "a0_n"]
    rows = [(0, "x", 1), (0, None, 1), (0, "x", 2), (1, "x", 5)]
    frame = pl.DataFrame(rows, schema=schema.columns, orient="row")
    assert sorted(schema.merge([frame]).rows(), key=str) == [(0, "x", 3), (0, None, 1), (1, "x", 5)]


def test_keys_the_tree_cannot_group_by_are_refused_before_it_takes_a_row() -> None:
    schema = PaoSchema(keys=(("k", pl.Categorical()),), aggregates=COUNTS.aggregates)
    with pytest.raises(ValueError, match="key column 'k' is of type Categorical"):
        schema.merge([schema.empty()])
