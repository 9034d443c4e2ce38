"""How long queries take over three hops while events flow, and how long applications take to read feedback.

Windows are of 1 to 300 s (the paper's Figure 10a). Starts agents as processes on loopback with small routing tables
(k = 1), so that routes are as long as in a much larger overlay; only two of them have the job's source, so the others
cannot know its master and must route hop by hop.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import pathlib
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator

ROOT = pathlib.Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))

import aiohttp  # noqa: E402
from ending import end_in_order  # noqa: E402

import elf  # noqa: E402
from tests.system.cluster import AgentProcess, wait_until  # noqa: E402

QUERY = """
name = "{name}"
creator = "bench"
query = '''
SELECT product, count(*) AS clicks FROM clicks WHERE event = 'click' AND category = 'Video Games'
GROUP BY product, window(ts, '{seconds} seconds', '1 second') ORDER BY clicks DESC LIMIT 10
'''
[options]
feedback = 10
"""
#: Windows, in seconds, of one job each; all slide by a second.
WINDOWS_S = (1, 10, 60, 300)
JOBS_MAX = 40


@contextlib.contextmanager
def overlay(folder: pathlib.Path, agents: int, rate: float) -> Iterator[list[AgentProcess]]:
    """Run agents, the first two with a live log each."""
    writers = []
    made: list[AgentProcess] = []
    try:
        for number in range(agents):
            sources = {}
            if number < 2:
                log = folder / f"clicks-{number}.log"
                drawn = ["--live", "--rate", str(rate), "--out", str(log)]
                command = [sys.executable, "-m", "elf.demo.clicks", *drawn]
                writers.append(subprocess.Popen(command, cwd=ROOT, stderr=subprocess.DEVNULL))
                sources = {"clicks": {"path": str(log)}}
            join = [made[-1].overlay, made[0].overlay] if made else []
            made.append(AgentProcess(folder, f"web{number + 1}", sources, join, overlay={"k": 1}))
            made[-1].start()
        yield made
    finally:
        for agent in made:
            agent.stop()
        for writer in writers:
            writer.send_signal(signal.SIGTERM)
            writer.wait(20)


async def farthest(agents: list[AgentProcess], hops: int, seconds: int) -> tuple[AgentProcess, str]:
    """Publish jobs with a window until some agent is `hops` away from a job's master; return the agent and the job."""
    best = 0
    for number in range(JOBS_MAX):
        async with elf.connect(agents[0].url) as client:
            job = (await client.publish(text=QUERY.format(name=f"window-{seconds}s-{number}", seconds=seconds))).key
        for agent in agents[2:]:
            async with elf.connect(agent.url) as client:
                found = len((await client.query(job)).hops)
            best = max(best, found)
            if found == hops:
                return agent, job
        async with elf.connect(agents[0].url) as client:
            await client.stop(job, "0s")
    raise SystemExit(f"no agent is {hops} hops from any of {JOBS_MAX} masters (most: {best}); try more --agents")


async def measure(agent: AgentProcess, job: str, queries: int) -> tuple[list[float], set[int]]:
    """Ask one after the other; return milliseconds and the hops seen."""
    spent, hops = [], set()
    async with elf.connect(agent.url) as client:
        await client.query(job)
        for _ in range(queries):
            began = time.perf_counter()
            result = await client.query(job)
            spent.append((time.perf_counter() - began) * 1000)
            hops.add(len(result.hops))
    return spent, hops


async def read_feedback(agent: AgentProcess, job: str, times: int) -> tuple[list[float], int]:
    """Read what came to an agent, as an application beside it does; return milliseconds and how often it was new."""
    spent, news, tag = [], 0, ""
    async with aiohttp.ClientSession() as session:
        for _ in range(times):
            began = time.perf_counter()
            url = f"{agent.url}/v1/jobs/{job}/feedback"
            async with session.get(url, headers={"If-None-Match": tag} if tag else {}) as answer:
                body = await answer.read()
            spent.append((time.perf_counter() - began) * 1000)
            assert answer.status in (200, 304), body
            news, tag = news + (answer.status == 200), answer.headers["ETag"]
            await asyncio.sleep(0.005)
    return spent, news


def tell(what: str, spent: list[float]) -> None:
    """Print a distribution."""
    cuts = statistics.quantiles(spent, n=1000)
    print(f"{what}: p50 {cuts[499]:.2f} ms   p90 {cuts[899]:.2f} ms   p99 {cuts[989]:.2f} ms   max {max(spent):.1f} ms")


def main() -> None:
    """Print the distributions of query latency, and of reading feedback at an agent with the job's source."""
    end_in_order()
    parser = argparse.ArgumentParser(allow_abbrev=False, prog="scripts/bench latency", description=main.__doc__)
    parser.add_argument("--agents", type=int, default=20)
    parser.add_argument("--hops", type=int, default=3)
    parser.add_argument("--queries", type=int, default=1_000)
    parser.add_argument("--fill", type=float, default=1.0, help="share of a window's length that events flow before")
    parser.add_argument("--rate", type=float, default=500, help="events per second and log (two logs)")
    args = parser.parse_args()
    with (
        tempfile.TemporaryDirectory(prefix="elf-latency-") as name,
        overlay(pathlib.Path(name), args.agents, args.rate) as agents,
    ):
        found = {seconds: asyncio.run(farthest(agents, args.hops, seconds)) for seconds in WINDOWS_S}
        print(f"{args.agents} agents, {2 * args.rate:g} events/s, {len(found)} jobs")
        began_s = time.monotonic()
        for seconds, (agent, job) in found.items():
            # Full windows: what is asked for is made of so many seconds' panes.
            wait_s = args.fill * seconds + 5 - (time.monotonic() - began_s)
            time.sleep(max(0.0, wait_s))
            with elf.connect(agents[0].url) as client:
                wait_until(lambda client=client, job=job: client.query(job).rows, "a window has closed")
            spent, hops = asyncio.run(measure(agent, job, args.queries))
            tell(f"window of {seconds} s, {args.queries} queries over {sorted(hops)} hops", spent)
        read, news = asyncio.run(read_feedback(agents[1], found[WINDOWS_S[0]][1], args.queries))
    tell(f"{args.queries} reads of feedback, {news} of them new", read)


if __name__ == "__main__":
    main()
