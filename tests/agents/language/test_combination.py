"""Queries over other jobs' results mean what they mean in SQL: held to DuckDB, over any rows; mistakes have a place."""

from __future__ import annotations

import duckdb
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from elf.agents.errors import JobError, JobSpecError
from elf.agents.language import combination
from elf.agents.language.combination import compile_joined
from elf.agents.language.joins import Joined, Use

CLICKS = Use(job="shop/clicks", window=(4, 2), columns={"product": "STRING", "n": "BIGINT", "Day": "DATE"})
BUNDLES = Use(job="shop/bundles", window=(4, 4), columns={"product": "STRING", "n": "BIGINT", "tags": "ARRAY<STRING>"})
SALES = Use(job="shop/sales", window=(2, 2), columns={"n": "BIGINT", "price": "DOUBLE"})
TEXTS = st.sampled_from(["a", "b", "c", None])
NUMBERS = st.sampled_from([1, 2, 3, None])
QUERIES = (
    "SELECT c.product, c.n, b.n AS m FROM {clicks} c JOIN {bundles} b ON c.product = b.product",
    "SELECT c.product, c.n + b.n AS m FROM {clicks} c LEFT JOIN {bundles} b ON b.product = c.product AND c.n = b.n",
    "SELECT product, price * 2 AS p FROM {clicks} c JOIN {sales} s ON c.n = s.n WHERE price > 1 OR product IS NULL",
    "SELECT c.n, s.price FROM {clicks} c LEFT JOIN {bundles} b ON c.product = b.product JOIN {sales} s ON s.n = b.n",
    "SELECT CASE WHEN n > 1 THEN 'many' ELSE product END AS k FROM {clicks} WHERE n IN (1, 2)",
)


@st.composite
def drawn_frames(draw: st.DrawFn) -> tuple[pl.DataFrame, pl.DataFrame, pl.DataFrame]:
    def rows(*columns: st.SearchStrategy[object]) -> list[tuple[object, ...]]:
        return draw(st.lists(st.tuples(*columns), max_size=6))

    texts = {"product": pl.String, "n": pl.Int64}
    clicks = pl.DataFrame(rows(TEXTS, NUMBERS), texts, orient="row").with_columns(Day=pl.lit(None, pl.Date))
    bundles = pl.DataFrame(rows(TEXTS, NUMBERS), texts, orient="row").with_columns(tags=pl.lit(["x"]))
    sales = pl.DataFrame(
        rows(NUMBERS, st.sampled_from([0.5, 1.5, None])), {"n": pl.Int64, "price": pl.Float64}, orient="row"
    )
    return clicks, bundles, sales


@pytest.mark.parametrize("query", QUERIES)
@settings(max_examples=30)
@given(found=drawn_frames())
def test_rows_are_those_that_sql_says(query: str, found: tuple[pl.DataFrame, pl.DataFrame, pl.DataFrame]) -> None:
    known = {"clicks": (CLICKS, found[0]), "bundles": (BUNDLES, found[1]), "sales": (SALES, found[2])}
    named = [name for name in ("clicks", "bundles", "sales") if "{" + name + "}" in query]
    named.sort(key=lambda name: query.index("{" + name + "}"))
    text = query.format(**{name: f"job('shop/{name}')" for name in known})
    joined = Joined(query=text, uses=tuple(known[name][0] for name in named))
    result = compile_joined(joined).combine([known[name][1] for name in named], (0, 4))
    clicks, bundles, sales = found
    with duckdb.connect() as connection:
        for name, frame in (("clicks", clicks), ("bundles", bundles), ("sales", sales)):
            kinds = {"product": "VARCHAR", "n": "BIGINT", "price": "DOUBLE"}
            columns = [column for column in frame.columns if column in kinds]
            connection.execute(f"CREATE TABLE {name} ({', '.join(f'{c} {kinds[c]}' for c in columns)})")
            if frame.height:
                marks = ", ".join("?" for _ in columns)
                connection.executemany(f"INSERT INTO {name} VALUES ({marks})", frame.select(columns).rows())
        expected = connection.execute(query.format(clicks="clicks", bundles="bundles", sales="sales")).fetchall()
    assert sorted(result.rows(), key=repr) == sorted(expected, key=repr)


def test_rows_come_in_order_and_arrays_and_window_bounds_pass() -> None:
    query = """
    SELECT b.product, tags, window.end AS until, b.n FROM job('shop/bundles') b
    JOIN job('shop/sales') s ON b.n = s.n ORDER BY n DESC, product LIMIT 2
    """
    bundles = pl.DataFrame({"product": ["a", "b", "c"], "n": [1, 2, 2], "tags": [["x"], [], ["y", "z"]]})
    result = compile_joined(Joined(query=query, uses=(BUNDLES, SALES))).combine(
        [bundles, pl.DataFrame({"n": [1, 2]}, schema={"n": pl.Int64})], (1_000, 5_000)
    )
    assert result.select("product", "tags", "n").rows() == [("b", [], 2), ("c", ["y", "z"], 2)]
    assert result["until"].dt.epoch("ms").to_list() == [5_000, 5_000]


def test_rows_that_would_be_too_many_are_refused_before_they_are_made(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(combination, "ROWS_MAX", 100)
    query = "SELECT b.n FROM job('shop/bundles') b JOIN job('shop/sales') s ON b.n = s.n"
    plan = compile_joined(Joined(query=query, uses=(BUNDLES, SALES)))
    for count, fits in ((10, True), (11, False)):
        same = pl.DataFrame({"n": [1] * count}, schema={"n": pl.Int64})
        if fits:
            assert plan.combine([same, same], (0, 4)).height == 100
        else:
            with pytest.raises(JobError, match="121 rows, over the limit of 100"):
                plan.combine([same, same], (0, 4))


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("SELECT x FROM job('shop/clicks') c", "there is no column 'x'"),
        ("SELECT prodct FROM job('shop/clicks') c", "did you mean 'product'"),
        ("SELECT d.n FROM job('shop/clicks') c", "no job by the name 'd'"),
        ("SELECT count(*) AS n FROM job('shop/clicks') c", "aggregate in a job that this one reads"),
        ("SELECT sum(n) AS n FROM job('shop/clicks') c", "aggregate in a job that this one reads"),
        ("SELECT NULL AS x FROM job('shop/clicks') c", "always NULL"),
        ("SELECT product + 1 AS x FROM job('shop/clicks') c ORDER BY 2", "position 2"),
        ("SELECT n FROM job('shop/clicks') c JOIN job('shop/bundles') b ON c.n = b.n", "write c.n or b.n"),
        ("SELECT c.n FROM job('shop/clicks') c JOIN job('shop/bundles') b ON c.n = c.n", "one of a job before it"),
        ("SELECT c.n FROM job('shop/clicks') c JOIN job('shop/bundles') b ON c.n = b.product", "columns of one type"),
        ("SELECT c.n FROM job('shop/clicks') c JOIN job('shop/bundles') b ON c.n = b.nn", "there is no column"),
        ("SELECT n FROM job('shop/sales') s", "not those that were looked up"),
    ],
)
def test_mistakes_are_said(query: str, message: str) -> None:
    uses = (CLICKS, BUNDLES) if "JOIN" in query else (CLICKS,)
    with pytest.raises(JobSpecError, match=message) as caught:
        compile_joined(Joined(query=query, uses=uses))
    assert caught.value.line == 1
