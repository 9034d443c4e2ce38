"""Reads files of archived events with Polars."""

from __future__ import annotations

import io
from pathlib import Path

import polars as pl

from elf.agents.archive.layout import HOUR_MS
from elf.agents.archive.place import Place
from elf.agents.archive.removed import Span, join_spans


def parquet_of(place: Place) -> Path | io.BytesIO:
    """Return a file as Polars reads it: one at a URL whole."""
    return place if isinstance(place, Path) else io.BytesIO(place.read_bytes())


def hours_in(path: Place) -> list[Span]:
    """Return the hours that a file's events are of, as half-open spans of event time, ascending and apart.

    Raises:
        OSError, PolarsError: it cannot be read.
    """
    at_ms = pl.read_parquet(parquet_of(path), columns=["ts"], hive_partitioning=False)["ts"].dt.epoch("ms")
    return join_spans((hour * HOUR_MS, (hour + 1) * HOUR_MS) for hour in (at_ms // HOUR_MS).unique())
