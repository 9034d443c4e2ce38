"""A job that reads its last result, published on a source that is being read: it begins cleanly, without any reset."""

from __future__ import annotations

import asyncio
import contextlib
import pathlib
import random
from collections.abc import AsyncIterator, Awaitable, Callable

import msgspec
import pytest
from msgspec.structs import replace

from elf.agents.http.agent_service import Service
from elf.agents.wire.result import Result
from elf.client.asynchronous import AsyncClient
from tests.agents.language import test_iteration_at_agents
from tests.agents.language.test_iteration_at_agents import configure, stop
from tests.overlay.cluster import wait_until
from tests.virtual.agents import Agent, free_port, now_ms
from tests.virtual.http import client_of

pytestmark = pytest.mark.virtual

SIZE_MS, SLIDE_MS = 1_000, 500
OTHER = "SELECT src, count(*) AS n FROM edges GROUP BY src, window(ts, '1 second')"
JOB = (
    test_iteration_at_agents.JOB.replace("'300 seconds', '1 second'", "'1 second', '500 milliseconds'").partition(
        "[options]"
    )[0]
    + """[options]
retain = "4 minutes"
leap_after = "30s"
"""
)
#: (time of day in ms, from, to), once for each direction.
Pushed = list[tuple[int, str, str]]


class Site:
    """Agents that read a source already, for another job, and somebody who goes on to write to it."""

    def __init__(self, folder: pathlib.Path) -> None:
        self.folder, self.ports = folder, [free_port() for _ in range(3)]
        self.agents: list[Agent] = []
        self.pushed: Pushed = []
        self._rng = random.Random(5)

    async def start(self, number: int, *, at_end: bool = False) -> Agent:
        join = [f"127.0.0.1:{self.ports[0]}"] if number else []
        config = configure(self.folder, f"web{number}", self.ports[number], join)
        sources = {name: replace(each, start="end") if at_end else each for name, each in config.sources.items()}
        agent = Agent(replace(config, sources=sources))
        await agent.start()
        self.agents.append(agent)
        return agent

    async def push(self) -> None:
        """Have each agent take some edges."""
        for agent in self.agents:
            at_ms = now_ms()
            a, b = self._rng.choices("abcdefgh", k=2)
            rows = [(at_ms, a, b), (at_ms, b, a)]
            self.pushed += rows
            lines = [msgspec.json.encode({"ts": at, "src": src, "dst": dst}) + b"\n" for at, src, dst in rows]
            await Service(agent).ingest("edges", b"".join(lines))

    async def push_until(self, condition: Callable[[], Awaitable[bool]]) -> None:
        async with asyncio.timeout(60):
            while not await condition():
                await self.push()
                await asyncio.sleep(0.1)

    async def read_for_another_job(self) -> None:
        await wait_until(lambda: all(len(each.catalogue.members("edges")) == len(self.agents) for each in self.agents))
        await Service(self.agents[0]).publish(f'name = "other"\nquery = """{OTHER}"""', "other.toml", None, None)

        async def has_read() -> bool:
            return all(agent.intakes["edges"].pump.counters.read > 0 for agent in self.agents)

        await self.push_until(has_read)

    def labels(self, begins_ms: int, end_ms: int) -> dict[str, str]:
        """The labels of a window, computed from all events since the job's results began, one window at a time."""
        last: dict[str, str] = {}
        for until_ms in range(begins_ms + SLIDE_MS, end_ms + 1, SLIDE_MS):
            since_ms = max(begins_ms, until_ms - SIZE_MS)
            now: dict[str, str] = {}
            for at_ms, src, dst in self.pushed:
                if since_ms <= at_ms < until_ms:
                    label = min(last.get(src, src), dst)
                    now[dst] = min(now.get(dst, label), label)
            last = now
        return last


