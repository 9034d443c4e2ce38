"""Totals: exact where they promise it, and close where they must round."""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction

import numpy as np
import polars as pl
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from elf.cbt.aggregates import AggregateOverflow, aggregate, check_sums
from tests.cbt.aggregates.reference import answers, made, merged, raw, single

edges = st.sampled_from([2**63 - 1, -(2**63), 2**62, -(2**62), 2**62 - 1, 1, -1, 0])
wide = edges | st.integers(-(2**63), 2**63 - 1)


@given(st.lists(st.lists(wide, min_size=1, max_size=5), min_size=1, max_size=5))
@example([[2**63 - 1, 1, -1]])
@example([[-(2**63), 0]])
@example([[1], [2**62, 2**62]])
def test_sums_are_refused_exactly_if_they_do_not_fit(segments: list[list[int]]) -> None:
    values = np.array([value for segment in segments for value in segment], dtype=np.int64)
    starts = np.cumsum([0, *(len(segment) for segment in segments[:-1])])
    if all(-(2**63) <= sum(segment) < 2**63 for segment in segments):
        check_sums(values, starts, "c")
        assert np.add.reduceat(values, starts).tolist() == [sum(segment) for segment in segments]
    else:
        with pytest.raises(AggregateOverflow, match="'c'") as caught:
            check_sums(values, starts, "c")
        assert caught.value.column == "c"


def test_small_numbers_among_large_ones_are_not_lost() -> None:
    schema = single(aggregate("sum", pl.Float64()))
    parts = [[1e16, 1.0], [1.0, -1e16], [0.1] * 10]
    frames = [made(schema, raw([("k", value) for value in part], pl.Float64())) for part in parts]
    assert answers(merged(frames, schema), schema) == {"k": math.fsum(value for part in parts for value in part)}


@pytest.mark.parametrize(
    ("values", "total"),
    [
        ([math.inf, 1.0], math.inf),
        ([math.inf, -math.inf], math.nan),
        ([1.7e308, 1.7e308], math.inf),
        ([-0.0], 0.0),
    ],
)
def test_specials_add_up_as_doubles_do(values: list[float], total: float) -> None:
    schema = single(aggregate("sum", pl.Float64()))
    whole = answers(made(schema, raw([("k", value) for value in values], pl.Float64())), schema)["k"]
    parts = [made(schema, raw([("k", value)], pl.Float64())) for value in values]
    assert str(whole) == str(answers(merged(parts, schema), schema)["k"]) == str(total)


def test_decimals_of_38_digits_stay_exact_until_they_do_not_fit() -> None:
    dtype = pl.Decimal(38, 2)
    schema = single(aggregate("sum", dtype))
    largest = Decimal("9" * 36 + ".99")
    parts = [made(schema, raw([("k", value)], dtype)) for value in (largest, largest, largest.copy_negate())]
    assert answers(merged(parts, schema), schema) == {"k": largest}
    with pytest.raises(AggregateOverflow, match="38 digits"):
        answers(merged(parts[:2], schema), schema)


def test_the_mean_of_decimals_rounds_half_away_from_zero() -> None:
    dtype = pl.Decimal(9, 0)
    schema = single(aggregate("avg", dtype))
    rows = [("a", Decimal(1))] * 1 + [("a", Decimal(0))] * 31
    rows += [("b", -value) for _, value in rows]
    got = answers(made(schema, raw(rows, dtype)), schema)
    assert got == {"a": Decimal("0.0313"), "b": Decimal("-0.0313")}


@given(st.lists(wide, min_size=1, max_size=6))
def test_the_mean_of_integers_cannot_overflow(values: list[int]) -> None:
    schema = single(aggregate("avg"))
    parts = [made(schema, raw([("k", value)], pl.Int64())) for value in values]
    mean = answers(merged(parts, schema), schema)["k"]
    assert mean == pytest.approx(float(Fraction(sum(values), len(values))), rel=1e-9, abs=2048)


def test_only_count_works_without_input() -> None:
    for kind in ("sum", "min", "var_pop"):
        with pytest.raises(ValueError, match=f"{kind} needs an input"):
            aggregate(kind).create("a", None)
