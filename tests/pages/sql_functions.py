"""The page of the scalar functions of the job language, made of their declarations."""

from __future__ import annotations

from pathlib import Path

from elf.agents.language.functions import find, function_names
from elf.agents.language.functions.registry import MANY, Entry

PAGE = Path(__file__).resolve().parents[2] / "docs" / "SQL_FUNCTIONS.md"
_TOP = """# Functions of SQL

All scalar functions that a job's query may call, with Spark's names and Spark's meaning (ANSI mode off, time zone UTC);
arguments are converted as Spark converts them. In brackets: what may be left out. Aggregates are
[in the README](../README.md#the-job-language), functions of your own in [FUNCTIONS.md](FUNCTIONS.md). What is not
here is refused when the job is published, with the nearest name that is.

| function | gives | what it is |
|---|---|---|
"""
_BEHIND = "\n`scripts/reference` writes this page.\n"


def page() -> str:
    """Return the page."""
    return _TOP + "".join(map(_row, function_names())) + _BEHIND


def _row(name: str) -> str:
    entry = find(name)
    assert entry is not None
    gives = entry.gives.value if entry.gives is not None else ""
    return f"| `{name}({_arguments(entry)})` | {gives} | {entry.sentence} |\n".replace("\\", "\\\\")


def _arguments(entry: Entry) -> str:
    """Return what it takes: types where they are fixed, else letters."""
    if entry.most == MANY:
        return ", ".join([*"abc"[: entry.least], "..."])
    names = [kind.value for kind in entry.takes] or list("abcdefgh"[: entry.most])
    needed, optional = names[: entry.least], names[entry.least :]
    return (
        ", ".join(needed) + "".join(f"[, {each}" if needed else f"[{each}" for each in optional) + "]" * len(optional)
    )
