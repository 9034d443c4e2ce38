"""Sketches within their stated errors, over many seeds."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from elf.cbt import PaoSchema, decode, encode
from elf.cbt.aggregates import aggregate
from elf.cbt.aggregates.cardinality import content_hash
from elf.cbt.aggregates.quantiles import accuracy_of
from tests.cbt.aggregates.reference import answers, assert_same_rows, made, merged, raw, single

SEEDS = 200


def frames_of(values: npt.NDArray[np.int64] | npt.NDArray[np.float64]) -> pl.DataFrame:
    return pl.DataFrame({"interval": np.zeros(values.size, np.int64), "k": ["k"] * values.size, "v": values})


@pytest.mark.parametrize("count", [1, 30, 400, 1_500, 20_000])
@pytest.mark.parametrize("rsd", [0.05, 0.02])
def test_distinct_counts_are_within_the_stated_deviation(count: int, rsd: float) -> None:
    schema = single(aggregate("approx_count_distinct", pl.Int64(), rsd=rsd))
    errors = []
    for seed in range(SEEDS if count <= 1_500 else 50):
        values = np.random.default_rng([seed, count]).integers(-(2**63), 2**63 - 1, count)
        errors.append(answers(made(schema, frames_of(values)), schema)["k"] / count - 1)
    assert np.std(errors) <= rsd * 1.1
    assert abs(np.mean(errors)) <= 4 * rsd / math.sqrt(len(errors)) + 0.001, "no bias"
    assert np.mean(np.abs(errors) > 3 * rsd) <= 0.01


def test_registers_never_exceed_spark_s_number() -> None:
    each = aggregate("approx_count_distinct", pl.Int64())
    schema = single(each)
    paos = made(schema, frames_of(np.arange(100_000)))
    assert paos.height == 1 + 512


@given(st.lists(st.sampled_from(["a", "b", "", None, "ä", "a\0"]), max_size=30), st.integers(0, 30))
def test_registers_of_parts_are_those_of_the_whole(values: list[str | None], cut: int) -> None:
    schema = single(aggregate("approx_count_distinct", pl.String()))
    rows = [("k", value) for value in values]
    parts = [made(schema, raw(part, pl.String())) for part in (rows[:cut], rows[cut:], rows)]
    assert_same_rows(merged(parts, schema), parts[2], schema)
    distinct = len(set(values) - {None})
    if rows:
        assert abs(answers(parts[2], schema)["k"] - distinct) <= 1


@pytest.mark.parametrize("rsd", [0.0, 0.4, 0.001, 1.0])
def test_deviations_that_no_number_of_registers_gives(rsd: float) -> None:
    with pytest.raises(ValueError, match="rsd"):
        aggregate("approx_count_distinct", pl.Int64(), rsd=rsd)


numbers = st.floats(allow_nan=True, allow_infinity=True, allow_subnormal=False).filter(
    lambda value: not 0 < abs(value) < 1e-300
)
percentages = st.sampled_from([0.0, 0.25, 0.5, 0.95, 0.999, 1.0]) | st.floats(0, 1)


@given(
    st.lists(st.none() | numbers | st.floats(-100, 100).filter(lambda x: x == 0 or abs(x) > 1e-9), max_size=40),
    percentages,
    st.sampled_from([0.01, 0.1, 0.001]),
    st.integers(0, 40),
)
def test_percentiles_are_within_the_stated_error(
    values: list[float | None], percentage: float, accuracy: float, cut: int
) -> None:
    schema = single(aggregate("approx_percentile", pl.Float64(), percentage=percentage, accuracy=accuracy))
    rows = [("k", value) for value in values]
    paos = merged([made(schema, raw(part, pl.Float64())) for part in (rows[:cut], rows[cut:])], schema)
    got = answers(paos, schema)
    ordered = sorted((x for x in values if x is not None), key=lambda x: (math.isnan(x), x))
    if not rows:
        assert got == {}
    elif not ordered:
        assert got == {"k": None}
    else:
        exact = ordered[max(1, math.ceil(percentage * len(ordered))) - 1]
        if not math.isfinite(exact) or exact == 0:
            assert str(got["k"]) in (str(exact), str(exact + 0.0))
        else:
            assert abs(got["k"] - exact) <= accuracy * (1 + 1e-9) * abs(exact)


@pytest.mark.parametrize("seed", range(5))
def test_percentiles_of_many_values(seed: int) -> None:
    values = np.random.default_rng(seed).lognormal(3, 2, 100_000)
    for percentage in (0.01, 0.5, 0.99):
        schema = single(aggregate("approx_percentile", pl.Float64(), percentage=percentage))
        paos = made(schema, frames_of(values))
        assert paos.height < 2_000
        exact = np.sort(values)[math.ceil(percentage * values.size) - 1]
        assert answers(paos, schema)["k"] == pytest.approx(exact, rel=0.01)


@given(st.lists(st.integers(-49, 49), min_size=1, max_size=30), percentages)
def test_percentiles_of_small_integers_are_exact(values: list[int], percentage: float) -> None:
    schema = single(aggregate("approx_percentile", pl.Int32(), percentage=percentage))
    got = answers(made(schema, raw([("k", value) for value in values], pl.Int32())), schema)["k"]
    assert got == sorted(values)[max(1, math.ceil(percentage * len(values))) - 1]


@given(st.lists(st.integers(-(2**63), 2**63 - 1) | st.integers(200, 300), min_size=1, max_size=12), st.integers(0, 12))
def test_percentiles_are_between_the_least_value_and_the_greatest(values: list[int], cut: int) -> None:
    def at(percentage: float) -> int:
        schema = single(aggregate("approx_percentile", pl.Int64(), percentage=percentage))
        parts = [[("k", value) for value in part] for part in (values[:cut], values[cut:])]
        return int(answers(merged([made(schema, raw(part, pl.Int64())) for part in parts], schema), schema)["k"])

    found = [at(percentage) for percentage in (0.0, 0.3, 0.5, 0.99, 1.0)]
    assert found == sorted(found) and (found[0], found[-1]) == (min(values), max(values))
    if len(values) <= 2:
        assert set(found) <= {*values}


@pytest.mark.parametrize("value", [250.0, 0.1, -3.3e7, 7e-320])
def test_percentiles_of_one_value_are_that_value(value: float) -> None:
    for percentage in (0.0, 0.5, 0.99):
        schema = single(aggregate("approx_percentile", pl.Float64(), percentage=percentage))
        assert answers(made(schema, frames_of(np.full(9, value))), schema) == {"k": value}


@given(st.lists(st.integers(-500, 500), min_size=1, max_size=20), percentages, st.integers(0, 20))
def test_buckets_of_a_release_that_kept_no_values_are_read(values: list[int], percentage: float, cut: int) -> None:
    schema = single(aggregate("approx_percentile", pl.Int64(), percentage=percentage))
    old, new = (made(schema, raw([("k", each) for each in part], pl.Int64())) for part in (values[:cut], values[cut:]))
    read = decode(encode(old.drop("a_low", "a_high")), PaoSchema(keys=schema.keys, aggregates=schema.aggregates))
    exact = sorted(values)[max(1, math.ceil(percentage * len(values))) - 1]
    assert abs(answers(merged([read, new], schema), schema)["k"] - exact) <= 0.01 * abs(exact) + 0.5


def test_accuracy_in_spark_s_terms() -> None:
    assert [accuracy_of(n) for n in (1, 100, 1_000, 10_000, 10**9)] == [0.5, 0.01, 1e-3, 1e-4, 1e-4]


@pytest.mark.parametrize("options", [{"percentage": 1.1}, {"percentage": -0.1}, {"accuracy": 0.6}])
def test_percentiles_that_cannot_be(options: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="approx_percentile"):
        aggregate("approx_percentile", pl.Float64(), **options)
    with pytest.raises(ValueError, match="numbers"):
        aggregate("approx_percentile", pl.String())


@pytest.mark.parametrize("dtype", [pl.Int64(), pl.Int32(), pl.Float64(), pl.String(), pl.Date(), pl.Boolean()])
def test_equal_values_have_one_hash(dtype: pl.DataType) -> None:
    values = pl.Series([0, 1, None, 1, 0]).cast(dtype) if dtype != pl.String() else pl.Series(["", "a" * 99, None] * 2)
    hashes = content_hash(values).tolist()
    assert len(set(hashes)) == values.n_unique()
    assert content_hash(values.reverse()).tolist() == hashes[::-1]


def test_the_hash_is_fixed() -> None:
    # Sketches of agents of different versions merge.
    hashes = [content_hash(pl.Series(values)).tolist() for values in ([1, -1], ["a", "日本"], [0.5, math.nan], [True])]
    assert hashes == [
        [12623530278986535476, 12188783548090973042],
        [12279384274858611539, 15399726187737782026],
        [4259685900297419706, 17427713325778903677],
        [12623530278986535476],
    ]


def test_zero_has_one_sign() -> None:
    schema = single(aggregate("approx_count_distinct", pl.Float64()))
    assert answers(made(schema, raw([("k", 0.0), ("k", -0.0)], pl.Float64())), schema) == {"k": 1}
