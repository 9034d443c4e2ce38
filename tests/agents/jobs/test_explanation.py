"""What a job does is told from its plan; what hangs on types that nobody has told is not."""

from __future__ import annotations

import functools
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from elf.agents.errors import JobSpecError
from elf.agents.jobs.definition import load_definition
from elf.agents.jobs.explanation import RUNNING, explain_definition, explain_plan
from elf.agents.jobs.plan import compile_job
from elf.agents.language.joins import Joined, Use, clock_query
from elf.agents.language.types import SqlType
from tests.agents.plans import CUMULATIVE, plan_of

PROMOTION = """
SELECT product, count(*) AS clicks, sum(cents) AS cents FROM clicks
WHERE event = 'click' AND (category = 'Video Games') GROUP BY product, window(ts, '5 minutes', '30 seconds')
HAVING count(*) > 1 ORDER BY clicks DESC, product LIMIT 10
"""
TYPES = {"product": "STRING", "cents": "BIGINT", "event": "STRING", "category": "STRING"}
READ = ("event", "category", "product", "cents")


def job_of(query: str, columns: dict[str, str], options: str = "") -> str:
    declared = "\n".join(f'{name} = "{kind}"' for name, kind in columns.items())
    return f'name = "job"\ncreator = "shop"\nquery = """{query}"""\n[options]\n{options}\n[columns]\n{declared}\n'


def explain(query: str, columns: dict[str, str], options: str = "") -> dict[str, Any]:
    return explain_definition(load_definition(job_of(query, columns, options)))


def test_a_plan_is_told_whole() -> None:
    found = explain(PROMOTION, TYPES, 'straggler = "drop"\nreplicas = 2\nfeedback = 5')
    assert found["columns"] == [{"name": name, "type": TYPES[name]} for name in READ]
    assert found["prefilter"] == ["click", "Video Games"]
    assert found["filter"] == "event = 'click' AND (category = 'Video Games')"
    assert found["keys"] == [{"column": "k0", "expression": "product", "type": "STRING"}]
    count, total = found["aggregates"]
    assert (count["expression"], count["inverse"]) == ("count(*)", True)
    assert count["states"] == [{"name": "a0_n", "type": "BIGINT"}]
    assert (total["expression"], total["aggregate"], total["inverse"]) == ("sum(cents)", "sum", True)
    assert (found["windows"], found["interval_ms"], found["lateness_ms"]) == ("difference", 30_000, 2_000)
    assert (found["having"], found["order"], found["limit"]) == ("count(*) > 1", ["clicks DESC", "product"], 10)
    assert found["output"][2] == {"name": "cents", "type": "BIGINT"}
    told = "\n".join(step for steps in found["steps"].values() for step in steps)
    assert "skip lines without 'click' and 'Video Games' unparsed" in told
    assert "with 2 copies at neighbours" in told and "its data of those intervals is dropped" in told
    assert "windows of 5 minutes every 30 seconds, as the difference of two running totals" in told
    assert "HAVING count(*) > 1 ORDER BY clicks DESC, product LIMIT 10" in told and "first 5 rows" in told
    assert all(found[field] is None for field in RUNNING)
    assert found["unknown"] == ["what it shares with other jobs, its tree and its cost: it is not published"]


def test_an_application_is_told_of() -> None:
    steps = explain(PROMOTION, TYPES, 'application = "bundling"')["steps"]
    assert steps["master"][-1] == "tell the application bundling of each result; it speaks to every agent"


@pytest.mark.parametrize(
    ("query", "made"),
    [
        (CUMULATIVE, "total"),
        ("SELECT max(cents) AS m FROM clicks GROUP BY window(ts, '8 seconds', '2 seconds')", "merged"),
        ("SELECT max(cents) AS m FROM clicks GROUP BY window(ts, '8 seconds')", "pane"),
    ],
)
def test_windows_are_made_as_their_aggregates_allow(query: str, made: str) -> None:
    assert explain_plan(plan_of(query))["windows"] == made


def test_what_hangs_on_missing_types_is_not_told() -> None:
    found = explain(PROMOTION, {"product": "STRING", "event": "STRING"})
    assert {each["name"]: each["type"] for each in found["columns"]} == {
        "product": "STRING",
        "event": "STRING",
        "category": None,
        "cents": None,
    }
    assert found["prefilter"] is None and found["windows"] is None
    assert [each["inverse"] for each in found["aggregates"]] == [True, None]
    assert found["keys"][0]["type"] == "STRING" and found["output"][2]["type"] is None
    unknown = "\n".join(found["unknown"])
    assert "the types of cents, category: declare them" in unknown and "whether sum(cents) can be taken out" in unknown


