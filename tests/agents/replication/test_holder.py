"""What is held for others: how long, when the holder answers with it, and that it outlives a restart."""

from __future__ import annotations

import pathlib
import sqlite3
from collections.abc import Callable

import pytest

from elf.agents.replication import holder
from elf.agents.replication.holder import Holder
from elf.agents.store import held
from elf.agents.store.database import Database
from elf.agents.store.held import HeldReplicas
from elf.agents.wire.catalogue import job_record
from elf.agents.wire.replicas import Keep, KeepCheckpoint
from tests.agents.replication.neighbours import WORD, Neighbourhood, job_of, wait_for


class Site(Neighbourhood):
    """An agent that holds copies; `start` is a restart without a word."""

    def __init__(self, folder: pathlib.Path, options: str = "") -> None:
        self.job = job_of(options)
        super().__init__(self.job)
        self.path, self.now_ms = folder / "state.db", 1_000_000
        self.start()

    def start(self) -> None:
        self.database = Database(self.path)
        self.store = HeldReplicas(self.database)
        self.holder = Holder("a1", self.node, self.catalogue, self.store, self.spawn, lambda: self.now_ms)  # type: ignore[arg-type]

    async def restart(self) -> None:
        await self.end()
        self.tasks.clear()
        self.database.close()
        self.start()
        self.holder.restore()

    async def close(self) -> None:
        await self.end()
        self.database.close()

    def keep(self, through: int, payload: bytes | None = b"x", agent: str = "a2") -> Keep:
        return Keep(self.job.tree, agent, through - 1, through, payload, WORD)


