"""A small archive of the shop's clicks by two agents, and the same events as a frame."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import polars as pl
import pytest

from elf.agents.archive.archive import Archive
from elf.demo import clicks
from elf.demo.clicks import START_MS, generate

COLUMNS = {**clicks.COLUMNS, "quantity": "INT", "rating": "DOUBLE"}


@dataclass(frozen=True)
class Shop:
    """Two agents' archives and the events in them."""

    folders: list[Path]
    events: pl.DataFrame
    columns: dict[str, str]


def click_frame(seed: int, count: int) -> pl.DataFrame:
    """Two minutes of clicks as an event frame, with a rating that is sometimes missing."""
    text = b"".join(generate(seed, count, START_MS, count / 120))
    at = pl.col("ts").str.to_datetime("%Y-%m-%dT%H:%M:%S%.3fZ", time_unit="ms")
    rating = pl.when(pl.col("quantity") > 2).then(None).otherwise(pl.col("price_cents") % 50 / 10)
    frame = pl.read_ndjson(text).with_columns(at, pl.col("quantity").cast(pl.Int32), rating=rating)
    return frame.select("ts", *COLUMNS)


@pytest.fixture(scope="session")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Shop:
    folders, frames = [], []
    for number in (1, 2):
        folder = tmp_path_factory.mktemp(f"agent{number}")
        events = click_frame(number, 6_000)
        archive = Archive(folder, "clicks", f"web-{number}", rows_max=2_000)
        for sequence in range(2):
            archive.append(events.slice(sequence * 3_000, 3_000))
            archive.prepare(sequence)
            archive.commit(sequence)
        folders.append(folder)
        frames.append(events)
    return Shop(folders, pl.concat(frames), COLUMNS)
