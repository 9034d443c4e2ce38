"""A query over its own last result means what SQL says of events joined with that: held to DuckDB, over any rows."""

from __future__ import annotations

import duckdb
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from elf.agents.errors import JobError, JobSpecError
from elf.agents.jobs.definition import OPTIONS_DEFAULT, Definition, Options
from elf.agents.jobs.plan import Plan, compile_job, syntax_of
from elf.agents.language import iteration
from elf.agents.language.query import columns_read
from elf.agents.language.types import SqlType

COLUMNS = {"src": SqlType.STRING, "dst": SqlType.STRING, "w": SqlType.BIGINT}
WINDOW = "window(ts, '4 seconds', '1 second')"
TEXTS = st.sampled_from(["a", "b", "c", None])
LABELS = (
    "SELECT e.dst AS node, min(coalesce(r.label, e.src)) AS label FROM edges e LEFT JOIN last_result r "
    "ON e.src = r.node GROUP BY e.dst"
)
QUERIES = (
    LABELS,
    # Weights: what is mixed counts as often as its events are there, and what is over events alone, too.
    "SELECT e.dst AS node, count(*) AS n, sum(e.w) AS s, sum(coalesce(r.m, 0) + e.w) AS m, avg(r.m) AS a, "
    "count(r.m) AS c, max(r.s) AS t FROM edges e LEFT JOIN last_result r ON e.src = r.node GROUP BY e.dst",
    # The last result has many rows of one node.
    "SELECT e.dst AS node, e.w AS w, count(*) AS n, count(DISTINCT e.src) AS d, sum(r.n) AS m FROM edges e "
    "LEFT JOIN last_result r ON e.src = r.node AND e.w = r.w WHERE e.w > 1 OR r.n IS NULL GROUP BY e.dst, e.w",
    # Groups by the last result's columns, and none at all.
    "SELECT coalesce(r.k, e.src) AS k, count(DISTINCT e.dst) AS n, min(e.w) AS w FROM edges e "
    "LEFT JOIN last_result r ON e.dst = r.k WHERE e.w > 1 GROUP BY coalesce(r.k, e.src) HAVING count(*) > 1",
    "SELECT count(*) AS n, sum(e.w) AS w, max(coalesce(r.n, 0)) AS m FROM edges e "
    "LEFT JOIN last_result r ON e.w = r.n GROUP BY ()",
    # A column is compared with several, and one of the last result's is a key.
    "SELECT e.dst AS node, e.src AS was, r.n AS before, count(*) AS n FROM edges e LEFT JOIN last_result r "
    "ON e.src = r.node AND e.dst = r.was AND e.src = r.was GROUP BY e.dst, e.src, r.n",
)
JOIN = "FROM edges e JOIN last_result r"
LEFT_JOIN = JOIN.replace("JOIN", "LEFT JOIN")
ROWS = st.lists(st.tuples(TEXTS, TEXTS, st.sampled_from([1, 2, 3, None])), max_size=8)


Rows = list[tuple[str | None, str | None, int | None]]


def plan_of(query: str, options: Options = OPTIONS_DEFAULT) -> Plan:
    query = query.replace("GROUP BY ()", f"GROUP BY {WINDOW}")
    if "window(" not in query:
        before, _, after = query.partition(" HAVING")
        query = f"{before}, {WINDOW}" + (f" HAVING{after}" if after else "")
    return compile_job(Definition(name="job", creator="me", source="edges", query=query, options=options), COLUMNS)


def edges(rows: Rows) -> pl.DataFrame:
    frame = pl.DataFrame(rows, {"src": pl.String, "dst": pl.String, "w": pl.Int64}, orient="row")
    return frame.with_columns(pl.lit(0).cast(pl.Datetime("ms")).alias("ts"))


def stepped(plan: Plan, rows: Rows, last: pl.DataFrame) -> pl.DataFrame:
    """The result of one window, made of the PAOs of two agents."""
    assert plan.iterating is not None
    parts = [plan.reduce(edges(rows[0::2])), plan.reduce(edges(rows[1::2]))]
    return plan.finish(plan.iterating.regroup(plan.schema.merge_window(parts), last), (0, 4_000))


def expected(plan: Plan, query: str, rows: Rows, last: pl.DataFrame) -> object:
    kinds = {"STRING": "VARCHAR", "BIGINT": "BIGINT", "DOUBLE": "DOUBLE", "INT": "INT"}
    with duckdb.connect() as connection:
        connection.execute("CREATE TABLE edges (src VARCHAR, dst VARCHAR, w BIGINT)")
        columns = ", ".join(f"{name} {kinds[kind.value]}" for name, kind in plan.output)
        connection.execute(f"CREATE TABLE last_result ({columns})")
        for name, found in (("edges", rows), ("last_result", last.rows())):
            if found:
                marks = ", ".join("?" for _ in found[0])
                connection.executemany(f"INSERT INTO {name} VALUES ({marks})", found)
        found = connection.execute(query).fetchall()
    # Of no event at all SQL makes a row without keys, and a window has none.
    return sorted(found, key=repr) if rows or "GROUP BY ()" not in query else []


