"""Blocks of work that wait for each other: durable together, undone alone."""

from __future__ import annotations

import pathlib
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elf.agents.store.database import Database

SECONDS = 30.0


@pytest.fixture
def database(tmp_path: pathlib.Path) -> Iterator[Database]:
    opened = Database(tmp_path / "state.db")
    with opened.transaction() as sql:
        sql.execute("CREATE TABLE t (n INTEGER PRIMARY KEY)")
    yield opened
    opened.close()


def wait_until(condition: Callable[[], bool]) -> None:
    """Wait for what other threads do."""
    deadline_s = time.monotonic() + SECONDS
    while not condition():
        assert time.monotonic() < deadline_s
        time.sleep(0.001)


class Crowd:
    """Blocks that wait until `go` is called, and then run one after the other."""

    def __init__(self, database: Database, blocks: int) -> None:
        self._database, self._pool = database, ThreadPoolExecutor(blocks + 1)
        self._entered, self._left = threading.Event(), threading.Event()
        self._first = self._pool.submit(self._hold)
        assert self._entered.wait(SECONDS)
        self._waiting = 0

    def _hold(self) -> None:
        with self._database.transaction() as sql:
            sql.execute("INSERT INTO t VALUES (0)")
            self._entered.set()
            assert self._left.wait(SECONDS)

    def add(self, number: int, *, fails: bool = False) -> Future[None]:
        """Let another block wait for its turn."""
        future = self._pool.submit(self._put, number, fails)
        self._waiting += 1
        wait_until(lambda: self._database._turns._waiting == self._waiting)
        return future

    def _put(self, number: int, fails: bool) -> None:
        with self._database.transaction() as sql:
            sql.execute("INSERT INTO t VALUES (?)", (number,))
            if fails:
                raise ValueError("this block fails")

    def go(self) -> Future[None]:
        """Let the first block end, and with it the others; returns it."""
        self._left.set()
        self._pool.shutdown(wait=True)
        return self._first


def on_disk(database: Database) -> set[int]:
    """Return what another connection sees."""
    reader = database.reader()
    try:
        return {number for (number,) in reader.execute("SELECT n FROM t")}
    finally:
        reader.close()


def test_blocks_that_wait_are_durable_with_one_commit(database: Database) -> None:
    statements: list[str] = []
    database._sql.set_trace_callback(statements.append)
    crowd = Crowd(database, 5)
    others = [crowd.add(number) for number in range(1, 6)]
    first = crowd.go()
    assert [future.result() for future in (first, *others)] == [None] * 6
    assert statements.count("COMMIT") == 1
    assert on_disk(database) == set(range(6))


def test_a_block_alone_needs_no_more_statements_than_a_transaction(database: Database) -> None:
    statements: list[str] = []
    database._sql.set_trace_callback(statements.append)
    with database.transaction() as sql:
        sql.execute("INSERT INTO t VALUES (1)")
    assert not any("SAVEPOINT" in statement for statement in statements)
    assert statements.count("COMMIT") == 1


@given(fails=st.lists(st.booleans(), min_size=1, max_size=6))
def test_a_block_that_fails_takes_nothing_along(tmp_path_factory: pytest.TempPathFactory, fails: list[bool]) -> None:
    database = Database(tmp_path_factory.mktemp("batch") / "state.db")
    with database.transaction() as sql:
        sql.execute("CREATE TABLE t (n INTEGER PRIMARY KEY)")
    crowd = Crowd(database, len(fails))
    futures = [crowd.add(number, fails=failing) for number, failing in enumerate(fails, start=1)]
    crowd.go().result()
    for future, failing in zip(futures, fails, strict=True):
        assert isinstance(future.exception(), ValueError) == failing
    assert on_disk(database) == {0} | {number for number, failing in enumerate(fails, start=1) if not failing}
    database.close()


def test_a_commit_that_the_disk_refuses_is_an_error_in_all_its_blocks(database: Database) -> None:
    crowd = Crowd(database, 2)
    others = [crowd.add(1), crowd.add(2)]
    pages = database._sql.execute("PRAGMA page_count").fetchone()[0]

    def fill(sql: sqlite3.Connection) -> None:
        sql.execute(f"PRAGMA max_page_count = {pages:d}")
        sql.execute("CREATE TABLE u (x BLOB)")
        sql.execute("INSERT INTO u VALUES (zeroblob(1 << 20))")

    def too_much() -> None:
        with database.transaction() as sql:
            fill(sql)

    with ThreadPoolExecutor(1) as pool:
        last = pool.submit(too_much)
        wait_until(lambda: database._turns._waiting == 3)
        first = crowd.go()
        failed = [future.exception() for future in (first, *others, last)]
    full = [error for error in failed if isinstance(error, sqlite3.OperationalError)]
    # Either SQLite undid the last block only, or all of them; what was said to be durable is, and nothing else.
    told = {number for number, error in zip((0, 1, 2), failed, strict=False) if error is None}
    assert full and isinstance(failed[-1], sqlite3.OperationalError)
    assert on_disk(database) == told
    database._sql.execute(f"PRAGMA max_page_count = {1 << 30:d}")
    with database.transaction() as sql:
        sql.execute("INSERT INTO t VALUES (9)")
    assert on_disk(database) == told | {9}


