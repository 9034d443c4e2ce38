"""A copy of a state file under a running agent, and the new agent that is made of it."""

from __future__ import annotations

import pathlib
import sqlite3

import pytest

from elf.agents.store.backup import copy_state, masters_in, records_in, restore_state
from elf.agents.store.database import Database
from elf.agents.store.panes import Kind, Panes
from elf.agents.store.records import Records
from elf.agents.store.schema import StoreError
from tests.agents.store.test_quarantine import APP, RECORDS, fill, own

NOW_MS = 1_700_000_000_000


@pytest.fixture
def database(tmp_path: pathlib.Path) -> Database:
    opened = Database(tmp_path / "agent" / "state.db")
    fill(opened)
    return opened


def test_a_new_agent_has_the_results_and_nothing_that_the_old_one_said(
    database: Database, tmp_path: pathlib.Path
) -> None:
    copy, folder = tmp_path / "copy", tmp_path / "new"
    folder.mkdir()
    assert copy_state(database.path, copy) == database.agent_id
    Panes(database).commit(APP, b"newer than the copy", {}, [])
    assert (masters_in(copy), records_in(copy)) == ([b"job" * 100], RECORDS)
    made = restore_state(copy, folder / "state.db", NOW_MS)
    new = Database(folder / "state.db")
    assert (new.agent_id, new.uncertain_before_ms, new.predecessor) == (made, NOW_MS, None)
    assert new.agent_id != database.agent_id and new.secret not in (b"", database.secret)
    assert [state for _, _, state in Panes(new).masters()] == [b"newer state" * 400]
    assert Panes(new).blocks(APP, Kind.PANE) == Panes(database).blocks(APP, Kind.PANE)
    assert Records(new).all(APP) == RECORDS
    before, empty = own(database), Database(tmp_path / "empty" / "state.db")
    assert own(new)[1:] == own(empty)[1:] != before[1:]
    empty.close()
    assert not new.damages.counts
    new.close()
    database.close()


def test_no_key_is_in_the_copy(database: Database, tmp_path: pathlib.Path) -> None:
    copy_state(database.path, tmp_path / "copy")
    packed = (tmp_path / "copy").read_bytes()
    for secret in (database.secret.hex(), database.agent_id):
        assert secret.encode() in database.path.read_bytes() + (tmp_path / "agent" / "state.db-wal").read_bytes()
        assert secret.encode() not in packed
    with sqlite3.connect(tmp_path / "copy") as sql:
        assert sql.execute("SELECT key FROM meta ORDER BY key").fetchall() == [("transactions",), ("version",)]
    database.close()


def test_what_is_damaged_is_not_copied_and_not_restored(database: Database, tmp_path: pathlib.Path) -> None:
    copy_state(database.path, tmp_path / "copy")
    for path in (database.path, tmp_path / "copy"):
        with sqlite3.connect(path) as sql:
            sql.execute("UPDATE history SET block = x'00' WHERE interval = 3")
    with pytest.raises(StoreError, match="table history is damaged"):
        copy_state(database.path, tmp_path / "again")
    with pytest.raises(StoreError, match="the state in the backup is damaged"):
        restore_state(tmp_path / "copy", tmp_path / "state.db", NOW_MS)
    database.close()


def test_another_releases_state_is_that_ones_to_copy(database: Database, tmp_path: pathlib.Path) -> None:
    database.close()
    with sqlite3.connect(database.path) as sql:
        sql.execute("PRAGMA user_version = 99")
    with pytest.raises(StoreError, match="state version 99"):
        copy_state(database.path, tmp_path / "copy")
    with pytest.raises(StoreError, match="is not there"):
        copy_state(tmp_path / "nowhere" / "state.db", tmp_path / "copy")
