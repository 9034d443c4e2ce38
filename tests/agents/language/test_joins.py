"""Queries over other jobs, taken apart: what they name and how; and what such a query cannot have, with its place."""

from __future__ import annotations

import pytest

from elf.agents.errors import JobSpecError
from elf.agents.jobs.definition import load_definition
from elf.agents.language.joins import Joined, Use, check_joined, clock_query, parse_joins, reads_jobs
from elf.agents.language.query import Window, parse_query

JOIN = (
    "SELECT c.product, b.bundle FROM job('shop/clicks') c LEFT JOIN job('shop/bundles') AS b ON c.product = b.product"
)


def test_a_query_names_its_jobs_and_how_they_are_joined() -> None:
    query = parse_joins(JOIN + " AND (c.day = b.day) WHERE n > 1 ORDER BY 1 LIMIT 3")
    assert [(read.job, read.alias, read.how) for read in query.reads] == [
        ("shop/clicks", "c", "first"),
        ("shop/bundles", "b", "left"),
    ]
    assert [[str(pair) for pair in read.on] for read in query.reads] == [[], ["c.product = b.product", "c.day = b.day"]]
    assert [item.name for item in query.items] == ["product", "bundle"] and query.limit == 3
    assert [read.alias for read in parse_joins("SELECT n FROM job('shop/clicks')").reads] == ["clicks"]


def test_only_queries_over_jobs_read_jobs() -> None:
    assert reads_jobs(JOIN) and reads_jobs("SELECT a FROM JOB('x/y')")
    assert not reads_jobs("SELECT a FROM job GROUP BY a") and not reads_jobs("SELECT a FROM jobs('x/y')")


@pytest.mark.parametrize(
    ("query", "place", "message"),
    [
        ("SELECT a FROM job('clicks')", (1, 19), "'clicks' is no name of a job"),
        ("SELECT a FROM job(clicks)", (1, 15), "job takes one job by name"),
        ("SELECT a FROM job('x/y', 'x/z')", (1, 15), "job takes one job by name"),
        ("SELECT a FROM job('x/y') JOIN clicks ON a = b", (1, 31), "either one source, or other jobs"),
        ("SELECT a FROM job('x/y') y JOIN job('x/z') z", (1, 33), "no condition"),
        ("SELECT a FROM job('x/y') y JOIN job('x/z') z ON y.a > z.a", (1, 49), "where columns are equal"),
        ("SELECT a FROM job('x/y') y JOIN job('x/z') z ON y.a = 1", (1, 49), "where columns are equal"),
        ("SELECT a FROM job('x/y') y JOIN job('x/z') z ON y.a = z.a OR y.b = z.b", (1, 49), "where columns are equal"),
        ("SELECT a FROM job('x/y') y FULL JOIN job('x/z') z ON y.a = z.a", (1, 38), "JOIN or LEFT JOIN"),
        ("SELECT a FROM job('x/y') y CROSS JOIN job('x/z') z", (1, 39), "JOIN or LEFT JOIN"),
        ("SELECT a FROM job('x/y') y JOIN job('x/z') z USING (a)", (1, 33), "JOIN or LEFT JOIN"),
        ("SELECT a FROM job('x/y') y JOIN job('x/y') Y ON y.a = y.a", (1, 33), "two jobs go by the name 'y'"),
        ("SELECT a, count(*) FROM job('x/y') GROUP BY a", (1, 45), "GROUP BY is not in a query over other jobs"),
        ("SELECT * FROM job('x/y')", (1, 8), "SELECT *"),
    ],
)
def test_what_such_a_query_cannot_have_is_said_with_its_place(query: str, place: tuple[int, int], message: str) -> None:
    with pytest.raises(JobSpecError, match="(?s)" + message.replace("*", r"\*")) as caught:
        parse_joins(query)
    assert (caught.value.line, caught.value.column) == place


def test_at_most_so_many_jobs_are_read() -> None:
    joins = " ".join(f"JOIN job('x/y{i}') t{i} ON t{i}.a = y.a" for i in range(8))
    with pytest.raises(JobSpecError, match="at most 8 jobs"):
        parse_joins("SELECT y.a FROM job('x/y') y " + joins)


def test_a_job_file_over_other_jobs_reads_no_source_yet() -> None:
    definition = load_definition(f'name = "sales"\nquery = """{JOIN}"""')
    assert definition.joined == Joined(query=JOIN) and definition.text == JOIN
    assert (definition.source, definition.query) == ("", "")
    for option in ("trees = 4", 'interval = "1s"', 'emit_every = "1s"', 'availability = "partial"'):
        with pytest.raises(JobSpecError, match=f"has no {option.partition(' ')[0]}") as caught:
            load_definition(f'name = "sales"\nquery = """{JOIN}"""\n[options]\n{option}')
        assert caught.value.line == 4
    with pytest.raises(JobSpecError, match="the query reads other jobs"):
        load_definition(f'name = "sales"\nsource = "clicks"\nquery = """{JOIN}"""')


def test_its_agents_run_a_query_that_keeps_nothing() -> None:
    query = parse_query(clock_query("web clicks`", (30_000, 10_000)))
    assert query.source == "web clicks`" and query.window == Window(30_000, 10_000)


@pytest.mark.parametrize(
    "joined",
    [
        Joined(query=JOIN),
        Joined(query=JOIN, uses=(Use(job="clicks", window=(1, 1), columns={}),)),
        Joined(query=JOIN, uses=(Use(job="x/y", window=(0, 0), columns={}),)),
        Joined(query=JOIN, uses=(Use(job="x/y", window=(1, 1), columns={"a": "MAP<INT>"}),)),
        Joined(query=JOIN, uses=(Use(job="x/y", window=(1, 1), columns={}),) * 9),
        Joined(query="x" * 20_000, uses=(Use(job="x/y", window=(1, 1), columns={}),)),
    ],
)
def test_what_a_peer_says_is_held_to_the_same_rules(joined: Joined) -> None:
    with pytest.raises(ValueError, match=r"."):
        check_joined(joined)
