"""Scenarios in which something fails: churn, a rush of newcomers, and seeded faults of every kind.

Owns what befalls the cluster, what is measured, and the demands once the faults have stopped; the faults themselves are
in `faults`, the demands' form in `checkers`.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from elf.overlay.errors import NotJoinedError
from elf.overlay.ids import ID_BYTES
from elf.overlay.sim.checkers import check_settled, follow_routes, percentile
from tests.sweep.checkers import check_counted, check_edges, check_multicast, is_attached
from tests.sweep.faults import Faults
from tests.sweep.machines import Cluster, Machine
from tests.sweep.report import Outcome
from tests.sweep.rollups import Job
from tests.sweep.scenarios import FAN_IN_MAX, enter

#: Repair is looked at so often; the figures are too long by half of this.
LOOK_S = 0.1
#: Share of agents that fail within a minute.
CHURN_SHARE = 0.1
#: A failed agent is back after this.
AWAY_S = (5.0, 60.0)
#: Share of the agents that become members while faults rage.
LATE_SHARE = 0.2
#: All that is well after the faults has to stay so, leases and all.
STAYS_S = 20.0


@dataclass(slots=True)
class Repairs:
    """Failures under repair: who of those that lost their parent is not attached again, and since when."""

    cluster: Cluster
    app: bytes
    waiting: list[tuple[float, set[Machine]]] = field(default_factory=list)
    #: Of each failure that made orphans, until the last of them was attached again.
    took_s: list[float] = field(default_factory=list)

    def orphans(self, machine: Machine) -> set[Machine]:
        """Return the agents that hang under one that is about to fail."""
        assert machine.node is not None
        children = machine.node.tree(self.app).children
        return {self.cluster.by_id[child.id] for child in children if self.cluster.by_id[child.id].is_up}

    def begin(self, orphans: set[Machine]) -> None:
        """Take note that they have lost their parent now."""
        if orphans:
            self.waiting.append((self.cluster.loop.time(), orphans))

    async def watch(self) -> None:
        """Look who is attached again, for ever."""
        while True:
            await asyncio.sleep(LOOK_S)
            for since_s, orphans in self.waiting:
                done = {each for each in orphans if not each.is_up or is_attached(self.cluster, each, self.app)}
                orphans -= done
                if not orphans:
                    self.took_s.append(self.cluster.loop.time() - since_s)
            self.waiting = [failure for failure in self.waiting if failure[1]]


async def churn(cluster: Cluster, outcome: Outcome, *, minutes: float = 60.0, lookups_per_s: float = 5.0) -> None:
    """Let agents fail and come back all the time; measure lookups and repairs."""
    await cluster.grow(outcome.agents)
    app = cluster.keys(1)[0]
    await enter(cluster, app, recorded=False)
    repairs = Repairs(cluster, app)
    watch = cluster.loop.create_task(repairs.watch())
    asked = cluster.loop.create_task(_look_up_often(cluster, minutes * 60, lookups_per_s))
    end_s = cluster.loop.time() + minutes * 60
    pace_s = 60 / (CHURN_SHARE * outcome.agents)
    failures = 0
    while cluster.loop.time() < end_s:
        await asyncio.sleep(cluster.rng.expovariate(1 / pace_s))
        victim = cluster.rng.choice(cluster.up())
        if victim.is_starting:
            continue
        orphans = repairs.orphans(victim)
        victim.crash(silent=cluster.rng.random() < 0.5)
        repairs.begin(orphans)
        failures += 1
        cluster.loop.call_later(cluster.rng.uniform(*AWAY_S), victim.come_back)
    right, total = await asked
    # Whoever fell last has its time, too.
    await asyncio.sleep(30.0)
    watch.cancel()
    outcome.note("failures", failures)
    outcome.note("lookups", total)
    outcome.note("lookups right, %", 100 * right / max(1, total), ">= 99.9")
    outcome.note("of these, that made orphans", len(repairs.took_s) + len(repairs.waiting))
    outcome.note("not repaired after 30 s", len(repairs.waiting), "= 0")
    # A leaf's failure leaves nothing to repair: it counts with 0 s among all.
    took_s = repairs.took_s
    outcome.note("s to repair, p50 of those with orphans", percentile(took_s, 0.5))
    outcome.note("s to repair, p99 of those with orphans", percentile(took_s, 0.99))
    everything = took_s + [0.0] * (failures - len(took_s))
    outcome.note("s to repair, p99 of all failures", percentile(everything, 0.99), "<= 3")
    outcome.note("s to repair, most", max(took_s, default=0.0))
    outcome.failures += check_edges(cluster, app, FAN_IN_MAX)


async def _look_up_often(cluster: Cluster, seconds: float, per_s: float) -> tuple[int, int]:
    """Look keys up from random agents; returns how many of how many were right.

    Right is whoever was the nearest live agent when the answer came, or when the question went out: an agent that has
    been gone for less than the lookup took cannot be known to be gone.
    """
    rng, loop = cluster.rng, cluster.loop
    end_s = loop.time() + seconds
    verdicts: list[bool] = []
    running: set[asyncio.Task[None]] = set()

    async def ask(machine: Machine) -> None:
        node = machine.node
        assert node is not None
        key = rng.randbytes(ID_BYTES)
        before = cluster.closest(key).contact
        try:
            found = await machine.task(node.closest(key))
        except NotJoinedError:
            return  # the asker fell between two steps of its lookup
        if machine.node is node:
            verdicts.append(bool(found) and found[0] in (before, cluster.closest(key).contact))

    while loop.time() < end_s:
        await asyncio.sleep(1 / per_s)
        settled = [machine for machine in cluster.up() if not machine.is_starting]
        task = loop.create_task(ask(rng.choice(settled)))
        running.add(task)
        task.add_done_callback(running.discard)
    await asyncio.sleep(10.0)
    return sum(verdicts), len(verdicts)


async def rush(cluster: Cluster, outcome: Outcome, *, keys: int = 50, present: int = 20) -> None:
    """Let everybody start within one second by way of a few agents, and enter one tree."""
    await cluster.grow(present)
    app = cluster.keys(1)[0]
    for machine in cluster.machines:
        machine.join_tree(app, member=True)
    seeds = cluster.up()
    began_s = cluster.loop.time()
    starts: list[asyncio.Task[None]] = []
    for _ in range(outcome.agents):
        await asyncio.sleep(1.0 / outcome.agents)
        machine = cluster.add()
        machine.join_tree(app, member=True)
        starts.append(machine.start([seed.contact for seed in cluster.rng.sample(seeds, 2)]))
    await asyncio.gather(*starts)
    outcome.note("s until all have joined", cluster.loop.time() - began_s)
    await cluster.wait(lambda: not check_settled(cluster, app), 120.0, 0.25)
    outcome.note("s until the tree is settled", cluster.loop.time() - began_s, "<= 10")
    routes = follow_routes(cluster, cluster.keys(keys))
    outcome.note(f"false roots then, {keys} keys", routes.false_roots, "= 0")
    outcome.note("agents under a wrong root then", routes.misled, "= 0")
    outcome.failures += check_edges(cluster, app, FAN_IN_MAX)


async def faults(cluster: Cluster, outcome: Outcome, *, seconds: float = 40.0) -> None:
    """Let faults rage over two trees, then heal them and demand that all is well.

    One tree has a recorded root, which counts and multicasts; the other one has whoever is nearest.
    """
    app, source = cluster.keys(2)
    await cluster.grow(outcome.agents)
    root = cluster.closest(app)
    late = set(cluster.rng.sample(cluster.machines, int(LATE_SHARE * outcome.agents))) - {root}
    for machine in cluster.machines:
        machine.join_tree(source, member=True)
        if machine not in late:
            machine.join_tree(app, member=True, root=root.contact)
    job = Job(cluster, app, root)
    working = [cluster.loop.create_task(job.run()), cluster.loop.create_task(_tell_often(job))]
    storm = Faults(cluster, app, root, cluster.rng.getrandbits(64))
    await storm.rage(seconds)
    outcome.failures += _miscounted(job, complete=False)
    await storm.heal()
    job.is_quiet = True
    commits, began_s = len(root.runtime.commits), cluster.loop.time()
    try:
        await cluster.wait(lambda: len(root.runtime.commits) > commits, 60.0, LOOK_S)
        outcome.note("s until results flow again", cluster.loop.time() - began_s)
        await cluster.wait(lambda: not _unsettled(job, source), 60.0, LOOK_S)
        outcome.note("s until both trees are settled", cluster.loop.time() - began_s)
        await cluster.wait(lambda: not _miscounted(job, complete=True), 60.0, LOOK_S)
        outcome.note("s until all is counted and told", cluster.loop.time() - began_s)
        await asyncio.sleep(STAYS_S)
        # Members that go up, nearer to the root, are between two parents for a moment.
        await cluster.wait(lambda: not _unsettled(job, source), 10.0, LOOK_S)
    except TimeoutError as error:
        outcome.failures.append(f"not live again: {error}")
    for task in working:
        task.cancel()
    outcome.failures += _unsettled(job, source) + _miscounted(job, complete=True)
    for each in (app, source):
        outcome.failures += check_edges(cluster, each, FAN_IN_MAX)
    outcome.note("faults", storm.counts.total())
    for kind in ("kill_root", "suspect", "enter", "leave"):
        outcome.note(f"of these {kind}", storm.counts[kind])
    outcome.note("items counted once each", len(root.runtime.counted()))
    outcome.note("commits", len(root.runtime.commits))
    outcome.note("control entries", len(root.runtime.entries(app)))


async def _tell_often(job: Job) -> None:
    """Let the root multicast now and then, for ever, while there is anything to count."""
    number = 0
    while True:
        await asyncio.sleep(job.cluster.rng.uniform(0.0, 2.0))
        node = job.root.node
        if node is not None and not job.root.is_paused and not job.is_quiet and node.tree(job.app).role == "root":
            number += 1
            job.root.call(node.multicast, job.app, b"%d" % number)


def _unsettled(job: Job, source: bytes) -> list[str]:
    """Check both trees, and that the last result lacks no member that lives."""
    members = {machine.runtime.name for machine in job.cluster.machines if job.app in machine.trees}
    missing = sorted(members.intersection(*(commit.missing for commit in job.root.runtime.commits[-1:])))
    wrong = [f"{name} is a member, lives, and is missing from the last result" for name in missing]
    return wrong + check_settled(job.cluster, job.app, job.root.contact) + check_settled(job.cluster, source)


def _miscounted(job: Job, *, complete: bool) -> list[str]:
    """Check what was committed and multicast; `complete`: this is the end."""
    root = job.root.runtime
    wrong = check_counted(root, dict.fromkeys(job.produced, True), complete=complete)
    return wrong + check_multicast(job.cluster, job.app, root.entries(job.app), complete=complete)
