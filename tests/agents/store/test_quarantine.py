"""Whatever happens to the bytes of the state file, it opens: as it was, or as a new agent's with what is good in it."""

import pathlib
import shutil
import sqlite3
from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from elf.agents.store import quarantine
from elf.agents.store.checkpoints import Checkpoints
from elf.agents.store.controls import Controls
from elf.agents.store.database import Database
from elf.agents.store.panes import Kind, Panes
from elf.agents.store.records import Records
from elf.agents.worker.state import Progress, Snapshot, SourceState, WorkerState
from elf.overlay.contract import ORIGIN, ControlEntry, Mark, Record

APP, TREE = b"a" * 20, b"t" * 20
SOURCE = SourceState("clicks", b'{"version":1,"positions":[]}', b'{"counters":1}', 41)
WORKER = WorkerState(TREE, Progress(sealed=3), b"open" * 2_000, (Snapshot(2, b"two" * 500), Snapshot(3, None)))
BLOCKS = {(kind, interval): b"%d of %d " % (kind, interval) * 300 for kind in Kind for interval in range(12)}
RECORDS = [Record(f"job/{number}", number, b"body" * 50) for number in range(5)]


class Own(NamedTuple):
    """What an agent must have whole or not at all."""

    agent_id: str
    source: SourceState | None
    worker: WorkerState | None
    control: object

    def __repr__(self) -> str:
        return f"Own({self.agent_id})"


def own(database: Database) -> Own:
    checkpoints = Checkpoints(database)
    return Own(database.agent_id, checkpoints.source("clicks"), checkpoints.worker(TREE), Controls(database).state(APP))


def fill(database: Database) -> None:
    panes, controls = Panes(database), Controls(database)
    for record in RECORDS:
        Records(database).put(APP, record)
    Checkpoints(database).write(SOURCE, [WORKER])
    panes.create(APP, b"job" * 100, b"state" * 400)
    panes.commit(APP, b"newer state" * 400, BLOCKS, [])
    controls.put(APP, ControlEntry(Mark(1, 1), b"entry", retain_above=ORIGIN))


@pytest.fixture(scope="module")
def origin(tmp_path_factory: pytest.TempPathFactory) -> tuple[pathlib.Path, Own]:
    """A state file with half of its transactions in the write-ahead log, as a killed agent leaves it."""
    folder, copy = tmp_path_factory.mktemp("origin"), tmp_path_factory.mktemp("copy")
    database = Database(folder / "state.db")
    fill(database)
    database._sql.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    Panes(database).replace(APP, {(Kind.PANE, 12): b"the last pane"}, [])
    Panes(database).commit(APP, b"newest state", {(Kind.LABEL, 12): b"the last label"}, [])
    for file in folder.iterdir():
        shutil.copy(file, copy)
    expected = own(database)
    database.close()
    return copy, expected


damages = st.tuples(
    st.sampled_from(["state.db", "state.db", "state.db-wal", "state.db-shm", "state.mark"]),
    st.sampled_from(["cut", "flip", "zero", "remove"]),
    st.floats(0, 1, exclude_max=True),
    st.integers(0, 7),
)


def damage(path: pathlib.Path, how: str, where: float, bit: int) -> None:
    data = bytearray(path.read_bytes())
    place = int(where * len(data))
    match how:
        case "cut":
            del data[place:]
        case "flip":
            data[place] ^= 1 << bit
        case "zero":
            data[place : place + 512] = bytes(len(data[place : place + 512]))
        case "remove":
            path.unlink()
            return
    path.write_bytes(data)


@settings(max_examples=150)
@given(damages)
def test_damaged_anywhere_it_opens_and_tells_no_lie(
    origin: tuple[pathlib.Path, Own], tmp_path_factory: pytest.TempPathFactory, found: tuple[str, str, float, int]
) -> None:
    copy, expected = origin
    folder = tmp_path_factory.mktemp("damaged")
    shutil.copytree(copy, folder, dirs_exist_ok=True)
    name, how, where, bit = found
    damage(folder / name, how, where, bit)
    # SQLite takes a single byte for an empty file.
    gone = name == "state.db" and (how == "remove" or (folder / name).stat().st_size <= 1)
    masters = [(APP, b"job" * 100, b"newest state")]
    for start in range(2):
        database = Database(folder / "state.db")
        assert not start or not database.damages.counts["state"], "never twice"
        now = own(database)
        if now.agent_id == expected.agent_id:
            assert now == expected
            assert Panes(database).masters() == masters
            assert not database.damages.counts["state"]
        else:
            assert now == Own(now.agent_id, None, None, None)
            assert database.damages.counts["state"] == 1
            assert (folder / "state.db.damaged-1").exists() != gone
            masters = Panes(database).masters()
            assert {state for _, _, state in masters} <= {b"newest state", b"newer state" * 400}
        panes = Panes(database)
        for kind in Kind:
            for interval, block in panes.blocks(APP, kind).items():
                last = {Kind.PANE: b"the last pane", Kind.LABEL: b"the last label"}
                assert block == (last[kind] if interval == 12 else BLOCKS[kind, interval])
        assert all(record in RECORDS for record in Records(database).all(APP))
        Checkpoints(database).write(SOURCE, [])
        expected = own(database)
        database.close()
        assert not list(folder.glob("*.new*"))


