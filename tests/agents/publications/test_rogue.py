"""A member that is taken over says whatever it likes of somebody else's job, at any time and stamped as it likes.

The job is as its creator has ordered throughout, and ends when he says so. What the rogue may do beyond records, with
claims and snapshots, is the overlay's.
"""

from __future__ import annotations

import asyncio
import pathlib
import random

import msgspec
import pytest
from msgspec.structs import replace

from elf.agents.errors import ElfError
from elf.agents.jobs.ed25519 import public_key
from elf.agents.jobs.orders import Order, digest_of
from elf.agents.wire.catalogue import job_record, member_record
from elf.agents.wire.changes import Amend
from elf.agents.wire.placement import Install
from elf.agents.wire.purges import Purge, purge_record
from elf.agents.wire.questions import Stop
from elf.agents.wire.records import JOB_KEY, JobRecord
from elf.agents.wire.request import AnyRequest, encode
from elf.agents.wire.shares import Adopt
from elf.agents.wire.sources import Spread
from elf.client.asynchronous import AsyncClient
from elf.overlay.contract import Record
from elf.overlay.errors import OverlayError
from elf.overlay.ids import source_id
from tests.agents.owned import MINE, THEIRS, cluster
from tests.overlay.cluster import wait_until
from tests.virtual.agents import Agent, now_ms
from tests.virtual.http import client_of

pytestmark = pytest.mark.virtual

JOB = """
name = "sold"
creator = "shop"
query = "SELECT product, count(*) AS n FROM orders GROUP BY product, window(ts, '2 seconds')"
"""
ROGUE = bytes(range(2, 34))
SOURCE = source_id("orders")
STEPS = 12


class Rogue:
    """Forges what it has heard, past all checks of its own agent."""

    def __init__(self, agent: Agent, rng: random.Random) -> None:
        self._agent = agent
        self._rng = rng
        #: Orders of the creator that it has heard.
        self._orders: list[Order] = []

    def listen(self, job: JobRecord) -> None:
        heard = [job.published, job.ended, *(version.order for version in job.history)]
        self._orders += [order for order in heard if order is not None and order not in self._orders]

    async def forge(self, job: JobRecord) -> None:
        """Say something false of a job, in one way or another."""
        self.listen(job)
        lie = self._lie(job)
        node = self._agent.node
        if self._rng.random() < 0.5:
            node.forget_record(SOURCE, f"job/{job.definition.key}")
            node.add_record(SOURCE, job_record(lie))
            node.forget_record(job.tree, JOB_KEY)
            node.add_record(job.tree, Record(JOB_KEY, lie.stamp_ms, lie.encode()))
            node.add_record(SOURCE, self._other_record(job))
        else:
            try:
                await node.ask(job.master, encode(self._question(job, lie)))
            except (OverlayError, ElfError):
                return

    def _order(self, job: JobRecord) -> Order | None:
        """Return an order of its own, an altered one, an old one, or none."""
        own = Order(
            key="",
            what=self._rng.choice(["end", "pause", "stop", "publish", "purge"]),
            job=job.definition.key,
            publication=self._rng.choice([job.publication, "0123"]),
            about=digest_of(job.definition),
            made_ms=now_ms() + self._rng.randint(-1_000, 10_000),
        ).signed(ROGUE)
        return self._rng.choice([None, own, replace(own, key=job.owner), *self._orders])

    def _lie(self, job: JobRecord) -> JobRecord:
        stamp_ms = self._rng.choice([job.stamp_ms + 1, now_ms() + self._rng.randint(-9_999, 9_999_999), 1 << 53])
        order, number = self._order(job), job.definition.version + self._rng.randint(0, 2)
        definition = replace(job.definition, version=number)
        what = self._rng.choice(["pause", "stop", "reset", "resume"])
        ends_ms = now_ms() if what == "stop" else None
        last = job.history[-1]
        version = replace(
            last,
            number=number,
            definition=definition,
            what=what,
            since=max(9, last.since),
            order=order,
            token="",
            ends_ms=ends_ms,
        )
        history = tuple(each for each in job.history if each.number < number)
        lies = [
            replace(job, stopped=True, ended=order),
            replace(job, definition=definition, versions=(*history, version)),
            replace(job, published=order),
            replace(job, published=order, instance="0123"),
            replace(job, published=None, instance="0123", stopped=self._rng.random() < 0.5),
            replace(job, versions=(), definition=job.history[0].definition),
        ]
        return replace(self._rng.choice(lies), stamp_ms=stamp_ms)

    def _other_record(self, job: JobRecord) -> Record:
        purge = Order(key="", what="purge", job=f"job/{job.definition.key}", made_ms=now_ms()).signed(ROGUE)
        other = self._rng.choice(self._agent.catalogue.all_members())
        return self._rng.choice(
            [
                purge_record(purge),
                purge_record(replace(purge, key=public_key(THEIRS))),
                Record(f"job/{job.definition.key}", 1 << 60, b"\xc1"),
                member_record(replace(other, agent_id=self._rng.randbytes(8).hex(), name="ghost"), now_ms()),
                member_record(other, 1 << 61),
            ]
        )

    def _question(self, job: JobRecord, lie: JobRecord) -> AnyRequest:
        app, record, token = job.definition.app_id, job_record(lie), self._rng.randbytes(4).hex()
        order = self._order(job)
        return self._rng.choice(
            [
                Stop(app, order),
                Amend(app, "pause", token, order=order),
                Amend(app, "stop", token, why="it fails", order=order),
                Adopt(app, job.publication, lie.history),
                Spread("orders", record.key, record.version, record.body),
                Install(lie, {}, job.instance),
                Purge(order or Order(key="", what="purge", job=f"job/{job.definition.key}", made_ms=now_ms())),
            ]
        )


