"""How fast a job's results come: in calm, past a straggler, and after agents fail for good (the paper's Figure 10c).

Owns what is set up and measured; what must then hold is in `checkers`. All times are virtual: messages take what the
links take and writes what the disks take, work costs no time. Every agent is a member of one job with intervals of a
second, and hands its snapshot over within `SEALING_S` of the interval's end.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Sequence

from tests.sweep.checkers import check_counted
from tests.sweep.machines import Cluster, Machine
from tests.sweep.report import Outcome
from tests.sweep.scenarios import enter

#: One way of a link of the paper's testbed.
DELAY_MS = (0.5, 0.5)
#: Most that a write of a runtime takes before it is durable, and after; a fast disk's fsync.
DISK_MS = 5
INTERVAL_S = 1.0
#: Agents hand their snapshots over within so much of an interval's end.
SEALING_S = 0.02
#: We look so often whether something has happened; the figures are too long by half of this.
LOOK_S = 0.000_5
#: Agents that fail at the same time, for good; with the paper's picture in mind: one, some, and a rack.
FAILURES = (1, 8, 64)


class Job:
    """One job with numbered intervals on the wall clock, and what of it has been seen."""

    def __init__(self, cluster: Cluster, app: bytes, root: Machine) -> None:
        self.cluster = cluster
        self.app = app
        self.root = root
        self.produced: list[str] = []
        #: When the last live agent had handed over an interval, by interval.
        self.sealed_s: dict[int, float] = {}
        #: When the root's runtime had each commit, by interval.
        self.committed_s: dict[int, float] = {}
        #: Agents that run and seal nothing.
        self.slow: set[Machine] = set()
        #: Whether nothing happens any more: intervals end without an item.
        self.is_quiet = False
        self.interval = 0

    async def run(self) -> None:
        """Seal interval after interval, for ever."""
        loop, rng = self.cluster.loop, self.cluster.rng
        while True:
            ends_s = (math.floor(loop.time() / INTERVAL_S) + 1) * INTERVAL_S
            await asyncio.sleep(ends_s - loop.time())
            self.interval += 1
            self.sealed_s[self.interval] = ends_s + SEALING_S
            for machine in self.cluster.up():
                if machine not in self.slow and self.app in machine.trees:
                    loop.call_later(rng.uniform(0, SEALING_S), self._seal, machine, self.interval)

    def _seal(self, machine: Machine, interval: int) -> None:
        if machine.node is None or machine.is_paused or machine.is_starting or self.app not in machine.trees:
            return
        items = [] if self.is_quiet else [f"{machine.runtime.name}#{interval}"]
        self.produced += items
        machine.call(machine.runtime.seal, machine.node, self.app, interval, items)

    async def watch(self) -> None:
        """Note when commits are there, for ever."""
        seen = 0
        while True:
            await asyncio.sleep(LOOK_S)
            commits = self.root.runtime.commits
            while seen < len(commits):
                self.committed_s[commits[seen].through] = self.cluster.loop.time()
                seen += 1

    async def wait_committed(self, interval: int, seconds: float) -> float:
        """Wait for the commit of an interval; returns when it was there."""
        await self.cluster.wait(lambda: interval in self.committed_s, seconds, LOOK_S)
        return self.committed_s[interval]

    async def wait_told(self, interval: int, seconds: float) -> float:
        """Wait until every agent that is up knows the verdict on an interval; returns when that was."""
        waiting = self.cluster.up()

        def is_done() -> bool:
            while waiting and (waiting[-1].node is None or waiting[-1].node.settled(self.app) >= interval):
                waiting.pop()
            return not waiting

        await self.cluster.wait(is_done, seconds, LOOK_S)
        return self.cluster.loop.time()

    def took_ms(self, intervals: Sequence[int]) -> list[float]:
        """Return from hand-over to commit, for intervals that are committed."""
        return [1000 * (self.committed_s[each] - self.sealed_s[each]) for each in intervals]


async def begin(cluster: Cluster, outcome: Outcome) -> Job:
    """Grow a cluster with one job, and wait until results flow."""
    await cluster.grow(outcome.agents)
    app = cluster.keys(1)[0]
    await enter(cluster, app, recorded=True)
    job = Job(cluster, app, cluster.closest(app))
    cluster.loop.create_task(job.run())
    cluster.loop.create_task(job.watch())
    await job.wait_committed(3, 30.0)
    return job


async def rollup(cluster: Cluster, outcome: Outcome, *, intervals: int = 10) -> None:
    """Measure results in calm, a leap, and recovery from agents that are gone for good."""
    job = await begin(cluster, outcome)
    await _calm(job, outcome, intervals)
    await _leap(job, outcome)
    for failures in FAILURES:
        if 4 * failures <= outcome.agents:
            await _fail(job, outcome, failures)
    # A last snapshot of everybody who lives, and nothing is missing but what the dead took with them.
    await job.wait_committed(job.interval + 2, 30.0)
    lived = {machine.runtime.name: machine.runtime for machine in cluster.up()}
    due = {item: item.partition("#")[0] in lived for item in job.produced}
    for runtime in lived.values():
        due.update(dict.fromkeys(runtime.retained, False))
    outcome.failures += check_counted(job.root.runtime, due, complete=True)


async def _calm(job: Job, outcome: Outcome, intervals: int) -> None:
    first = job.interval + 1
    told_ms = []
    for interval in range(first, first + intervals):
        committed_s = await job.wait_committed(interval, 5.0)
        told_ms.append(1000 * (await job.wait_told(interval, 5.0) - committed_s))
    took_ms = job.took_ms(range(first, first + intervals))
    outcome.note("ms from the last snapshot to the result, mean", sum(took_ms) / intervals)
    outcome.note("ms from the last snapshot to the result, most", max(took_ms), "<= 100")
    outcome.note("ms from a result until all are told, most", max(told_ms), "<= 50")
    missing = {agent for commit in job.root.runtime.commits[-intervals:] for agent in commit.missing}
    outcome.note("agents missing in calm", len(missing), "= 0")


async def _leap(job: Job, outcome: Outcome) -> None:
    """Let one agent that lives seal nothing for a while, and come back."""
    cluster, root = job.cluster, job.root
    straggler = cluster.rng.choice([machine for machine in cluster.up() if machine is not root])
    job.slow.add(straggler)
    patience_s = cluster.settings["leap_after_ms"] / 1000
    last = job.interval
    name = straggler.runtime.name
    await cluster.wait(lambda: last + 1 in job.committed_s, patience_s + 10)
    leapt = next(commit for commit in root.runtime.commits if commit.through == last + 1)
    if name not in leapt.missing:
        outcome.failures.append(f"{name} stood still and is not missing from interval {last + 1}")
    # The first snapshot of the interval started the clock at the root, or a little later.
    due_s = job.sealed_s[last + 1] - SEALING_S + patience_s
    told_s = await job.wait_told(last + 1, 5.0)
    outcome.note("ms from the deadline until all are told of the leap", 1000 * (told_s - due_s), "<= 50")
    job.slow.discard(straggler)
    back = job.interval + 1
    await cluster.wait(lambda: _is_in(root, name, back), 30.0)
    outcome.note("s until the straggler is in again", cluster.loop.time() - job.sealed_s[back])


def _is_in(root: Machine, name: str, interval: int) -> bool:
    return any(commit.through >= interval and name in commit.reported for commit in root.runtime.commits[-5:])


async def _fail(job: Job, outcome: Outcome, count: int) -> None:
    """Let some agents vanish for good, between two results; measure until results come at their pace again."""
    cluster, root = job.cluster, job.root
    await job.wait_told(job.interval, 10.0)
    await asyncio.sleep(cluster.rng.uniform(0.1, 0.9) * INTERVAL_S)
    failed_s = cluster.loop.time()
    victims = cluster.rng.sample([machine for machine in cluster.up() if machine is not root], count)
    parents = sum(bool(v.node.tree(job.app).children) for v in victims if v.node is not None)
    for machine in victims:
        machine.crash(silent=True)
    await job.wait_committed(job.interval + 1, 60.0)

    def is_up_to_date() -> bool:
        return job.interval in job.committed_s or job.interval - 1 in job.committed_s

    await cluster.wait(is_up_to_date, 60.0, LOOK_S)
    flows_s = cluster.loop.time() - failed_s
    after = job.interval + 1
    for interval in range(after, after + 5):
        await job.wait_committed(interval, 60.0)
    took_ms = max(job.took_ms(range(after, after + 5)))
    alive = {machine.runtime.name for machine in cluster.up()}
    since = job.sealed_s
    commits = [each for each in root.runtime.commits if failed_s <= since[each.through] and each.through < after]
    missing = sum(len(alive.intersection(commit.missing)) for commit in commits)
    what = f"{count} gone for good"
    outcome.note(f"{what}: s until results flow", flows_s, "<= 3")
    outcome.note(f"{what}: ms to the result then, most", took_ms, "<= 100")
    outcome.note(f"{what}: of these had children", parents)
    outcome.note(f"{what}: times a live agent was missing meanwhile", missing)
