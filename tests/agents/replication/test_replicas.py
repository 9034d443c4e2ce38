"""Copies of our snapshots and checkpoints: to whom they go, and when."""

from __future__ import annotations

import pathlib

import msgspec
import pytest

from elf.agents.replication import replicas
from elf.agents.replication.replicas import Replicas
from elf.agents.store.checkpoints import Checkpoints
from elf.agents.store.database import Database
from elf.agents.wire.records import JobRecord
from elf.agents.wire.replicas import Keep, KeepCheckpoint
from elf.agents.worker.state import Progress, Snapshot, SourceState, Whole, WorkerState
from elf.overlay.contract import NEVER
from tests.agents.replication.neighbours import WORD, Neighbourhood, job_of


class Site(Neighbourhood):
    def __init__(self, options: str, folder: pathlib.Path) -> None:
        self.job = job_of(options)
        super().__init__(self.job)
        self.database = Database(folder / "state.db")
        self.checkpoints = Checkpoints(self.database)
        self.replicas = Replicas("a1", self.node, self.catalogue, self.checkpoints, self.spawn)  # type: ignore[arg-type]

    def checkpoint(self, number: int, positions: bytes, *sealed: Snapshot, settled: int | None = None) -> None:
        worker = WorkerState(self.job.tree, Progress(settled=settled), b"open", sealed)
        self.checkpoints.write(SourceState("clicks", positions, b"{}", number), [worker])

    async def copy(self, *jobs: JobRecord) -> list[KeepCheckpoint]:
        """Let a checkpoint be copied; returns what was asked."""
        asked = len(self.node.asked)
        await self.replicas.copy_checkpoint("clicks", jobs or [self.job])
        return [request for _, request in self.node.asked[asked:] if isinstance(request, KeepCheckpoint)]


def snapshots_asked(site: Site) -> list[tuple[str, Keep]]:
    return [(address, request) for address, request in site.node.asked if isinstance(request, Keep)]


async def test_copies_go_to_the_nearest_that_answer_and_say_where_they_begin(tmp_path: pathlib.Path) -> None:
    site = Site('straggler = "mirror"\nreplicas = 2', tmp_path)
    near = site.near()
    site.node.silent.add(near[0])
    site.replicas.offer(site.job.tree, Snapshot(5, b"five"))
    await site.rest()
    assert [address for address, _ in site.node.asked] == near
    site.replicas.offer(site.job.tree, Snapshot(8, None))
    await site.rest()
    assert [address for address, _ in site.node.asked[3:]] == near[1:], "the silent one is passed over"
    assert all(copy.word == WORD for _, copy in snapshots_asked(site))
    copies = {(copy.agent, copy.since, copy.through, copy.payload) for _, copy in snapshots_asked(site)}
    assert copies == {("a1", NEVER, 5, b"five"), ("a1", 5, 8, None)}
    site.database.close()


async def test_a_job_says_how_many_copies_there_are(tmp_path: pathlib.Path) -> None:
    options = {"": 1, "replicas = 0": 0, "replicas = 3": 3, 'semantics = "at-most-once"': 0, 'straggler = "mirror"': 1}
    for count, (text, number) in enumerate(options.items()):
        site = Site(text, tmp_path / str(count))
        site.replicas.offer(site.job.tree, Snapshot(5, b"five"))
        await site.rest()
        assert len(site.node.asked) == number
        site.checkpoint(1, b"[1]")
        assert len(await site.copy()) == number, "and of checkpoints as many"
        site.database.close()


async def test_empty_snapshots_are_copied_where_somebody_is_to_answer_for_the_slow(tmp_path: pathlib.Path) -> None:
    for text, number in (("", 0), ('straggler = "mirror"', 1)):
        site = Site(text, tmp_path / str(number))
        site.replicas.offer(site.job.tree, Snapshot(5, None))
        await site.rest()
        assert len(site.node.asked) == number
        site.replicas.offer(site.job.tree, Snapshot(6, b"six"))
        await site.rest()
        assert snapshots_asked(site)[-1][1].since == 5, "what was not copied was empty"
        site.database.close()


async def test_snapshots_on_their_way_are_bounded(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replicas, "SENDING_MAX", 2)
    site = Site("replicas = 1", tmp_path)
    for through in (1, 2, 3):
        site.replicas.offer(site.job.tree, Snapshot(through, b"x"))
    await site.rest()
    assert len(site.node.asked) == 2
    assert site.replicas.skipped == 1
    site.database.close()


async def test_a_checkpoint_is_copied_whole_and_only_when_there_are_other_lines(tmp_path: pathlib.Path) -> None:
    site = Site("", tmp_path)
    assert await site.copy() == [], "there is none yet"
    site.checkpoint(1, b"[1]", Snapshot(4, b"four"))
    (copy,) = await site.copy()
    assert (copy.source, copy.address, copy.agent, copy.number) == ("clicks", "10.0.0.1:1", "a1", 1)
    worker = WorkerState(site.job.tree, Progress(), b"open", [Snapshot(4, b"four")])
    assert msgspec.msgpack.decode(copy.body, type=Whole) == Whole(SourceState("clicks", b"[1]", b"{}", 1), [worker])
    site.checkpoint(2, b"[1]", Snapshot(5, None))
    assert await site.copy() == [], "an interval that was sealed empty is no news"
    site.checkpoint(3, b"[1]", settled=4)
    assert [each.number for each in await site.copy()] == [3]
    site.checkpoint(4, b"[4]")
    assert [each.number for each in await site.copy()] == [4]
    assert site.replicas.copied == 3
    site.database.close()


async def test_a_holder_that_falls_silent_is_replaced_and_hears_when_the_last_job_ends(tmp_path: pathlib.Path) -> None:
    site = Site("replicas = 2", tmp_path)
    near = site.near()
    site.node.silent.add(near[1])
    site.checkpoint(7, b"[7]")
    await site.copy()
    assert [address for address, _ in site.node.asked] == near
    asked = len(site.node.asked)
    await site.replicas.copy_checkpoint("clicks", [])
    told = [(address, request) for address, request in site.node.asked[asked:] if isinstance(request, KeepCheckpoint)]
    assert [(address, request.number, request.body) for address, request in told] == [
        (near[0], 7, b""),
        (near[2], 7, b""),
    ]
    await site.replicas.copy_checkpoint("clicks", [])
    assert len(site.node.asked) == asked + 2, "once"
    site.database.close()


async def test_a_checkpoint_that_is_too_large_or_that_nobody_takes_is_counted(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = Site("", tmp_path)
    site.node.reply = lambda address, request: False
    site.checkpoint(1, b"[1]")
    assert len(await site.copy()) == 3, "everybody is asked"
    assert (site.replicas.copied, site.replicas.skipped) == (0, 1)
    monkeypatch.setattr(replicas, "BODY_BYTES_MAX", 10)
    assert await site.copy() == []
    assert (site.replicas.copied, site.replicas.skipped) == (0, 2)
    site.database.close()


def test_a_copy_covers_something() -> None:
    with pytest.raises(ValueError, match="must be below"):
        Keep(bytes(20), "a", 3, 3, None)
