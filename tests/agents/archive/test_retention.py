"""Retention: the bounds hold, what is not committed stays, and what goes is on record before it goes."""

from __future__ import annotations

import itertools
import os
import time
from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import elf.agents.host.disk
from elf.agents.archive.archive import Archive
from elf.agents.archive.inventory import Held, list_held
from elf.agents.archive.keeper import Keeper
from elf.agents.archive.layout import HOUR_MS, ArchiveError, list_files, source_folder
from elf.agents.archive.removed import EVER_MS, add_removed, join_spans, read_removed
from elf.agents.archive.retention import choose
from elf.agents.host.disk_damage import Damages
from tests.agents.archive.archived import read_archive
from tests.agents.archive.numbered import START_MS, checkpoint, numbered

if TYPE_CHECKING:
    from tests.agents.archive.conftest import Disk

DAY_MS = 86_400_000


def fill(folder: Path, hours: int, agent: str = "web-1", source: str = "clicks") -> Archive:
    """Archive ten events of each hour, with a checkpoint each."""
    archive = Archive(folder, source, agent, rows_max=1_000)
    for hour in range(hours):
        number = pl.int_range(hour * 10, hour * 10 + 10, eager=True)
        checkpoint(archive, hour + 1, numbered(number, START_MS + hour * HOUR_MS + number))
    return archive


def keeper(folder: Path, *, retain_ms: int | None = None, bytes_max: int | None = None, later_ms: int = 0) -> Keeper:
    now_ms = time.time_ns() // 1_000_000 + later_ms
    return Keeper(folder, "web-1", ["clicks"], retain_ms, bytes_max, lambda: now_ms, Damages())


