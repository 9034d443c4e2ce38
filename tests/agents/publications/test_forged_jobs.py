"""A member tells of jobs without end, of masters that are not there: those that are there are taken up as ever."""

from __future__ import annotations

import asyncio
import pathlib

import pytest

from elf.agents.jobs.definition import load_definition
from elf.agents.publications.attachments import ALL_S
from elf.agents.wire.catalogue import job_record
from elf.agents.wire.record_budget import ALLOWANCES, OTHER, UNHEARD_MAX, UNHEARD_MS
from elf.agents.wire.records import JobRecord
from elf.client.asynchronous import AsyncClient
from elf.overlay.contract import Record
from elf.overlay.ids import app_id, source_id
from tests.agents.owned import cluster
from tests.overlay.cluster import wait_until
from tests.virtual.agents import Agent, now_ms, time_s
from tests.virtual.http import client_of

pytestmark = pytest.mark.virtual

JOB = """
name = "sold"
creator = "shop"
query = "SELECT product, count(*) AS n FROM orders GROUP BY product, window(ts, '2 seconds')"
"""
SOURCE = source_id("orders")
#: How long somebody who is asked may take.
ASK_S = 5


def forged(number: int, host: str = "10.9.9.9") -> JobRecord:
    """Return a job of nobody, whose master is at an address where nobody is."""
    definition = load_definition(f'name = "j{number}"\ncreator = "x"\nquery = "SELECT count(*) AS n FROM orders"\n')
    return JobRecord(
        definition=definition,
        master_host=host,
        master_port=4250,
        published_ms=now_ms(),
        instance=f"{number:032x}",
        stamp_ms=now_ms(),
    )


def tell(rogue: Agent, count: int) -> None:
    for number in range(count):
        rogue.node.add_record(SOURCE, job_record(forged(number, f"10.9.{number % 200}.9")))


async def taken_up_s(agent: Agent, client: AsyncClient, name: str) -> float:
    """Publish a job; return how long it takes until an agent works on it."""
    await client.publish(text=JOB.replace("sold", name))
    began_s, worked_on = time_s(), agent.sources.attachments.attached
    await wait_until(lambda: any(job.definition.name == name for job in worked_on().get("orders", ())), 10_000)
    return time_s() - began_s


async def test_masters_that_are_not_there_hold_up_no_job(tmp_path: pathlib.Path) -> None:
    async with cluster(tmp_path, 2) as agents, client_of(agents[0]) as client:
        tell(agents[1], 200)
        await wait_until(lambda: len(agents[0].catalogue.running()) == 200)
        await asyncio.sleep(5)
        # Of a source of which no line was read yet, the masters of all jobs are waited for, all at once.
        assert await taken_up_s(agents[0], client, "sold") < ALL_S + 4 * ASK_S
        for name in ("bought", "seen"):
            assert await taken_up_s(agents[0], client, name) < 1


async def test_those_known_by_hearsay_take_bounded_memory_and_keep_no_other_out(tmp_path: pathlib.Path) -> None:
    async with cluster(tmp_path, 2) as agents, client_of(agents[0]) as client:
        await client.publish(text=JOB)
        honest, rogue = agents
        rogue.membership.admits = lambda tree, record: True  # type: ignore[method-assign]
        await wait_until(lambda: len(rogue.catalogue.running()) == 1)
        tell(rogue, 3 * UNHEARD_MAX)
        await asyncio.sleep(30)
        assert len(honest.catalogue.running()) == UNHEARD_MAX + 1
        assert any("whose masters have not answered" in note for note in honest.membership.notes())
        await asyncio.sleep(2 * UNHEARD_MS / 1000)
        assert len(honest.catalogue.running()) <= UNHEARD_MAX + 1
        assert len(honest.attachments.pending) <= UNHEARD_MAX
        assert len(honest.node.records(SOURCE)) <= UNHEARD_MAX + 5
        assert honest.catalogue.job(app_id("sold", "shop")) is not None
        # Also while they are told of without end, what is published here is taken up: its master answers.
        assert await taken_up_s(honest, client, "bought") < 1


async def test_records_that_mean_nothing_here_are_few_and_push_nothing_out(tmp_path: pathlib.Path) -> None:
    async with cluster(tmp_path, 2) as agents, client_of(agents[0]) as client:
        await client.publish(text=JOB)
        honest, rogue = agents
        rogue.membership.admits = lambda tree, record: True  # type: ignore[method-assign]
        job = forged(1)
        for number in range(2_000):
            rogue.node.add_record(SOURCE, Record(f"a{number}", 1, job.encode()))
            rogue.node.add_record(SOURCE, Record(f"job/x/y{number}", now_ms(), b"\xc1"))
        await asyncio.sleep(30)
        held = [record.key for record in honest.node.records(SOURCE)]
        others = [key for key in held if not key.startswith(("job/shop", "member/"))]
        assert len(others) == ALLOWANCES[OTHER].most, "a later release's are passed on, up to here"
        assert "job/shop/sold" in held and sum(key.startswith("member/") for key in held) == 2
        assert honest.catalogue.job(job.definition.app_id) is None, "what nobody has looked at is not learnt"
