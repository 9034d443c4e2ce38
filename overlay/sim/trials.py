"""Scenarios in which something fails: churn, a rush of newcomers, and seeded faults of every kind.

Owns what befalls the cluster, what is measured, and the demands once the faults have stopped; the faults themselves are
in `faults`, the demands' form in `checkers`.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from elf.overlay.errors import NotJoinedError
from elf.overlay.ids import ID_BYTES
from elf.overlay.sim.agents import Cluster, Machine
from elf.overlay.sim.checkers import (
    check_counted,
    check_edges,
    check_multicast,
    check_settled,
    follow_routes,
    is_attached,
)
from elf.overlay.sim.faults import Faults
from elf.overlay.sim.jobs import Job
from elf.overlay.sim.report import Outcome, percentile
from elf.overlay.sim.scenarios import FAN_IN_MAX, enter
from elf.overlay.sim.work import Work

#: Repair is looked at so often; the figures are too long by half of this.
LOOK_S = 0.1
#: Share of agents that fail within a minute.
CHURN_SHARE = 0.1
#: A failed agent is back after this.
AWAY_S = (5.0, 60.0)


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
    """Let faults of every kind rage over a working cluster, then heal it and demand that all is well."""
    job, source = cluster.keys(2)
    cluster.job = Job(job, source)
    await cluster.grow(outcome.agents)
    work = Work(cluster, cluster.job)
    storm = Faults(cluster, cluster.rng.getrandbits(64), work)
    raging = cluster.loop.create_task(storm.rage(seconds))
    await work.go_on(seconds, items=True)
    await raging
    log = work.log
    outcome.failures += check_counted(log, work.due(), complete=False)
    outcome.failures += check_multicast(cluster, job, log.controls, complete=False)
    outcome.failures += work.wrong_versions(complete=False)
    await storm.heal()
    commits, reigns, began_s = len(log.commits), work.job.reigns, cluster.loop.time()
    settling = cluster.loop.create_task(work.go_on(30.0, items=False))
    try:
        await cluster.wait(lambda: len(log.commits) > commits, 60.0, LOOK_S)
        outcome.note("s until results flow again", cluster.loop.time() - began_s)
        outcome.note("roots elected until then", work.job.reigns - reigns, "<= 2")
        await cluster.wait(lambda: not _unsettled(cluster, work, source), 60.0, LOOK_S)
        outcome.note("s until both trees are settled", cluster.loop.time() - began_s)
        await settling
        await cluster.wait(work.is_done, 30.0, LOOK_S)
        await cluster.wait(lambda: not check_multicast(cluster, job, log.controls, complete=True), 10.0, LOOK_S)
    except TimeoutError as error:
        outcome.failures += _unsettled(cluster, work, source) or [f"not live again: {error}; {work.rest()}"]
    outcome.failures += check_multicast(cluster, job, log.controls, complete=True)
    outcome.failures += check_counted(log, work.due(), complete=True)
    outcome.failures += work.wrong_versions(complete=True)
    outcome.failures += work.job.truth.wrong
    missing = set(work.missing()).intersection(work.names())
    outcome.failures += [f"{name} is a member, lives, and is missing from the last result" for name in sorted(missing)]
    for app in (job, source):
        outcome.failures += check_edges(cluster, app, FAN_IN_MAX)
    outcome.note("faults", sum(storm.counts.values()))
    for kind in (
        "lose_disk",
        "suspect",
        "kill_leader",
        "cut_off_leader",
        "move_root",
        "enter_late",
        "retire",
        "race",
    ):
        outcome.note(f"of these {kind}", storm.counts.get(kind, 0))
    outcome.note("items counted once each", len(log.counted()))
    outcome.note("items lost with a disk", len(work.excused.difference(log.counted())))
    outcome.note("items read by a version too old", len(work.superseded))
    outcome.note("versions", len(log.versions) - 1)
    outcome.note("times that windows were emptied", len(log.emptied))
    outcome.note("commits", len(log.commits))
    outcome.note("control entries", len(log.controls))
    outcome.note("roots elected", work.job.reigns)


def _unsettled(cluster: Cluster, work: Work, source: bytes) -> list[str]:
    leader = work.leader
    root = leader.contact if leader is not None else None
    return work.unsettled_group() + check_settled(cluster, work.app, root) + check_settled(cluster, source)