async def ordered(client: AsyncClient, rng: random.Random, paused: bool) -> bool:
    """Have the creator order something; returns whether the job is paused then."""
    if paused:
        await client.resume("shop/sold")
        return False
    if rng.random() < 0.5:
        await client.pause("shop/sold")
        return True
    await client.update("shop/sold", options={"lateness": f"{rng.randint(1, 9)}s"})
    return False


@pytest.mark.parametrize("seed", [1, 2, 3])
async def test_the_job_is_as_its_creator_has_ordered(
    seed: int, tmp_path: pathlib.Path, keys: dict[str, pathlib.Path]
) -> None:
    rng = random.Random(seed)
    async with (
        cluster(tmp_path, 3, {"alice": public_key(THEIRS)}) as agents,
        client_of(agents[0], creator_key=keys["mine"]) as mine,
    ):
        await mine.publish(text=JOB)
        await wait_until(lambda: all(agent.catalogue.running() for agent in agents))
        job = agents[0].catalogue.running()[0]
        app, publication = job.definition.app_id, job.publication
        taken = next(agent for agent in agents[1:] if not agent.masters.has_tree(job.tree))
        rogue, honest = Rogue(taken, rng), [agent for agent in agents if agent is not taken]
        number, paused = 1, False
        for _ in range(STEPS):
            for _ in range(rng.randint(0, 4)):
                known = agents[0].catalogue.job(app)
                assert known is not None
                await rogue.forge(known)
            if rng.random() < 0.5:
                paused = await ordered(mine, rng, paused)
                number += 1
            await asyncio.sleep(rng.choice([0.1, 1.0, 40.0]))
            described = await mine.job("shop/sold")
            state = "paused" if paused else "running"
            assert (described["state"], described["version"], described["publication"]) == (state, number, publication)
            for agent in honest:
                known = agent.catalogue.job(app)
                assert known is not None
                assert (known.publication, known.owner, known.stopped) == (publication, public_key(MINE), False)
                assert known.definition.version <= number
        await mine.stop("shop/sold", "0s")
        await wait_until(lambda: not any(agent.catalogue.running() for agent in honest))
        held = sum(len(msgspec.msgpack.encode(record)) for record in honest[0].node.records(SOURCE))
        assert held < 1 << 20
