"""What an intruder with access to the disks could do: change a cell of a stored result, or an event in an archive.

Both leave every checksum as it should be: only a computation of one's own can find them.
"""

from __future__ import annotations

import hashlib
import pathlib
from dataclasses import dataclass

import msgspec
import polars as pl

from elf.agents.archive.layout import ArchivedFile, list_files, manifest_path
from elf.agents.jobs.plan import compile_job
from elf.agents.store.database import Database
from elf.agents.store.panes import Kind, Panes
from elf.agents.wire.records import JobRecord
from elf.cbt import decode, encode


@dataclass(frozen=True)
class Changed:
    """Whose cell or event was changed, and where."""

    user: str
    file: str


def change_cell(data: list[pathlib.Path], job: str, interval: int) -> tuple[str, int]:
    """Count one more event of a user in an interval of a job that counts by users, in every copy.

    Args:
        data: data folders of agents that do not run.
        job: the job's name.
        interval: number of the interval.

    Returns:
        The user, and how many copies there were.
    """
    users: list[str] = []
    for folder in data:
        database = Database(folder / "state.db")
        try:
            users += _change(Panes(database), job, interval)
        finally:
            database.close()
    assert len(set(users)) == 1, f"interval {interval} has no copies that say the same: {users}"
    return users[0], len(users)


def _change(store: Panes, job: str, interval: int) -> list[str]:
    """Change what one agent has; return the user, or nothing if it has no copy."""
    for app, body, _ in store.masters():
        record = JobRecord.decode(body)
        if record.definition.name != job or interval not in store.intervals(app, Kind.PANE):
            continue
        schema = compile_job(record.definition, record.definition.types).schema
        rows = decode(store.block(app, Kind.PANE, interval), schema)
        key, count = schema.keys[0][0], f"{schema.aggregates[0][0]}_n"
        user = rows[key].min()
        more = pl.col(count) + (pl.col(key) == user).fill_null(value=False).cast(pl.Int64)
        store.replace(app, {(Kind.PANE, interval): encode(rows.with_columns(more))}, [])
        return [str(user)]
    return []


def change_event(archive: pathlib.Path, source: str, start_ms: int, end_ms: int) -> Changed:
    """Make one event of a time cheaper by a cent in an archive, manifest and all; return whose it was."""
    for file in list_files(archive, source, start_ms, end_ms):
        rows = pl.read_parquet(file.path, hive_partitioning=False)
        inside = pl.col("ts").dt.epoch("ms").is_between(start_ms, end_ms, closed="left") & pl.col("user").is_not_null()
        found = rows.with_row_index("place").filter(inside)
        if found.height:
            # Whoever comes first in the alphabet comes often, so that results tell of them.
            place, user = found.sort("user").select("place", "user").row(0)
            cheaper = pl.col("price_cents") - (pl.int_range(pl.len()) == place).cast(pl.Int64)
            _write(file, rows.with_columns(cheaper))
            return Changed(user, file.path.name)
    raise AssertionError(f"the archive has no event of somebody between {start_ms} and {end_ms}")


def _write(file: ArchivedFile, rows: pl.DataFrame) -> None:
    rows.write_parquet(file.path, compression="zstd")
    data = file.path.read_bytes()
    entry = msgspec.structs.replace(file.entry, bytes=len(data), sha256=hashlib.sha256(data).hexdigest())
    manifest_path(file.path).write_bytes(msgspec.json.encode(entry))
