"""The state file: whole transactions or nothing, one agent at a time, no guessing at other versions."""

import pathlib
import sqlite3

import pytest

from agents.store.checkpoints import Checkpoints, Progress, Snapshot, SourceState, WorkerState
from agents.store.database import Database, StoreError
from agents.store.records import Records
from overlay.contract import Record

APP = b"a" * 20


def test_the_agent_keeps_its_id_and_a_new_file_is_a_new_agent(tmp_path: pathlib.Path) -> None:
    database = Database(tmp_path / "state.db")
    first = database.agent_id
    database.close()
    database = Database(tmp_path / "state.db")
    assert database.agent_id == first
    database.close()
    other = Database(tmp_path / "other" / "state.db")
    assert other.agent_id != first
    other.close()


def test_a_second_agent_in_the_same_folder_is_refused(tmp_path: pathlib.Path) -> None:
    database = Database(tmp_path / "state.db")
    with pytest.raises(StoreError, match="in use by another agent"):
        Database(tmp_path / "state.db")
    database.close()


def test_a_damaged_file_and_another_version_are_refused_with_the_way_out(tmp_path: pathlib.Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "state.db").write_bytes(b"not a database" * 100)
    with pytest.raises(StoreError, match="move the file away"):
        Database(tmp_path / "a" / "state.db")
    database = Database(tmp_path / "state.db")
    with database.transaction() as sql:
        sql.execute("PRAGMA user_version = 99")
    database.close()
    with pytest.raises(StoreError, match="state version 99"):
        Database(tmp_path / "state.db")


def test_a_checkpoint_is_written_whole_or_not_at_all(tmp_path: pathlib.Path) -> None:
    database = Database(tmp_path / "state.db")
    checkpoints = Checkpoints(database)
    source = SourceState("clicks", b"[1]", b"{}", 1)
    worker = WorkerState(APP, Progress(sealed=3), b"open", (Snapshot(2, b"two"), Snapshot(3, None)))
    checkpoints.write(source, [worker])
    assert checkpoints.source("clicks") == source
    assert checkpoints.worker(APP) == worker
    broken = WorkerState(APP, Progress(sealed=4), b"new", (Snapshot(3, b"twice"),))
    with pytest.raises(sqlite3.IntegrityError):
        checkpoints.write(SourceState("clicks", b"[2]", b"{}", 2), [broken])
    assert checkpoints.source("clicks") == source
    assert checkpoints.worker(APP) == worker
    database.close()


def test_settled_snapshots_go_with_the_checkpoint_that_knows_of_it(tmp_path: pathlib.Path) -> None:
    database = Database(tmp_path / "state.db")
    checkpoints = Checkpoints(database)
    checkpoints.write(None, [WorkerState(APP, Progress(sealed=3), b"", (Snapshot(2, b"two"), Snapshot(3, b"three")))])
    checkpoints.write(None, [WorkerState(APP, Progress(sealed=3, settled=2), b"")])
    assert checkpoints.snapshots(APP) == (Snapshot(3, b"three"),)
    assert checkpoints.snapshots(APP, through=2) == checkpoints.snapshots(APP, after=3) == ()
    checkpoints.forget(APP)
    assert checkpoints.worker(APP) is None
    database.close()


def test_records_are_kept_by_tree_and_key(tmp_path: pathlib.Path) -> None:
    database = Database(tmp_path / "state.db")
    records = Records(database)
    records.put(APP, Record("job/b", 1, b"x"))
    records.put(APP, Record("job/a", 1, b"x"))
    records.put(APP, Record("job/b", 2, b"y"))
    records.put(b"b" * 20, Record("job/c", 1, b"z"))
    assert records.all(APP) == [Record("job/a", 1, b"x"), Record("job/b", 2, b"y")]
    database.close()
