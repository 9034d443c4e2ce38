"""Agents as members of a source's tree: what a rogue member says of others there is believed by nobody."""

from __future__ import annotations

import asyncio
import pathlib
from collections.abc import AsyncIterator
from typing import Any

import pytest
from msgspec.structs import replace

from elf.agents.errors import UnavailableError
from elf.agents.http.agent_service import Service
from elf.agents.wire.catalogue import member_record
from elf.agents.wire.introductions import gone, introduced
from elf.agents.wire.records import Member, contact_at
from elf.agents.wire.replies import value_of
from elf.agents.wire.request import encode
from elf.agents.wire.root_groups import Enlist
from elf.overlay.contract import Record
from elf.overlay.ids import source_id
from elf.overlay.keys import SecretKey
from tests.agents.publications.test_control import JOB, configure
from tests.overlay.cluster import wait_until
from tests.virtual.agents import Agent, free_port, now_ms

pytestmark = pytest.mark.virtual
TREE = source_id("orders")


@pytest.fixture
async def agents(tmp_path: pathlib.Path) -> AsyncIterator[list[Agent]]:
    """Three agents of a source, the last of which is to turn rogue."""
    ports = [free_port() for _ in range(3)]
    join = [f"127.0.0.1:{ports[0]}"]
    found = [Agent(configure(tmp_path, f"web{i}", port, join if i else [])) for i, port in enumerate(ports)]
    for agent in found:
        await agent.start()
    await wait_until(lambda: all(len(agent.catalogue.members("orders")) == 3 for agent in found))
    yield found
    for agent in found:
        await agent.stop()


def member_of(agent: Agent, agent_id: str) -> Member:
    known = agent.catalogue.member(agent_id)
    assert known is not None
    return known


async def test_every_agent_introduces_itself_with_its_key(agents: list[Agent]) -> None:
    for agent in agents:
        for other in agents:
            signed = member_of(agent, other.agent_id).signed
            assert signed is not None
            assert signed.key == SecretKey(other.database.secret).public


async def test_what_a_rogue_says_of_another_reaches_nobody(
    agents: list[Agent], caplog: pytest.LogCaptureFixture
) -> None:
    victim, honest, rogue = agents
    truth, version = member_of(honest, victim.agent_id), now_ms() + 10_000
    elsewhere = replace(truth, address="127.0.0.1:9")
    stolen = member_record(elsewhere, version)
    forged = [
        stolen,
        member_record(introduced(elsewhere, version + 1, rogue.membership.passport.key), version + 1),
        member_record(gone(replace(elsewhere, signed=None)), version + 2),
        member_record(gone(elsewhere), version + 3),
        Record(stolen.key, version + 4, b"\xff"),
        replace(member_record(member_of(honest, rogue.agent_id), version + 5), key=stolen.key),
        member_record(gone(truth), now_ms() + 10**10),
    ]
    for record in forged:
        assert rogue.node.add_record(TREE, record), "its own node does what it says"
        await asyncio.sleep(1.0)
    for agent in (victim, honest):
        assert member_of(agent, victim.agent_id) == truth
        held = [record for record in agent.node.records(TREE) if record.key == stolen.key]
        assert [record.version for record in held] == [truth.signed and truth.signed.version]
    counted = sum(agent.membership.refused.total() for agent in (victim, honest))
    said = [line for line in caplog.messages if f"{stolen.key} of another agent is not taken" in line]
    assert counted >= len(said) == len(forged)
    # A newcomer hears of the victim what is true, whoever it asks.
    await rogue.stop()
    again = Agent(rogue.config)
    agents[2] = again
    await again.start()
    await wait_until(lambda: again.catalogue.member(victim.agent_id) == truth)


async def test_an_agent_that_runs_takes_back_that_it_is_gone(agents: list[Agent]) -> None:
    victim, honest, rogue = agents
    truth = member_of(rogue, victim.agent_id)
    assert rogue.node.add_record(TREE, member_record(gone(truth), now_ms() + 10_000))
    await wait_until(lambda: member_of(honest, victim.agent_id) != truth)
    await wait_until(lambda: not member_of(honest, victim.agent_id).gone)
    assert member_of(honest, victim.agent_id).address == truth.address


async def test_an_operator_retires_an_agent_by_way_of_one_that_has_never_heard_of_it(
    agents: list[Agent], tmp_path: pathlib.Path
) -> None:
    victim, honest, _ = agents
    config = configure(tmp_path, "outside", free_port(), [honest.node.contact.address])
    outside = Agent(replace(config, sources={}))
    await outside.start()
    agents.append(outside)
    await Service(honest).publish(JOB, "sold.toml", None, None)
    await wait_until(lambda: bool(victim.attachments.attached()))
    await asyncio.sleep(3.0)
    await victim.stop()
    agents.remove(victim)
    assert outside.catalogue.member(victim.agent_id) is None
    told = await Service(outside).retire("web0", None)
    assert told["unreachable"] == []
    await wait_until(lambda: len(honest.catalogue.members("orders")) == 2)
    back = Agent(victim.config)
    agents.append(back)
    await back.start()
    await wait_until(lambda: all(len(agent.catalogue.members("orders")) == 3 for agent in agents[:2]))


async def test_a_job_s_master_knows_everybody_s_key_from_its_first_commit_on(agents: list[Agent]) -> None:
    await Service(agents[0]).publish(JOB, "sold.toml", None, None)
    job = agents[0].catalogue.running()[0]
    keys = {agent.agent_id: agent.public for agent in agents}
    for agent in agents:
        copy = agent.copies.get(job.definition.app_id)
        if copy is not None and copy.leads:
            assert {each: entry.key for each, entry in copy.master.state.rollup.roster.items()} == keys
            break
    else:
        pytest.fail("nobody leads it")


async def test_nobody_takes_the_place_of_an_agent_whose_address_another_one_answers_at(agents: list[Agent]) -> None:
    await Service(agents[0]).publish(JOB, "sold.toml", None, None)
    job = agents[0].catalogue.running()[0]
    app, address = job.definition.app_id, job.master.address
    others = [agent for agent in agents if agent.node.contact != job.master]
    rogue, victim = others
    master = next(agent for agent in agents if agent not in others)

    async def enlist(agent_id: str, at: str) -> Any:
        request = encode(Enlist(app, job.instance, agent_id, at))
        return value_of(await rogue.node.ask(contact_at(address), request))

    at = victim.node.contact.address
    with pytest.raises(UnavailableError, match=f"at {at} runs the agent {victim.agent_id}, not ghost"):
        await enlist("ghost", at)
    with pytest.raises(UnavailableError, match=r"the agent at 127\.0\.0\.1:9 does not answer"):
        await enlist("ghost", "127.0.0.1:9")
    assert not [known for known in master.masters.master(app).state.enlisted.values() if known.lost]
    await victim.stop()
    agents.remove(victim)
    with pytest.raises(UnavailableError, match=f"the agent at {at} does not answer"):
        await enlist("spook", at)
