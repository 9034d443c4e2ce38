"""A job's file that is written from its definition is the same job."""

from __future__ import annotations

import pathlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elf.agents.extensions.signed.job_file import beside
from elf.agents.jobs.definition import Definition, Options, load_definition
from elf.agents.jobs.definition_text import text_of
from elf.agents.language.own_functions import OwnFunction

EXAMPLES = pathlib.Path(__file__).parents[3] / "examples"
JOBS = sorted(file for file in EXAMPLES.glob("*/job.*") if file.suffix in (".toml", ".sql"))
durations = st.none() | st.integers(1, 10**10)
options = st.builds(
    Options,
    lateness_ms=st.integers(1, 10**9),
    retain_ms=durations,
    leap_after_ms=durations,
    straggler=st.sampled_from(["late", "drop", "void", "mirror"]),
    replicas=st.none() | st.integers(1, 3),
    trees=st.integers(1, 4),
    application=st.sampled_from(["", "promote"]),
)
betweens = st.sampled_from(["\n", " ", "\r\n", "-- it's '''\n"])
COLUMNS = {"a b": "STRING", "path": "STRING"}


@pytest.mark.parametrize("file", JOBS, ids=lambda file: file.parent.name)
def test_examples_are_written_as_they_are(file: pathlib.Path) -> None:
    definition = load_definition(file.read_text(), filename=file.name, read=beside(file))
    assert load_definition(text_of(definition)) == definition


@given(
    options, st.text(st.characters(exclude_categories=["Cs"])), st.sampled_from(["\n", " ", "\r\n", "-- it's '''\n"])
)
def test_any_job_is_read_as_it_was_written(options: Options, told: str, between: str) -> None:
    where = told.replace("\\", "\\\\").replace("'", "\\'")
    query = f"SELECT `a b`, count(*) AS n{between}FROM hits WHERE path <> '{where}'{between}GROUP BY `a b`"
    definition = Definition(
        name="x.y",
        creator="ann",
        source="hits",
        query=query,
        columns={"a b": "STRING", "path": "STRING"},
        options=options,
    )
    assert load_definition(text_of(definition)) == definition


@pytest.mark.parametrize("signature", ["", "c2lnbmVk"])
def test_functions_come_with_it(signature: str) -> None:
    function = OwnFunction(
        name="section",
        args=("STRING", "BIGINT"),
        returns="STRING",
        strict=True,
        source="def section(a, b):\n\treturn \"'''\"\n",
        key="a2V5" if signature else "",
        signature=signature,
    )
    query = "SELECT section(path, 1) AS s, count(*) AS n FROM hits GROUP BY section(path, 1)"
    definition = Definition(name="x", creator="ann", source="hits", query=query, functions=(function,))
    assert load_definition(text_of(definition)) == definition