@pytest.mark.parametrize("query", QUERIES)
@settings(max_examples=12)
@given(windows=st.lists(ROWS, min_size=1, max_size=4))
def test_each_result_follows_from_the_one_before_as_sql_says(query: str, windows: list[Rows]) -> None:
    plan = plan_of(query)
    last = pl.DataFrame(schema={name: kind.dtype for name, kind in plan.output})
    for rows in windows:
        found = stepped(plan, rows, last)
        assert dict(found.schema) == {name: kind.dtype for name, kind in plan.output}
        assert sorted(found.rows(), key=repr) == expected(plan, query, rows, last)
        last = found


def test_agents_reduce_by_what_the_join_needs_and_filter_what_they_can() -> None:
    query = (
        "SELECT lower(e.dst) AS node, sum(coalesce(r.n, 1L) * length(e.src)) AS n FROM edges e "
        "LEFT JOIN last_result r ON e.src = r.node WHERE e.w > 1 AND (r.n IS NULL OR e.w < 9) AND dst = 'b' "
        f"GROUP BY lower(e.dst), {WINDOW}"
    )
    plan = plan_of(query)
    syntax = syntax_of(plan)
    assert syntax.where is not None and syntax.where.sql() == "e.w > 1 AND dst = 'b'"
    assert sorted(node.sql() for node in syntax.groups) == ["LENGTH(e.src)", "LOWER(e.dst)", "e.src", "e.w < 9"]
    assert [call.sql() for call in syntax.calls.values()] == ["COUNT(*)"], "how often each is there"
    assert sorted(columns_read(query)) == ["dst", "src", "w"]
    assert plan.literals == ("b",)


