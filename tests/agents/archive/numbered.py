"""Numbered events of January 2026, archived with a checkpoint."""

from __future__ import annotations

import polars as pl

from elf.agents.archive.archive import Archive

START_MS = 1_767_225_600_000


def numbered(number: pl.Series, at_ms: pl.Series) -> pl.DataFrame:
    """Events with a number and a time each."""
    return pl.DataFrame({"ts": pl.from_epoch(at_ms, time_unit="ms").cast(pl.Datetime("ms")), "number": number})


def checkpoint(archive: Archive, sequence: int, events: pl.DataFrame) -> None:
    """Archive events and commit them."""
    archive.append(events)
    archive.prepare(sequence)
    archive.commit(sequence)
