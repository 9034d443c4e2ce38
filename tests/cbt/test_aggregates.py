"""The laws of aggregates: however rows are split and merged, the result is the aggregate of the whole."""

import itertools

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

from cbt import INTERVAL, Aggregate, BufferTree, PaoSchema
from cbt.aggregates import KINDS

rows = st.lists(
    st.tuples(st.integers(0, 3), st.sampled_from("ab") | st.none(), st.none() | st.integers(-1000, 1000)), max_size=40
)
SCHEMA = PaoSchema(keys=(("k0", pl.String()),), aggregates=tuple((kind, Aggregate(kind)) for kind in KINDS))
FINISH = [SCHEMA.aggregates[i][1].finish(kind).alias(kind) for i, kind in enumerate(KINDS)]


def create(values: list[tuple[int, str | None, int | None]]) -> pl.DataFrame:
    raw = pl.DataFrame(values, schema={INTERVAL: pl.Int64, "k0": pl.String, "v": pl.Int64}, orient="row")
    states = [e for name, aggregate in SCHEMA.aggregates for e in aggregate.create(name, pl.col("v"))]
    return raw.group_by(INTERVAL, "k0").agg(states).select(*SCHEMA.columns)


@given(rows, st.lists(st.integers(0, 40), max_size=4))
def test_merged_parts_equal_the_whole(values: list[tuple[int, str | None, int | None]], cuts: list[int]) -> None:
    tree = BufferTree(SCHEMA)
    bounds = [0, *sorted(cuts), len(values)]
    for start, end in itertools.pairwise(bounds):
        tree.insert(create(values[start:end]))
    merged = pl.concat([SCHEMA.empty(), *tree.flush()])
    by = [INTERVAL, "k0"]
    assert_frame_equal(merged.sort(by), create(values).sort(by))

    direct = (
        pl.DataFrame(values, schema={INTERVAL: pl.Int64, "k0": pl.String, "v": pl.Int64}, orient="row")
        .group_by("k0")
        .agg(
            pl.col("v").count().cast(pl.Int64).alias("count"),
            pl.when(pl.col("v").count() > 0).then(pl.col("v").sum()).alias("sum"),
            pl.col("v").mean().alias("avg"),
            pl.col("v").min().alias("min"),
            pl.col("v").max().alias("max"),
        )
    )
    assert_frame_equal(SCHEMA.merge_window([merged]).select("k0", *FINISH).sort("k0"), direct.sort("k0"))


def test_nan_is_larger_than_any_number_as_in_spark() -> None:
    schema = PaoSchema((), (("a0", Aggregate("max", pl.Float64())), ("a1", Aggregate("min", pl.Float64()))))
    raw = pl.DataFrame({INTERVAL: [0, 0], "v": [1.0, float("nan")]}, schema={INTERVAL: pl.Int64, "v": pl.Float64})
    states = [e for name, aggregate in schema.aggregates for e in aggregate.create(name, pl.col("v"))]
    assert str(raw.group_by(INTERVAL).agg(states).row(0)) == "(0, nan, 1.0)"


def test_only_count_works_without_input() -> None:
    with pytest.raises(ValueError, match="sum needs an input"):
        Aggregate("sum").create("a0", None)


def test_empty_discards_the_content() -> None:
    tree = BufferTree(SCHEMA)
    tree.insert(create([(1, "a", 5)]))
    assert tree.memory_bytes > 0
    tree.empty()
    assert list(tree.flush()) == [] or sum(f.height for f in tree.flush()) == 0
