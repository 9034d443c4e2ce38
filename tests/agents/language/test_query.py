"""The clauses of a query: what is taken apart, what is refused and where."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from elf.agents.errors import JobSpecError
from elf.agents.language.function_calls import check_calls
from elf.agents.language.query import Window, columns_read, parse_query


def test_takes_a_query_apart() -> None:
    query = parse_query(
        "SELECT product AS p, count(*) FROM clicks c WHERE c.price > 1\n"
        "GROUP BY product, window(ts, '5 minutes', '30 seconds') HAVING count(*) > 2 ORDER BY 2 DESC LIMIT 10"
    )
    assert query.source == "clicks" and query.qualifiers == {"clicks", "c"}
    assert [item.name for item in query.items] == ["p", "count(*)"]
    assert query.window == Window(300_000, 30_000)
    assert len(query.groups) == 1 and len(query.order) == 1 and query.limit == 10
    assert query.where is not None and query.having is not None


def test_columns_are_listed_without_types() -> None:
    read = columns_read(
        "SELECT lower(Path) AS p, sum(bytes) AS total FROM t WHERE status >= 500 AND window.start > ts "
        "GROUP BY p, host HAVING total > 1 AND max(took) > 2 ORDER BY p, path"
    )
    assert list(read) == ["Path", "bytes", "status", "host", "took"]


@pytest.mark.parametrize(
    ("text", "place", "said"),
    [
        ("SELECT count(*) FROM t WHRE a = 1", (1, 24), "did you mean 'WHERE'"),
        ("SELECT count(*)\nFORM t", (2, 1), "did you mean 'FROM'"),
        ("SELECT count(*) FROM t\nWHERE a = 'x", (2, 11), "not closed"),
        ("SELECT count(*) FROM a JOIN b", (1, 29), "JOIN is not"),
        ("SELECT count(*) FROM (SELECT 1)", None, "one source by name"),
        ("SELECT count(*) FROM db.t", (1, 22), "one source by name"),
        ("SELECT DISTINCT a FROM t", None, "SELECT DISTINCT"),
        ("SELECT * FROM t", (1, 8), "SELECT *"),
        ("SELECT a FROM t UNION SELECT b FROM t", None, "not UNION"),
        ("SELEC a", (1, 1), "one SELECT statement, not SELEC"),
        ("INSERT INTO t SELECT 1", None, "one SELECT statement, not INSERT"),
        ("WITH x AS (SELECT 1) SELECT count(*) FROM x", None, "WITH is not"),
        ("DROP TABLE t", None, "not DROP"),
        ("SELECT count(*) FROM t; SELECT 1", (1, 1), "exactly one"),
        ("", (1, 1), "exactly one"),
        ("SELECT 1", (1, 8), "reads no source"),
        ("SELECT a, A FROM t", (1, 11), "two output columns"),
        ("SELECT count(*) FROM t\nGROUP BY window(ts, '5s')", (2, 21), "'5 minutes'"),
        ("SELECT count(*) FROM t GROUP BY window(at, '5 seconds')", (1, 40), "event time column ts"),
        ("SELECT count(*) FROM t GROUP BY window(ts, '5 seconds', '6 seconds')", (1, 57), "longer than its size"),
        ("SELECT count(*) FROM t GROUP BY window(ts)", (1, 33), "a size"),
        ("SELECT count(*) FROM t GROUP BY window(ts, '1 day'), window(ts, '1 hour')", (1, 54), "at most one window"),
        ("SELECT count(*) FROM t GROUP BY ALL", None, "GROUP BY ALL is not"),
        ("SELECT count(*) FROM t LIMIT x", (1, 30), "whole number"),
        ("SELECT count(*) FROM t LIMIT 99999999999", None, "above 2147483647"),
        ("SELECT count(*) FROM t OFFSET 3", None, "OFFSET is not"),
        ("SELECT " + "(" * 300 + "1" + ")" * 300 + " FROM t", (1, 1), "nested"),
        ("SELECT " + "+".join("a" * 200) + " FROM t", (1, 1), "nested"),
        ("SELECT count(*) FROM t -- " + "x" * 20_000, (1, 1), "longer than"),
    ],
)
def test_a_mistake_is_named_with_its_place(text: str, place: tuple[int, int] | None, said: str) -> None:
    with pytest.raises(JobSpecError) as caught:
        parse_query(text)
    assert said in str(caught.value)
    assert caught.value.line is not None and caught.value.column is not None
    assert place is None or (caught.value.line, caught.value.column) == place


def test_a_thousand_conditions_are_not_deep() -> None:
    assert (
        parse_query("SELECT count(*) FROM t WHERE " + " OR ".join(f"a = {i}" for i in range(1_000))).where is not None
    )


WORDS = st.sampled_from(
    [
        *("SELECT", "FROM", "WHERE", "GROUP BY", "HAVING", "ORDER BY", "LIMIT", "JOIN", "UNION", "DISTINCT", "OVER"),
        *("AND", "OR", "NOT", "IN", "LIKE", "CASE", "WHEN", "THEN", "END", "AS", "IS", "NULL", "BETWEEN", "INTERVAL"),
        *("count(*)", "a", "t", "(", ")", ",", "1", "'x'", "+", "-", "=", "window(ts, '1 hour')", "sum(", "`b`", "."),
    ]
)


@settings(max_examples=200)
@given(st.one_of(st.text(max_size=60), st.lists(WORDS, max_size=25).map(" ".join)))
def test_any_text_is_a_query_or_one_clear_error(text: str) -> None:
    try:
        parse_query(text)
    except JobSpecError as error:
        assert error.line is not None and error.column is not None


@pytest.mark.parametrize("call", ["row_number() OVER (ORDER BY product)", "sum(cents) OVER (PARTITION BY product)"])
def test_functions_over_rows_are_refused_as_such(call: str) -> None:
    name = call.partition("(")[0]
    with pytest.raises(JobSpecError, match=rf"^1:17: {name}\(\) OVER \(...\) is not in the job language") as caught:
        check_calls(f"SELECT product, {call} AS n FROM clicks GROUP BY product", ())
    assert "did you mean" not in str(caught.value)
