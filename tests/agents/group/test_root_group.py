"""Root groups of agents in one process: stops that are interrupted, publications that meet them, copies on others."""

from __future__ import annotations

import asyncio
import contextlib
import pathlib
from collections.abc import AsyncIterator

import msgspec
import pytest
from msgspec.structs import replace

from elf.agents.errors import UnavailableError
from elf.agents.group import care as group_care
from elf.agents.group import leadership
from elf.agents.group.transfer import Pages
from elf.agents.http.agent_service import Service
from elf.agents.master.commands import End, Rename
from elf.agents.publications import end
from elf.agents.publications.notices import Notices
from elf.agents.store.controls import Controls
from elf.agents.store.panes import Panes
from elf.agents.wire.records import JobRecord
from elf.agents.wire.root_groups import Fetch
from elf.overlay.contract import ORIGIN, ControlEntry, ControlState, Mark
from elf.overlay.errors import OvertakenError
from elf.overlay.group import machine
from elf.overlay.group.care import CareTimes
from elf.overlay.group.messages import Place
from elf.overlay.ids import app_id, distance
from tests.agents.publications.test_control import JOB, configure
from tests.overlay.cluster import wait_until
from tests.virtual import agents as virtual
from tests.virtual.agents import Agent, free_port

pytestmark = pytest.mark.virtual

APP = app_id("sold", "shop")


@contextlib.asynccontextmanager
async def running(folder: pathlib.Path, count: int) -> AsyncIterator[list[Agent]]:
    ports = [free_port() for _ in range(count)]
    configs = [
        configure(folder, f"n{number}", port, [f"127.0.0.1:{ports[0]}"] if number else [])
        for number, port in enumerate(ports)
    ]
    async with virtual.running(configs) as agents:
        yield agents


async def publish(agents: list[Agent]) -> tuple[Agent, JobRecord]:
    """Publish the job; returns its master and its record, once all agents have heard of it."""
    await Service(agents[0]).publish(JOB, "sold.toml", None, None)
    await wait_until(lambda: all(len(agent.catalogue.running()) == 1 for agent in agents))
    master = next(agent for agent in agents if APP in agent.masters)
    return master, master.masters.job(APP)


async def restart(agents: list[Agent], agent: Agent) -> Agent:
    at = agents.index(agent)
    await agent.stop()
    agents[at] = Agent(agent.config)
    await agents[at].start()
    return agents[at]


async def test_every_member_keeps_a_copy_and_drops_it_when_the_job_is_stopped(tmp_path: pathlib.Path) -> None:
    async with running(tmp_path, 3) as agents:
        _, job = await publish(agents)
        await wait_until(lambda: all(agent.copies.get(APP) is not None for agent in agents))
        assert sum(APP in agent.masters for agent in agents) == 1
        await Service(agents[1]).stop("shop", "sold", 0)
        await wait_until(lambda: all(agent.copies.get(APP) is None for agent in agents))
        await Service(agents[0]).publish(JOB, "sold.toml", None, None)
        await wait_until(lambda: all(agent.copies.get(APP) is not None for agent in agents))
        copies = [agent.copies.get(APP) for agent in agents]
        assert all(copy is not None and copy.job.instance != job.instance for copy in copies)


async def test_a_member_without_a_vote_that_misses_the_end_drops_its_copy(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leadership, "DROP_S", 3.0)
    async with running(tmp_path, 4) as agents:
        await publish(agents)
        await wait_until(lambda: all(agent.copies.get(APP) is not None for agent in agents))
        await wait_until(lambda: len(voters(agents)) == 3)
        deaf = next(agent for agent in agents if agent.agent_id not in voters(agents))

        async def nothing(*_: object) -> None:
            return

        # Its disk is so slow that nothing more is applied.
        monkeypatch.setattr(deaf, "on_group_apply", nothing)
        await Service(agents[0]).stop("shop", "sold", 0)
        await wait_until(lambda: all(agent.copies.get(APP) is None for agent in agents))


