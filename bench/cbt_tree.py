"""elf's buffer tree as the benchmarks use it: one String key, one count, and settings given by name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl

from elf.cbt.aggregates import aggregate
from elf.cbt.schema import PaoSchema
from elf.cbt.settings import TreeSettings
from elf.cbt.tree import BufferTree


def schema() -> PaoSchema:
    """Return the schema of the frames that `Input.frame` makes."""
    return PaoSchema(keys=(("key", pl.String()),), aggregates=(("a0", aggregate("count")),))


def make_tree(settings: dict[str, Any]) -> BufferTree:
    """Return an empty tree of that schema."""
    if folder := settings.get("spill_folder"):
        settings = settings | {"spill_folder": Path(folder)}
    return BufferTree(schema(), TreeSettings(**settings))
