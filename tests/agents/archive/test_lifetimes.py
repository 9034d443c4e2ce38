"""An archive's life as a state machine: events come, checkpoints are lost, hours are merged and removed, the agent dies
in the middle of any of it. At any time a reader finds each committed event once, or its hour on record as removed."""

from __future__ import annotations

import os
import tempfile
import time
from pathlib import Path

import polars as pl
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from elf.agents.archive.archive import Archive
from elf.agents.archive.inventory import list_held
from elf.agents.archive.keeper import Keeper
from elf.agents.archive.layout import HOUR_MS, check_file, list_files
from elf.agents.archive.merge import GRACE_MS
from elf.agents.archive.removed import read_removed
from elf.agents.host.disk_damage import Damages
from tests.agents.archive.archived import read_archive
from tests.agents.archive.conftest import CrashError, Disk
from tests.agents.archive.numbered import START_MS, numbered

RETAIN_MS = 6 * HOUR_MS
STEPS = st.integers(1, 60)


class Lifetime(RuleBasedStateMachine):
    """One agent; `committed` stands for SQLite, and holds the hour of each event by its number."""

    def __init__(self) -> None:
        super().__init__()
        self.patch = pytest.MonkeyPatch()
        self.disk = Disk(self.patch)
        self.scratch = tempfile.TemporaryDirectory()
        self.folder = Path(self.scratch.name)
        self.now_ms = time.time_ns() // 1_000_000
        self.committed: dict[int, int] = {}
        self.sequence = 0
        self.bytes_max: int | None = None
        self.start()

    def teardown(self) -> None:
        self.patch.undo()
        self.scratch.cleanup()

    def start(self) -> None:
        self.disk.left = -1
        self.archive = Archive(self.folder, "clicks", "web-1", rows_max=20)
        self.archive.recover(self.sequence)
        self.damages = Damages()

    def keeper(self) -> Keeper:
        return Keeper(self.folder, "web-1", ["clicks"], RETAIN_MS, self.bytes_max, lambda: self.now_ms, self.damages)

    @rule(hour=st.integers(0, 2), rows=st.integers(1, 12), priced=st.booleans(), crash=st.none() | STEPS)
    def checkpoint(self, hour: int, rows: int, priced: bool, crash: int | None) -> None:
        """Archive events and commit them; or die before SQLite has them, or after."""
        first = max(self.committed, default=-1) + 1
        number = pl.int_range(first, first + rows, eager=True)
        events = numbered(number, START_MS + hour * HOUR_MS + number)
        self.disk.left = -1 if crash is None else crash
        before = set(self.folder.rglob("*.parquet"))
        try:
            self.archive.append(events.with_columns(price=pl.lit(1.5)) if priced else events)
            self.archive.prepare(self.sequence + 1)
            self.sequence += 1
            self.committed |= dict.fromkeys(number.to_list(), hour)
            self.archive.commit(self.sequence)
        except CrashError:
            self.start()
        self.disk.left = -1
        # They are written now, by the clock of this test.
        for path in set(self.folder.rglob("*.parquet")) - before:
            os.utime(path, (self.now_ms / 1000, self.now_ms / 1000))

    @rule(minutes=st.sampled_from([5, 16, 40, 200]))
    def wait(self, minutes: int) -> None:
        self.now_ms += minutes * 60_000

    @rule(crash=st.none() | STEPS)
    def turn(self, crash: int | None) -> None:
        """Let the keeper do its work; or die in the middle."""
        self.disk.left = -1 if crash is None else crash
        keeper = self.keeper()
        try:
            keeper.turn()
        except CrashError:
            self.start()
        else:
            assert self.bytes_max is None or keeper.bytes <= self.bytes_max
        self.disk.left = -1

    @rule()
    def read_slowly(self) -> None:
        """List files, let all be merged that can be within the grace, and read."""
        listed = list_files(self.folder, "clicks")
        wanted = sorted(number for file in listed for number in pl.read_parquet(file.path)["number"])
        retain, self.bytes_max, old = self.bytes_max, None, self.now_ms
        if all(file.written_ms + RETAIN_MS > self.now_ms + GRACE_MS for file in list_held(self.folder, "web-1")):
            for _ in range(2):
                self.now_ms += GRACE_MS // 2 - 1
                self.keeper().turn()
            assert sorted(n for file in listed for n in pl.read_parquet(file.path)["number"]) == wanted
        self.bytes_max, self.now_ms = retain, max(old, self.now_ms)

    @rule(files=st.none() | st.integers(1, 6))
    def bound(self, files: int | None) -> None:
        """Have room for so many small files."""
        self.bytes_max = None if files is None else files * 8_192

    @invariant()
    def each_event_is_there_once_or_its_hour_on_record(self) -> None:
        archived = read_archive(self.folder, "clicks")
        numbers = archived["number"].to_list() if archived.height else []
        assert len(numbers) == len(set(numbers)) and set(numbers) <= self.committed.keys()
        gone = [span for record in read_removed(self.folder, "clicks") for span in record.spans]
        for hour in {self.committed[number] for number in self.committed.keys() - set(numbers)}:
            assert any(start <= START_MS + hour * HOUR_MS < end for start, end in gone), hour
        for file in list_files(self.folder, "clicks"):
            check_file(file)
        assert not self.damages.counts


def test_who_listed_a_merged_file_keeps_it_though_nobody_looked_after_it_for_long() -> None:
    state = Lifetime()
    try:
        for _ in range(2):
            state.checkpoint(hour=0, rows=1, priced=False, crash=None)
        for _ in range(2):
            state.read_slowly()
        state.wait(minutes=16)
        state.read_slowly()
        state.each_event_is_there_once_or_its_hour_on_record()
    finally:
        state.teardown()


Lifetime.TestCase.settings = settings(max_examples=25, stateful_step_count=25, deadline=None)
TestLifetime = Lifetime.TestCase