def test_a_failed_commit_is_told_to_every_thread(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    crowd = Crowd(database, 3)
    others = [crowd.add(number) for number in (1, 2, 3)]

    def refuse(*_: object) -> None:
        error = sqlite3.OperationalError("database or disk is full")
        error.sqlite_errorcode = sqlite3.SQLITE_FULL
        raise error

    monkeypatch.setattr("elf.agents.store.database.put", refuse)
    first = crowd.go()
    errors = [future.exception() for future in (first, *others)]
    monkeypatch.undo()
    assert all(isinstance(error, sqlite3.OperationalError) for error in errors)
    assert {getattr(error, "sqlite_errorcode", None) for error in errors} == {sqlite3.SQLITE_FULL}
    assert len({id(error) for error in errors}) == 4
    assert on_disk(database) == set()
    with database.transaction() as sql:
        sql.execute("INSERT INTO t VALUES (9)")
    assert on_disk(database) == {9}


def test_what_an_interrupted_thread_was_to_commit_is_committed(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("elf.agents.store.database.LOOK_S", 0.01)
    with database._turns._counting:
        database._turns._waiting += 1  # a thread that will never have its turn
    with ThreadPoolExecutor(1) as pool:
        done = pool.submit(_put_one, database)
        wait_until(lambda: database._batch is not None)
        assert not done.done()
        with database._turns._counting:
            database._turns._waiting -= 1
        done.result(SECONDS)
    assert on_disk(database) == {1}


def test_closing_leaves_nothing_behind(tmp_path: pathlib.Path) -> None:
    database = Database(tmp_path / "state.db")
    with database.transaction() as sql:
        sql.execute("CREATE TABLE t (n INTEGER PRIMARY KEY)")
    crowd = Crowd(database, 1)
    with ThreadPoolExecutor(1) as pool:
        closed = pool.submit(database.close)
        wait_until(lambda: database._turns._waiting == 1)
        crowd.go().result()
        closed.result(SECONDS)
    again = Database(tmp_path / "state.db")
    assert on_disk(again) == {0}
    again.close()


def test_closing_makes_durable_what_has_ended_though_others_wait(tmp_path: pathlib.Path) -> None:
    database = Database(tmp_path / "state.db")
    with database.transaction() as sql:
        sql.execute("CREATE TABLE t (n INTEGER PRIMARY KEY)")
    crowd = Crowd(database, 1)
    with ThreadPoolExecutor(2) as pool:
        closed = pool.submit(database.close)
        wait_until(lambda: database._turns._waiting == 1)
        late = pool.submit(_put_one, database)
        wait_until(lambda: database._turns._waiting == 2)
        first = crowd.go()
        closed.result(SECONDS)
        error = late.exception(SECONDS)
    again = Database(tmp_path / "state.db")
    # Whichever of the two came first.
    assert error is None or isinstance(error, sqlite3.ProgrammingError)
    assert first.exception() is None and on_disk(again) == {0} | ({1} if error is None else set())
    again.close()


def test_a_block_inside_another_one_is_an_error_and_waits_for_nobody(database: Database) -> None:
    def nested() -> None:
        with database.transaction() as sql:
            sql.execute("INSERT INTO t VALUES (5)")
            _put_one(database)

    with ThreadPoolExecutor(1) as pool, pytest.raises(RuntimeError, match="inside another"):
        pool.submit(nested).result(SECONDS)
    assert on_disk(database) == set()
    _put_one(database)
    assert on_disk(database) == {1}


def test_a_batch_that_could_not_begin_is_in_nobodys_way(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse() -> None:
        raise MemoryError

    monkeypatch.setattr("elf.agents.store.database.Batch", refuse)
    with pytest.raises(MemoryError):
        _put_one(database)
    monkeypatch.undo()
    _put_one(database)
    assert on_disk(database) == {1}


def _put_one(database: Database) -> None:
    with database.transaction() as sql:
        sql.execute("INSERT INTO t VALUES (1)")