async def test_a_copy_that_comes_only_after_the_end_is_dropped(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leadership, "DROP_S", 1.5)
    async with running(tmp_path, 4) as agents:
        await publish(agents)
        await wait_until(lambda: len(voters(agents)) == 3)
        await wait_until(lambda: all(agent.copies.get(APP) is not None for agent in agents))
        late = next(agent for agent in agents if agent.agent_id not in voters(agents))
        copy = late.copies.get(APP)
        assert copy is not None
        job, state, leader = copy.job, msgspec.msgpack.encode(copy.master.state), copy.job.master
        # It is being fetched anew when the job ends.
        monkeypatch.setattr(late, "on_group_behind", lambda *_: None)
        await late.copies.close(APP)
        await Service(agents[0]).stop("shop", "sold", 0)
        await wait_until(lambda: all(agent.copies.get(APP) is None for agent in agents))
        assert late.catalogue.running() == []
        late.copies.take(job, state, leader)
        await wait_until(lambda: all(agent.copies.get(APP) is None for agent in agents))


async def test_a_copy_of_a_job_that_ended_long_ago_is_dropped_when_it_comes_and_after_a_restart(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However long it took: nobody looks for it any more when it comes."""
    async with running(tmp_path, 4) as agents:
        await publish(agents)
        await wait_until(lambda: len(voters(agents)) == 3)
        await wait_until(lambda: all(agent.copies.get(APP) is not None for agent in agents))
        late = next(agent for agent in agents if agent.agent_id not in voters(agents))
        copy = late.copies.get(APP)
        assert copy is not None
        job, state = copy.job, msgspec.msgpack.encode(copy.master.state)
        monkeypatch.setattr(late, "on_group_behind", lambda *_: None)
        monkeypatch.setattr(leadership, "DROP_LOOKS", 0)
        await late.copies.close(APP)
        await Service(agents[0]).stop("shop", "sold", 0)
        await wait_until(lambda: all(agent.copies.get(APP) is None for agent in agents))
        await wait_until(lambda: late.catalogue.is_over(job.tree))
        monkeypatch.setattr(leadership, "DROP_LOOKS", 5)
        monkeypatch.setattr(leadership, "DROP_S", 0.1)
        late.copies.take(job, state, job.master)
        await wait_until(lambda: late.copies.get(APP) is None)
        # One that lies on the disk of an agent that was stopped just then.
        await asyncio.to_thread(Panes(late.database).adopt, APP, job.encode(), state)
        again = await restart(agents, late)
        await wait_until(lambda: again.copies.get(APP) is None)


async def test_a_stop_that_was_decided_is_finished_after_a_restart(tmp_path: pathlib.Path) -> None:
    async with running(tmp_path, 1) as agents:
        master, job = await publish(agents)
        await master.copies.propose(APP, Rename(job.tombstone(job.stamp_ms + 1)))
        again = await restart(agents, master)
        await wait_until(lambda: again.copies.get(APP) is None)
        assert again.catalogue.running() == []


async def test_a_job_that_ended_is_not_taken_up_again(tmp_path: pathlib.Path) -> None:
    async with running(tmp_path, 1) as agents:
        master, job = await publish(agents)
        await master.copies.propose(APP, End(job.tombstone(job.stamp_ms + 1)))
        again = await restart(agents, master)
        assert again.copies.get(APP) is None


async def test_a_member_that_does_not_lead_refuses_to_begin_the_job_anew(tmp_path: pathlib.Path) -> None:
    async with running(tmp_path, 3) as agents:
        master, job = await publish(agents)
        await wait_until(lambda: all(agent.copies.get(APP) is not None for agent in agents))
        other = next(agent for agent in agents if agent is not master)
        with pytest.raises(UnavailableError, match="has no master at this moment"):
            await other.masters.install(job, {})
        copy = other.copies.get(APP)
        assert copy is not None and copy.job.instance == job.instance


async def test_a_job_of_whose_end_the_agents_cannot_be_told_ends_once_they_were_and_nothing_begins_before(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tell, away = Notices.tell, True

    async def tells(self: Notices, job: JobRecord) -> None:
        if away and job.stopped:
            raise UnavailableError("nobody answers")
        await tell(self, job)

    monkeypatch.setattr(Notices, "tell", tells)
    monkeypatch.setattr(end, "ENDED_S", 0.1)
    async with running(tmp_path, 1) as agents:
        master, job = await publish(agents)
        with pytest.raises(UnavailableError, match="'orders' could not be told yet that job shop/sold ends"):
            await Service(master).stop("shop", "sold", 0)
        with pytest.raises(UnavailableError, match="is just being stopped"):
            await master.masters.install(job, {}, ended=job.instance)
        away = False
        await wait_until(lambda: master.copies.get(APP) is None)
        assert not master.catalogue.running()


async def test_a_leader_gives_its_copy_also_while_only_that_can_make_it_the_master(tmp_path: pathlib.Path) -> None:
    async with running(tmp_path, 3) as agents:
        master, job = await publish(agents)
        other = next(agent for agent in agents if agent is not master)
        await wait_until(lambda: len(voters(agents)) == 3)
        copy = master.copies.get(APP)
        assert copy is not None
        copy.leads = False
        try:
            page = await Pages(Panes(master.database), Controls(master.database), master.copies).answer(
                Fetch(job.tree, other.agent_id, 0)
            )
        finally:
            copy.leads = True
        assert JobRecord.decode(page.job).tree == job.tree and page.applied > Place(1, 1)


async def test_a_leader_whose_copy_goes_for_that_of_a_later_one_is_the_master_no_more(tmp_path: pathlib.Path) -> None:
    """The group was closed before it could say so: the job's former master went on as one, without a copy."""
    async with running(tmp_path, 3) as agents:
        former, job = await publish(agents)
        await wait_until(lambda: len(voters(agents)) == 3)
        await wait_until(lambda: all(agent.copies.get(APP) is not None for agent in agents))
        other = next(agent for agent in agents if agent is not former)
        await former.copies.close_for(job, other.node.contact, 1 << 20, Place(1 << 20, 1 << 20))
        assert former.masters.jobs == []
        assert APP not in former.masters


async def test_a_member_forgets_nothing_for_a_copy_that_is_older(tmp_path: pathlib.Path) -> None:
    async with running(tmp_path, 3) as agents:
        master, job = await publish(agents)
        await wait_until(lambda: len(voters(agents)) == 3)
        other = next(agent for agent in agents if agent is not master)
        await wait_until(lambda: other.copies.get(APP) is not None)
        for term, applied in [(0, Place(9, 9_999)), (9, Place())]:
            assert not await other.copies.close_for(job, master.node.contact, term, applied)
            assert other.node.groups.view(job.tree) is not None, "it goes on with what it has"
        assert await other.copies.close_for(job, master.node.contact, 9, Place(9, 9_999))
        assert other.node.groups.view(job.tree) is None


async def test_a_copy_of_an_earlier_publication_takes_no_later_ones_place(tmp_path: pathlib.Path) -> None:
    """Its leader has not heard of the later one: it was fetched over that, and what that had counted was gone."""
    async with running(tmp_path, 1) as (agent,):
        _, job = await publish([agent])
        earlier = replace(job, instance="earlier", stamp_ms=job.stamp_ms - 1)
        assert earlier.tree != job.tree
        assert not await agent.copies.close_for(earlier, agent.node.contact, 1 << 20, Place(1 << 20, 1 << 20))
        assert APP in agent.masters
        await agent.copies.drop(APP, earlier.tree)
        assert APP in agent.masters
        later = replace(earlier, stamp_ms=job.stamp_ms + 1)
        assert await agent.copies.close_for(later, agent.node.contact, 1 << 20, Place(1 << 20, 1 << 20))
        assert APP not in agent.masters


async def test_nobody_else_touches_a_copy_while_one_is_fetched(tmp_path: pathlib.Path) -> None:
    async with running(tmp_path, 1) as (agent,):
        _, job = await publish([agent])
        async with agent.copies.life(APP):
            dropping = asyncio.create_task(agent.copies.drop(APP, job.tree))
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.1):
                    await asyncio.shield(dropping)
            assert agent.copies.get(APP) is not None
        await dropping
        assert agent.copies.get(APP) is None


