"""Work in steps: written together, each piece done or undone by itself."""

from __future__ import annotations

import asyncio
import pathlib
import sqlite3
import tempfile
import threading
from collections.abc import Iterator

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from elf.agents.store.database import Database
from elf.agents.store.shared_transactions import Desk, Steps, carry_out


class Row:
    """A piece of work that writes a number; `fails` says at what: describing, writing or remembering it."""

    def __init__(self, number: int, fails: str = "") -> None:
        self.number, self.fails = number, fails
        self.remembered, self.refused = False, ""

    def steps(self) -> Steps:
        self._fail_at("describing")
        if self.fails == "nothing to write":
            return
        try:
            yield self._write
        except (ValueError, sqlite3.Error) as error:
            self.refused = str(error)
            raise
        self._fail_at("remembering")
        self.remembered = True
        if self.fails == "writing twice":
            yield self._write

    def _write(self, sql: sqlite3.Connection) -> None:
        sql.execute("INSERT INTO t VALUES (?)", (self.number,))
        self._fail_at("writing")

    def _fail_at(self, what: str) -> None:
        if self.fails == what:
            raise ValueError(what)


@pytest.fixture
def database(tmp_path: pathlib.Path) -> Iterator[Database]:
    opened = opened_at(tmp_path)
    yield opened
    opened.close()


def opened_at(folder: pathlib.Path) -> Database:
    opened = Database(folder / "state.db")
    with opened.transaction() as sql:
        sql.execute("CREATE TABLE t (n INTEGER PRIMARY KEY)")
    return opened


def numbers(database: Database) -> list[int]:
    with database.transaction() as sql:
        return [number for (number,) in sql.execute("SELECT n FROM t ORDER BY n")]


def transactions(database: Database) -> int:
    return database._transactions


WHERE = st.sampled_from(["", "", "describing", "writing", "remembering", "nothing to write"])


@given(fails=st.lists(WHERE, max_size=8))
def test_each_piece_of_work_is_done_or_undone_by_itself(fails: list[str]) -> None:
    rows = [Row(number, where) for number, where in enumerate(fails)]
    with tempfile.TemporaryDirectory() as folder:
        database = opened_at(pathlib.Path(folder))
        errors = carry_out(database, [row.steps() for row in rows])
        written = numbers(database)
        database.close()
    assert [str(error) if error else "" for error in errors] == [
        row.fails if row.fails != "nothing to write" else "" for row in rows
    ]
    assert written == [row.number for row in rows if row.fails in ("", "remembering")]
    assert [row.number for row in rows if row.remembered] == [row.number for row in rows if not row.fails]
    assert [row.number for row in rows if row.refused] == [row.number for row in rows if row.fails == "writing"]


def test_work_is_written_in_one_transaction(database: Database) -> None:
    before = transactions(database)
    assert carry_out(database, [Row(number).steps() for number in range(20)]) == [None] * 20
    assert transactions(database) == before + 1
    assert numbers(database) == list(range(20))


def test_nothing_is_remembered_before_it_is_durable(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [Row(1), Row(2)]

    def refuse(*_: object, **__: object) -> None:
        database._give_up(database._batch, sqlite3.OperationalError("disk is full"))  # type: ignore[arg-type]

    with monkeypatch.context() as patch:
        patch.setattr(database, "_end_turn", refuse)
        errors = carry_out(database, [row.steps() for row in rows])
    assert [str(error) for error in errors] == ["disk is full"] * 2
    assert not any(row.remembered for row in rows) and all(row.refused for row in rows)
    assert numbers(database) == []


def test_a_panic_ends_one_piece_of_work_only(database: Database) -> None:
    """It is no Exception: all others would wait for ever."""

    def panicking() -> Steps:
        yield lambda sql: None
        raise pl.exceptions.PanicException("index out of bounds")

    rows = [Row(1), Row(2)]
    errors = carry_out(database, [rows[0].steps(), panicking(), rows[1].steps()])
    assert [type(error) for error in errors] == [type(None), pl.exceptions.PanicException, type(None)]
    assert all(row.remembered for row in rows) and numbers(database) == [1, 2]


def test_work_that_writes_twice_is_refused(database: Database) -> None:
    (error,) = carry_out(database, [Row(1, "writing twice").steps()])
    assert isinstance(error, RuntimeError)


async def test_what_comes_while_the_desk_is_at_work_goes_together() -> None:
    batches: list[int] = []
    first, go_on = threading.Event(), threading.Event()

    def work(works: list[Steps]) -> list[Exception | None]:
        batches.append(len(works))
        first.set()
        assert go_on.wait(30)
        return [None if each is None else ValueError("none of ours") for each in works]

    desk = Desk(work)  # type: ignore[arg-type]
    tasks = [asyncio.create_task(desk.carry_out(None))]  # type: ignore[arg-type]
    assert await asyncio.to_thread(first.wait, 30)
    tasks += [asyncio.create_task(desk.carry_out(None)) for _ in range(4)]  # type: ignore[arg-type]
    tasks.append(asyncio.create_task(desk.carry_out(Row(1).steps())))
    await asyncio.sleep(0)
    go_on.set()
    with pytest.raises(ValueError, match="none of ours"):
        await tasks.pop()
    assert await asyncio.gather(*tasks) == [None] * 5
    assert batches == [1, 5]


async def test_a_desk_without_threads_says_so(database: Database) -> None:
    def work(works: object) -> list[Exception | None]:
        raise RuntimeError("cannot schedule new futures after shutdown")

    with pytest.raises(RuntimeError, match="after shutdown"):
        await Desk(work).carry_out(Row(1).steps())
