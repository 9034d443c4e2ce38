"""A master is read page by page while others write; whoever gives the reading up may do it at any moment."""

from __future__ import annotations

import pathlib
import sqlite3
import threading
from collections.abc import Iterator

import pytest

from elf.agents.store import panes as module
from elf.agents.store.database import Database
from elf.agents.store.panes import ClosedError, Kind, PaneReader, Panes

APP = b"a" * 20
BLOCKS = {(Kind.PANE, interval): bytes([interval]) * 100 for interval in range(50)}


@pytest.fixture
def reader(tmp_path: pathlib.Path) -> Iterator[PaneReader]:
    database = Database(tmp_path / "state.db")
    store = Panes(database)
    store.create(APP, b"job", b"state")
    store.commit(APP, b"state", BLOCKS, [])
    made = store.reader(APP)
    store.commit(APP, b"later", {(Kind.PANE, 50): b"later"}, [])
    yield made
    made.close()
    database.close()


def test_pages_hold_one_moment(reader: PaneReader) -> None:
    found = []
    while page := reader.page(1_000):
        assert len(page) <= 10
        found += page
    assert found == [(kind, interval, block) for (kind, interval), block in BLOCKS.items()]


def test_nobody_reads_what_is_closed(reader: PaneReader) -> None:
    reader.close()
    reader.close()
    with pytest.raises(ClosedError):
        reader.page(1_000)


def test_closing_waits_for_the_page_that_is_being_read(reader: PaneReader, monkeypatch: pytest.MonkeyPatch) -> None:
    """SQLite would end the process."""
    inside, closed = threading.Event(), threading.Event()
    right = module.is_whole

    def slow(row: tuple[object, ...]) -> bool:
        inside.set()
        assert closed.wait(30)
        return right(row)

    monkeypatch.setattr(module, "is_whole", slow)
    pages: list[list[tuple[int, int, bytes]]] = []
    thread = threading.Thread(target=lambda: pages.append(reader.page(1_000)))
    thread.start()
    assert inside.wait(30)
    with pytest.raises(ClosedError):
        reader.page(1_000)
    reader.close()
    closed.set()
    thread.join(30)
    assert len(pages[0]) == 10, "the page comes whole"
    with pytest.raises(sqlite3.ProgrammingError, match="closed database"):
        reader._sql.execute("SELECT 1")
