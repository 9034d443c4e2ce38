"""Jobs with several trees, of agents in one process: published, asked, followed, restarted and stopped as one job."""

from __future__ import annotations

import asyncio
import collections
import contextlib
import json
import pathlib
import shutil
from collections.abc import AsyncIterator, Sequence
from typing import Any

import pytest

from elf.agents.errors import JobConflictError, JobError, JobSpecError, StoppedError, UnavailableError, UnknownJobError
from elf.agents.group.masters import Masters
from elf.agents.http.agent_service import Service
from elf.agents.master.results import Span
from elf.agents.publications.change import Wanted
from elf.agents.results.gatherer import parted_job
from elf.agents.wire.positions import Json, Positioned
from elf.agents.wire.records import JobRecord
from elf.overlay.ids import app_id, partition_id
from tests.agents.publications.test_control import configure
from tests.overlay.cluster import wait_until
from tests.virtual import agents as virtual
from tests.virtual.agents import Agent, free_port, now_ms, time_s

pytestmark = pytest.mark.virtual

TREES = 4
APP = app_id("sold", "shop")
APPS = [partition_id(APP, part) for part in range(TREES)]
JOB = f"""
name = "sold"
creator = "shop"
query = '''
SELECT product, count(*) AS n FROM orders GROUP BY product, window(ts, '2 seconds') ORDER BY n DESC, product
'''
[options]
trees = {TREES}
lateness = "200ms"
"""
DEADLINE_S = 60.0
Truth = collections.Counter[tuple[int, str]]


@contextlib.asynccontextmanager
async def running(folder: pathlib.Path, count: int) -> AsyncIterator[list[Agent]]:
    ports = [free_port() for _ in range(count)]
    addresses = [f"127.0.0.1:{port}" for port in ports]
    configs = [
        configure(folder, f"n{number}", port, addresses[:number] + addresses[number + 1 :] if number else [])
        for number, port in enumerate(ports)
    ]
    async with virtual.running(configs) as agents:
        yield agents


async def publish(agents: Sequence[Agent], job: str = JOB) -> None:
    """Publish a job and wait until every agent works on all its parts."""
    await Service(agents[0]).publish(job, "sold.toml", None, None)
    await wait_until(lambda: all(len(agent.attachments.progress()) == TREES for agent in agents))


