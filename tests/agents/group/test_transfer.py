"""A leader lets members read its copy page by page, and lets go of the moment that they read when they are gone."""

from __future__ import annotations

import asyncio
import pathlib
from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
import pytest_asyncio

from elf.agents.errors import UnavailableError
from elf.agents.group import transfer
from elf.agents.group.transfer import Fetcher, Pages
from elf.agents.master.state import MasterState
from elf.agents.store.controls import Controls
from elf.agents.store.database import Database
from elf.agents.store.panes import Kind, PaneReader, Panes
from elf.agents.wire.root_groups import Fetch
from elf.overlay.contract import RollupState
from elf.overlay.errors import UnreachableError
from elf.overlay.ids import Contact
from tests.overlay.cluster import wait_until

APP, TREE = b"a" * 20, b"t" * 20
BLOCKS = {(Kind.PANE, interval): bytes(3 << 20) for interval in range(5)}


@pytest_asyncio.fixture
async def pages(tmp_path: pathlib.Path) -> AsyncIterator[Pages]:
    database = Database(tmp_path / "state.db")
    store = Panes(database)
    store.create(APP, b"job", msgspec.msgpack.encode(MasterState(rollup=RollupState(), enlisted={})))
    store.commit(APP, msgspec.msgpack.encode(MasterState(rollup=RollupState(), enlisted={})), BLOCKS, [])
    copies: Any = SimpleNamespace(apps={TREE: APP}, get=lambda app: app, serves=lambda tree, agent: True)
    made = Pages(store, Controls(database), copies)
    yield made
    made.close()
    database.close()


@pytest.fixture
def readers(monkeypatch: pytest.MonkeyPatch) -> list[PaneReader]:
    """All readers that are made."""
    made: list[PaneReader] = []
    right = Panes.reader

    def reader(store: Panes, app: bytes) -> PaneReader:
        made.append(right(store, app))
        return made[-1]

    monkeypatch.setattr(Panes, "reader", reader)
    return made


def are_closed(readers: list[PaneReader]) -> bool:
    return bool(readers) and all(reader._is_closed for reader in readers)


async def read_all(pages: Pages, agent: str) -> int:
    """Read a copy to its end; returns how many blocks it has."""
    count = number = 0
    while not (page := await pages.answer(Fetch(TREE, agent, number))).state:
        count, number = count + len(page.blocks), number + 1
    return count


async def test_a_copy_comes_in_pages(pages: Pages, readers: list[PaneReader]) -> None:
    assert await asyncio.gather(*(read_all(pages, f"a{number}") for number in range(3))) == [len(BLOCKS)] * 3
    assert are_closed(readers)


async def test_who_is_gone_holds_nothing_open(
    pages: Pages, readers: list[PaneReader], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transfer, "READER_S", 0.05)
    await pages.answer(Fetch(TREE, "a1", 0))
    await wait_until(lambda: are_closed(readers))
    with pytest.raises(UnavailableError, match="begin anew"):
        await pages.answer(Fetch(TREE, "a1", 1))
    # Who comes back is not to be hurried, on a busy machine.
    monkeypatch.undo()
    assert await read_all(pages, "a1") == len(BLOCKS)


async def test_a_member_that_asks_twice_at_once_reads_one_moment(pages: Pages, readers: list[PaneReader]) -> None:
    answers = await asyncio.gather(*(pages.answer(Fetch(TREE, "a1", 0)) for _ in range(4)), return_exceptions=True)
    assert any(not isinstance(answer, BaseException) for answer in answers)
    assert all(isinstance(answer, UnavailableError) for answer in answers if isinstance(answer, BaseException))
    pages.close()
    assert are_closed(readers)


async def test_why_a_copy_does_not_come_is_said_once_for_each_job_and_reason(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(transfer, "SAID_MAX", 2)
    nobody: Any = None
    member, why = Fetcher("a1", nobody, nobody, nobody, nobody, nobody), ["away"]

    async def fail(tree: bytes, leader: Contact, term: int) -> None:
        if why:
            raise UnreachableError(why[0])

    monkeypatch.setattr(member, "_fetch", fail)
    leader = Contact(b"l" * 20, "127.0.0.1", 4250)

    async def warnings(tree: bytes = TREE) -> int:
        caplog.clear()
        for _ in range(3):
            await member.fetch(tree, leader, 1)
        return sum(record.levelname == "WARNING" for record in caplog.records)

    assert [await warnings(), await warnings()] == [1, 0]
    why[0] = "another reason"
    assert [await warnings(), await warnings()] == [1, 0]
    why.clear()
    assert await warnings() == 0
    why.append("another reason")
    assert await warnings() == 1, "it came meanwhile"
    assert [await warnings(tree) for tree in (b"u" * 20, b"v" * 20, TREE)] == [1, 1, 1], "of two jobs it is remembered"
