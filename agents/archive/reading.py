"""Reads archived events with Polars, in types that hold what each column was in any of the files."""

from __future__ import annotations

import io
from collections.abc import Iterable
from pathlib import Path

import polars as pl

from agents.archive.evolution import common_types
from agents.archive.layout import HOUR_MS, list_files
from agents.archive.place import Place
from agents.archive.removed import Span, join_spans
from agents.jobs.types import SqlType


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


def read_archive(
    folder: Place,
    source: str,
    start_ms: int | None = None,
    end_ms: int | None = None,
    columns: Iterable[str] | None = None,
) -> pl.DataFrame:
    """Return the visible events of a source with time in [start_ms, end_ms), in no particular order.

    Columns that a file lacks are null in its events; times are naive UTC, as in event frames. With `columns`, only `ts`
    and these are read.

    Raises:
        ArchiveError: a manifest is missing or unreadable, or no type holds all that a column was.
    """
    files = list_files(folder, source, start_ms, end_ms)
    if not files:
        return pl.DataFrame(schema={"ts": pl.Datetime("ms")})
    types = common_types(files, columns)
    frames = []
    for file in files:
        held = [name for name in types if name in file.entry.columns]
        frame = pl.read_parquet(parquet_of(file.path), columns=held, hive_partitioning=False)
        frame = frame.with_columns(pl.selectors.datetime(time_zone="UTC").dt.replace_time_zone(None))
        casts = (
            pl.col(name).cast(SqlType.parse(types[name]).dtype)
            for name in held
            if file.entry.columns[name] != types[name]
        )
        frames.append(frame.with_columns(casts))
    events = pl.concat(frames, how="diagonal")
    at_ms = pl.col("ts").dt.epoch("ms")
    if start_ms is not None:
        events = events.filter(at_ms >= start_ms)
    return events if end_ms is None else events.filter(at_ms < end_ms)