@pytest.fixture
def soon(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    def set_latest(latest_s: float) -> None:
        monkeypatch.setattr(holder, "ANSWER_LATEST_S", latest_s)

    monkeypatch.setattr(holder, "LOOK_S", 0.001)
    monkeypatch.setattr(holder, "ANSWER_AFTER_S", 0.02)
    monkeypatch.setattr(holder, "CLEAR_S", 0.0)
    return set_latest


@pytest.mark.parametrize(("silent", "latest_s"), [(True, 1_000.0), (False, 0.05)])
async def test_a_holder_answers_for_the_silent_at_once_and_for_the_slow_at_last(
    tmp_path: pathlib.Path, soon: Callable[[float], None], silent: bool, latest_s: float
) -> None:
    soon(1_000.0)
    site = Site(tmp_path, 'straggler = "mirror"')
    for through in (1, 2, 3):
        assert await site.holder.keep(site.keep(through))
    soon(latest_s)
    assert site.holder.held == 3
    site.node.verdicts = 1
    site.node.silent |= {"10.0.0.2:1"} if silent else set()
    await wait_for(lambda: len(site.node.answers) == 2, "the holder answers")
    assert site.node.answers == [("a2", 1, 2, b"x"), ("a2", 2, 3, b"x")]
    assert site.node.words == [WORD, WORD], "with its owner's own word"
    assert site.holder.held == 2, "they stay, for what is held is bounded, until their verdict"
    site.node.verdicts = 3
    await site.rest()
    assert (site.holder.held, site.holder.answered, site.holder.taken) == (0, 2, 3)
    assert site.store.snapshots() == [], "nor is anything left on the disk"
    await site.close()


async def test_what_is_held_is_bounded(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(holder, "HELD_BYTES_MAX", 10)
    site = Site(tmp_path, "replicas = 1")
    assert await site.holder.keep(site.keep(1, b"12345678"))
    assert not await site.holder.keep(site.keep(1, b"123", agent="a3"))
    assert not await site.holder.keep(site.keep(1, b"", agent="a1"))
    site.node.member = False
    assert not await site.holder.keep(site.keep(1, b"", agent="a4"))
    assert (site.holder.held, site.holder.skipped) == (1, 1)
    site.holder.forget(site.job.tree)
    assert site.holder.held == 0
    await site.close()


async def test_copies_outlive_their_holder_s_restart_and_are_answered_with_once_it_stands_in_the_tree(
    tmp_path: pathlib.Path, soon: Callable[[float], None]
) -> None:
    soon(1_000.0)
    site = Site(tmp_path)
    for through in (4, 5):
        assert await site.holder.keep(site.keep(through))
    site.node.member = False
    await site.restart()
    assert site.holder.held == 2
    soon(0.0)
    site.node.silent.add("10.0.0.2:1")
    looks = 0

    def look(tree: bytes, now_s: float) -> None:
        nonlocal looks
        looks += 1
        Holder._look(site.holder, tree, now_s)

    site.holder._look = look  # type: ignore[method-assign]
    await wait_for(lambda: looks >= 50, "the holder looks")
    assert site.node.answers == [], "there is nobody to hand it to"
    site.node.member, site.node.verdicts = True, 4
    await wait_for(lambda: site.node.answers, "the holder answers")
    assert site.node.answers == [("a2", 4, 5, b"x")], "the other one has its verdict"
    await site.restart()
    assert site.holder.held in (1, 2), "what has a verdict goes with the next write, or the next start"
    site.node.verdicts = 5
    await site.rest()
    assert (site.holder.held, site.store.snapshots()) == (0, [])
    await site.close()


async def test_copies_of_a_job_that_ended_meanwhile_are_dropped(
    tmp_path: pathlib.Path, soon: Callable[[float], None]
) -> None:
    site = Site(tmp_path)
    assert await site.holder.keep(site.keep(4))
    site.node.member = False
    await site.restart()
    site.catalogue.learn_record(job_record(site.job.tombstone(2)))
    await site.rest()
    assert (site.holder.held, site.store.snapshots(), site.node.answers) == (0, [], [])
    await site.close()


async def test_a_full_disk_refuses_and_nothing_is_promised(tmp_path: pathlib.Path) -> None:
    site = Site(tmp_path)

    def full(*args: object) -> None:
        raise sqlite3.OperationalError("database or disk is full")

    site.store.write = full  # type: ignore[method-assign]
    assert not await site.holder.keep(site.keep(4))
    assert not await site.holder.keep_checkpoint(KeepCheckpoint("clicks", "10.0.0.2:1", "a2", 1, b"x"))
    assert (site.holder.taken, site.holder.skipped) == (0, 2)
    await site.close()


async def test_an_almost_full_disk_is_left_to_the_agent_itself(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, soon: Callable[[float], None]
) -> None:
    soon(1_000.0)
    site = Site(tmp_path)
    assert await site.holder.keep(site.keep(4))
    monkeypatch.setattr(held, "ROOM_BYTES_MIN", 1 << 60)
    assert not await site.holder.keep(site.keep(5))
    assert not await site.holder.keep_checkpoint(checkpoint(1, b"x"))
    assert [copy.through for copy in site.store.snapshots()] == [4]
    site.node.verdicts = 5
    await site.rest()
    assert site.store.snapshots() == [], "what has its verdict makes room"
    await site.close()


def checkpoint(number: int, body: bytes, *, agent: str = "a2", address: str = "10.0.0.2:1") -> KeepCheckpoint:
    return KeepCheckpoint("clicks", address, agent, number, body)


async def test_a_checkpoint_takes_the_place_of_the_one_before_and_outlives_a_restart(tmp_path: pathlib.Path) -> None:
    site = Site(tmp_path)
    assert await site.holder.keep_checkpoint(checkpoint(5, b"five"))
    assert not await site.holder.keep_checkpoint(checkpoint(4, b"four")), "one that was overtaken"
    assert await site.holder.keep_checkpoint(checkpoint(6, b"six"))
    await site.restart()
    assert await site.holder.recall("clicks", "10.0.0.2:1") == checkpoint(6, b"six")
    assert await site.holder.recall("orders", "10.0.0.2:1") is None
    assert not await site.holder.keep_checkpoint(checkpoint(5, b"five"))
    assert await site.holder.keep_checkpoint(checkpoint(1, b"one", agent="a9")), "its successor counts anew"
    assert await site.holder.recall("clicks", "10.0.0.2:1") == checkpoint(1, b"one", agent="a9")
    assert await site.holder.keep_checkpoint(checkpoint(2, b"", agent="a9"))
    assert await site.holder.recall("clicks", "10.0.0.2:1") is None, "it has nothing to be held any more"
    assert site.holder.checkpoints == 0
    await site.close()


async def test_checkpoints_are_bounded_and_one_that_is_not_renewed_goes(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(holder, "CHECKPOINTS_BYTES_MAX", 10)
    monkeypatch.setattr(holder, "CHECKPOINTS_MAX", 2)
    site = Site(tmp_path)
    assert not await site.holder.keep_checkpoint(checkpoint(1, b"1", agent="a1", address="10.0.0.1:1"))
    assert await site.holder.keep_checkpoint(checkpoint(1, b"12345678"))
    assert not await site.holder.keep_checkpoint(checkpoint(1, b"123", agent="a3", address="10.0.0.3:1"))
    assert await site.holder.keep_checkpoint(checkpoint(2, b"123")), "in the place of a larger one"
    assert await site.holder.keep_checkpoint(checkpoint(1, b"1", agent="a3", address="10.0.0.3:1"))
    assert not await site.holder.keep_checkpoint(checkpoint(1, b"1", agent="a4", address="10.0.0.4:1"))
    assert (site.holder.checkpoints, site.holder.skipped) == (2, 2)
    site.now_ms += holder.CHECKPOINT_MS_MAX + 1
    assert await site.holder.keep_checkpoint(checkpoint(1, b"1", agent="a4", address="10.0.0.4:1"))
    assert site.holder.checkpoints == 1
    assert await site.holder.recall("clicks", "10.0.0.2:1") is None
    await site.close()
