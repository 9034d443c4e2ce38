"""Copies on disk: kept whole, replaced, dropped, damaged, and brought along from an older state file."""

from __future__ import annotations

import contextlib
import pathlib
import sqlite3
from collections.abc import Iterator

import pytest

from elf.agents.store.checkpoints import Checkpoints
from elf.agents.store.checksums import row_checksum
from elf.agents.store.database import Database
from elf.agents.store.held import HeldCheckpoint, HeldReplicas
from elf.agents.store.tables import STEPS
from elf.agents.wire.replicas import Keep, KeepCheckpoint
from elf.agents.worker.state import Progress, Snapshot, SourceState, Whole, WorkerState
from elf.overlay.contract import NEVER
from elf.overlay.messages import Word

TREE, OTHER = b"t" * 20, b"o" * 20
WORD = Word(NEVER, 4, b"d" * 16, b"s" * 64)
SNAPSHOTS = [Keep(OTHER, "a2", 3, 4, b"o"), Keep(TREE, "a2", NEVER, 4, b"four", WORD), Keep(TREE, "a2", 4, 5, None)]
CHECKPOINT = KeepCheckpoint("clicks", "10.0.0.2:1", "a2", 7, b"body")


def filled(folder: pathlib.Path) -> Database:
    database = Database(folder / "state.db")
    HeldReplicas(database).write([*SNAPSHOTS, CHECKPOINT], {}, 1_000, 0)
    return database


def test_copies_are_there_after_a_restart_until_they_are_settled_or_too_old(tmp_path: pathlib.Path) -> None:
    filled(tmp_path).close()
    database = Database(tmp_path / "state.db")
    held = HeldReplicas(database)
    assert held.snapshots() == SNAPSHOTS
    assert held.checkpoints() == {("clicks", "10.0.0.2:1"): HeldCheckpoint("a2", 7, 1_000, 4)}
    assert held.checkpoint("clicks", "10.0.0.2:1") == CHECKPOINT
    again = Keep(TREE, "a2", 4, 5, b"again")
    held.write([again, Keep(TREE, "a3", 3, 4, b"late")], {TREE: 4}, 2_000, 1_000)
    assert held.snapshots() == [SNAPSHOTS[0], again], "also what came with its verdict"
    assert held.checkpoint("clicks", "10.0.0.2:1") == CHECKPOINT
    held.write([], {}, 3_000, 1_001)
    assert held.checkpoints() == {}
    database.close()


@pytest.mark.parametrize("table", ["held_snapshots", "held_checkpoints"])
def test_a_damaged_copy_is_dropped_and_counted_and_costs_nothing_else(tmp_path: pathlib.Path, table: str) -> None:
    filled(tmp_path).close()
    column = {"held_snapshots": "payload", "held_checkpoints": "body"}[table]
    with contextlib.closing(sqlite3.connect(tmp_path / "state.db")) as sql, sql:
        sql.execute(f"UPDATE {table} SET {column} = x'00' WHERE {column} IN (x'666f7572', x'626f6479')")
    database = Database(tmp_path / "state.db")
    assert not database.damages.counts, "the agent's own account is as it was"
    held = HeldReplicas(database)
    if table == "held_checkpoints":
        assert held.checkpoint("clicks", "10.0.0.2:1") is None
        assert database.damages.counts == {"copy": 1}
        assert held.checkpoints() == {}
        assert held.snapshots() == SNAPSHOTS
    else:
        assert held.snapshots() == [SNAPSHOTS[0], SNAPSHOTS[2]]
        assert held.checkpoint("clicks", "10.0.0.2:1") == CHECKPOINT
    counted = dict(database.damages.counts)
    assert set(counted) == {"copy"}
    held.snapshots()
    held.checkpoints()
    assert database.damages.counts == counted, "it is gone"
    database.close()


def test_copies_move_to_the_successor_of_a_damaged_state_file(tmp_path: pathlib.Path) -> None:
    database = filled(tmp_path)
    Checkpoints(database).write(SourceState("clicks", b"[]", b"{}", 1), [])
    first = database.agent_id
    database.close()
    with contextlib.closing(sqlite3.connect(tmp_path / "state.db")) as sql, sql:
        sql.execute("UPDATE sources SET sequence = 99")
    database = Database(tmp_path / "state.db")
    assert database.agent_id != first
    held = HeldReplicas(database)
    assert held.snapshots() == SNAPSHOTS
    assert held.checkpoint("clicks", "10.0.0.2:1") == CHECKPOINT
    database.close()


@contextlib.contextmanager
def old_file(path: pathlib.Path, step: int) -> Iterator[sqlite3.Connection]:
    """Make a state file of a release that had so many steps of the tables; give what it is filled by."""
    with contextlib.closing(sqlite3.connect(path)) as old, old:
        old.create_function("row_checksum", -1, row_checksum, deterministic=True)
        for text in STEPS[:step]:
            old.executescript(text)
        for key, value in {"agent_id": "0123456789abcdef", "transactions": "3", "version": str(step)}.items():
            old.execute("INSERT INTO meta VALUES (?, ?, ?)", (key, value, row_checksum(key, value)))
        yield old
        old.execute(f"PRAGMA user_version = {step}")


def test_a_file_from_before_there_were_copies_gets_the_tables(tmp_path: pathlib.Path) -> None:
    step = next(number for number, text in enumerate(STEPS) if "held_snapshots" in text)
    with old_file(tmp_path / "state.db", step):
        pass
    database = Database(tmp_path / "state.db")
    assert (database.agent_id, dict(database.damages.counts)) == ("0123456789abcdef", {})
    held = HeldReplicas(database)
    assert (held.snapshots(), held.checkpoints()) == ([], {})
    held.write(SNAPSHOTS, {}, 1, 0)
    assert held.snapshots() == SNAPSHOTS
    database.close()


def test_copies_of_before_there_were_words_are_brought_along_but_not_damaged_ones(tmp_path: pathlib.Path) -> None:
    step = next(number for number, text in enumerate(STEPS) if "held_before" in text)
    with old_file(tmp_path / "state.db", step) as old:
        for through, payload, flaw in ((4, b"four", 0), (5, None, 0), (6, b"six", 1)):
            row = (TREE, "a2", through - 1, through, payload)
            old.execute("INSERT INTO held_snapshots VALUES (?, ?, ?, ?, ?, ?)", (*row, row_checksum(*row) + flaw))
    database = Database(tmp_path / "state.db")
    held = HeldReplicas(database)
    assert held.snapshots() == [Keep(TREE, "a2", 3, 4, b"four"), Keep(TREE, "a2", 4, 5, None)]
    assert database.damages.counts == {"copy": 1}
    database.close()


def test_a_checkpoint_is_read_whole_as_of_one_moment(tmp_path: pathlib.Path) -> None:
    database = Database(tmp_path / "state.db")
    checkpoints = Checkpoints(database)
    assert checkpoints.whole("clicks", [TREE]) is None
    source = SourceState("clicks", b"[1]", b"{}", 1)
    worker = WorkerState(TREE, Progress(sealed=3), b"open", (Snapshot(2, b"two"), Snapshot(3, None)))
    checkpoints.write(source, [worker, WorkerState(OTHER, Progress(), b"")])
    assert checkpoints.whole("clicks", [TREE, b"n" * 20]) == Whole(source, [worker])
    database.close()
