"""All aggregates of a schema together, from raw rows through merged PAOs to answers, against DuckDB."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from typing import Any

import duckdb
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from elf.cbt.aggregates import AggregateLimit, aggregate
from elf.cbt.folding import creator, finish, nothing
from elf.cbt.schema import INTERVAL
from tests.cbt.aggregates.reference import Schema, merged

ORDERED = pl.Struct({"by": pl.Int64(), "value": pl.String()})
#: Name -> aggregate, its input, and what DuckDB computes.
COLUMNS = {
    "rows": (aggregate("count"), None, "count(*)"),
    "n": (aggregate("count", pl.Float64()), pl.col("x"), "count(x)"),
    "total": (aggregate("sum"), pl.col("i"), "sum(i)"),
    "mean": (aggregate("avg"), pl.col("i"), "avg(i)"),
    "xsum": (aggregate("sum", pl.Float64()), pl.col("x"), "sum(x)"),
    "low": (aggregate("min", pl.Float64()), pl.col("x"), "min(x)"),
    "high": (aggregate("max", pl.Float64()), pl.col("x"), "max(x)"),
    "word": (aggregate("min", pl.String()), pl.col("s"), "min(s)"),
    "spread": (aggregate("stddev_samp", pl.Float64()), pl.col("y"), "stddev_samp(y)"),
    "first": (
        aggregate("first_by", ORDERED),
        pl.struct(pl.col("t").alias("by"), pl.col("s").alias("value")),
        "list(s ORDER BY t, s NULLS FIRST)[1]",
    ),
    "words": (aggregate("count_distinct", pl.String()), pl.col("s"), "count(DISTINCT s)"),
    "pairs": (
        aggregate("count_distinct", pl.Struct({"a": pl.String(), "b": pl.Float64()})),
        pl.struct(pl.col("s").alias("a"), pl.col("x").alias("b")),
        "count(DISTINCT (s, x)) FILTER (s IS NOT NULL AND x IS NOT NULL)",
    ),
    "set": (
        aggregate("collect_set", pl.Int64()),
        pl.col("i"),
        "list_sort(list(DISTINCT i) FILTER (i IS NOT NULL))",
    ),
    "middle": (
        aggregate("approx_percentile", pl.Int64(), percentage=0.5),
        pl.col("t"),
        "quantile_disc(t, 0.5)",
    ),
}
AGGREGATES = tuple((name, each) for name, (each, _, _) in COLUMNS.items())
INPUTS = {name: value for name, (_, value, _) in COLUMNS.items()}
RAW = {
    INTERVAL: pl.Int64(),
    "k": pl.String(),
    "f": pl.Float64(),
    "i": pl.Int64(),
    "x": pl.Float64(),
    "y": pl.Float64(),
    "s": pl.String(),
    "t": pl.Int64(),
}
rows = st.lists(
    st.tuples(
        st.integers(0, 2),
        st.sampled_from(["a", "", "a\0", "日", None]),
        st.sampled_from([None, 0.0, 1.5, math.nan, math.inf]),
        st.none() | st.integers(-9, 9) | st.integers(-(2**55), 2**55),
        st.none() | st.sampled_from([0.0, 1.0, -2.5, math.nan, math.inf]),
        st.none() | st.floats(-1e3, 1e3),
        st.none() | st.sampled_from(["", "x", "\0", "ä"]),
        st.integers(0, 5),
    ),
    max_size=25,
)


def by_key(frame: pl.DataFrame, keys: list[str]) -> dict[Any, tuple[Any, ...]]:
    return {str(row[: len(keys)]): row[len(keys) :] for row in frame.rows()}


def close(one: Any, other: Any) -> bool:
    if isinstance(one, float | int) and isinstance(other, float | int):
        return (math.isnan(one) and math.isnan(other)) or math.isclose(one, other, rel_tol=1e-9, abs_tol=1e-6)
    return bool((one or None) == (other or None)) if isinstance(one, list) else bool(one == other)


@pytest.fixture(scope="module")
def base() -> Iterator[duckdb.DuckDBPyConnection]:
    """One for all examples: to open it takes longer than what an example asks of it."""
    with duckdb.connect(config={"threads": 1}) as base:
        yield base


@pytest.mark.parametrize("keys", [(), ("k",), ("k", "f")])
@settings(max_examples=40)
@given(data=rows, cuts=st.lists(st.integers(0, 25), max_size=3))
def test_as_duckdb(base: duckdb.DuckDBPyConnection, keys: tuple[str, ...], data: list[Any], cuts: list[int]) -> None:
    schema = Schema(tuple((key, RAW[key]) for key in keys), AGGREGATES)
    raw = pl.DataFrame(data, schema=RAW, orient="row")
    bounds = [0, *sorted(cuts), len(data)]
    pieces = [raw[start:end] for start, end in itertools.pairwise(bounds)]
    paos = merged(list(map(creator(schema, INPUTS), pieces)), schema)
    by = [INTERVAL, *keys]
    final = finish(paos, schema)
    assert final.columns == [*by, *COLUMNS]
    select = ", ".join(f"{sql} AS {name}" for name, (_, _, sql) in COLUMNS.items())
    types = {name: DUCKDB[str(kind)] for name, kind in RAW.items()}
    base.execute(f"CREATE OR REPLACE TABLE raw ({', '.join(f'{name} {kind}' for name, kind in types.items())})")
    lists = ", ".join(f"unnest(?::{kind}[])" for kind in types.values())
    base.execute(f"INSERT INTO raw SELECT {lists}", [raw[name].to_list() for name in types])
    listed = ", ".join(by)
    meant = base.execute(f"SELECT {listed}, {select} FROM raw GROUP BY {listed}").fetchall()
    got = by_key(final, by)
    assert got.keys() == {str(row[: len(by)]) for row in meant}
    for row in meant:
        mine = got[str(row[: len(by)])]
        for (name, (each, _, _)), one, other in zip(COLUMNS.items(), mine, row[len(by) :], strict=True):
            theirs = float(other) if name in ("total", "mean") and other is not None else other
            assert close(one, theirs), (name, each, one, other)


DUCKDB = {"Int64": "BIGINT", "String": "VARCHAR", "Float64": "DOUBLE"}


def test_rows_without_keys_or_aggregates() -> None:
    raw = pl.DataFrame({INTERVAL: [1, 1, 2], "k": ["a", "a", None]})
    distinct = creator(Schema((("k", pl.String()),), ()), {})(raw)
    assert sorted(map(str, distinct.rows())) == ["(1, 'a')", "(2, None)"]
    final = finish(distinct.drop(INTERVAL).unique(), Schema((("k", pl.String()),), ()))
    assert final.height == 2 and final.columns == ["k"]


def test_the_answers_about_no_rows() -> None:
    schema = Schema((), AGGREGATES)
    final = finish(nothing(schema), schema)
    answers = final.to_dicts()
    zeros = {"rows": 0, "n": 0, "words": 0, "pairs": 0, "set": []}
    assert answers == [{name: zeros.get(name) for name in COLUMNS}]


def test_too_many_distinct_values_are_an_error_and_no_part_of_the_answer() -> None:
    for kind in ("collect_set", "top_k"):
        schema = Schema((("k", pl.Int64()),), (("a", aggregate(kind, pl.Int64(), distinct_max=3)),))
        raw = [pl.DataFrame({INTERVAL: [0] * 3, "k": [1, 1, 2], "v": [0, part, 7]}) for part in (1, 2, 3)]
        paos = list(map(creator(schema, {"a": pl.col("v")}), raw))
        assert finish(merged(paos[:2], schema), schema).height == 2
        with pytest.raises(AggregateLimit, match="'a' has more than 3"):
            finish(merged(paos, schema), schema)


def test_each_key_has_its_own_limit() -> None:
    schema = Schema((("k", pl.Int64()),), (("a", aggregate("collect_set", pl.Int64(), distinct_max=1)),))
    raw = pl.DataFrame({INTERVAL: [0] * 100, "k": range(100), "v": range(100)})
    final = finish(creator(schema, {"a": pl.col("v")})(raw), schema)
    assert final.sort("k")["a"].to_list() == [[value] for value in range(100)]
