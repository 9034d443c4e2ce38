"""Who is enlisted for a job is remembered for good: a member cannot enlist who is not there, nor agents without end."""

from __future__ import annotations

import pathlib

import pytest
from msgspec.structs import replace

from elf.agents.dispatch import of_job
from elf.agents.errors import ElfError
from elf.agents.group import masters
from elf.agents.wire.records import Member
from elf.agents.wire.replies import value_of
from elf.agents.wire.request import encode
from elf.agents.wire.root_groups import Enlist
from elf.overlay.node import OverlayNode
from tests.agents.owned import cluster
from tests.overlay.cluster import wait_until
from tests.virtual.http import client_of

pytestmark = pytest.mark.virtual

JOB = """
name = "sold"
creator = "shop"
query = "SELECT product, count(*) AS n FROM orders GROUP BY product, window(ts, '2 seconds')"
"""


async def test_agents_that_are_not_there_are_not_enlisted(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(masters, "ENLISTED_PER_ADDRESS_MAX", 3)
    async with cluster(tmp_path, 3) as agents, client_of(agents[0]) as client:
        await client.publish(text=JOB)
        await wait_until(lambda: all(agent.attachments.attached().get("orders") for agent in agents))
        job = agents[0].catalogue.running()[0]
        app = job.definition.app_id
        master = next(agent for agent in agents if agent.masters.has_tree(job.tree))
        rogue = next(agent for agent in agents if agent is not master)

        def enlisted() -> set[str]:
            return set(master.masters.master(app).state.enlisted)

        async def enlist(agent: str, address: str) -> None:
            body = encode(Enlist(app, job.instance, agent, address))
            value_of(await rogue.node.ask(master.node.contact, body))

        before = enlisted()
        assert before == {agent.agent_id for agent in agents}
        for number, address in enumerate(("10.9.9.9:4250", *(agent.node.contact.address for agent in agents))):
            with pytest.raises(ElfError):
                await enlist(f"ghost{number}", address)
        assert enlisted() == before
        # At its own address it may say that it is whoever it likes, and so it can only so often.
        said: list[Member] = []

        async def who_is_at(node: OverlayNode, address: str, within_ms: int) -> Member:
            assert address == rogue.node.contact.address
            return said[-1]

        monkeypatch.setattr(of_job, "who_is_at", who_is_at)
        for number in range(10):
            said.append(replace(rogue.introduce(), agent_id=f"{number:016x}"))
            if len(enlisted()) < len(before) + 2:
                await enlist(said[-1].agent_id, said[-1].address)
            else:
                with pytest.raises(ElfError, match=r"3 agents were at .* already"):
                    await enlist(said[-1].agent_id, said[-1].address)
        assert len(enlisted()) == len(before) + 2
