"""Schemas of files: they say what `validate` says of the form of any file, and what `#:` lines say of its fields."""

from __future__ import annotations

import copy
import json
import pathlib
import re
import tomllib
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from elf.agents.jobs.definition import _FIELDS, Options
from elf.agents.settings.config import AgentConfig, SourceConfig
from elf.checking.schema import DIALECT, JobFile, schema_of
from elf.checking.validate import check_config, check_job
from elf.cli.effective import _table

ROOT = pathlib.Path(__file__).parents[3]
EXAMPLES = sorted(file for file in (ROOT / "examples").rglob("*.toml") if file.name != "pyproject.toml")
AGENT, JOB = schema_of("agent"), schema_of("job")
#: What is said of a file whose form is wrong.
_FORM = re.compile(r"has no setting|: expected |must be a table")


def fits(schema: dict[str, Any], value: Any, root: dict[str, Any]) -> bool:
    """Tell whether a value fits a schema, of the words that ours have."""
    if "$ref" in schema:
        return fits(root["$defs"][schema["$ref"].rpartition("/")[2]], value, root)
    if "anyOf" in schema and not any(fits(each, value, root) for each in schema["anyOf"]):
        return False
    if "enum" in schema and value not in schema["enum"]:
        return False
    kinds = {"string": str, "integer": int, "boolean": bool, "object": dict, "array": list, "null": type(None)}
    if "type" in schema and not isinstance(value, kinds[schema["type"]]):
        return False
    if schema.get("type") == "integer" and isinstance(value, bool):
        return False
    if isinstance(value, str) and not re.search(schema.get("pattern", ""), value):
        return False
    if isinstance(value, int) and not schema.get("minimum", value) <= value <= schema.get("maximum", value):
        return False
    if isinstance(value, list):
        return all(fits(schema.get("items", {}), each, root) for each in value)
    if isinstance(value, dict):
        known, others = schema.get("properties", {}), schema.get("additionalProperties", True)
        named = schema.get("propertyNames", {}).get("pattern", "")
        unknown = [each for key, each in value.items() if key not in known]
        return (
            all(re.search(named, key) for key in value)
            and set(schema.get("required", ())) <= value.keys()
            and all(fits(known[key], each, root) for key, each in value.items() if key in known)
            and (others is True or all(others and fits(others, each, root) for each in unknown))
        )
    return True


@st.composite
def changed(draw: st.DrawFn, good: dict[str, Any]) -> dict[str, Any]:
    """Return a good file with one setting that has another value, or another name."""
    data = copy.deepcopy(good)
    tables = [data]
    for table in tables:
        tables += [each for each in table.values() if isinstance(each, dict)]
    table = draw(st.sampled_from([each for each in tables if each]))
    key = draw(st.sampled_from(sorted(table)))
    if draw(st.booleans()):
        table[draw(st.sampled_from(["nonsense", "name", "path"]))] = table.pop(key)
    else:
        table[key] = draw(st.sampled_from([1, True, "x", [], ["x"], [1], {"a": "b"}, {"a": 1}]))
    return data


def text_of(data: dict[str, Any]) -> str:
    return "\n".join(_table((), data)) + "\n"


CONFIG = {
    **{k: v for k, v in msgspec.to_builtins(AgentConfig()).items() if k != "sources"},
    "sources": {"access": msgspec.to_builtins(SourceConfig(path="/x", format="json", columns={"n": "BIGINT"}))},
}


@given(changed(CONFIG))
def test_a_configurations_form_is_what_validate_says(data: dict[str, Any]) -> None:
    config, findings = check_config(text_of(data), "agent.toml")
    if config is not None:
        assert fits(AGENT, data, AGENT), "validate takes what its schema does not"
    elif not fits(AGENT, data, AGENT):
        return
    else:
        wrong_forms = [
            each.message for each in findings if re.search(r"has no setting|: expected |must be a table", each.message)
        ]
        assert not wrong_forms, "the schema takes a form that validate does not"


WHOLE = {
    "name": "top",
    "creator": "shop",
    "query": "SELECT a, count(*) AS n FROM access GROUP BY a",
    "columns": {"a": "STRING"},
    "options": {"interval": "1s", "retain": "1h", "trees": 2, "replicas": 1, "straggler": "late"},
}


@given(changed(WHOLE))
def test_a_jobs_form_is_what_validate_says(data: dict[str, Any]) -> None:
    if not check_job(text_of(data), "job.toml"):
        assert fits(JOB, data, JOB), "validate takes what its schema does not"


def test_fields_are_those_of_the_files() -> None:
    assert set(JobFile.__struct_fields__) == set(_FIELDS)
    options = {name.removesuffix("_ms") for name in Options.__struct_fields__}
    assert set(JOB["$defs"]["OptionsTable"]["properties"]) == options
    assert AGENT["$schema"] == JOB["$schema"] == DIALECT


@pytest.mark.parametrize("schema", [AGENT, JOB], ids=["agent", "job"])
def test_every_field_is_described(schema: dict[str, Any]) -> None:
    records = [each for name, each in schema["$defs"].items() if name != "AgentConfig"]
    assert [name for each in records for name, field in each["properties"].items() if "description" not in field] == []
    level = AGENT["$defs"]["AgentSection"]["properties"]["log_level"]
    assert level["description"] == "How much is logged: debug, info, warning, or error."
    assert json.loads(json.dumps(schema)) == schema


@pytest.mark.parametrize("file", EXAMPLES, ids=lambda file: file.name)
def test_examples_fit(file: pathlib.Path) -> None:
    data = tomllib.loads(file.read_text())
    schema = JOB if "query" in data else AGENT
    assert fits(schema, data, schema)