@functools.cache
def told_with(declared: frozenset[str]) -> dict[str, Any]:
    return explain(PROMOTION, {name: TYPES[name] for name in declared})


@given(st.frozensets(st.sampled_from(READ)), st.fixed_dictionaries({name: st.sampled_from(SqlType) for name in READ}))
def test_what_is_told_holds_whatever_the_missing_types_are(declared: frozenset[str], kinds: dict[str, SqlType]) -> None:
    found = told_with(declared)
    types = kinds | {name: SqlType.parse(TYPES[name]) for name in declared}
    definition = load_definition(job_of(PROMOTION, {name: kind.ddl for name, kind in types.items()}))
    try:
        truth = explain_plan(compile_job(definition, types))
    except JobSpecError:
        return  # these types cannot be
    plan_fields = truth.keys() - {"steps", "unknown", *RUNNING}
    assert_told({name: found[name] for name in plan_fields}, {name: truth[name] for name in plan_fields})


def assert_told(told: Any, truth: Any) -> None:
    """All that is told is true."""
    if isinstance(told, dict):
        for name, value in told.items():
            assert_told(value, truth[name])
    elif isinstance(told, list):
        assert len(told) == len(truth)
        for one, other in zip(told, truth, strict=True):
            assert_told(one, other)
    elif told is not None:
        assert told == truth


def test_types_that_work_together_are_found_where_no_single_one_does() -> None:
    found = explain("SELECT sum(a) AS s, avg(b) AS m FROM t WHERE c AND d = 'x' GROUP BY e", {})
    assert found["filter"] == "c AND d = 'x'"
    assert [each["inverse"] for each in found["aggregates"]] == [None, None]


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("SELECT product, count(*) AS n FROM clicks WHERE nothing(product) GROUP BY product", "nothing"),
        ("SELECT product, cuont(*) AS n FROM clicks WHERE cents > 4 GROUP BY product", "did you mean 'count'"),
        ("SELECT product, cents FROM clicks GROUP BY product", "neither in GROUP BY nor inside an aggregate"),
    ],
)
def test_what_no_types_mend_is_said(query: str, said: str) -> None:
    with pytest.raises(JobSpecError, match=said):
        explain(query, {})


def test_a_job_over_other_jobs_is_explained_by_what_its_master_asks_for() -> None:
    query = "SELECT n FROM job('shop/sold') s LEFT JOIN job('shop/worth') w ON s.n = w.m ORDER BY n DESC LIMIT 3"
    columns = {"n": "INT", "m": "INT"}
    uses = tuple(Use(job=f"shop/{name}", window=(4_000, 2_000), columns=columns) for name in ("sold", "worth"))
    joined = Joined(query=query.replace("SELECT n", "SELECT s.n"), uses=uses)
    definition = load_definition(f'name = "both"\nquery = "{query}"')
    with pytest.raises(JobSpecError, match="once it is published"):
        explain_definition(definition)
    known = msgspec.structs.replace(
        definition, source="orders", query=clock_query("orders", (4_000, 2_000)), joined=joined
    )
    explained = explain_plan(compile_job(known, {}))
    assert explained["joins"] == ["shop/sold", "shop/worth"] and explained["query"] == joined.query
    assert (explained["order"], explained["limit"]) == (["n DESC"], 3)
    steps = explained["steps"]
    kept = "keep no event of orders: close each interval 2 seconds after its end, empty, to keep time"
    assert steps["agents"] == [kept]
    assert "ask the masters of shop/sold and shop/worth for the same window, and join their rows" in steps["master"]


def test_a_job_that_reads_its_last_result_says_what_agents_do_and_what_the_master_joins() -> None:
    query = """
    SELECT c.product, sum(c.cents + coalesce(r.cents, 0)) AS cents FROM clicks c LEFT JOIN last_result r
    ON c.product = r.product WHERE c.cents > 1 AND r.cents IS NULL
    GROUP BY c.product, window(ts, '4 seconds', '2 seconds')
    """
    found = explain_plan(plan_of(query))
    join = "LEFT JOIN last_result AS r ON c.product = r.product"
    assert found["last_result"] == {"join": join, "filter": "r.cents IS NULL", "keys": ["c.product"]}
    assert found["filter"] == "c.cents > 1"
    assert [key["expression"] for key in found["keys"]] == ["c.product", "c.cents"]
    assert [each["expression"] for each in found["aggregates"]] == ["count(*)"]
    told = "join the PAOs of each window with the result of the window that ended 2 seconds before: "
    assert found["steps"]["master"][1] == f"{told}{join}, keep rows where r.cents IS NULL, and group by c.product"
