"""How long a query takes from an agent three hops away from the job's master, while events flow.

Starts agents as processes on loopback with small routing tables (k = 1), so that routes are as long as in a much larger
overlay; only two of them have the job's source, so the others cannot know its master and must route hop by hop.
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

import elf  # noqa: E402
from tests.system.cluster import AgentProcess, wait_until  # noqa: E402

QUERY = """
name = "{name}"
creator = "bench"
query = '''
SELECT product, count(*) AS clicks FROM clicks WHERE event = 'click' AND category = 'Video Games'
GROUP BY product, window(ts, '10 seconds', '2 seconds') ORDER BY clicks DESC LIMIT 10
'''
"""
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
                command = [sys.executable, "-m", "elf.demo.clicks", "--live", "--rate", str(rate), "--out", str(log)]
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


async def farthest(agents: list[AgentProcess], hops: int) -> tuple[AgentProcess, str]:
    """Publish jobs until some agent is `hops` away from a job's master; return the agent and the job."""
    best = 0
    for number in range(JOBS_MAX):
        async with elf.connect(agents[0].url) as client:
            job = (await client.publish(text=QUERY.format(name=f"job-{number}"))).key
        for agent in agents[2:]:
            async with elf.connect(agent.url) as client:
                found = len((await client.query(job)).hops)
            best = max(best, found)
            if found == hops:
                return agent, job
        async with elf.connect(agents[0].url) as client:
            await client.stop(job)
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


def main() -> None:
    """Print the distribution of query latency."""
    parser = argparse.ArgumentParser(prog="scripts/bench latency", description=main.__doc__)
    parser.add_argument("--agents", type=int, default=20)
    parser.add_argument("--hops", type=int, default=3)
    parser.add_argument("--queries", type=int, default=1_000)
    parser.add_argument("--rate", type=float, default=500, help="events per second and log (two logs)")
    args = parser.parse_args()
    with (
        tempfile.TemporaryDirectory(prefix="elf-latency-") as name,
        overlay(pathlib.Path(name), args.agents, args.rate) as agents,
    ):
        agent, job = asyncio.run(farthest(agents, args.hops))
        with elf.connect(agents[0].url) as client:
            wait_until(lambda: client.query(job).rows, "a window has closed")
        spent, hops = asyncio.run(measure(agent, job, args.queries))
    cuts = statistics.quantiles(spent, n=1000)
    print(f"{args.queries} queries over {sorted(hops)} hops, {args.agents} agents, {2 * args.rate:g} events/s")
    print(f"p50 {cuts[499]:.1f} ms   p90 {cuts[899]:.1f} ms   p99 {cuts[989]:.1f} ms   max {max(spent):.1f} ms")


if __name__ == "__main__":
    main()
