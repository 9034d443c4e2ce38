"""The dialect's parser: where it cannot be made, that is said before any job is read."""

from __future__ import annotations

from typing import Any

import pytest

from elf.agents.errors import ConfigError, JobSpecError
from elf.agents.language.dialect import JobSql, parse_statement, require_parser


def test_a_compiled_sqlglot_is_refused_with_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    def compiled(**_: Any) -> None:
        raise TypeError("interpreted classes cannot inherit from compiled")

    require_parser()
    monkeypatch.setattr(JobSql, "parser_class", staticmethod(compiled))
    with pytest.raises(ConfigError, match=r"interpreted classes .*; `pip uninstall sqlglotc` takes"):
        require_parser()


@pytest.mark.parametrize(
    ("query", "place", "word"),
    [
        ("SELECT product count(*) AS n FROM clicks GROUP BY product", (1, 16), "count"),
        ("SELECT product,\n  count(*) AS n sum(bytes) AS b FROM clicks", (2, 17), "sum"),
        ("SELECT a b c FROM clicks", (1, 12), "c"),
        ("SELECT upper(a) AS first name, b FROM clicks", (1, 26), "name"),
        ("SELECT count(*) AS n FROM clicks GROUP BY a b", (1, 45), "b"),
        ("SELECT count(*) AS n FROM clicks GROUP BY a window(ts, '1 hour')", (1, 45), "window"),
    ],
)
def test_a_missing_comma_has_a_place(query: str, place: tuple[int, int], word: str) -> None:
    with pytest.raises(JobSpecError) as caught:
        parse_statement(query)
    assert (caught.value.line, caught.value.column) == place, caught.value
    assert caught.value.message == f"a comma is missing before {word!r}"


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("SELECT a FORM clicks", "did you mean 'FROM'"),
        ("SELECT a FROM clicks GROUP BY a HAVNG b", "did you mean 'HAVING'"),
        ("SELECT (a b c) FROM clicks", "syntax error"),
        ("SELECT CASE WHEN a THEN b c END FROM clicks", "syntax error"),
        ("SELECT a FROM clicks WHERE a b", "syntax error"),
        ("SELECT a FROM clicks WHERE", ""),
    ],
)
def test_what_lacks_no_comma_is_not_said_to(query: str, said: str) -> None:
    with pytest.raises(JobSpecError) as caught:
        parse_statement(query)
    assert said in str(caught.value) and "comma" not in str(caught.value)


@pytest.mark.parametrize(
    ("query", "place", "beside"),
    [
        ("SELECT a, FROM clicks", (1, 9), "'FROM'"),
        ("SELECT a,\n, b FROM clicks", (1, 9), "','"),
        ("SELECT , a FROM clicks", (1, 8), "'SELECT'"),
        ("SELECT count(*,) AS n FROM clicks", (1, 15), "')'"),
        ("SELECT a FROM clicks WHERE a IN (,1)", (1, 34), "'('"),
        ("SELECT a FROM clicks GROUP BY a,", (1, 32), "the query's end"),
        ("SELECT a FROM clicks GROUP BY a, HAVING a > 1", (1, 32), "'HAVING'"),
        ("SELECT a FROM clicks GROUP BY a ORDER BY a,;", (1, 43), "';'"),
    ],
)
def test_a_comma_beside_nothing_is_refused_as_spark_does(query: str, place: tuple[int, int], beside: str) -> None:
    with pytest.raises(JobSpecError) as caught:
        parse_statement(query)
    assert (caught.value.line, caught.value.column) == place, caught.value
    assert caught.value.message == f"nothing is between a comma and {beside}"


def test_commas_in_texts_names_and_remarks_are_none() -> None:
    parse_statement("SELECT a, ',,' AS b, `, ,` FROM clicks WHERE a IN (1, 2) -- a,, b,")
