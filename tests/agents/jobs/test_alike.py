"""Plans tell by one value whether their filters, and their map sides, mean the same."""

from __future__ import annotations

import itertools

import pytest
from msgspec.structs import replace

from elf.agents.jobs.definition import Definition
from elf.agents.jobs.plan import Plan, compile_job
from elf.agents.language.types import SqlType
from elf.agents.worker.sharing.mapping import mapped_as
from tests.agents.language.test_own_functions import FUNCTION, TYPES, definition_of
from tests.agents.plans import COLUMNS

QUERY = "SELECT product, count(*) AS n FROM clicks WHERE cents > 1 AND product <> 'a' GROUP BY product"
#: Each line means one thing.
MEANT = [
    [
        QUERY,
        QUERY.replace("cents > 1", "((Clicks.CENTS > 1))"),
        QUERY.replace("count(*) AS n", "COUNT(*) + 1 AS more") + " HAVING count(*) > 2 ORDER BY 1 LIMIT 7",
        QUERY.replace("GROUP BY product", "GROUP BY 1"),
    ],
    [QUERY.replace("> 1", "> 2")],
    [QUERY.replace("> 1", ">= 1")],
    [QUERY.replace("'a'", "'A'")],
    [QUERY.replace("WHERE cents > 1 AND product <> 'a' ", "")],
    [QUERY.replace("count(*)", "count(cents)")],
    [QUERY.replace("count(*)", "count(DISTINCT cents)")],
    [QUERY.replace("SELECT product,", "SELECT product, cents,").replace("BY product", "BY product, cents")],
    [QUERY.replace("SELECT product,", "SELECT product, cents,").replace("BY product", "BY cents, product")],
    [QUERY.replace("count(*) AS n", "count(*) AS n, sum(cents) AS s")],
    [QUERY.replace("count(*) AS n", "sum(cents) AS s, count(*) AS n")],
    [QUERY.replace("count(*) AS n", "count(*) FILTER (WHERE cents > 5) AS n")],
]


def compiled(query: str, **columns: SqlType) -> Plan:
    return compile_job(Definition(name="job", creator="shop", source="clicks", query=query), {**COLUMNS, **columns})


def test_map_sides_are_alike_where_they_mean_the_same_and_nowhere_else() -> None:
    plans = [(line, compiled(query)) for line, queries in enumerate(MEANT) for query in queries]
    for (line, plan), (other_line, other) in itertools.combinations(plans, 2):
        assert (plan.map_key == other.map_key) is (line == other_line)
        if line == other_line:
            assert plan.schema == other.schema and plan.columns == other.columns
            assert plan.filter_key == other.filter_key is not None


def test_filters_are_alike_whatever_is_made_of_the_events() -> None:
    plans = [compiled(queries[0]) for queries in MEANT]
    keys = [plan.filter_key for plan in plans]
    assert len(set(keys[:5])) == 5 and keys[4] is None
    assert set(keys[5:]) == {keys[0]}


@pytest.mark.parametrize("kind", [SqlType.INT, SqlType.DOUBLE])
def test_columns_of_other_types_are_not_alike(kind: SqlType) -> None:
    one, other = compiled(QUERY), compiled(QUERY, cents=kind)
    assert one.map_key != other.map_key and one.filter_key != other.filter_key


def test_functions_that_jobs_bring_along_are_called_for_one_job_only() -> None:
    query = "SELECT sum(longer(cents, product)) AS n FROM clicks WHERE cents > 0 GROUP BY window(ts, '1 second')"
    definition = definition_of(query)
    resigned = replace(definition, functions=(replace(FUNCTION, key="k", signature="s"),))
    theirs = replace(definition, creator="else")
    plain, signed, other = (compile_job(each, TYPES) for each in (definition, resigned, theirs))
    assert plain.map_key == signed.map_key == other.map_key, "the same PAOs"
    assert len({mapped_as(plain), mapped_as(signed), mapped_as(other)}) == 3
    assert mapped_as(plain) == mapped_as(compile_job(replace(definition, part=1), TYPES))
    assert plain.filter_key is None