async def push(agent: Agent, products: Sequence[str]) -> Truth:
    """Give an agent events of this moment; returns how many there are of each window and product."""
    at_ms = now_ms()
    lines = [json.dumps({"ts": at_ms, "product": product}) for product in products]
    await agent.intakes["orders"].ingest(("\n".join(lines) + "\n").encode())
    return collections.Counter((at_ms // 2_000 * 2_000, product) for product in products)


def many(count: int, of: int) -> list[str]:
    return [f"product {number * 7 % of}" for number in range(count)]


def rows_of(truth: Truth, start_ms: int) -> list[Json]:
    """The rows that a window must have, in their order."""
    cells = [(-n, product) for (at_ms, product), n in truth.items() if at_ms == start_ms]
    return [{"product": product, "n": -n} for n, product in sorted(cells)]


async def ask(agent: Agent, window: str, key: str | None = None, limit: int | None = None) -> Json | None:
    """Ask for a result; None while a part of it is not to be had, by name."""
    try:
        return await Service(agent).result("shop", "sold", window, key, limit)
    except UnavailableError as error:
        assert "part " in str(error) and f"of {TREES} of shop/sold" in str(error)
        return None


async def wait_for_truth(agents: Sequence[Agent], truth: Truth) -> None:
    """Wait until every agent answers every window as it must be, and says that it lacks nothing."""
    end_s = time_s() + DEADLINE_S
    for start_ms in sorted({at_ms for at_ms, _ in truth}):
        for agent in agents:
            while True:
                result = await ask(agent, f"{start_ms}/{start_ms + 2_000}")
                status = result["completeness"]["status"] if result else None
                if result and status in ("final", "revised") and result["rows"] == rows_of(truth, start_ms):
                    break
                wrong = result and (result["completeness"], result["rows"][:3], rows_of(truth, start_ms)[:3])
                assert time_s() < end_s, wrong
                await asyncio.sleep(0.05)


async def test_any_agent_answers_for_all_parts(tmp_path: pathlib.Path) -> None:
    async with running(tmp_path, 3) as agents:
        await publish(agents)
        truth: Truth = collections.Counter()
        for number, agent in enumerate(agents):
            truth += await push(agent, many(1_500, 300 + 50 * number))
        await wait_for_truth(agents, truth)
        start_ms = min(at_ms for at_ms, _ in truth)
        rows, window = rows_of(truth, start_ms), f"{start_ms}/{start_ms + 2_000}"
        for agent in agents:
            best = await ask(agent, window, limit=10)
            assert best is not None and best["rows"] == rows[:10] and best["job"] == "shop/sold"
            for row in rows[::40]:
                one = await ask(agent, window, key=row["product"])
                assert one is not None and one["rows"] == [row]
            assert [job["name"] for job in await Service(agent).jobs()] == ["sold"]
        described = await Service(agents[0]).job("shop", "sold")
        assert [part["part"] for part in described["parts"]] == list(range(TREES))
        assert described["through_ms"] == min(part["through_ms"] for part in described["parts"])
        assert described["oldest_ms"] == min(part["oldest_ms"] for part in described["parts"])
        assert described["expired_ms"] is None and sorted(described["agents"].values()) == described["roster"]
        for part in range(TREES):
            tree = await Service(agents[1]).tree("shop", "sold", part)
            assert tree["nodes"][0]["address"] == described["parts"][part]["master"] and len(tree["nodes"]) == 3
        with pytest.raises(JobError, match="has no tree 4"):
            await Service(agents[1]).tree("shop", "sold", TREES)
        assert b'elf_worker_memory_bytes{job="shop/sold#3"}' in Service(agents[0]).metrics()


async def test_an_agent_that_does_not_know_the_job_learns_from_its_master_that_there_are_parts(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running(tmp_path, 2) as agents:
        await publish(agents)
        truth = await push(agents[0], many(200, 50))
        service = Service(agents[1])
        monkeypatch.setattr(service._asking.gathering, "known", lambda app: None)
        await wait_for_truth(agents, truth)
        (start_ms,) = {at_ms for at_ms, _ in truth}
        result = await service.result("shop", "sold", f"{start_ms}/{start_ms + 2_000}", None, None)
        assert result["rows"] == rows_of(truth, start_ms)
        async with contextlib.aclosing(service.results("shop", "sold")) as results:  # type: ignore[type-var]
            first, position = await anext(results)
            assert first["job"] == "shop/sold" and isinstance(position[0], tuple) and len(position[0]) == TREES


async def test_publishing_again_changes_nothing_and_stopping_ends_all_parts(tmp_path: pathlib.Path) -> None:
    async with running(tmp_path, 2) as agents:
        await publish(agents)
        before = await jobs_of(agents)
        await publish(agents)
        assert {job.instance for job in (await jobs_of(agents)).values()} == {job.instance for job in before.values()}
        with pytest.raises(JobConflictError):
            await Service(agents[1]).publish(JOB.replace(f"trees = {TREES}", "trees = 2"), "sold.toml", None, None)
        await Service(agents[1]).stop("shop", "sold", 0)
        await wait_until(lambda: all(agent.copies.get(app) is None for agent in agents for app in APPS))
        await wait_until(lambda: not any(agent.attachments.progress() for agent in agents))
        with pytest.raises(UnknownJobError):
            await Service(agents[0]).result("shop", "sold", "latest", None, None)
        await publish(agents)
        truth = await push(agents[1], many(300, 100))
        await wait_for_truth(agents, truth)


async def test_all_parts_rest_and_are_resumed_as_one_job(tmp_path: pathlib.Path) -> None:
    async def push_in(interval: int) -> Truth:
        """Give an agent events of an interval of a quarter of a second, once it is there."""
        await asyncio.sleep(max(0.0, interval / 4 + 0.05 - now_ms() / 1000))
        products = many(200, 50)
        lines = [json.dumps({"ts": interval * 250 + 50, "product": product}) for product in products]
        await agents[1].intakes["orders"].ingest(("\n".join(lines) + "\n").encode())
        return collections.Counter((interval * 250, product) for product in products)

    async def counted(truth: Truth, *, void: bool = False) -> Json:
        """Ask for a window until it has closed and is what it should be."""
        (start_ms,) = {at_ms for at_ms, _ in truth}
        end_s = time_s() + DEADLINE_S
        while True:
            found = await Service(agents[0]).result("shop", "sold", f"{start_ms}/{start_ms + 250}", None, None)
            rows = [] if void else rows_of(truth, start_ms)
            if found["completeness"]["status"] != "open" and found["rows"] == rows:
                return found
            assert time_s() < end_s, found
            await asyncio.sleep(0.1)

    def since() -> int:
        """The first interval that all parts count by their newest versions."""
        return max(job.history[-1].since for agent in agents for job in agent.masters.jobs)

    async with running(tmp_path, 2) as agents:
        await publish(agents, JOB.replace("2 seconds", "250 milliseconds"))
        first = await push_in(now_ms() // 250 + 1)
        await counted(first)
        assert (await Service(agents[0]).stop("shop", "sold"))["state"] == "stopped"
        assert all(job.rests for job in (await jobs_of(agents)).values())
        for agent in agents:
            with pytest.raises(StoppedError, match=r"until .* `elf resume shop/sold` takes it up"):
                await Service(agent).result("shop", "sold", "latest", None, None)
        void = await push_in(since())
        with pytest.raises(JobConflictError, match="is stopped; resume it first"):
            await Service(agents[1]).change("shop", "sold", Wanted("reset"))
        assert (await Service(agents[1]).change("shop", "sold", Wanted("resume")))["what"] == "resume"
        assert not any(job.rests for job in (await jobs_of(agents)).values())
        last = await push_in(since())
        assert not (await counted(last))["completeness"]["void"]
        found = await counted(void, void=True)
        span = Span(found["window"]["start_ms"], found["window"]["end_ms"])
        masters = [agent.masters.master(job.definition.app_id) for agent in agents for job in agent.masters.jobs]
        voids = [master.windows.result(span, None, None, str).completeness["void"] for master in masters]
        assert len(voids) == TREES and min(voids) >= 1
        assert found["completeness"]["void"] == max(voids), "an interval that is void in all parts is void once"
        await counted(first)
        with pytest.raises(JobConflictError, match="is not paused, nor stopped"):
            await Service(agents[0]).change("shop", "sold", Wanted("resume"))


async def master_of(agents: Sequence[Agent], app: bytes) -> Agent:
    """Return the master of a part, once there is one."""
    await wait_until(lambda: any(app in agent.masters for agent in agents))
    return next(agent for agent in agents if app in agent.masters)


async def jobs_of(agents: Sequence[Agent]) -> dict[bytes, JobRecord]:
    return {app: (await master_of(agents, app)).masters.job(app) for app in APPS}


async def test_nothing_is_published_if_a_part_cannot_be_placed(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install = Masters.install

    async def fails(self: Masters, job: JobRecord, *given: Any) -> JobRecord:
        if job.definition.part == 2:
            raise UnavailableError("no room")
        return await install(self, job, *given)

    async with running(tmp_path, 2) as agents:
        with monkeypatch.context() as patched:
            patched.setattr(Masters, "install", fails)
            with pytest.raises(UnavailableError, match="part 2 of 4 of shop/sold: no room"):
                await Service(agents[0]).publish(JOB, "sold.toml", None, None)
        await wait_until(lambda: all(agent.copies.get(app) is None for agent in agents for app in APPS))
        await publish(agents)
        truth = await push(agents[1], many(300, 100))
        await wait_for_truth(agents, truth)


async def test_parts_without_the_first_one_are_listed_and_can_be_stopped(tmp_path: pathlib.Path) -> None:
    async with running(tmp_path, 2) as agents:
        await publish(agents)
        await stop_parts(agents, [APPS[0]])
        (row,) = await Service(agents[0]).jobs()
        assert (row["creator"], row["name"], row["state"]) == ("shop", "sold", "in part")
        with pytest.raises(UnknownJobError):
            await Service(agents[1]).result("shop", "sold", "latest", None, None)
        await Service(agents[1]).stop("shop", "sold", 0)
        await wait_until(lambda: all(agent.copies.get(app) is None for agent in agents for app in APPS))
        await wait_until(lambda: not any(agent.catalogue.running() for agent in agents))
        assert await Service(agents[1]).jobs() == []
        with pytest.raises(UnknownJobError):
            await Service(agents[1]).stop("shop", "sold", 0)


async def stop_parts(agents: Sequence[Agent], apps: Sequence[bytes]) -> None:
    """Stop some parts, as a stop does that is interrupted."""
    for app in apps:
        master = await master_of(agents, app)
        await master.masters.begin_stop(app, master.now_ms())
        await wait_until(lambda app=app: all(agent.copies.get(app) is None for agent in agents))  # type: ignore[misc]


async def test_what_is_left_of_an_earlier_publication_is_not_mixed_in(tmp_path: pathlib.Path) -> None:
    async with running(tmp_path, 2) as agents:
        await publish(agents)
        await push(agents[0], many(300, 100))
        old = await jobs_of(agents)
        await stop_parts(agents, [APPS[0], APPS[2]])
        await publish(agents)
        new = await jobs_of(agents)
        assert len({job.publication for job in new.values()}) == 1
        assert all(new[app].tree != old[app].tree for app in APPS)
        # What came before the job began is not in its results, and their labels say so; later windows are whole.
        await wait_until(
            lambda: all(agent.now_ms() > job.published_ms + 4_000 for agent in agents for job in new.values())
        )
        truth = await push(agents[0], many(300, 100))
        await wait_for_truth(agents, truth)


async def test_the_agent_that_masters_a_part_may_start_again(tmp_path: pathlib.Path) -> None:
    async with running(tmp_path, 3) as agents:
        await publish(agents)
        truth = await push(agents[0], many(500, 200))
        for app in (APPS[1], APP):
            at = agents.index(await master_of(agents, app))
            truth += await push(agents[at], many(500, 150))
            await agents[at].stop()
            agents[at] = Agent(agents[at].config)
            await agents[at].start()
            truth += await push(agents[at], many(500, 120))
        await wait_for_truth(agents, truth)


async def test_an_agent_that_lost_its_disk_goes_on_with_all_parts(tmp_path: pathlib.Path) -> None:
    async with running(tmp_path, 4) as agents:
        await publish(agents)
        masters = [await master_of(agents, app) for app in APPS]
        struck = next((agent for agent in agents[1:] if agent not in masters), agents[-1])
        at = agents.index(struck)
        truth = await push(struck, many(400, 100))
        truth += await push(agents[0], many(400, 100))
        await wait_for_truth(agents, truth)
        read, copied = struck.intakes["orders"].pump.counters.read, struck.replicas.copied
        await wait_until(lambda: struck.replicas.copied > copied, 60)
        await struck.stop()
        shutil.rmtree(tmp_path / str(struck.config.agent.name))
        agents[at] = Agent(struck.config)
        await agents[at].start()
        await wait_until(lambda: len(agents[at].attachments.progress()) == TREES, 60)
        again = agents[at]
        assert again.attachments.succession.adopted == 1 and again.intakes["orders"].pump.counters.read == read
        # The window of the loss is labelled; later ones lack nothing.
        later_ms = now_ms() + 2_000
        await wait_until(lambda: again.now_ms() > later_ms)
        await wait_for_truth(agents, await push(again, many(300, 80)))
        for start_ms in {at_ms for at_ms, _ in truth}:
            result = await ask(again, f"{start_ms}/{start_ms + 2_000}")
            assert result is not None and result["rows"] == rows_of(truth, start_ms)


async def test_while_a_part_has_no_master_results_say_so_and_its_keys_alone_are_not_to_be_had(
    tmp_path: pathlib.Path,
) -> None:
    # Of two agents only one has a vote in each root group: when it is gone, nobody takes over.
    async with running(tmp_path, 2) as agents:
        await publish(agents)
        truth = await push(agents[0], many(400, 120))
        truth += await push(agents[1], many(400, 120))
        await wait_for_truth(agents, truth)
        start_ms = min(at_ms for at_ms, _ in truth)
        rows, window = rows_of(truth, start_ms), f"{start_ms}/{start_ms + 2_000}"
        gone = next((agent for agent in agents if 0 < sum(app in agent.masters for app in APPS) < TREES), None)
        if gone is None:  # one agent masters all parts: without it nothing is to be had
            gone = next(agent for agent in agents if APP in agent.masters)
        other = next(agent for agent in agents if agent is not gone)
        lost = {app for app in APPS if app in gone.masters}
        at = agents.index(gone)
        await gone.stop()
        with pytest.raises(UnavailableError, match=r"part \d of 4 of shop/sold"):
            await Service(other).result("shop", "sold", window, None, None)
        described = await Service(other).job("shop", "sold") if APP not in lost else None
        if described is not None:
            assert {part["part"] for part in described["parts"] if "trouble" in part} == {
                APPS.index(app) for app in lost
            }
        answers = [await ask(other, window, key=row["product"]) for row in rows[:40]]
        assert all(answer is None or answer["rows"] == [row] for answer, row in zip(answers, rows, strict=False))
        assert any(answer is None for answer in answers) and (len(lost) == TREES or any(answers))
        agents[at] = Agent(gone.config)
        await agents[at].start()
        await wait_for_truth(agents, truth)


async def test_followers_are_sent_each_window_once_all_parts_have_closed_it(tmp_path: pathlib.Path) -> None:
    async with running(tmp_path, 3) as agents:
        await publish(agents)
        truth: Truth = collections.Counter()
        told: list[Positioned] = []

        async def follow(agent: Agent, most: int, position: Positioned | None = None) -> list[Positioned]:
            found: list[Positioned] = []
            results = Service(agent).results("shop", "sold", position[1] if position else None)
            async with asyncio.timeout(DEADLINE_S), contextlib.aclosing(results):  # type: ignore[type-var]
                async for each in results:
                    found.append(each)
                    if len(found) == most:
                        break
            return found

        async def produce() -> None:
            nonlocal truth
            while not followed.is_set():
                for agent in agents:
                    truth += await push(agent, many(60, 30))
                await asyncio.sleep(0.2)

        followed = asyncio.Event()
        producer = asyncio.create_task(produce())
        try:
            told = await follow(agents[0], 4)
            # A lost connection goes on at another agent.
            told += await follow(agents[1], 3, told[-1])
        finally:
            followed.set()
            await producer
        closed = [result for result, _ in told if result["completeness"]["status"] != "open"]
        starts = [result["window"]["start_ms"] for result in closed]
        assert sorted(set(starts)) == list(range(min(starts), max(starts) + 1, 2_000))
        await wait_for_truth(agents, truth)
        for start_ms in sorted(set(starts)):
            last = [result for result in closed if result["window"]["start_ms"] == start_ms][-1]
            if last["completeness"]["status"] in ("final", "revised") and last["completeness"]["late"] == 0:
                now = await ask(agents[2], f"{start_ms}/{start_ms + 2_000}")
                assert now is not None
                if now["completeness"]["revision"] == last["completeness"]["revision"]:
                    assert last["rows"] == now["rows"] == rows_of(truth, start_ms)


async def test_an_agent_is_retired_from_all_parts(tmp_path: pathlib.Path) -> None:
    async with running(tmp_path, 4) as agents:
        await publish(agents)
        truth = await push(agents[0], many(200, 60))
        await wait_for_truth(agents, truth)
        masters = {agent.config.agent.name for agent in agents if any(app in agent.masters for app in APPS)}
        gone = next((agent for agent in agents if agent.config.agent.name not in masters), agents[-1])
        await gone.stop()
        others = [agent for agent in agents if agent is not gone]
        await wait_until(lambda: all(any(app in agent.masters for agent in others) for app in APPS))
        retired = await Service(others[0]).retire(str(gone.config.agent.name), "shop/sold")
        assert [job["job"] for job in retired["jobs"]] == ["shop/sold"] and retired["unreachable"] == []
        for app in APPS:
            master = await master_of(others, app)
            roster = master.masters.master(app).state
            gone_id = gone.agent_id
            assert gone_id in roster.retiring or gone_id not in roster.rollup.roster
        at = agents.index(gone)
        agents[at] = Agent(gone.config)
        await agents[at].start()
        truth += await push(agents[at], many(200, 60))
        await wait_for_truth(agents, truth)


async def test_a_job_without_keys_cannot_be_spread_over_trees(tmp_path: pathlib.Path) -> None:
    async with running(tmp_path, 1) as agents:
        job = JOB.replace("product, count(*)", "count(*)").replace("product, window", "window").replace(", product", "")
        with pytest.raises(JobSpecError, match="trees = 4 spreads keys over trees, and here are none"):
            await Service(agents[0]).publish(job, "sold.toml", None, None)


def test_an_answer_about_parts_is_told_from_others() -> None:
    assert parted_job({"rows": []}) is None and parted_job(None) is None
    with pytest.raises(UnavailableError, match="no job"):
        parted_job({"parted": b"nonsense"})
