"""The archive: events are visible exactly when their checkpoint is committed, wherever the agent dies."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Protocol

import duckdb
import polars as pl
import pytest

import elf.agents.host.disk
from elf.agents.archive.archive import (
    HELD_BYTES_MAX,
    HOURS_MAX,
    Archive,
    ArchiveError,
    Recovery,
    check_file,
    list_files,
)
from elf.agents.archive.layout import MIXED, manifest_path, safe_name
from elf.agents.language.codes import Codes
from tests.agents.archive.archived import read_archive


class Disk(Protocol):
    """The disk of `conftest`, which ends the process in the middle of an operation."""

    Crash: type[BaseException]
    left: int


START_MS = 1_767_225_600_000
HOUR_MS = 3_600_000


def events(first: int, count: int, step_ms: int = 1_000) -> pl.DataFrame:
    number = pl.int_range(first, first + count, eager=True)
    return pl.DataFrame(
        {
            "ts": pl.from_epoch(START_MS + number * step_ms, time_unit="ms"),
            "number": number,
            "product": [f"p{n % 7}" if n % 5 else None for n in number],
        },
        schema={"ts": pl.Datetime("ms"), "number": pl.Int64(), "product": pl.String()},
    )


def open_archive(folder: Path, agent: str = "web-1", rows_max: int = 1_000) -> Archive:
    return Archive(folder, "clicks", agent, rows_max=rows_max)


def numbers(folder: Path) -> list[int]:
    archived = read_archive(folder, "clicks")
    return sorted(archived["number"]) if archived.height else []


def hidden(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.rglob("_*"))


def test_events_come_back_as_they_went_in(tmp_path: Path) -> None:
    archive, wanted = open_archive(tmp_path), events(0, 5_000)
    archive.append(wanted.slice(0, 100))
    archive.append(wanted.slice(100))
    manifest = archive.prepare(1)
    archive.commit(1)
    archived = read_archive(tmp_path, "clicks")
    assert archived.schema == wanted.schema
    assert archived.sort("number").equals(wanted)
    assert sum(file.rows for file in manifest.files) == 5_000
    assert len(manifest.files) == 2
    assert [file.path for file in sorted(manifest.files, key=lambda file: file.first_ms)] == [
        "source=clicks/date=2026-01-01/hour=00/web-1-0000000001-000.parquet",
        "source=clicks/date=2026-01-01/hour=01/web-1-0000000001-001.parquet",
    ]
    assert hidden(tmp_path) == []


def test_nothing_is_visible_before_its_commit(tmp_path: Path) -> None:
    archive = open_archive(tmp_path, rows_max=10)
    archive.append(events(0, 25))
    assert numbers(tmp_path) == []
    archive.prepare(1)
    assert numbers(tmp_path) == []
    assert all(name.startswith("_pending-") for name in hidden(tmp_path))
    archive.append(events(25, 25))
    archive.commit(1)
    assert numbers(tmp_path) == list(range(25))
    archive.commit(1)
    open_archive(tmp_path).recover(1)
    assert numbers(tmp_path) == list(range(25)) and hidden(tmp_path) == []


def test_sequences_must_rise(tmp_path: Path) -> None:
    archive = open_archive(tmp_path)
    archive.recover(4)
    with pytest.raises(ValueError, match="must rise"):
        archive.prepare(4)
    assert archive.prepare(5).files == archive.prepare(5).files == (), "repeated, it does nothing"


def test_memory_is_bounded_by_rows(tmp_path: Path) -> None:
    archive = open_archive(tmp_path, rows_max=100)
    archive.append(events(0, 99))
    assert hidden(tmp_path) == []
    archive.append(events(99, 1))
    assert hidden(tmp_path) == ["_staged-web-1-1.parquet"]
    archive.append(events(100, 1))
    archive.prepare(1)
    archive.commit(1)
    assert numbers(tmp_path) == list(range(101))


def test_memory_is_bounded_by_bytes(tmp_path: Path) -> None:
    archive, count = open_archive(tmp_path, rows_max=1_000_000), 0
    while not hidden(tmp_path):
        archive.append(events(count, 10).with_columns(note=pl.lit("x" * 100_000)))
        count += 10
    assert count * 100_000 < HELD_BYTES_MAX + 2_000_000
    archive.append(events(count, 10))
    assert len(hidden(tmp_path)) == 1
    archive.prepare(1)
    archive.commit(1)
    assert numbers(tmp_path) == list(range(count + 10))


def test_a_disk_that_refuses_at_the_bound_loses_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    archive = open_archive(tmp_path, rows_max=100)

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("elf.agents.host.disk.write_durably", full)
        archive.append(events(0, 100))
        archive.append(events(100, 1).with_columns(note=pl.lit("x")))
        with pytest.raises(OSError, match="No space"):
            archive.prepare(1)
    archive.prepare(1)
    archive.commit(1)
    assert numbers(tmp_path) == list(range(101))


def test_columns_may_come_and_go(tmp_path: Path) -> None:
    archive = open_archive(tmp_path)
    archive.append(events(0, 2))
    archive.append(events(2, 2).with_columns(price=pl.lit(1.5)))
    archive.append(events(4, 2).drop("product"))
    archive.prepare(1)
    archive.commit(1)
    archived = read_archive(tmp_path, "clicks").sort("number")
    assert archived["price"].to_list() == [None, None, 1.5, 1.5, None, None]
    assert archived["product"].to_list() == [None, "p1", "p2", "p3", None, None]
    assert {file.entry.columns.get("price") for file in list_files(tmp_path, "clicks")} == {None, "DOUBLE"}


def test_a_type_no_job_can_read_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ArchiveError, match=r"column 'tags' of type List.*cast it to one of"):
        open_archive(tmp_path).append(events(0, 1).with_columns(tags=pl.lit([1])))


def test_a_range_reads_the_files_that_may_hold_it(tmp_path: Path) -> None:
    archive = open_archive(tmp_path)
    archive.append(events(0, 300, step_ms=60_000))
    archive.prepare(1)
    archive.commit(1)
    start_ms, end_ms = START_MS + HOUR_MS, START_MS + HOUR_MS + 120_000
    assert sorted(read_archive(tmp_path, "clicks", start_ms, end_ms)["number"]) == [60, 61]
    assert [file.path.parent.name for file in list_files(tmp_path, "clicks", start_ms, end_ms)] == ["hour=01"]
    assert list_files(tmp_path, "clicks", START_MS - 10 * HOUR_MS, START_MS) == []
    assert read_archive(tmp_path, "other").is_empty()


def test_nonsense_times_cannot_create_folders_without_end(tmp_path: Path) -> None:
    archive = open_archive(tmp_path, rows_max=10_000)
    spread = events(0, 500, step_ms=24 * HOUR_MS)
    odd = events(500, 3).with_columns(
        ts=pl.Series([datetime(1, 1, 1), datetime(1969, 12, 31), datetime(9999, 12, 31)]).cast(pl.Datetime("ms"))
    )
    archive.append(pl.concat([spread, odd]))
    archive.prepare(1)
    archive.commit(1)
    assert numbers(tmp_path) == list(range(503))
    assert len(list((tmp_path / "source=clicks").glob("*/*"))) == HOURS_MAX + 1
    assert (tmp_path / "source=clicks" / f"date={MIXED}" / f"hour={MIXED}").is_dir()
    start_ms = START_MS + 490 * 24 * HOUR_MS
    assert sorted(read_archive(tmp_path, "clicks", start_ms, start_ms + 1)["number"]) == [490]


@pytest.mark.parametrize("name", ["../../etc", "a/b", "127.0.0.1:4250", "", ".hidden", "_pending-x", "é", "x" * 200])
def test_no_name_leaves_the_folder(tmp_path: Path, name: str) -> None:
    folder = tmp_path / "archive"
    archive = Archive(folder, name, name, rows_max=10)
    archive.append(events(0, 3))
    archive.prepare(1)
    archive.commit(1)
    assert read_archive(folder, name).height == 3
    assert [path.name for path in tmp_path.iterdir()] == ["archive"]
    assert len(list(folder.iterdir())) == 1 and ":" not in safe_name(name)
    assert safe_name(name) != safe_name(name + "x")


def test_agents_share_a_folder_without_touching_each_other(tmp_path: Path) -> None:
    one, two = open_archive(tmp_path, "a"), open_archive(tmp_path, "a-1")
    one.append(events(0, 2))
    two.append(events(2, 2))
    one.prepare(1)
    two.prepare(1)
    assert open_archive(tmp_path, "a").recover(1) == Recovery(finished=1)
    assert numbers(tmp_path) == [0, 1]
    two.commit(1)
    assert numbers(tmp_path) == [0, 1, 2, 3]


def test_files_of_a_lost_checkpoint_are_set_aside(tmp_path: Path) -> None:
    archive = open_archive(tmp_path)
    for sequence in (1, 2):
        archive.append(events(sequence, 1))
        archive.prepare(sequence)
        archive.commit(sequence)
    assert open_archive(tmp_path).recover(1) == Recovery(orphaned=1)
    assert numbers(tmp_path) == [1]
    assert [name for name in hidden(tmp_path) if name.endswith("parquet")] == ["_orphan-web-1-0000000002-000.parquet"]


def test_a_changed_file_and_a_lost_manifest_are_named(tmp_path: Path) -> None:
    archive = open_archive(tmp_path)
    archive.append(events(0, 2))
    archive.prepare(1)
    archive.commit(1)
    (file,) = list_files(tmp_path, "clicks")
    check_file(file)
    events(5, 1).write_parquet(file.path)
    with pytest.raises(ArchiveError, match=r"web-1-0000000001-000\.parquet: its bytes are not those that agent web-1"):
        check_file(file)
    manifest_path(file.path).unlink()
    with pytest.raises(ArchiveError, match="manifest"):
        list_files(tmp_path, "clicks")


def test_other_engines_read_the_folder(tmp_path: Path) -> None:
    archive = open_archive(tmp_path)
    archive.append(events(0, 4_000))
    archive.prepare(1)
    archive.commit(1)
    with duckdb.connect() as base:
        relation = base.read_parquet(f"{tmp_path}/**/*.parquet", hive_partitioning=True)
        counts = relation.count("*", groups="hour", projected_columns="hour").fetchall()
    assert sorted(counts) == [("00", 3_600), ("01", 400)]


class Agent:
    """The agent's loop around its archive: `committed` stands for SQLite, `lines` for the log file."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.committed, self.offset, self.lines = folder, 0, 0, 40

    def run(self) -> None:
        """Start, recover and archive the rest of the log, in checkpoints of 20 lines that span two hours."""
        archive = open_archive(self.folder, rows_max=15)
        archive.recover(self.committed)
        assert numbers(self.folder) == list(range(self.offset))
        for first in range(self.offset, self.lines, 20):
            archive.append(events(first, 10, step_ms=HOUR_MS // 15))
            archive.append(events(first + 10, 10, step_ms=HOUR_MS // 15))
            archive.prepare(self.committed + 1)
            self.committed, self.offset = self.committed + 1, first + 20
            archive.commit(self.committed)


@pytest.mark.parametrize("second", [1, 2, 5])
def test_every_crash_point_leaves_each_event_once(tmp_path: Path, disk: Disk, second: int) -> None:
    """Die at operation `first`, start and die again at operation `second`, start and finish; for every `first`."""
    for first in range(1, 200):
        agent, crashes = Agent(tmp_path / str(first)), 0
        for point in (first, second, -1):
            disk.left = point
            try:
                agent.run()
            except disk.Crash:
                crashes += 1
        assert numbers(agent.folder) == list(range(agent.lines)), first
        assert hidden(agent.folder) == [], first
        for file in list_files(agent.folder, "clicks"):
            check_file(file)
        if crashes == 0:
            break
    assert first > 40, "the run has as many operations, and ends"
    assert crashes == 0


@pytest.mark.parametrize("part", ["data", "manifest"])
def test_a_file_damaged_before_it_became_visible_is_set_aside(tmp_path: Path, part: str) -> None:
    archive = open_archive(tmp_path)
    archive.append(events(0, 10))
    archive.prepare(1)
    (path,) = tmp_path.rglob("_pending-*.parquet" if part == "data" else "_pending-.*.json")
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 64
    path.write_bytes(data)
    assert open_archive(tmp_path).recover(1) == Recovery(damaged=1)
    assert numbers(tmp_path) == []
    assert len(hidden(tmp_path)) == 2 and all(name.startswith("_damaged-") for name in hidden(tmp_path))
    assert open_archive(tmp_path).recover(1) == Recovery()


def test_the_files_of_a_lost_state_are_set_aside_once(tmp_path: Path) -> None:
    for agent in ("old", "other"):
        archive = open_archive(tmp_path, agent)
        archive.append(events(0, 10))
        archive.prepare(1)
        archive.commit(1)
    assert open_archive(tmp_path, "new").recover(-1, "old") == Recovery(orphaned=1)
    assert numbers(tmp_path) == list(range(10)), "of the other agent"
    assert open_archive(tmp_path, "new").recover(-1, "old") == Recovery()


def test_a_full_disk_loses_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    archive = open_archive(tmp_path)
    archive.append(events(0, 4_000))
    write = elf.agents.host.disk.write_durably
    calls = iter(range(10))

    def refuse_second(path: Path, data: bytes, written_ns: int | None = None) -> None:
        if next(calls) == 1:
            raise OSError(28, "No space left on device")
        write(path, data, written_ns)

    monkeypatch.setattr(elf.agents.host.disk, "write_durably", refuse_second)
    with pytest.raises(OSError, match="No space"):
        archive.append(events(4_000, 1))
        archive.prepare(1)
    monkeypatch.setattr(elf.agents.host.disk, "write_durably", write)
    archive.prepare(1)
    archive.commit(1)
    assert numbers(tmp_path) == list(range(4_001))
    assert hidden(tmp_path) == []


def test_codes_come_back_as_texts_whatever_reads_them(tmp_path: Path) -> None:
    one, other = Codes(), Codes()
    parts = [events(first, 100) for first in (0, 100, 200, 300)]
    archive = open_archive(tmp_path, rows_max=10_000)
    for part, codes in zip(parts, (one, one, other, None), strict=True):
        archive.append(part if codes is None else part.with_columns(codes.of(part["product"])))
    manifest = archive.prepare(1)
    archive.commit(1)
    assert [file.columns["product"] for file in manifest.files] == ["STRING"]
    wanted = pl.concat(parts)
    assert read_archive(tmp_path, "clicks").sort("number").equals(wanted)
    (file,) = list_files(tmp_path, "clicks")
    check_file(file)
    assert pl.read_parquet(file.path)["product"].to_list() == wanted["product"].to_list()
    assert pl.read_parquet_schema(file.path)["product"] == pl.String
    found = duckdb.sql(f"SELECT product, typeof(product) FROM '{file.path}' ORDER BY number").fetchall()
    assert found == [(product, "VARCHAR") for product in wanted["product"]]
    assert pl.read_parquet_schema(file.path)["ts"] == pl.Datetime("ms", "UTC")
