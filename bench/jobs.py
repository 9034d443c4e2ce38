"""Very many jobs at once: what they cost each agent, and whether any of them has to wait for the others.

Starts agents as processes, each with up to ten logs that get lines all the time, and publishes jobs of all kinds
through all of them: tumbling and sliding windows, intervals of 1 to 30 s, some over several trees, equal prefixes and
others.
Follows some jobs and times each window: from its end until its result is here, lateness included. Then asks every job
for windows that have closed, and compares each row with what was written. What is promised is judged at the end: all
windows right, no job starved, little memory for a job, masters spread over all agents.
"""

from __future__ import annotations

import argparse
import asyncio
import collections
import contextlib
import json
import pathlib
import random
import statistics
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from ending import end_in_order
from fleet import AgentProcess, fleet

import elf
from elf.client.asynchronous import AsyncClient

SOURCES, PRODUCTS = 10, 8
#: The longest window, in seconds. Any whole number of seconds up to it is the interval of as many jobs; half of them
#: are batches, whose windows tumble, the others streams, whose windows slide, as far as there is room for that.
LONGEST_S = 30
BATCH, TWO_TREES = 0.5, 0.05
LATENESS_S = 2.0
WRITE_S = 0.5
#: Publishing at a time, and how long one may take.
AT_A_TIME, PUBLISH_S = 4, 300.0
#: After the last publication, before anything is measured; after the last line, before every job is asked.
SETTLE_S, CLOSE_S = 60.0, 45.0
#: Promised: the slowest job's p99 in medians of all; kB of a job at an agent that works on it; jobs that all but one
#: agent in 200 are master of at most, over what each would be if they were spread evenly.
STARVED, JOB_KB, ROOTS = 3.0, 50.0, (2.0, 3)
#: Windows that each job is asked for, and labels that claim that nothing is missing.
WINDOWS, COMPLETE = 3, ("final", "revised")


class Job(NamedTuple):
    """A job: its name, its source's number, the least cents it counts, its window and slide in seconds, its trees."""

    name: str
    source: int
    cents: int
    size_s: int
    slide_s: int
    trees: int

    @property
    def text(self) -> str:
        """The job's file."""
        return f"""
            name = "{self.name}"
            creator = "bench"
            query = '''
                SELECT product, count(*) AS n, sum(cents) AS cents FROM s{self.source} WHERE cents >= {self.cents}
                GROUP BY product, window(ts, '{self.size_s} seconds', '{self.slide_s} seconds')'''
            [options]
            trees = {self.trees}
        """


