"""Frames merged one after the other are those merged together, whether their keys are alike or not."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from elf.cbt import merging
from elf.cbt.aggregates import AggregateOverflow, aggregate
from elf.cbt.folding import creator, finish
from elf.cbt.merging import Merging
from elf.cbt.schema import INTERVAL, PaoSchema

AGGREGATES = (
    ("a0", aggregate("count")),
    ("a1", aggregate("sum", pl.Float64())),
    ("a2", aggregate("max", pl.Int32())),
    ("a3", aggregate("min", pl.Float64())),
    ("a4", aggregate("var_samp", pl.Float64())),
    ("a5", aggregate("approx_count_distinct", pl.Int32())),
)
INPUTS = {"a1": pl.col("x"), "a2": pl.col("n"), "a3": pl.col("x"), "a4": pl.col("x"), "a5": pl.col("n")}
KEYS = (("k0", pl.String()),)
NUMBERS = PaoSchema(KEYS, AGGREGATES)
WITH_TEXT = PaoSchema(KEYS, (("a0", aggregate("count")), ("a2", aggregate("min", pl.String()))))
Row = tuple[str | None, float | None, int | None]

rows = st.tuples(
    st.sampled_from([None, "a", "b", "c" * 20]),
    st.sampled_from([None, 0.0, -1.5, 2.0, float("inf")]),
    st.sampled_from([None, 1, -7]),
)
scripts = st.lists(st.lists(rows, max_size=6), max_size=9)


def raw(interval: int, some: list[Row]) -> pl.DataFrame:
    schema = {INTERVAL: pl.Int64(), "k0": pl.String(), "x": pl.Float64(), "n": pl.Int32()}
    return pl.DataFrame([(interval, *row) for row in some], schema=schema, orient="row")


@pytest.mark.parametrize("schema", [NUMBERS, WITH_TEXT], ids=["numbers", "text"])
@given(script=scripts, waiting=st.sampled_from([3, 1 << 20]), several=st.booleans())
def test_frames_merge_one_after_the_other_as_they_do_together(
    schema: PaoSchema, script: list[list[Row]], waiting: int, several: bool
) -> None:
    inputs = INPUTS if schema is NUMBERS else {"a2": pl.col("n").cast(pl.String)}
    reduce = creator(schema, inputs)
    frames = [reduce(raw(interval, some)) for interval, some in enumerate(script) if some]
    ordered = [schema.merge_interval([frame], int(frame[INTERVAL][0])) for frame in frames]
    if several and len(ordered) > 1:
        ordered = [schema.merge(ordered[:2]), *ordered[2:]]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(merging, "WAITING_ROWS", waiting)
        merged = Merging(schema)
        for frame in ordered:
            merged.add(frame)
        result = merged.result()
    assert merged.count == sum(frame.height for frame in ordered)
    assert result.schema == schema.empty().schema and set(result[INTERVAL]) <= {0}
    together = schema.merge([schema.at_zero(frame) for frame in frames])
    left, right = (finish(each, schema).sort("k0") for each in (result, together))
    for column in left.columns:
        if left[column].dtype == pl.Float64:
            assert np.allclose(left[column].fill_null(-9e9), right[column].fill_null(-9e9), equal_nan=True)
        else:
            assert left[column].equals(right[column])


def test_frames_of_alike_keys_merge_without_being_sorted() -> None:
    reduce = creator(NUMBERS, INPUTS)
    some: list[Row] = [("a", 1.0, 1), ("b", 2.0, 2), (None, 0.5, 3)]
    frames = [NUMBERS.merge_interval([reduce(raw(interval, some))], interval) for interval in (5, 9, 1_000)]
    zero = [NUMBERS.at_zero(frame) for frame in frames]
    assert NUMBERS.merge_alike(zero[0], zero[1]) is not None, "the same order whatever the interval"
    assert NUMBERS.merge_alike(zero[0], zero[1].head(2)) is None
    text = WITH_TEXT.merge([creator(WITH_TEXT, {"a2": pl.col("k0")})(raw(0, some))])
    assert WITH_TEXT.merge_alike(text, text) is None
    assert Merging(NUMBERS).result().height == 0


def test_a_sum_of_alike_rows_beyond_64_bits_is_refused() -> None:
    schema = PaoSchema(KEYS, (("a0", aggregate("count")), ("a1", aggregate("max", pl.Int32()))))
    frame = schema.merge([creator(schema, {"a1": pl.col("n")})(raw(0, [("a", None, 1)]))])
    frame = frame.with_columns(pl.lit(2**63 - 1, pl.Int64).alias("a0_n"))
    with pytest.raises(AggregateOverflow, match="a0_n"):
        schema.merge_alike(frame, frame)
