"""The state file: whole transactions or nothing, one agent at a time, no guessing at other versions."""

import contextlib
import os
import pathlib
import sqlite3
from collections.abc import Sequence

import msgspec
import pytest

from elf.agents.host.clock import Clock
from elf.agents.jobs.versions import Versions
from elf.agents.store.checkpoints import Checkpoints
from elf.agents.store.checksums import DamagedError
from elf.agents.store.controls import Controls, decided_key
from elf.agents.store.database import AMPLE_BYTES, ROOM_LOOK_S, Database
from elf.agents.store.panes import Kind, Panes
from elf.agents.store.records import Records
from elf.agents.store.schema import StoreError
from elf.agents.store.tables import STEPS
from elf.agents.worker.paos import Paos, StoredTable, encode_open
from elf.agents.worker.state import Progress, Snapshot, SourceState, Tables, WorkerState
from elf.overlay.contract import NEVER, ORIGIN, ControlEntry, ControlState, LogEntry, Mark, Record
from elf.overlay.keys import KEY_BYTES, SecretKey, name_of
from tests.agents.plans import plan_of
from tests.sweep.runtime import handled

APP = b"a" * 20


def test_the_agent_keeps_its_id_and_a_new_file_is_a_new_agent(tmp_path: pathlib.Path) -> None:
    database = Database(tmp_path / "state.db")
    first, secret = database.agent_id, database.secret
    assert first == name_of(SecretKey(secret).public)
    database.close()
    database = Database(tmp_path / "state.db")
    assert (database.agent_id, database.secret) == (first, secret)
    database.close()
    other = Database(tmp_path / "other" / "state.db")
    assert other.agent_id != first
    assert other.secret != secret
    other.close()


def test_an_agent_of_before_keeps_its_id_and_gets_a_key_once(tmp_path: pathlib.Path) -> None:
    old_file(tmp_path / "state.db", 1).close()
    secrets = set()
    for _ in range(2):
        database = Database(tmp_path / "state.db")
        database.begin_signing()
        assert database.agent_id == "0123456789abcdef"
        secrets.add(database.secret)
        database.close()
    assert [len(secret) for secret in secrets] == [KEY_BYTES]


def test_a_second_agent_in_the_same_folder_is_refused(tmp_path: pathlib.Path) -> None:
    database = Database(tmp_path / "state.db")
    with pytest.raises(StoreError, match="in use by another agent"):
        Database(tmp_path / "state.db")
    database.close()


def old_file(path: pathlib.Path, version: int) -> sqlite3.Connection:
    """Make a file as an early release left it."""
    sql = sqlite3.connect(path)
    for step in STEPS[:version]:
        sql.executescript(step)
    sql.execute("INSERT INTO meta VALUES ('agent_id', '0123456789abcdef')")
    sql.execute(f"PRAGMA user_version = {version}")
    sql.commit()
    return sql


def test_a_file_of_a_newer_release_is_refused_with_the_way_out(tmp_path: pathlib.Path) -> None:
    database = Database(tmp_path / "state.db")
    with database.transaction() as sql:
        sql.execute("PRAGMA user_version = 99")
        sql.execute("UPDATE meta SET value = '99', checksum = row_checksum(key, '99') WHERE key = 'version'")
    database.close()
    with pytest.raises(StoreError, match=r"state version 99.*move the file away"):
        Database(tmp_path / "state.db")


def test_a_file_of_the_first_release_is_brought_up_to_date(tmp_path: pathlib.Path) -> None:
    with contextlib.closing(old_file(tmp_path / "state.db", 1)) as old, old:
        old.execute("INSERT INTO records VALUES (?, 'job/a', 1, ?)", (APP, b"x"))
        old.execute("INSERT INTO workers VALUES (?, ?, ?)", (APP, b'{"sealed":3}', b"open"))
        old.execute("INSERT INTO snapshots VALUES (?, 3, ?)", (APP, None))
    for _ in range(2):
        database = Database(tmp_path / "state.db")
        assert database.agent_id == "0123456789abcdef"
        assert Records(database).all(APP) == [Record("job/a", 1, b"x")]
        expected = WorkerState(APP, Progress(sealed=3), b"open", (Snapshot(3, None),))
        assert Checkpoints(database).worker(APP) == expected
        assert Controls(database).state(APP) is None
        assert not database.damages.counts
        database.close()


def test_panes_of_the_second_version_move_into_the_history(tmp_path: pathlib.Path) -> None:
    with contextlib.closing(old_file(tmp_path / "state.db", 2)) as old, old:
        old.executemany("INSERT INTO panes VALUES (?, ?, ?)", [(APP, 7, b"seven"), (APP, -1, b"earlier")])
    database = Database(tmp_path / "state.db")
    panes = Panes(database)
    assert panes.blocks(APP, Kind.LABELLED_PANE) == {-1: b"earlier", 7: b"seven"}
    assert panes.intervals(APP, Kind.PANE) == []
    database.close()