def test_a_value_counts_as_often_as_it_is_there_up_to_the_last_number_of_its_type() -> None:
    join = JOIN.replace("JOIN", "LEFT JOIN")
    query = f"SELECT e.w AS w, sum(e.w + coalesce(r.s, 0)) AS s {join} ON e.w = r.w GROUP BY e.w"
    plan, none = plan_of(query), pl.DataFrame(schema={"w": pl.Int64, "s": pl.Int64})
    assert plan.iterating is not None
    most = 2**63 - 1
    assert most % 7 == 0
    found = stepped(plan, [(None, None, most // 7)] * 7, none)
    assert found.rows() == [(most // 7, most)]
    with pytest.raises(
        JobError, match=r"sum\(e.w \+ coalesce\(r.s, 0\)\) of w = \d+ is not there: the sum does not fit"
    ):
        stepped(plan, [(None, None, most // 7 + 1)] * 7, none)
    assert stepped(plan, [(None, None, -5)] * 1_000, none).rows() == [(-5, -5_000)]


def test_types_go_from_column_to_column_as_far_as_there_are_any() -> None:
    shifted = [f"max(r.h{at}) AS h{at + 1}" for at in range(20)]
    for columns in (shifted, shifted[::-1]):
        plan = plan_of(
            f"SELECT e.dst, max(e.w) AS h0, {', '.join(columns)} {LEFT_JOIN} ON e.dst = r.dst GROUP BY e.dst"
        )
        assert {kind for name, kind in plan.output if name != "dst"} == {SqlType.BIGINT}


@pytest.mark.parametrize(
    ("query", "says"),
    [
        (
            "SELECT e.dst, count(*) AS n FROM edges e JOIN other r ON e.dst = r.dst GROUP BY e.dst",
            "but with last_result",
        ),
        ("SELECT e.dst, count(*) AS n FROM edges e JOIN last_result r GROUP BY e.dst", "has no condition"),
        (f"SELECT e.dst, count(*) AS n {JOIN} ON e.dst > r.dst GROUP BY e.dst", "are equal"),
        (
            f"SELECT e.dst, count(*) AS n {JOIN} ON e.dst = e.src GROUP BY e.dst",
            "one of last_result",
        ),
        (
            "SELECT e.dst, count(*) AS n FROM edges e RIGHT JOIN last_result r ON e.dst = r.dst GROUP BY e.dst",
            "LEFT JOIN",
        ),
        (
            "SELECT e.dst, count(*) AS n FROM edges e JOIN last_result e ON e.dst = e.dst GROUP BY e.dst",
            "name of its own",
        ),
        (
            f"SELECT e.dst, count(*) AS n {JOIN} ON e.w = r.dst GROUP BY e.dst",
            "w is BIGINT and r.dst",
        ),
        (f"SELECT e.dst, count(*) AS n {JOIN} ON e.dst = r.x GROUP BY e.dst", "no column 'x'"),
        (
            f"SELECT dst, count(*) AS n {JOIN} ON e.dst = r.dst GROUP BY e.dst",
            "could be a column",
        ),
        (f"SELECT e.dst, max(r.n) AS n {JOIN} ON e.dst = r.dst GROUP BY e.dst", "CAST"),
        (
            f"SELECT e.dst, stddev(r.n) AS n {JOIN} ON e.dst = r.dst GROUP BY e.dst",
            "stddev() of",
        ),
        (
            f"SELECT e.dst, count(DISTINCT r.dst) n {JOIN} ON e.dst = r.dst GROUP BY e.dst",
            "count() of",
        ),
        (f"SELECT e.dst, collect_set(w) n {JOIN} ON e.dst = r.dst GROUP BY e.dst", "arrays"),
        (
            f"SELECT e.dst, r.n AS n {JOIN} ON e.dst = r.dst GROUP BY e.dst",
            "neither in GROUP BY",
        ),
        (f"SELECT e.dst, min(nope(w)) n {JOIN} ON e.dst = r.dst GROUP BY e.dst, r.n", "nope() is not"),
        (f"SELECT e.dst, min(w) n {JOIN} ON e.dst = r.dst GROUP BY e.dst, nope(r.n)", "nope() is not"),
        (f"SELECT e.dst, count(*) AS n {JOIN} ON e.dst = r.dst GROUP BY e.dst", "no event meets a row"),
        (f"SELECT 'a' AS k, count(*) AS n {JOIN} ON e.dst = r.k GROUP BY ()", "no event meets a row"),
        (LABELS + ", window(ts, '1 hour', '1 second')", "3600 slides, over the limit of 512"),
    ],
)
def test_what_cannot_be_is_refused_where_it_stands(query: str, says: str) -> None:
    with pytest.raises(JobSpecError) as refusal:
        plan_of(query)
    assert says in str(refusal.value)
    assert refusal.value.line == 1 and refusal.value.column is not None and refusal.value.column > 1


def test_a_job_without_window_and_options_that_need_open_windows_or_many_trees_are_refused() -> None:
    with pytest.raises(JobSpecError, match="has a window"):
        compile_job(Definition(name="job", creator="me", source="edges", query=LABELS), COLUMNS)
    many = Options(trees=2), Options(availability="partial"), Options(emit_every_ms=500), Options(retain_ms=10**9)
    for options in many:
        with pytest.raises(JobSpecError, match="reads its last result"):
            plan_of(LABELS, options)
    assert plan_of(LABELS).retained == 4 + 64


#: Conditions on the last result: whether any row can ever pass them.
CONDITIONS = {
    "HAVING count(*) > 2 * max(r.n)": False,
    "HAVING max(r.n) IS NOT NULL": False,
    "HAVING NOT (max(r.n) IS NULL)": False,
    "HAVING count(*) > 1 AND max(r.n) BETWEEN 1 AND 5": False,
    "HAVING max(r.n) IN (1, 2) OR sum(r.n) - count(*) = 0": False,
    "HAVING NOT max(r.n) > 3": False,
    "HAVING CAST(min(r.n) AS STRING) LIKE '1%'": False,
    "WHERE r.n > 0": False,
    "WHERE r.node IS NOT NULL AND e.w > 0": False,
    "HAVING count(*) > 2 * coalesce(max(r.n), 0)": True,
    "HAVING count(*) > 2 * max(r.n) OR max(r.n) IS NULL": True,
    "HAVING count(r.n) = 0": True,
    "HAVING count(r.n) < 1 AND count(*) > 0": True,
    "HAVING max(coalesce(r.n, 1)) > 0": True,
    "HAVING CASE WHEN max(r.n) > 1 THEN false ELSE true END": True,
    "WHERE r.n > 0 OR r.n IS NULL": True,
    "WHERE NOT (r.n <=> 1)": True,
}


@pytest.mark.parametrize(("condition", "passes"), CONDITIONS.items())
def test_a_condition_that_no_row_can_ever_meet_is_refused(
    condition: str, passes: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    where, having = (condition, "") if condition.startswith("WHERE") else ("", condition)
    query = (
        "SELECT e.dst AS node, count(*) AS n, max(CAST(r.n AS BIGINT)) AS before FROM edges e LEFT JOIN last_result r "
        f"ON e.dst = r.node {where} GROUP BY e.dst {having}"
    )
    if not passes:
        with pytest.raises(JobSpecError, match="is empty at first, so") as caught:
            plan_of(query)
        assert caught.value.line == 1 and caught.value.hint is not None
    monkeypatch.setattr(iteration, "check_reachable", lambda query: None)
    plan = plan_of(query)
    assert plan.iterating is not None
    last = pl.DataFrame(schema={name: kind.dtype for name, kind in plan.output})
    paos = plan.schema.merge_window([plan.reduce(edges([("a", "b", 1), ("b", "c", 2), ("a", "c", 3)]))])
    assert bool(plan.finish(plan.iterating.regroup(paos, last), (0, 1)).height) == passes