def draw_jobs(count: int, sources: int, rng: random.Random) -> list[Job]:
    """Draw jobs of all kinds over so many sources."""
    jobs = []
    for number in range(count):
        slide_s = rng.randint(1, LONGEST_S)
        slides = 1 if rng.random() < BATCH else rng.randint(1, LONGEST_S // slide_s)
        trees = 2 if rng.random() < TWO_TREES else 1
        jobs.append(Job(f"j{number}", number % sources, rng.randrange(5), slide_s * slides, slide_s, trees))
    return jobs


class Writer(threading.Thread):
    """Writes lines to all logs until told to end, and remembers them."""

    def __init__(self, folder: pathlib.Path, agents: int, sources: int, rate: float) -> None:
        super().__init__()
        self._logs = [log_of(folder, agent, source) for agent in range(agents) for source in read_by(agent, sources)]
        self._sources = sources
        self._rate = rate
        self.over = threading.Event()
        #: By source: (time in ms, product, cents).
        self.lines: list[list[tuple[int, int, int]]] = [[] for _ in range(SOURCES)]
        #: When the last ones were written, or none more.
        self.ended_ms = 0

    def run(self) -> None:
        """Write."""
        rng = random.Random(7)
        with contextlib.ExitStack() as stack:
            logs = [(source_of(log), stack.enter_context(log.open("ab", 0))) for log in self._logs]
            while not self.over.wait(WRITE_S):
                for source, log in logs:
                    log.write(self._draw(rng, source))
                self.ended_ms = time.time_ns() // 1_000_000

    def _draw(self, rng: random.Random, source: int) -> bytes:
        at_ms = time.time_ns() // 1_000_000
        count = int(self._rate * WRITE_S / self._sources + rng.random()) if self._rate else 0
        lines = [(at_ms, rng.randrange(PRODUCTS), rng.randrange(10)) for _ in range(count)]
        self.lines[source] += lines
        return b"".join(
            json.dumps({"ts": at_ms, "product": f"p{product}", "cents": cents}).encode() + b"\n"
            for at_ms, product, cents in lines
        )


def log_of(folder: pathlib.Path, agent: int, source: int) -> pathlib.Path:
    """Return an agent's log of a source."""
    return folder / f"logs{agent}" / f"s{source}.log"


def source_of(log: pathlib.Path) -> int:
    """Return the number of a log's source."""
    return int(log.stem[1:])


def read_by(agent: int, sources: int) -> list[int]:
    """Return the sources that an agent reads, of which each one is read by as many agents."""
    return [(agent + number) % SOURCES for number in range(sources)]


def truth(lines: np.ndarray, job: Job, start_ms: int, end_ms: int) -> dict[str, tuple[int, int]]:
    """Return product -> (count, sum of cents) of a window; lines as rows of (time, product, cents)."""
    inside = lines[(lines[:, 0] >= start_ms) & (lines[:, 0] < end_ms) & (lines[:, 2] >= job.cents)]
    counts = np.bincount(inside[:, 1], minlength=PRODUCTS)
    cents = np.bincount(inside[:, 1], weights=inside[:, 2], minlength=PRODUCTS)
    return {f"p{number}": (int(counts[number]), int(cents[number])) for number in range(PRODUCTS) if counts[number]}


def usage(agents: Sequence[AgentProcess]) -> tuple[list[float], list[float]]:
    """Return each agent's CPU seconds since its start, and the MB that are its own."""
    cpu_s, own_mb = [], []
    for agent in agents:
        assert agent.process is not None
        folder = pathlib.Path(f"/proc/{agent.process.pid}")
        fields = (folder / "stat").read_text().rpartition(")")[2].split()
        cpu_s.append((int(fields[11]) + int(fields[12])) / 100)
        pages = (folder / "smaps_rollup").read_text().splitlines()
        own_mb.append(next(int(line.split()[1]) for line in pages if line.startswith("Private_Dirty:")) / 1_000)
    return cpu_s, own_mb


async def publish(clients: Sequence[AsyncClient], jobs: Sequence[Job]) -> tuple[list[float], int]:
    """Publish jobs through all agents in turn; return how long each took, and how often one had to be asked again."""
    room, again = asyncio.Semaphore(AT_A_TIME), 0

    async def one(number: int, job: Job) -> float:
        nonlocal again
        async with room:
            begin_s = time.monotonic()
            while True:
                try:
                    await clients[number % len(clients)].publish(text=job.text)
                    return time.monotonic() - begin_s
                except elf.ElfError:
                    again += 1
                    if time.monotonic() - begin_s > PUBLISH_S:
                        raise

    return await asyncio.gather(*(one(number, job) for number, job in enumerate(jobs))), again


async def follow(client: AsyncClient, job: Job, seconds: float) -> list[float]:
    """Return for each window that closes meanwhile how many seconds after its end its result came."""
    delays: list[float] = []
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds), contextlib.aclosing(client.watch(f"bench/{job.name}")) as results:
            newest_ms = None
            async for result in results:
                assert result.window is not None
                end_ms = result.window.end_ms
                # The first one closed before we asked; a revision is no new window.
                if newest_ms is not None and end_ms > newest_ms:
                    delays.append(time.time() - end_ms / 1_000)
                newest_ms = max(end_ms, newest_ms or end_ms)
    return delays


