"""How soon a running job is another one on all its agents (the paper's Figure 10b).

Owns what is set up and measured. All agents are members of one job with intervals of `INTERVAL_S`, whose root group has
five members. Times are virtual: messages take what the links take, bytes what a machine sends in a second, writes what
the disks take; work costs no time.
"""

from __future__ import annotations

import asyncio
import math

from elf.overlay.contract import Record
from elf.overlay.sim.agents import Cluster, Machine
from elf.overlay.sim.changing import ask
from elf.overlay.sim.checkers import check_counted, check_settled
from elf.overlay.sim.jobs import Amend, Job
from elf.overlay.sim.report import Outcome
from elf.overlay.sim.versions import What
from elf.overlay.sim.work import Work

#: One way of a link of the paper's testbed, and what a machine sends at most: one Gbit/s.
DELAY_MS = (0.5, 0.5)
BYTES_PER_S = 125e6
#: Most that a write of a runtime takes before it is durable, and after; a fast disk's fsync.
DISK_MS = 5
INTERVAL_S = 0.1
#: Agents hand their snapshots over within so much of an interval's end.
SEALING_S = 0.01
#: We look so often whether something has happened; the figures are too long by half of this.
LOOK_S = 0.000_5
#: What a function of a creator's own weighs, and how many of them a record may bring: it has all versions.
FUNCTION_BYTES = 64 << 10
FUNCTIONS_MAX = 2


class Stream:
    """A job's intervals on the wall clock: each agent reads an item of each, and seals it at the interval's end."""

    def __init__(self, cluster: Cluster, work: Work) -> None:
        self.cluster = cluster
        self.work = work
        self._began_s = cluster.loop.time()
        work.job.now = lambda off_ms: self.interval

    @property
    def interval(self) -> int:
        """The one that runs now."""
        return math.floor((self.cluster.loop.time() - self._began_s) / INTERVAL_S)

    def begins_s(self, interval: int) -> float:
        """Return when an interval begins."""
        return self._began_s + interval * INTERVAL_S

    async def run(self) -> None:
        """Seal interval after interval, for ever."""
        loop, rng = self.cluster.loop, self.cluster.rng
        number = 0
        while True:
            for machine in self.cluster.machines:
                machine.runtime.source[number] = [f"{machine.runtime.name}#{number}"]
            await asyncio.sleep(self.begins_s(number + 1) - loop.time())
            for machine in self.cluster.machines:
                loop.call_later(rng.uniform(0, SEALING_S), self._seal, machine, number)
            number += 1

    def _seal(self, machine: Machine, number: int) -> None:
        items = machine.runtime.source[number]
        self.work.produced.update(dict.fromkeys(items))
        machine.call(machine.runtime.seal, machine.node, self.work.app, number, items)


async def update(cluster: Cluster, outcome: Outcome, *, times: int = 10) -> None:
    """Measure how long it takes until all agents are told of something, and until they work by another version."""
    app, source = cluster.keys(2)
    cluster.job = Job(app, source)
    cluster.streams.bytes_per_s = BYTES_PER_S
    await cluster.grow(outcome.agents)
    work = Work(cluster, cluster.job, late_share=0.0)
    await cluster.wait(lambda: not _unsettled(cluster, work), 60.0, 0.1)
    stream = Stream(cluster, work)
    running = cluster.loop.create_task(stream.run())
    await cluster.wait(lambda: len(work.log.commits) > 3, 30.0)
    news_ms = [await _tell(cluster, work, number) for number in range(times)]
    outcome.note("ms until all are notified, mean", sum(news_ms) / times)
    outcome.note("ms until all are notified, most", max(news_ms), "<= 10")
    await _measure(stream, outcome, "a filter", "update", times, 0, "<= 210")
    await _measure(stream, outcome, "a reset", "reset", times, 0, "<= 210")
    await _measure(stream, outcome, "a function", "update", min(times, FUNCTIONS_MAX), FUNCTION_BYTES, "<= 600")
    last = work.log.versions[-1].since
    await cluster.wait(lambda: work.log.rollup.committed > last + 2, 30.0, LOOK_S)
    running.cancel()
    missing = {
        name for commit in work.log.commits for name in (*commit.missing, *work.log.late(commit, commit.through))
    }
    outcome.note("versions", len(work.log.versions) - 1)
    outcome.note("agents missing from any result", len(missing), "= 0")
    outcome.note("rows left out", len(work.log.superseded), "= 0")
    outcome.failures += check_counted(work.log, work.due(), complete=False)
    outcome.failures += work.wrong_versions(complete=True)
    outcome.failures += work.job.truth.wrong


def _unsettled(cluster: Cluster, work: Work) -> list[str]:
    leader = work.leader
    root = leader.contact if leader is not None else None
    return work.unsettled_group() or check_settled(cluster, work.app, root) or check_settled(cluster, work.job.source)


async def _tell(cluster: Cluster, work: Work, number: int) -> float:
    """Let the master put a record into the job's tree; returns the ms until everybody has it."""
    await asyncio.sleep(cluster.rng.uniform(0.1, 0.2))
    root = work.leader
    assert root is not None and root.node is not None
    record = Record("news", number, b"%d" % number)
    waiting = [machine.node for machine in cluster.machines if machine.node is not None]
    root.call(root.node.add_record, work.app, record)

    def is_done() -> bool:
        while waiting and record in waiting[-1].records(work.app):
            waiting.pop()
        return not waiting

    return 1000 * await cluster.wait(is_done, 5.0, LOOK_S)


async def _measure(stream: Stream, outcome: Outcome, name: str, what: What, times: int, size: int, wanted: str) -> None:
    """Ask for versions, one after the other and each from another agent, at any moment of an interval."""
    cluster, work = stream.cluster, stream.work
    heard_ms, effective_ms = list[float](), list[float]()
    for number in range(times):
        await asyncio.sleep(cluster.rng.uniform(2 * INTERVAL_S, 3 * INTERVAL_S))
        machine = cluster.rng.choice(cluster.machines)
        request = Amend(what, f"{name}/{number}", body=cluster.rng.randbytes(size))
        began_s = cluster.loop.time()
        asked = machine.task(ask(machine, work.job, request, cluster.rng))
        waiting = list(cluster.machines)

        def is_done(asked_for: str = request.asked, waiting: list[Machine] = waiting) -> bool:
            while waiting and waiting[-1].runtime.versions[-1].asked == asked_for:
                waiting.pop()
            return not waiting

        heard_s = began_s + await cluster.wait(is_done, 5.0, LOOK_S)
        since = await asked
        if since is None:
            outcome.failures.append(f"{request.asked} was not decided")
            continue
        heard_ms.append(1000 * (heard_s - began_s))
        effective_ms.append(1000 * (max(heard_s, stream.begins_s(since)) - began_s))
        outcome.note_most(
            f"ms by which {name} came after its interval began", 1000 * (heard_s - stream.begins_s(since)), "<= 0"
        )
    outcome.note(f"ms until all have heard of {name}, most", max(heard_ms))
    outcome.note(f"ms until {name} counts everywhere, mean", sum(effective_ms) / times)
    outcome.note(f"ms until {name} counts everywhere, most", max(effective_ms), wanted)
