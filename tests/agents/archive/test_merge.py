"""Merged hours: at every step of a merge, and wherever it dies, a reader finds each event once."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import elf.agents.archive.layout
from elf.agents.archive.archive import Archive
from elf.agents.archive.inventory import list_held
from elf.agents.archive.keeper import Keeper
from elf.agents.archive.layout import (
    MERGED,
    ArchivedFile,
    ArchiveError,
    FileEntry,
    check_file,
    list_files,
    source_folder,
)
from elf.agents.archive.merge import GRACE_MS, MERGED_ROWS_MAX, QUIET_MS, plan_merges
from elf.agents.archive.removed import read_removed
from elf.agents.host.disk_damage import Damages
from elf.agents.sources.raw_texts import raw_name
from tests.agents.archive.archived import read_archive
from tests.agents.archive.numbered import START_MS, checkpoint, numbered

if TYPE_CHECKING:
    from tests.agents.archive.conftest import Disk

MINUTE_MS = 60_000


class World:
    """One agent's archive of clicks, and a clock that is only moved by hand; `count` events are committed."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.count, self.sequence = folder, 0, 0
        self.now_ms = time.time_ns() // 1_000_000
        self.damages = Damages()
        self.restart()

    def restart(self) -> None:
        self.archive = Archive(self.folder, "clicks", "web-1", rows_max=1_000)
        self.archive.recover(self.sequence)
        self.keeper = Keeper(self.folder, "web-1", ["clicks"], 30 * 86_400_000, None, lambda: self.now_ms, self.damages)

    def log(self, rows: int, **columns: pl.Expr) -> None:
        """Archive more events of the first hour, with one checkpoint."""
        number = pl.int_range(self.count, self.count + rows, eager=True)
        self.sequence, self.count = self.sequence + 1, self.count + rows
        checkpoint(self.archive, self.sequence, numbered(number, START_MS + number).with_columns(**columns))

    def turns(self) -> None:
        """Let an hour pass, with a turn of the keeper each quarter."""
        for _ in range(4):
            self.now_ms += QUIET_MS + MINUTE_MS
            self.keeper.turn()

    def is_whole(self) -> bool:
        return numbers(self.folder) == list(range(self.count))

    def files(self) -> list[str]:
        return sorted(path.relative_to(self.folder).as_posix() for path in self.folder.rglob("*") if path.is_file())


def test_texts_of_values_that_do_not_fit_make_no_files_of_their_own(tmp_path: Path) -> None:
    world, raw = World(tmp_path), raw_name("number")
    world.log(3)
    unfit = numbered(pl.Series([None, 4], dtype=pl.Int64), pl.Series([START_MS, START_MS + 3_600_000]))
    world.archive.append(unfit.with_columns(pl.Series(raw, ["n/a", None])))
    world.log(2)
    first, second, later = list_files(tmp_path, "clicks")
    assert [raw in file.entry.columns for file in (first, second, later)] == [False, True, False], "where there are any"
    world.turns()
    merged, alone = list_files(tmp_path, "clicks")
    events = pl.read_parquet(merged.path, hive_partitioning=False)
    assert events.columns == list(merged.entry.columns) == ["ts", "number", raw]
    assert sorted(events["number"].drop_nulls()) == [0, 1, 2, 3, 4] and events[raw].drop_nulls().to_list() == ["n/a"]
    assert alone.entry.columns.keys() == {"ts", "number"}
    assert read_archive(tmp_path, "clicks").columns == ["ts", "number"], "no column of the events'"


def numbers(folder: Path) -> list[int]:
    archived = read_archive(folder, "clicks")
    return sorted(archived["number"]) if archived.height else []


def test_small_files_of_a_quiet_hour_become_one(tmp_path: Path) -> None:
    world = World(tmp_path)
    for rows in (10, 20, 30):
        world.log(rows)
    world.log(5, price=pl.lit(1.5))
    world.keeper.turn()
    assert len(list_files(tmp_path, "clicks")) == 4, "not quiet yet"
    world.turns()
    files = list_files(tmp_path, "clicks")
    assert [(file.path.name, file.entry.rows) for file in files] == [
        ("web-1-0000000003-m000.parquet", 60),
        ("web-1-0000000004-000.parquet", 5),
    ]
    assert world.is_whole() and world.keeper.merged == 3
    for file in files:
        check_file(file)
        assert file.entry.path == file.path.relative_to(tmp_path).as_posix()
    assert len(world.files()) == 4, "two files and their manifests"
    with duckdb.connect() as base:
        relation = base.read_parquet(f"{tmp_path}/**/*.parquet", union_by_name=True)
        assert relation.count("*").fetchall() == [(65,)]