async def test_a_job_is_not_begun_over_a_copy_of_it_that_was_fetched_meanwhile(tmp_path: pathlib.Path) -> None:
    async with running(tmp_path, 1) as (agent,):
        _, job = await publish([agent])
        copy = agent.copies.get(APP)
        assert copy is not None
        state = copy.master.state
        async with agent.copies.life(APP):
            await agent.copies.forget(APP)
            beginning = asyncio.create_task(agent.masters.install(replace(job, instance="another"), {}, ""))
            await asyncio.sleep(0)
            assert not beginning.done()
            agent.copies.create(job, state)
        with pytest.raises(UnavailableError, match="running and has no master at this moment"):
            await beginning
        copy = agent.copies.get(APP)
        assert copy is not None and copy.job.instance == job.instance


async def test_what_a_root_says_is_decided_by_its_group_and_by_no_root_of_the_past(
    tmp_path: pathlib.Path,
) -> None:
    async with running(tmp_path, 3) as agents:
        master, job = await publish(agents)
        await wait_until(lambda: len(voters(agents)) == 3)
        master.node.multicast(job.tree, b"x")
        await wait_until(lambda: all(agent.node.control_mark(job.tree).position == 1 for agent in agents))
        said = master.node.control_mark(job.tree)
        await wait_until(lambda: all(agent.copies.has_said(job.tree, said) for agent in agents))
        other = next(agent for agent in agents if agent is not master)
        late = ControlEntry(Mark(said.term, 2), b"y", retain_above=ORIGIN)
        with pytest.raises(OvertakenError):
            await other.on_control(job.tree, late)
        assert Controls(other.database).state(job.tree) == ControlState(said, said), "nobody ever said it"
        rooted = Controls(other.database).rooted(job.tree)
        assert rooted is not None and rooted.mark == said and [entry.body for entry in rooted.entries] == [b"x"]


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make groups take a second for what they give an agent half a minute for."""
    monkeypatch.setattr(machine, "SHOW_MS", 200)
    monkeypatch.setattr(machine, "SILENT_MS", 1_000)
    times = CareTimes(silent_ms=1_500, stable_ms=500, look_ms=500, rest_s=0.2)
    monkeypatch.setattr(group_care, "TIMES", times)


def voters(agents: list[Agent]) -> set[str]:
    """Return the agents with a vote, as the master sees it, which must be one of these."""
    leaders = [agent for agent in agents if APP in agent.masters]
    copy = leaders[0].copies.get(APP) if leaders else None
    return {seat.agent for seat in copy.master.state.seats if seat.votes} if copy is not None else set()


@pytest.mark.usefixtures("impatient")
async def test_a_member_that_is_gone_is_replaced_by_the_next_nearest_agent(tmp_path: pathlib.Path) -> None:
    async with running(tmp_path, 6) as agents:
        master, _ = await publish(agents)
        await wait_until(lambda: len(voters(agents)) == 5)
        gone = next(agent for agent in agents if agent is not master and agent.agent_id in voters(agents))
        agents.remove(gone)
        await gone.stop()
        await wait_until(lambda: voters(agents) == {agent.agent_id for agent in agents})
        await wait_until(lambda: all(agent.copies.get(APP) is not None for agent in agents))


@pytest.mark.usefixtures("impatient")
async def test_the_nearest_voter_takes_the_lead_back_once_all_is_quiet(tmp_path: pathlib.Path) -> None:
    async with running(tmp_path, 3) as agents:
        _, job = await publish(agents)
        await wait_until(lambda: len(voters(agents)) == 3)
        near, _, far = sorted(agents, key=lambda agent: distance(agent.node.contact.id, job.tree))
        await wait_until(lambda: APP in near.masters)
        near.node.groups.hand_over(job.tree, far.agent_id)
        await wait_until(lambda: APP in far.masters)
        await wait_until(lambda: APP in near.masters and APP not in far.masters)
        await wait_until(lambda: all(agent.catalogue.running()[0].master == near.node.contact for agent in agents))


async def test_a_worker_reads_every_line_although_the_stored_record_is_older(tmp_path: pathlib.Path) -> None:
    async with running(tmp_path, 1) as agents:
        master, job = await publish(agents)
        workers = master.intakes["orders"].pump.workers
        await wait_until(lambda: job.tree in workers)
        # Another master was chosen, and its record had not come round when this agent fell.
        await master.copies.propose(APP, Rename(replace(job, stamp_ms=job.stamp_ms + 1)))
        again = await restart(agents, master)
        assert job.tree in again.intakes["orders"].pump.workers
