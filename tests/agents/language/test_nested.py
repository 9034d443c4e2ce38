"""Paths in a query become columns, however they are written."""

from __future__ import annotations

import pytest

from elf.agents.errors import JobSpecError
from elf.agents.language.paths import column_of, steps_of
from elf.agents.language.query import columns_read, parse_query


@pytest.mark.parametrize(
    ("written", "column", "name"),
    [
        ("a.b", "a.b", "b"),
        ("`a.b`", "a.b", "a.b"),
        ("a['b']", "a.b", "b"),
        ("logs.a.b", "a.b", "b"),
        ("l.a", "a", "a"),
        ("a.b.c.d.e.f", "a.b.c.d.e.f", "f"),
        ("a['b.c'].d", "a['b.c'].d", "d"),
        ("a.b[0]", "a.b[0]", "a.b[0]"),
        ("l.a[2]['x y'].z", "a[2]['x y'].z", "z"),
        ("`a.b`.c", "['a.b'].c", "c"),
        ("get_json_object(a, '$.b')", "a.b", "b"),
        ("get_json_object(a.b, '$[1].c')", "a.b[1].c", "c"),
        ("get_json_object(l.a, \"$['b.c'].d\")", "a['b.c'].d", "d"),
    ],
)
def test_a_path_is_a_column(written: str, column: str, name: str) -> None:
    query = parse_query(
        f"SELECT {written}, count(*) AS n FROM logs AS l WHERE {written} IS NOT NULL GROUP BY {written}"
    )
    assert list(columns_read(query)) == [column]
    assert [item.name for item in query.items] == [name, "n"]


def test_a_window_and_the_last_result_are_no_objects() -> None:
    query = parse_query(
        "SELECT e.a.b AS x, window.start AS s, max(r.n) AS n FROM logs e LEFT JOIN last_result r ON e.a.b = r.x "
        "GROUP BY e.a.b, window(ts, '60 seconds', '10 seconds')"
    )
    assert list(columns_read(query)) == ["a.b"]


@pytest.mark.parametrize(
    ("written", "place", "said"),
    [
        ("a.b[*]", (1, 8), "a[*] is not in the language (a path reads one value"),
        ("a[b]", (1, 8), "number of an item, or a name in quotes"),
        ("a[-1]", (1, 8), "number of an item, or a name in quotes"),
        ("lower(a)[0]", (1, 8), "only a column has items"),
        ("get_json_object(a, b)", (1, 8), "a path in quotes"),
        ("get_json_object(a, 'b')", (1, 8), "begins with $"),
        ("get_json_object(a, '$.b[*].c')", (1, 27), "[*] is not in the language"),
        ("get_json_object(a, '$..b')", (1, 27), "is no path"),
    ],
)
def test_what_is_no_path_is_refused(written: str, place: tuple[int, int], said: str) -> None:
    with pytest.raises(JobSpecError) as caught:
        parse_query(f"SELECT {written} AS x FROM logs GROUP BY {written}")
    assert said in str(caught.value)
    assert caught.value.line == place[0]


@pytest.mark.parametrize("column", ["a", "a.b", "a['b.c'][0].d", "['a.b'].c", r"a['it\'s']", "a[0][1]"])
def test_paths_are_written_as_they_are_read(column: str) -> None:
    assert column_of(steps_of(column)) == column


@pytest.mark.parametrize("column", ["a.", ".a", "a..b", "a[", "a[x]", "a[99999999999]", "a['b", "]", "a[01]"])
def test_names_that_are_no_paths_are_names(column: str) -> None:
    assert steps_of(column) == (column,)