def lose_the_log(folder: pathlib.Path) -> None:
    """Kill an agent, and let the disk forget its last transactions."""
    database = Database(folder / "state.db")
    database._sql.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    database._sql.execute("PRAGMA wal_autocheckpoint=0")
    Panes(database).commit(APP, b"forgotten", {}, [])
    killed = {file: file.read_bytes() for file in folder.glob("state.*")}
    database.close()
    for file, content in killed.items():
        file.write_bytes(content)
    (folder / "state.db-wal").write_bytes(killed[folder / "state.db-wal"][:-100])


def test_a_state_that_fell_back_is_no_agents_own_and_masters_doubt(tmp_path: pathlib.Path) -> None:
    database = Database(tmp_path / "state.db")
    fill(database)
    agent_id = database.agent_id
    database.close()
    lose_the_log(tmp_path)
    database = Database(tmp_path / "state.db")
    assert database.agent_id != agent_id
    assert database.damages.counts == {"state": 1}
    assert Panes(database).masters() == [(APP, b"job" * 100, b"newer state" * 400)]
    assert Panes(database).intervals(APP, Kind.PANE) == list(range(12))
    assert database.uncertain_before_ms is not None
    database.close()
    database = Database(tmp_path / "state.db")
    assert database.uncertain_before_ms is not None, "until somebody has noted it"
    database.settle_doubts()
    database.close()
    database = Database(tmp_path / "state.db")
    assert database.uncertain_before_ms is None
    database.close()


def test_masters_do_not_doubt_what_was_whole(tmp_path: pathlib.Path) -> None:
    database = Database(tmp_path / "state.db")
    fill(database)
    with database.transaction() as sql:
        sql.execute("UPDATE snapshots SET payload = ? WHERE through = 2", (b"flipped",))
    database.close()
    database = Database(tmp_path / "state.db")
    assert database.damages.counts == {"state": 1}
    assert Panes(database).masters() == [(APP, b"job" * 100, b"newer state" * 400)]
    assert database.uncertain_before_ms is None
    assert Checkpoints(database).snapshots(TREE) == ()
    database.close()


def test_only_so_many_damaged_files_are_kept(tmp_path: pathlib.Path) -> None:
    for number in range(5):
        (tmp_path / "state.db").write_bytes(b"not a database %d" % number * 100)
        Database(tmp_path / "state.db").close()
    kept = sorted(file.name for file in tmp_path.glob("state.db.damaged-*"))
    assert kept == ["state.db.damaged-3", "state.db.damaged-4", "state.db.damaged-5"]
    assert (tmp_path / kept[-1]).read_bytes().startswith(b"not a database 4")


@pytest.mark.parametrize("step", range(4))
def test_a_crash_while_the_file_is_set_aside_loses_neither(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, step: int
) -> None:
    database = Database(tmp_path / "state.db")
    fill(database)
    with database.transaction() as sql:
        sql.execute("UPDATE snapshots SET payload = ? WHERE through = 2", (b"flipped",))
    database.close()
    calls = 0

    def crash(*args: object) -> None:
        nonlocal calls
        calls += 1
        if calls > step:
            raise KeyboardInterrupt

    with monkeypatch.context() as crashing:
        rename = pathlib.Path.rename

        def renamed(path: pathlib.Path, target: pathlib.Path) -> pathlib.Path:
            crash()
            return rename(path, target)

        crashing.setattr(pathlib.Path, "rename", renamed)
        crashing.setattr(quarantine, "_sync_folder", crash)
        with pytest.raises(KeyboardInterrupt):
            Database(tmp_path / "state.db")
    database = Database(tmp_path / "state.db")
    assert Panes(database).masters() == [(APP, b"job" * 100, b"newer state" * 400)]
    assert Checkpoints(database).worker(TREE) is None
    assert (tmp_path / "state.db.damaged-1").exists()
    database.close()


def test_a_disk_without_room_for_the_successor_leaves_everything_as_it_is(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "state.db").write_bytes(b"not a database" * 100)

    def full(path: pathlib.Path) -> sqlite3.Connection:
        raise OSError(28, "No space left on device")

    with pytest.raises(OSError, match="No space left"):
        quarantine.succeed(tmp_path / "state.db", full)
    assert [file.name for file in tmp_path.iterdir()] == ["state.db"]
