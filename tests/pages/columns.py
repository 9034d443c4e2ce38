"""The page of the columns that each format has, made of the formats themselves."""

from __future__ import annotations

from pathlib import Path

from elf.agents.language.types import SqlType
from elf.agents.sources.catalogue import ALIASES, HEADED, LAYOUTS, OBJECT_WRAPPERS, WRAPPERS
from elf.agents.sources.format import make_format
from elf.agents.sources.objects.named import OBJECTS
from elf.agents.sources.times.zones import UTC

PAGE = Path(__file__).resolve().parents[2] / "docs" / "COLUMNS.md"
_TOP = """# Columns of the formats

Each [format](FORMATS.md) has `ts`, the time of the event, and the columns below, which are STRING unless their type is
said. Columns of `json`, `csv`, `ltsv` and `logfmt` are those of the lines, of a pasted layout those of its
[variables](FORMATS.md#layouts). A format in a wrapper has the columns of both.

| format | columns |
|---|---|
"""
_BEHIND = "\n`scripts/reference` writes this page.\n"


def page() -> str:
    """Return the page."""
    names = [*LAYOUTS, *HEADED, *OBJECTS, *WRAPPERS, *OBJECT_WRAPPERS]
    return _TOP + "".join(map(_row, sorted(names))) + _BEHIND


def _row(name: str) -> str:
    columns = make_format(name, zone=UTC).columns
    if columns is None:
        return ""
    others = [f"`{alias}`" for alias, meant in sorted(ALIASES.items()) if meant == name]
    shown = f"`{name}`" + (f" ({', '.join(others)})" if others else "")
    return f"| {shown} | {', '.join(_column(each, kind) for each, kind in columns.items())} |\n"


def _column(name: str, kind: SqlType) -> str:
    return f"`{name}`" if kind is SqlType.STRING else f"`{name}` {kind.value}"
