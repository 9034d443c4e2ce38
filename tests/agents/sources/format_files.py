"""The formats with their sample lines, what these have to become, and lines that each has to refuse (LINES)."""

from __future__ import annotations

import datetime
import functools
import json
import pathlib
from typing import Any

from elf.agents.sources.counters import Parsed

_FOLDER = pathlib.Path(__file__).parent / "formats"


@functools.cache
def formats() -> dict[str, dict[str, Any]]:
    """Return the description of each format by its name."""
    return {file.stem: json.loads(file.read_text()) for file in sorted(_FOLDER.glob("*.json"))}


def layouts() -> dict[str, dict[str, Any]]:
    """Return those whose lines are literals and fields."""
    return {name: entry for name, entry in formats().items() if entry["how"] == "layout"}


def sample_lines() -> list[str]:
    """Return the sample lines of all formats."""
    return [sample["line"] for entry in formats().values() for sample in entry["samples"]]


def rows(parsed: Parsed) -> list[dict[str, Any]]:
    """Return events as rows, their times in ms."""
    epoch, millisecond = datetime.datetime(1970, 1, 1), datetime.timedelta(milliseconds=1)
    return [row | {"ts": (row["ts"] - epoch) // millisecond} for row in parsed.events.to_dicts()]
