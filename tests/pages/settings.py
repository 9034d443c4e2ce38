"""The page of an agent's settings and a job's options, made of the records that files are read into."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from elf.checking.schema import schema_of

PAGE = Path(__file__).resolve().parents[2] / "docs" / "SETTINGS.md"
_TOP = """# Settings

An agent is told what it is to be in a TOML file (`elf agent -c agent.toml`, `elf init` writes one); the README has
[one to begin with](../README.md#on-web-servers), and `elf agent --print-config` shows what holds. `elf schema agent`
is all of this for an editor. Durations are written as `"300s"`, `"5 minutes"` or `"500ms"`.
"""
_JOB = """
# Options of a job

In `[options]` of a job's file, with `elf update --set` of one that runs; [JOBS.md](JOBS.md) tells more of them, and
`elf schema job` has the whole file.

| option | values | what it is |
|---|---|---|
"""
_BEHIND = "\n`scripts/reference` writes this page.\n"
#: What the tables of the file are called there.
_SECTIONS = ("agent", "overlay", "api", "archive", "functions")


def page() -> str:
    """Return the page."""
    agent, job = schema_of("agent")["$defs"], schema_of("job")["$defs"]
    sections = agent["AgentConfig"]["properties"]
    found = [_TOP]
    for section in _SECTIONS:
        found += _section(f"[{section}]", agent[_record(sections[section])])
    found += _section("[sources.NAME]", agent["SourceConfig"])
    found += _section("[sources.NAME.privacy]", agent["PrivacySection"])
    found.append(_JOB)
    for name, described in job["OptionsTable"]["properties"].items():
        found.append(f"| `{name}` | {_values(described)} | {_cell(described)} |\n")
    return "".join(found) + _BEHIND


def _section(title: str, schema: Mapping[str, Any]) -> Iterator[str]:
    yield f"\n## {title}\n\n{schema['description']}\n\n| setting | default | what it is |\n|---|---|---|\n"
    for name, described in schema["properties"].items():
        if "$ref" not in described:  # a table of its own
            default = json.dumps(described["default"], ensure_ascii=False)
            yield f"| `{name}` | `{default}` | {_cell(described)} |\n"


def _record(described: Mapping[str, Any]) -> str:
    return str(described["$ref"]).rpartition("/")[2]


def _values(described: Mapping[str, Any]) -> str:
    if choices := described.get("enum"):
        return ", ".join(f'`"{each}"`' for each in choices)
    if described["type"] == "integer":
        return f"{described['minimum']} to {described['maximum']:,}"
    return "an application's name" if "pattern" in described else "a duration"


def _cell(described: Mapping[str, Any]) -> str:
    return str(described["description"]).replace("|", "\\|")