def test_a_control_entry_is_stored_once_and_a_root_retains_what_it_is_told(tmp_path: pathlib.Path) -> None:
    database = Database(tmp_path / "state.db")
    controls = Controls(database)
    expected = ControlState()
    for position in range(1, 6):
        floor = ORIGIN if position < 4 else Mark(1, position - 3)
        entry = ControlEntry(Mark(1, position), b"%d" % position, retain_above=floor)
        assert controls.put(APP, entry)
        assert not controls.put(APP, entry), "handled already"
        expected = handled(expected, entry)
        assert controls.state(APP) == expected
    assert [kept.body for kept in expected.entries] == [b"3", b"4", b"5"]
    assert controls.put(APP, ControlEntry(Mark(2, 4), b"of another root", skipped=True))
    assert controls.state(APP) == ControlState(Mark(2, 4), Mark(2, 4))
    assert not controls.put(APP, ControlEntry(Mark(1, 6), b"late"))
    assert controls.put(b"b" * 20, ControlEntry(Mark(1, 1), b"x", retain_above=ORIGIN))
    controls.forget(APP)
    assert controls.state(APP) is None
    assert controls.state(b"b" * 20) == ControlState(Mark(1, 1), ORIGIN, (LogEntry(Mark(1, 1), b"x"),))
    database.close()


def test_a_root_begins_with_what_its_group_decided_and_heeds_what_it_has_not(tmp_path: pathlib.Path) -> None:
    databases = [Database(tmp_path / name / "state.db") for name in ("one", "two")]
    controls, other = map(Controls, databases)
    assert controls.rooted(APP) is None
    for position in (3, 4):
        controls.put(decided_key(APP), ControlEntry(Mark(1, position), b"%d" % position, retain_above=Mark(1, 2)))
    decided = controls.state(decided_key(APP))
    assert decided is not None
    controls.put(APP, ControlEntry(Mark(1, 3), b"3"))
    assert controls.rooted(APP) == ControlState(Mark(1, 3), Mark(1, 2), decided.entries)
    other.put(decided_key(APP), ControlEntry(Mark(9, 9), b"of another past", retain_above=ORIGIN))
    other.adopt(decided_key(APP), decided)
    assert other.rooted(APP) == ControlState(ORIGIN, Mark(1, 2), decided.entries), "as a member that fetched a copy"
    for database in databases:
        database.close()


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


@pytest.mark.parametrize(
    ("free_bytes", "looks", "is_emptied"), [(0, 3, True), (AMPLE_BYTES, 3, False), (1 << 40, 1, False)]
)
def test_a_disk_is_looked_at_after_each_transaction_unless_it_has_ample_room(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, free_bytes: int, looks: int, is_emptied: bool
) -> None:
    now_ms = 100_000
    database = Database(tmp_path / "state.db", clock=Clock(lambda: now_ms, lambda: now_ms))
    found: list[str] = []

    def statvfs(folder: pathlib.Path) -> os.statvfs_result:
        found.append(str(folder))
        return os.statvfs_result((1, 1, 0, 0, free_bytes, 0, 0, 0, 0, 255))

    now_ms += 10_000
    monkeypatch.setattr("elf.agents.store.database.os.statvfs", statvfs)
    for number in range(3):
        database.remember("number", str(number))
    assert found == [str(tmp_path)] * looks
    assert ((tmp_path / "state.db-wal").stat().st_size == 0) == is_emptied
    now_ms += round(ROOM_LOOK_S * 1000)
    database.remember("number", "3")
    assert len(found) == looks + 1
    database.close()


def test_tables_of_open_intervals_are_read_back_with_their_worker_and_go_with_it(tmp_path: pathlib.Path) -> None:
    with contextlib.closing(Database(tmp_path / "state.db")) as database:
        checkpoints, versions = Checkpoints(database), Versions.of(plan_of())

        def row(numbers: Sequence[int], new: dict[int, bytes]) -> WorkerState:
            told = [StoredTable(0, number, ((NEVER, number),)) for number in numbers]
            return WorkerState(APP, Progress(), encode_open(Paos(), versions, told), (), Tables(tuple(numbers), new))

        checkpoints.write(None, [row([1, 2], {1: b"one", 2: b"two"})])
        checkpoints.write(None, [row([2, 3], {3: b"three"})])
        expected = encode_open(
            Paos(), versions, [StoredTable(0, 2, ((NEVER, 2),), b"two"), StoredTable(0, 3, ((NEVER, 3),), b"three")]
        )
        found = checkpoints.worker(APP)
        assert found is not None and (found.open_block, found.tables) == (expected, None)
        checkpoints.write(None, [msgspec.structs.replace(row([2, 3], {}), tables=None)])
        found = checkpoints.worker(APP)
        assert found is not None and found.open_block == expected, "they are not written again"
        with database.transaction() as sql:
            assert sql.execute("SELECT number FROM open_tables").fetchall() == [(2,), (3,)]
            sql.execute("UPDATE open_tables SET block = ? WHERE number = 3", (b"bent",))
        with pytest.raises(DamagedError, match="open intervals"):
            checkpoints.worker(APP)
        checkpoints.write(None, [row([], {})])
        with database.transaction() as sql:
            assert sql.execute("SELECT number FROM open_tables").fetchall() == []
        checkpoints.write(None, [row([1], {1: b"one"})])
        checkpoints.forget(APP)
        with database.transaction() as sql:
            assert sql.execute("SELECT number FROM open_tables").fetchall() == []