@contextlib.asynccontextmanager
async def site_of(folder: pathlib.Path, count: int) -> AsyncIterator[Site]:
    site = Site(folder)
    async with contextlib.AsyncExitStack() as stack:
        stack.push_async_callback(stop, site.agents)
        for number in range(count):
            await site.start(number)
        await site.read_for_another_job()
        yield site


async def window(client: AsyncClient, end_ms: int) -> Result:
    return await client.query("me/components", window=f"{end_ms - SIZE_MS}/{end_ms}")


async def progress(client: AsyncClient) -> tuple[int | None, int]:
    """Return where the job's windows begin, and how far it is."""
    job = await client.job("me/components")
    return job["versions"][0]["begins_ms"], job["through_ms"] or 0


async def test_windows_are_final_from_where_all_agents_have_all_and_who_joins_later_is_named(
    tmp_path: pathlib.Path,
) -> None:
    async with site_of(tmp_path, 2) as site, client_of(site.agents[0]) as client:
        await client.publish(text=JOB)
        published_ms = (await client.job("me/components"))["published_ms"]

        async def has_windows() -> bool:
            begins_ms, through_ms = await progress(client)
            return begins_ms is not None and through_ms >= begins_ms + SIZE_MS + 3 * SLIDE_MS

        await site.push_until(has_windows)
        begins_ms, _ = await progress(client)
        assert begins_ms is not None and begins_ms > site.pushed[0][0], "not all that was read could be counted"
        await client.publish(text=JOB)
        again = await client.job("me/components")
        assert (again["published_ms"], again["version"]) == (published_ms, 1), "it is the same job"
        newest_ms = site.pushed[-1][0] // SLIDE_MS * SLIDE_MS
        async with asyncio.timeout(60):
            while True:
                if (await progress(client))[1] > newest_ms:
                    break
                await asyncio.sleep(0.1)
        for end_ms in range(begins_ms, newest_ms + 1, SLIDE_MS):
            found = await window(client, end_ms)
            is_whole = end_ms - SIZE_MS >= begins_ms
            assert found.completeness.status in (("final", "revised") if is_whole else ("final_incomplete",))
            assert sorted(found.completeness.missing) == ([] if is_whole else ["web0", "web1"])
            assert {row["node"]: row["label"] for row in found.rows} == site.labels(begins_ms, end_ms)
        # One that has not read what was there before joins: nobody can tell what it would have brought.
        await site.start(2, at_end=True)

        async def is_named() -> bool:
            return (await window(client, (await progress(client))[1])).completeness.missing == ["web2"]

        await site.push_until(is_named)
        assert (await progress(client))[0] == begins_ms
        assert (await window(client, newest_ms)).completeness.status == "final_incomplete"


async def test_an_agent_that_hears_of_the_job_too_late_is_named_until_it_is_reset(tmp_path: pathlib.Path) -> None:
    async with site_of(tmp_path, 2) as site, client_of(site.agents[0]) as client:
        away = site.agents.pop()
        await away.stop()
        await client.publish(text=JOB.replace("30s", "1s"))

        async def is_named() -> bool:
            begins_ms, through_ms = await progress(client)
            if begins_ms is None or through_ms < begins_ms + SIZE_MS:
                return False
            return (await window(client, through_ms)).completeness.missing == ["web1"]

        await site.push_until(is_named)
        begins_ms, _ = await progress(client)
        await site.start(1)

        async def is_back() -> bool:
            works_on = site.agents[1].attachments.attached().get("edges", ())
            return "me/components" in {job.definition.key for job in works_on} and await is_named()

        await site.push_until(is_back)
        assert (await progress(client))[0] == begins_ms
        await client.reset("me/components")

        async def is_whole() -> bool:
            job = await client.job("me/components")
            reset_ms, through_ms = job["versions"][-1]["begins_ms"], job["through_ms"]
            return through_ms >= reset_ms + SIZE_MS and not (await window(client, through_ms)).completeness.missing

        await site.push_until(is_whole)