def test_readers_that_know_no_manifests_see_each_event_once_before_and_after(tmp_path: Path) -> None:
    world = World(tmp_path)
    for _ in range(3):
        world.log(10)
    for _ in range(5):
        world.now_ms += QUIET_MS // 2 + MINUTE_MS
        world.keeper.turn()
        visible = [path for path in source_folder(tmp_path, "clicks").glob("date=*/hour=*/[!_.]*.parquet")]
        assert sum(pl.read_parquet(path).height for path in visible) == 30


def test_whoever_listed_files_has_time_to_read_them(tmp_path: Path) -> None:
    world = World(tmp_path)
    for _ in range(3):
        world.log(10)
    for _ in range(6):
        listed = list_files(tmp_path, "clicks")
        world.now_ms += GRACE_MS - 1
        world.keeper.turn()
        assert sorted(n for file in listed for n in pl.read_parquet(file.path)["number"]) == list(range(30))
    assert [file.entry.rows for file in list_files(tmp_path, "clicks")] == [30]


def test_late_events_are_merged_too_and_a_large_file_is_not_written_anew_for_each(tmp_path: Path) -> None:
    world = World(tmp_path)
    for _ in range(4):
        world.log(100)
    world.turns()
    for _ in range(6):
        world.log(1)
        world.turns()
    assert world.is_whole()
    rows = [file.entry.rows for file in list_files(tmp_path, "clicks")]
    assert sorted(rows, reverse=True)[0] == 400 and len(rows) <= 4


def test_a_reader_at_any_step_finds_each_event_once(tmp_path: Path, disk: Disk) -> None:
    world, looks = World(tmp_path), 0
    for _ in range(3):
        world.log(4)
    world.log(3, price=pl.lit(1.5))
    world.log(3, price=pl.lit(1.5))

    def look() -> None:
        nonlocal looks
        looks += 1
        assert world.is_whole()

    disk.watch = look
    world.turns()
    disk.watch = lambda: None
    world.log(100)
    disk.watch = look
    world.turns()
    assert looks > 40


@pytest.mark.parametrize("links", [True, False])
def test_every_crash_point_of_a_merge_leaves_each_event_once(
    tmp_path: Path, disk: Disk, monkeypatch: pytest.MonkeyPatch, links: bool
) -> None:
    """Die at one operation, start again, recover and go on; for each operation, on file systems without links too."""
    if not links:

        def refuse(*_: object) -> None:
            raise OSError(1, "Operation not permitted")

        monkeypatch.setattr(Path, "hardlink_to", refuse)
    for point in range(1, 200):
        world, crashed = World(tmp_path / str(point)), False
        for _ in range(3):
            world.log(4)
        disk.left = point
        try:
            world.turns()
        except disk.Crash:
            crashed = True
        disk.left = -1
        assert world.is_whole(), point
        world.restart()
        assert world.is_whole(), point
        world.turns()
        assert world.is_whole(), point
        assert [file.entry.rows for file in list_files(world.folder, "clicks")] == [12], point
        assert len(world.files()) == 2, (point, world.files())
        assert not (source_folder(world.folder, "clicks") / MERGED).exists()
        if not crashed:
            break
    assert not crashed and point > 20, "the run has as many operations, and ends"


@pytest.mark.parametrize("moment", range(12))
def test_a_listing_is_one_moment_whatever_happens_while_it_is_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moment: int
) -> None:
    """Between any two looks of a listing the keeper may do all of its work."""
    world, hours, looks = World(tmp_path), elf.agents.archive.layout._hours, 0
    for _ in range(3):
        world.log(4)

    def look() -> None:
        nonlocal looks
        looks += 1
        if looks == moment:
            world.turns()

    def watched(root: Path, *bounds: Any) -> Iterator[Path]:
        for hour in hours(root, *bounds):
            look()
            yield hour
        look()

    monkeypatch.setattr(elf.agents.archive.layout, "_hours", watched)
    assert sum(file.entry.rows for file in list_files(tmp_path, "clicks")) == 12