def hours_left(folder: Path, source: str = "clicks") -> list[int]:
    archived = read_archive(folder, source)
    return sorted(archived["number"] // 10)[::10] if archived.height else []


def age(folder: Path, hours: int, days: int) -> None:
    """Have the files of the first hours written so many days ago."""
    then = time.time() - days * 86_400
    for file in list_files(folder, "clicks"):
        if file.entry.first_ms < START_MS + hours * HOUR_MS:
            os.utime(file.path, (then, then))


def test_old_files_go_and_are_on_record(tmp_path: Path) -> None:
    fill(tmp_path, 5)
    age(tmp_path, 2, days=8)
    keeper(tmp_path, retain_ms=7 * DAY_MS).turn()
    assert hours_left(tmp_path) == [2, 3, 4]
    (removed,) = read_removed(tmp_path, "clicks")
    assert (removed.agent, removed.spans) == ("web-1", ((START_MS, START_MS + 2 * HOUR_MS),))
    assert removed.between(START_MS + HOUR_MS, None) == [(START_MS + HOUR_MS, START_MS + 2 * HOUR_MS)]
    assert removed.between(None, START_MS) == [] == removed.between(START_MS + 2 * HOUR_MS, None)
    assert sorted(path.name for path in tmp_path.glob("*/date=*/hour=*")) == ["hour=02", "hour=03", "hour=04"]


def test_the_oldest_hours_of_all_sources_make_room(tmp_path: Path) -> None:
    fill(tmp_path, 4)
    fill(tmp_path, 4, source="views")
    one_byte_short = sum(file.bytes for file in list_held(tmp_path, "web-1")) - 1
    keeping = keeper(tmp_path, bytes_max=one_byte_short)
    keeping.turn()
    assert (hours_left(tmp_path), hours_left(tmp_path, "views")) == ([1, 2, 3], [0, 1, 2, 3])
    assert keeping.bytes <= one_byte_short and keeping.removed_bytes > 0
    keeper(tmp_path, bytes_max=one_byte_short // 2).turn()
    assert (hours_left(tmp_path), hours_left(tmp_path, "views")) == ([3], [2, 3])


def test_a_backlog_is_kept_as_long_as_what_is_logged_today(tmp_path: Path) -> None:
    fill(tmp_path, 2)
    keeper(tmp_path, retain_ms=DAY_MS, later_ms=DAY_MS - HOUR_MS).turn()
    assert hours_left(tmp_path) == [0, 1], "of January, written just now"
    keeper(tmp_path, retain_ms=DAY_MS, later_ms=DAY_MS + HOUR_MS).turn()
    assert hours_left(tmp_path) == []


def test_times_ahead_do_not_keep_anything(tmp_path: Path) -> None:
    archive = fill(tmp_path, 3)
    checkpoint(archive, 9, numbered(pl.Series([90]), pl.Series([START_MS + 10 * 365 * DAY_MS])))
    (ahead,) = (file for file in list_files(tmp_path, "clicks") if file.entry.sequence == 9)
    os.utime(ahead.path, (START_MS / 1000 - 9, START_MS / 1000 - 9))
    keeper(tmp_path, bytes_max=sum(file.bytes for file in list_held(tmp_path, "web-1")) - 1).turn()
    assert hours_left(tmp_path) == [0, 1, 2], "the hour ten years ahead was written before"


def test_what_is_not_committed_stays(tmp_path: Path) -> None:
    archive = fill(tmp_path, 2)
    archive.append(read_archive(tmp_path, "clicks").with_columns(pl.col("number") + 100))
    archive.prepare(9)
    keeper(tmp_path, bytes_max=1).turn()
    assert hours_left(tmp_path) == []
    archive.commit(9)
    assert hours_left(tmp_path) == [10, 11]


def test_other_agents_files_stay_and_set_aside_ones_go_first(tmp_path: Path) -> None:
    fill(tmp_path, 2)
    fill(tmp_path, 2, agent="web-2")
    Archive(tmp_path, "clicks", "web-3", rows_max=10).recover(-1, "web-2")
    assert len(list(tmp_path.rglob("_orphan-*"))) == 4
    used = sum(file.bytes for file in list_held(tmp_path, "web-1"))
    keeper(tmp_path, bytes_max=used - 1).turn()
    assert hours_left(tmp_path) == [0, 1] and len(list(tmp_path.rglob("_orphan-*"))) == 2
    fill(tmp_path, 2, agent="web-2")
    keeper(tmp_path, bytes_max=1).turn()
    assert [file.entry.agent for file in list_files(tmp_path, "clicks")] == ["web-2", "web-2"]


def test_mixed_hours_are_noted_one_by_one(tmp_path: Path) -> None:
    archive = Archive(tmp_path, "clicks", "web-1", rows_max=1_000)
    number = pl.int_range(0, 60, eager=True)
    checkpoint(archive, 1, numbered(number, START_MS + number * 30 * DAY_MS))
    keeper(tmp_path, bytes_max=1).turn()
    (removed,) = read_removed(tmp_path, "clicks")
    assert len(removed.spans) == 60
    assert removed.between(START_MS + 55 * 30 * DAY_MS, None)[0] == (
        START_MS + 55 * 30 * DAY_MS,
        START_MS + 55 * 30 * DAY_MS + HOUR_MS,
    )


def test_every_crash_point_leaves_on_record_what_is_gone(tmp_path: Path, disk: Disk) -> None:
    """Die at one operation of a removal; what is missing then is noted, and the next turn goes on."""

    def check() -> None:
        spans = [span for removed in read_removed(folder, "clicks") for span in removed.spans]
        for hour in {0, 1, 2} - set(hours_left(folder)):
            assert any(start <= START_MS + hour * HOUR_MS < end for start, end in spans), (point, hour)

    for point in range(1, 100):
        folder, crashed = tmp_path / str(point), False
        fill(folder, 3)
        keep = sum(file.bytes for file in list_held(folder, "web-1")) // 3
        disk.left, disk.watch = point, check
        try:
            keeper(folder, bytes_max=keep).turn()
        except disk.Crash:
            crashed = True
        disk.left, disk.watch = -1, lambda: None
        check()
        Archive(folder, "clicks", "web-1", rows_max=10).recover(3)
        check()
        keeper(folder, bytes_max=keep).turn()
        check()
        assert hours_left(folder) == [2]
        assert not [path for path in folder.rglob("_*") if not path.name.startswith("_new-.removed")]
        if not crashed:
            break
    assert not crashed and point > 10


def test_a_full_disk_gets_room_and_a_note(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As long as no byte can be written nothing is forgotten, and files give their bytes back before the note is."""
    fill(tmp_path, 3)
    write, refused = elf.agents.host.disk.write_durably, 1

    def full(path: Path, data: bytes, written_ns: int | None = None) -> None:
        nonlocal refused
        refused -= 1
        if refused >= 0:
            raise OSError(28, "No space left on device")
        write(path, data, written_ns)

    monkeypatch.setattr(elf.agents.host.disk, "write_durably", full)
    keeper(tmp_path, bytes_max=1).turn()
    assert read_removed(tmp_path, "clicks")[0].spans == ((START_MS, START_MS + 3 * HOUR_MS),)
    assert list_held(tmp_path, "web-1") == []
    fill(tmp_path, 5)
    refused = 2
    with pytest.raises(OSError, match="No space"):
        keeper(tmp_path, bytes_max=1).turn()
    assert {(file.kind, file.bytes < 4_097) for file in list_held(tmp_path, "web-1")} == {("going", True)}
    keeper(tmp_path, bytes_max=1).turn()
    assert read_removed(tmp_path, "clicks")[0].spans == ((START_MS, START_MS + 5 * HOUR_MS),)
    assert list_held(tmp_path, "web-1") == []


def test_a_damaged_record_is_said_to_readers_and_begun_anew_with_all_that_was(tmp_path: Path) -> None:
    root = source_folder(tmp_path, "clicks")
    add_removed(root, "web-1", [(0, 10)])
    (record,) = root.glob(".removed-*.json")
    record.write_bytes(b"{")
    with pytest.raises(ArchiveError, match="record of removed hours cannot be read"):
        read_removed(tmp_path, "clicks")
    add_removed(root, "web-1", [(20, 30)])
    assert read_removed(tmp_path, "clicks")[0].spans == ((EVER_MS, 30),)


spans = st.lists(st.tuples(st.integers(0, 200), st.integers(1, 20)).map(lambda s: (s[0], s[0] + s[1])), max_size=40)


@given(spans, st.integers(1, 50))
def test_joined_spans_cover_all_and_little_more(given_spans: list[tuple[int, int]], spans_max: int) -> None:
    joined = join_spans(given_spans, spans_max)
    assert len(joined) <= spans_max and joined == sorted(joined)
    assert all(one[1] < two[0] for one, two in itertools.pairwise(joined))
    covered = {at for start, end in joined for at in range(start, end)}
    wanted = {at for start, end in given_spans for at in range(start, end)}
    assert wanted <= covered
    if len(join_spans(given_spans)) <= spans_max:
        assert wanted == covered


files = st.lists(
    st.tuples(
        st.integers(0, 50),
        st.none() | st.integers(0, 90),
        st.integers(0, 60),
        st.sampled_from(["visible", "aside", "hidden", "merged", "going"]),
    ),
    max_size=20,
)


@given(files, st.integers(0, 100), st.none() | st.integers(0, 60), st.none() | st.integers(0, 400))
def test_what_is_chosen_meets_the_bounds(
    sizes: list[tuple[int, int | None, int, str]], now_ms: int, retain_ms: int | None, bytes_max: int | None
) -> None:
    held = [
        Held(Path(f"f{index:02d}"), Path("r"), hour, size, written, kind)
        for index, (size, hour, written, kind) in enumerate(sizes)
    ]
    chosen = choose(held, now_ms, retain_ms, bytes_max)
    left = [file for file in held if file not in chosen]
    assert not any(file.kind in ("hidden", "going") for file in chosen)
    removable = [file for file in left if file.kind not in ("hidden", "going")]
    if retain_ms is not None:
        assert all(file.written_ms >= now_ms - retain_ms for file in removable)
    if bytes_max is not None:
        assert sum(file.bytes for file in left) <= bytes_max or not removable
    young = [file for file in chosen if retain_ms is None or file.written_ms >= now_ms - retain_ms]
    if young:
        assert bytes_max is not None
        newest = max(young, key=lambda file: file.age_key)
        assert all(file.age_key >= newest.age_key for file in removable), "older hours go first"
        assert sum(file.bytes for file in left) + newest.bytes > bytes_max, "no more than there must"
