"""Functions that jobs bring along, in queries: where they may be called, and what stands in a job's file."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl
import pytest
from msgspec.structs import replace

from elf.agents.errors import JobSpecError
from elf.agents.extensions.signed.signatures import public_key, sign
from elf.agents.jobs.definition import Definition, check_definition, load_definition
from elf.agents.jobs.explanation import explain_definition
from elf.agents.jobs.plan import Plan, compile_job
from elf.agents.jobs.versions import has_same_states
from elf.agents.language.own_functions import FUNCTIONS_MAX, SOURCES_BYTES_MAX, Call, OwnFunction, fingerprint
from elf.agents.language.types import SqlType
from tests.agents.extensions.signed.signed_jobs import SECRET, text_of

FUNCTION = OwnFunction(name="longer", args=("BIGINT", "STRING"), returns="BIGINT", source="def longer(n, text): ...")
TYPES = {"product": SqlType.STRING, "cents": SqlType.INT}


def admits(creator: str, job: str, functions: Sequence[OwnFunction]) -> Sequence[Call]:
    """Add the length of a text to a number, as `longer` would; say nothing of who may do so."""
    assert (creator, job) == ("shop", "sums")
    return [lambda columns: columns[0] + columns[1].str.len_chars().cast(pl.Int64) for _ in functions]


def definition_of(query: str, *functions: OwnFunction) -> Definition:
    functions = functions or (FUNCTION,)
    return Definition(name="sums", creator="shop", source="clicks", query=query, functions=functions)


def plan_of(query: str, *functions: OwnFunction) -> Plan:
    return compile_job(definition_of(query, *functions), TYPES, admits)


def test_functions_are_called_in_where_in_keys_and_in_aggregates() -> None:
    plan = plan_of(
        "SELECT longer(cents, 'x') AS k, sum(LONGER(1, product)) AS n, count(*) AS c FROM clicks "
        "WHERE longer(cents, product) > 3 GROUP BY longer(cents, 'x') ORDER BY longer(cents, 'x')"
    )
    events = pl.DataFrame({"ts": [0, 1, 2], "product": ["ab", "abc", "a"], "cents": [2, 2, 2]})
    events = events.with_columns(pl.col("ts").cast(pl.Datetime("ms")), pl.col("cents").cast(pl.Int32))
    rows = plan.finish(plan.reduce(events).drop("interval"), None)
    assert rows.rows() == [(3, 7, 2)]


@pytest.mark.parametrize(
    ("query", "why"),
    [
        ("SELECT longer(count(*), 'x') AS n FROM clicks", "are called on events only"),
        ("SELECT product, count(*) AS n FROM clicks GROUP BY 1 HAVING longer(1, product) > 1", "on events only"),
        ("SELECT sum(longer(cents)) AS n FROM clicks", r"takes 2 argument\(s\), not 1"),
        ("SELECT sum(longer(ts, product)) AS n FROM clicks", "argument 1 of longer is TIMESTAMP, it takes BIGINT"),
        ("SELECT sum(shorter(cents, product)) AS n FROM clicks", r"shorter\(\) is not in the job language"),
        ("SELECT sum(longer(count(*), product)) AS n FROM clicks", "an aggregate has no meaning here"),
    ],
)
def test_a_call_that_has_no_meaning_is_refused_with_its_place(query: str, why: str) -> None:
    with pytest.raises(JobSpecError, match=why) as refused:
        plan_of(query)
    assert refused.value.line == 1


@pytest.mark.parametrize("name", ["lower", "md5", "sum", "cast", "window"])
def test_a_name_that_has_a_meaning_already_is_refused(name: str) -> None:
    with pytest.raises(JobSpecError, match=f"the job's own function {name}"):
        plan_of("SELECT count(*) AS n FROM clicks", replace(FUNCTION, name=name))


@pytest.mark.parametrize(
    "functions",
    [
        (replace(FUNCTION, name="Longer"),),
        (replace(FUNCTION, name="longer"), FUNCTION),
        (replace(FUNCTION, args=()),),
        (replace(FUNCTION, args=("DECIMAL", "STRING")),),
        (replace(FUNCTION, returns="ARRAY<INT>"),),
        (replace(FUNCTION, source=" \n"),),
        (replace(FUNCTION, source="def longer(n, text): return '\0'"),),
        (replace(FUNCTION, source="\ud800"),),
        tuple(replace(FUNCTION, name=f"f{number}") for number in range(FUNCTIONS_MAX + 1)),
        tuple(replace(FUNCTION, name=f"f{number}", source="#" * (SOURCES_BYTES_MAX // 2)) for number in range(3)),
    ],
    ids=range(10),
)
def test_a_peers_functions_are_held_to_the_rules_of_files(functions: tuple[OwnFunction, ...]) -> None:
    with pytest.raises(JobSpecError):
        check_definition(definition_of("SELECT count(*) AS n FROM clicks", *functions))


def test_a_plan_that_is_for_no_events_calls_nothing() -> None:
    definition = definition_of("SELECT sum(longer(cents, product)) AS n FROM clicks")
    plan = compile_job(definition, TYPES)
    events = pl.DataFrame({"ts": [0], "product": ["a"], "cents": [1]}).with_columns(
        pl.col("ts").cast(pl.Datetime("ms"))
    )
    assert plan.reduce(events.clear()).height == 0
    with pytest.raises(JobSpecError, match="longer cannot be called here"):
        plan.reduce(events)


def test_another_source_makes_other_paos_and_another_signature_does_not() -> None:
    query = "SELECT sum(longer(cents, product)) AS n FROM clicks"
    plan = plan_of(query)
    assert has_same_states(plan, plan_of(query, replace(FUNCTION, key="k", signature="s")))
    assert not has_same_states(plan, plan_of(query, replace(FUNCTION, source="def longer(n, text): return 1")))


def test_a_file_names_types_and_sources() -> None:
    (function,) = load_definition(text_of("sections", "def section(path): ...")).functions
    assert (function.name, function.args, function.returns, function.strict) == (
        "section",
        ("STRING",),
        "STRING",
        False,
    )
    assert (function.source, function.key) == ("def section(path): ...", "")


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ('args = ["STRING"]', 'args = "STRING"', "args is a list of SQL types"),
        ('args = ["STRING"]', 'args = ["TEXTS"]', "args: unknown column type 'TEXTS'"),
        ('returns = "STRING"', "", "returns: unknown column type 'None'"),
        ('returns = "STRING"', 'returns = "STRING"\nstrict = 1', "strict is true or false"),
        ('returns = "STRING"', 'gives = "STRING"', r"unknown key 'gives' in \[functions.section\]"),
        ('returns = "STRING"', 'returns = "STRING"\nfile = "x.py"', "has either a source or a file"),
        ("[functions.section]", "[functions.Section]", "'Section' is no name of a function"),
        ("[functions.section]", "[signed]\nkey = 1\n[functions.section]", "signed has a key"),
        ("[functions.section]", "[signed]\nkeys = 1\n[functions.section]", r"unknown key 'keys' in \[signed\]"),
    ],
)
def test_a_mistake_in_a_file_is_named(old: str, new: str, why: str) -> None:
    with pytest.raises(JobSpecError, match=why):
        load_definition(text_of("sections", "def section(path): ...").replace(old, new))


def test_an_explanation_names_functions_and_who_signed_them() -> None:
    definition = load_definition(text_of("sections", "def section(path): ..."))
    (told,) = explain_definition(definition)["functions"]
    assert told == {"name": "section", "args": ["STRING"], "returns": "STRING", "key": None}
    signed = replace(definition, functions=sign("shop", "sections", definition.functions, SECRET))
    explained = explain_definition(signed)
    assert explained["functions"] == [{**told, "key": fingerprint(public_key(SECRET))}]
    assert any("call section(), which the job brings along" in step for step in explained["steps"]["agents"])