def test_a_damaged_file_is_not_merged_and_said_once(tmp_path: Path) -> None:
    world = World(tmp_path)
    for _ in range(3):
        world.log(10)
    (damaged, *_) = list_files(tmp_path, "clicks")
    data = bytearray(damaged.path.read_bytes())
    data[len(data) // 2] ^= 1
    damaged.path.write_bytes(data)
    world.turns()
    assert world.damages.counts["archive"] == 1
    assert damaged.path.exists() and damaged.path.read_bytes() == bytes(data)
    with pytest.raises(ArchiveError, match="its bytes are not those"):
        check_file(damaged)


def test_a_merged_file_damaged_while_it_waits_is_dropped_for_its_parts(tmp_path: Path) -> None:
    world = World(tmp_path)
    for _ in range(3):
        world.log(10)
    world.now_ms += QUIET_MS + MINUTE_MS
    world.keeper.turn()
    (merged,) = list_files(tmp_path, "clicks")
    assert MERGED in merged.path.parts
    merged.path.write_bytes(b"PAR1")
    world.now_ms += GRACE_MS + MINUTE_MS
    world.keeper.turn()
    assert world.is_whole() and world.damages.counts["archive"] == 1


@pytest.mark.parametrize("waits", [True, False])
def test_merged_files_of_a_lost_checkpoint_are_set_aside(tmp_path: Path, waits: bool) -> None:
    """The state knows less than the archive: lines beyond it are read again, and what cannot be told apart is noted."""
    world = World(tmp_path)
    for _ in range(3):
        world.log(10)
    if waits:
        world.now_ms += QUIET_MS + MINUTE_MS
        world.keeper.turn()
    else:
        world.turns()
    world.sequence = 2
    world.restart()
    if waits:
        assert numbers(tmp_path) == list(range(20)) and read_removed(tmp_path, "clicks") == []
    else:
        assert numbers(tmp_path) == []
        assert read_removed(tmp_path, "clicks")[0].spans == ((START_MS, START_MS + 3_600_000),)
    assert not any(file.kind == "merged" for file in list_held(tmp_path, "web-1"))


def entry(sequence: int, rows: int, schema: int) -> ArchivedFile:
    name = f"web-1-{sequence:010d}-000.parquet"
    columns = {"ts": "TIMESTAMP", f"c{schema}": "INT"}
    return ArchivedFile(Path(name), FileEntry(name, "clicks", "web-1", sequence, rows, rows * 10, "", 0, 1, columns))


@given(st.lists(st.tuples(st.integers(1, MERGED_ROWS_MAX * 2), st.integers(0, 2)), max_size=30))
def test_planned_merges_are_bounded_and_of_one_schema(sizes: list[tuple[int, int]]) -> None:
    files = [entry(sequence, rows, schema) for sequence, (rows, schema) in enumerate(sizes)]
    planned = list(plan_merges(files))
    names = [file.entry.path for group in planned for file in group]
    assert len(names) == len(set(names))
    for group in planned:
        rows = [file.entry.rows for file in group]
        assert len(group) > 1 and sum(rows) <= MERGED_ROWS_MAX and max(rows) * 2 <= sum(rows)
        assert len({tuple(file.entry.columns) for file in group}) == 1


@given(st.lists(st.integers(1, 50), min_size=1, max_size=200))
def test_events_are_written_a_logarithmic_number_of_times(sizes: list[int]) -> None:
    """Files come one by one, and are merged each time it is worth it."""
    files: list[ArchivedFile] = []
    written = 0
    for sequence, rows in enumerate(sizes):
        files.append(entry(sequence, rows, 0))
        for group in list(plan_merges(files)):
            written += (merged := sum(file.entry.rows for file in group))
            files = [file for file in files if file not in group] + [entry(sequence, merged, 0)]
    assert len(files) <= 2 + sum(sizes).bit_length()
    assert written <= sum(sizes) * (2 + 2 * sum(sizes).bit_length())