async def check(
    clients: Sequence[AsyncClient], jobs: Sequence[Job], lines: Sequence[np.ndarray], last_ms: int
) -> collections.Counter[str]:
    """Ask every job for windows that have closed by a time; count them by their labels, and those that are wrong."""
    found: collections.Counter[str] = collections.Counter()
    room = asyncio.Semaphore(AT_A_TIME)

    async def one(number: int, job: Job) -> None:
        slide_ms, size_ms = 1_000 * job.slide_s, 1_000 * job.size_s
        for back in range(WINDOWS):
            end_ms = (last_ms // slide_ms - back) * slide_ms
            window = f"{end_ms - size_ms}/{end_ms}"
            async with room:
                try:
                    result = await clients[number % len(clients)].query(f"bench/{job.name}", window)
                except elf.ElfError as error:
                    found["without an answer"] += 1
                    print(f"bench/{job.name}: {error}", flush=True)
                    continue
            rows = {str(row["product"]): (row["n"], row["cents"]) for row in result.rows}
            status = result.completeness.status
            right = rows == truth(lines[job.source], job, end_ms - size_ms, end_ms)
            found[status if right else f"{status} and {'WRONG' if status in COMPLETE else 'lacking rows'}"] += 1

    await asyncio.gather(*(one(number, job) for number, job in enumerate(jobs)))
    return found


class Costs(NamedTuple):
    """What jobs cost agents: each one's share of a core, kB a job that it works on, jobs that it is the master of.

    What copies of others' masters take is counted there, too; `part_kb` is by all jobs that it works on, or of whose
    master it keeps a copy.
    """

    shares: list[float]
    kb: list[float]
    part_kb: list[float]
    masters: list[int]


def copies_at(agents: Sequence[AgentProcess]) -> list[int]:
    """Return of how many jobs' masters each agent keeps a copy, led or not."""
    return [int(agent.metric("elf_job_copies")) for agent in agents]


def parts_of(
    agents: Sequence[AgentProcess], args: argparse.Namespace, jobs: Sequence[Job], copies: Sequence[int]
) -> list[tuple[float, int]]:
    """Return for each agent in how many jobs it has a part, and how many it works on."""
    found = []
    for agent, kept in enumerate(copies):
        worked = sum(job.source in read_by(agent, args.sources) for job in jobs)
        # Who keeps copies has nothing to do with the job's source.
        found.append((worked + kept * (1 - worked / len(jobs)), worked))
    return found


async def measure(agents: Sequence[AgentProcess], writer: Writer, args: argparse.Namespace) -> bool:
    """Publish, follow and check; print the figures; return whether what is promised is kept."""
    read = {source for agent in range(len(agents)) for source in read_by(agent, args.sources)}
    jobs = draw_jobs(args.jobs, len(read), random.Random(1))
    async with contextlib.AsyncExitStack() as stack:
        clients = [await stack.enter_async_context(elf.connect(agent.url)) for agent in agents]
        first, rest = jobs[: args.jobs // 10], jobs[args.jobs // 10 :]
        await publish(clients, first)
        await asyncio.sleep(SETTLE_S)
        _, before_mb = usage(agents)
        before = parts_of(agents, args, first, copies_at(agents))
        begin_s = time.monotonic()
        took_s, again = await publish(clients, rest)
        seconds, median_s, most_s = time.monotonic() - begin_s, statistics.median(took_s), max(took_s)
        print(f"{len(agents)} agents with {args.sources} of {SOURCES} sources, {len(jobs)} jobs", flush=True)
        print(
            f"publishing: {median_s:.2f} s (median), {most_s:.2f} s (most), asked again {again} times; "
            f"{len(rest)} jobs, {AT_A_TIME} at a time, in {seconds:.0f} s",
            flush=True,
        )
        await asyncio.sleep(SETTLE_S)
        copies = copies_at(agents)
        cpu_s, own_mb = usage(agents)
        begin_s = time.monotonic()
        followed = random.Random(2).sample(jobs, min(args.follow, len(jobs)))
        delays = await asyncio.gather(
            *(follow(clients[number % len(clients)], job, args.seconds) for number, job in enumerate(followed))
        )
        spent = [now - then for now, then in zip(usage(agents)[0], cpu_s, strict=True)]
        roots = collections.Counter(each.master for each in await clients[0].jobs())
        grown = [1_000 * (now - then) for now, then in zip(own_mb, before_mb, strict=True)]
        parts = [
            (now[0] - then[0], now[1] - then[1])
            for now, then in zip(parts_of(agents, args, jobs, copies), before, strict=True)
        ]
        costs = Costs(
            [each / (time.monotonic() - begin_s) for each in spent],
            [kb / max(1, worked) for kb, (_, worked) in zip(grown, parts, strict=True)],
            [kb / max(1.0, has) for kb, (has, _) in zip(grown, parts, strict=True)],
            sorted([*roots.values(), *[0] * (len(agents) - len(roots))]),
        )
        kept = [tell_costs(costs, len(jobs)), tell(delays)]
        writer.over.set()
        writer.join()
        await asyncio.sleep(CLOSE_S)
        lines = [np.array(each, dtype=np.int64).reshape(-1, 3) for each in writer.lines]
        found = await check(clients, jobs, lines, writer.ended_ms)
        print("windows asked for:", ", ".join(f"{count} {what}" for what, count in sorted(found.items())))
        kept.append(judge("all windows are right", all(" " not in what for what in found)))
        return all(kept)


def judge(promise: str, is_kept: bool) -> bool:
    """Say whether a promise is kept."""
    print(f"{promise}: {'kept' if is_kept else 'NOT KEPT'}", flush=True)
    return is_kept


def tell_costs(costs: Costs, jobs: int) -> bool:
    """Print what jobs cost agents; return whether that is as little as is promised."""
    share, kb, masters = statistics.mean(costs.shares), statistics.mean(costs.kb), costs.masters
    print(f"an agent: {share:.3f} of a core (most {max(costs.shares):.3f}), all agents {sum(costs.shares):.2f} cores")
    print(
        f"it has {kb:.0f} kB for a job that it works on (most {max(costs.kb):.0f}), "
        "copies of others' masters included, "
        f"and {statistics.mean(costs.part_kb):.0f} for one that it works on or keeps a copy of the master of"
    )
    median, far = statistics.median(masters), masters[min(int(0.995 * len(masters)), len(masters) - 1)]
    print(f"it is the master of {masters[0]} to {masters[-1]} jobs, median {median:g}, p99.5 {far}")
    times, more = ROOTS
    return all(
        [
            judge(f"less than {JOB_KB:.0f} kB a job and agent", kb < JOB_KB),
            judge(f"no more than {times:g} x the mean and {more} masters", far <= times * jobs / len(masters) + more),
        ]
    )


def tell(delays: Sequence[Sequence[float]]) -> bool:
    """Print how long results took, and those of the job that waited longest; return whether none is starved."""
    everyone = sorted(delay for each in delays for delay in each)
    some = [sorted(each) for each in delays if each]
    if not some:
        return judge(f"no job starves ({len(delays)} were followed, and no window of theirs closed meanwhile)", False)
    median, worst = statistics.median(everyone), max(_p99(each) for each in some)
    print(f"followed {len(some)} of {len(delays)} jobs, {len(everyone)} windows")
    print(f"from a window's end to its result: p50 {median:.2f} s, p99 {_p99(everyone):.2f} s, lateness {LATENESS_S} s")
    print(f"the job that waits longest: p99 {worst:.2f} s, {worst / median:.1f} x the median of all")
    # Who had no window at all while it was followed has waited longest.
    fair = len(some) == len(delays) and worst <= STARVED * median
    return judge(f"no job starves: every p99 within {STARVED:g} x the median", fair)


def _p99(ascending: Sequence[float]) -> float:
    return ascending[int(0.99 * (len(ascending) - 1))]


@contextlib.contextmanager
def writing(folder: pathlib.Path, args: argparse.Namespace) -> Iterator[Writer]:
    """Write logs."""
    writer = Writer(folder, args.agents, args.sources, args.rate)
    writer.start()
    try:
        yield writer
    finally:
        writer.over.set()
        writer.join()


def main() -> int:
    """Measure what many jobs at once cost, and whether all of their windows are right and soon there."""
    end_in_order()
    parser = argparse.ArgumentParser(allow_abbrev=False, prog="scripts/bench jobs", description=main.__doc__)
    parser.add_argument("--agents", type=int, default=4)
    parser.add_argument("--jobs", type=int, default=300)
    parser.add_argument(
        "--sources", type=int, default=SOURCES, choices=range(1, SOURCES + 1), metavar="N", help="that an agent reads"
    )
    parser.add_argument(
        "--rate", type=float, default=100, help="events per second and agent, over all sources; 0: idle"
    )
    parser.add_argument(
        "--lease", type=int, default=2_000, help="ms of silence after which agents take each other for lost"
    )
    parser.add_argument("--follow", type=int, default=64, help="jobs whose results are timed")
    parser.add_argument("--seconds", type=float, default=90, help="how long these are followed")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="elf-jobs-") as name:
        folder = pathlib.Path(name)

        def sources(agent: int) -> dict[str, dict[str, object]]:
            logs = [log_of(folder, agent, source) for source in read_by(agent, args.sources)]
            for log in logs:
                log.parent.mkdir(exist_ok=True)
                log.touch()
            types = {"product": "STRING", "cents": "BIGINT"}
            return {f"s{source_of(log)}": {"path": str(log), "columns": types} for log in logs}

        overlay = {"lease_ms": args.lease}
        with fleet(folder, args.agents, sources, overlay=overlay) as agents, writing(folder, args) as writer:
            return 0 if asyncio.run(measure(agents, writer, args)) else 1


if __name__ == "__main__":
    raise SystemExit(main())
