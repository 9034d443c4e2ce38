"""Reads archived events with Polars, in types that hold what each column was in any of the files."""

from __future__ import annotations

from collections.abc import Iterable

import polars as pl

from elf.agents.archive.evolution import common_types
from elf.agents.archive.layout import list_files
from elf.agents.archive.place import Place
from elf.agents.archive.reader import parquet_of
from elf.agents.language.types import SqlType


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
