"""Scale on a laptop: many jobs over many agents in one process, in virtual time, and what their trees look like.

Owns how jobs are published and what is measured; presentation is the command line's (`elf lab`). Every agent is its
overlay alone, an `OverlayNode` with nothing above it; every message is encoded, framed and decoded.
"""

from __future__ import annotations

import asyncio
import resource
import sys
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from elf.overlay.ids import ID_BYTES
from elf.overlay.messages import Join
from elf.overlay.placement import SALTS, candidate_key, choose_salt
from elf.overlay.sim.checkers import check_settled, follow_routes, measure, percentile
from elf.overlay.sim.loop import SimLoop
from elf.overlay.sim.machines import Cluster, Machine

#: Memberships (an agent in a job) that a laptop takes in a few minutes and 2 GB; 500 jobs of 1,280 members are 640,000.
MEMBERSHIPS_MAX = 64_000
#: A job is published so often, and its members enter within this time.
PACE_S = 0.01
#: How long the idle cluster is measured.
IDLE_S = 5.0
#: Keys that are looked for false roots.
KEYS = 100

Tell = Callable[[str, int, int], None]


@dataclass(frozen=True, slots=True)
class Plan:
    """What is simulated; `members` of the agents, drawn anew for each job, are members of it."""

    agents: int
    jobs: int
    members: int
    seed: int = 1

    @classmethod
    def of(cls, agents: int, jobs: int, share: float | None, seed: int) -> Plan:
        """Draw up a plan; without a share, everybody is a member as long as the whole stays within reason."""
        if share is None:
            share = min(1.0, MEMBERSHIPS_MAX / max(1, agents * jobs))
        return cls(agents, jobs, max(1, min(agents, round(share * agents))), seed)


@dataclass(frozen=True, slots=True)
class Findings:
    """What a plan came to. Times are in seconds, virtual unless they say otherwise."""

    plan: Plan
    contacts: float
    false_roots: int
    misled: int
    request_hops: float
    hops_mean: float
    hops_p99: float
    depth: int
    fan_in_p99: float
    fan_in_max: int
    forwarders: float
    joins: float
    roots_max: int
    roots_below_3: float
    roots_below_5: float
    join_datagrams: float
    build_messages: float
    build_bytes: float
    links: float
    idle_packets_per_s: float
    idle_bytes_per_s: float
    virtual_s: float
    wall_s: float
    memory_mb: int
    digest: str
    wrong: tuple[str, ...]


def run(plan: Plan, tell: Tell = lambda what, done, total: None) -> Findings:
    """Carry out a plan; `tell` hears of progress: what is being done, how much of it, and how much there is."""
    loop = SimLoop(plan.seed)
    return loop.run(_run(Cluster(loop), plan, tell))


async def _run(cluster: Cluster, plan: Plan, tell: Tell) -> Findings:
    began_s = time.monotonic()
    while (grown := len(cluster.machines)) < plan.agents:
        tell("agents join", grown, plan.agents)
        await cluster.grow(min(64, plan.agents - grown))
    loop, streams = cluster.loop, cluster.streams
    join_datagrams = loop.sent / plan.agents
    tell("routes are followed", 0, 1)
    routes = follow_routes(cluster, cluster.keys(KEYS))
    built_from = streams.bytes + loop.sent_bytes
    roots, wrong = await _publish(cluster, plan, tell)
    sent = cluster.sent()
    build_bytes = streams.bytes + loop.sent_bytes - built_from
    tell("idle time is measured", 0, 1)
    packets, octets, since_s = loop.sent + streams.frames, loop.sent_bytes + streams.bytes, loop.time()
    await asyncio.sleep(IDLE_S)
    idle_s = (loop.time() - since_s) * plan.agents
    hops, fan_in, forwarders = _shapes(cluster, roots, plan, tell)
    per_agent = Counter(machine.contact.id for machine in roots.values())
    return Findings(
        plan=plan,
        contacts=sum(len(m.node.contacts()) for m in cluster.machines if m.node is not None) / plan.agents,
        false_roots=routes.false_roots,
        misled=routes.misled,
        request_hops=routes.hops_mean,
        hops_mean=sum(hops) / max(1, len(hops)),
        hops_p99=percentile(hops, 0.99),
        depth=max(hops, default=0),
        fan_in_p99=percentile(fan_in, 0.99),
        fan_in_max=max(fan_in, default=0),
        forwarders=forwarders,
        joins=sent[Join.__name__] / ((plan.members + forwarders) * plan.jobs),
        roots_max=max(per_agent.values()),
        roots_below_3=_share_below(3, per_agent, plan.agents),
        roots_below_5=_share_below(5, per_agent, plan.agents),
        join_datagrams=join_datagrams,
        build_messages=sum(sent.values()) / plan.agents,
        build_bytes=build_bytes / plan.agents,
        links=sum(len(m.links.connected()) for m in cluster.machines if m.links is not None) / plan.agents,
        idle_packets_per_s=(loop.sent + streams.frames - packets) / idle_s,
        idle_bytes_per_s=(loop.sent_bytes + streams.bytes - octets) / idle_s,
        virtual_s=loop.time(),
        wall_s=time.monotonic() - began_s,
        memory_mb=_memory_mb(),
        digest=loop.digest,
        wrong=tuple(wrong + loop.errors),
    )


async def _publish(cluster: Cluster, plan: Plan, tell: Tell) -> tuple[dict[bytes, Machine], list[str]]:
    """Publish jobs one after another, each at the less loaded of its two candidates; wait until all trees stand."""
    roots: dict[bytes, Machine] = {}
    load: Counter[bytes] = Counter()
    for index in range(plan.jobs):
        if index % 10 == 0:
            tell("jobs are published", index, plan.jobs)
        app = cluster.rng.randbytes(ID_BYTES)
        candidates = [cluster.closest(candidate_key(app, salt)) for salt in SALTS]
        salt = choose_salt([load[candidate.contact.id] for candidate in candidates])
        assert salt is not None
        root = roots[app] = candidates[salt]
        load[root.contact.id] += 1
        members = cluster.rng.sample(cluster.machines, plan.members)
        if root not in members:
            root.join_tree(app, member=False, root=root.contact)
        for machine in members:
            machine.join_tree(app, member=True, root=root.contact)
        await asyncio.sleep(PACE_S)
    wrong: list[str] = []
    for index, (app, root) in enumerate(roots.items()):
        if index % 10 == 0:
            tell("trees settle", index, plan.jobs)
        wrong += await _settle(cluster, app, root)
    return roots, wrong


async def _settle(cluster: Cluster, app: bytes, root: Machine) -> list[str]:
    """Wait until a tree stands; returns what is wrong with one that does not."""
    try:
        await cluster.wait(lambda: not check_settled(cluster, app, root.contact), 30.0, 0.25)
    except TimeoutError:
        return check_settled(cluster, app, root.contact)
    return []


def _shapes(
    cluster: Cluster, roots: dict[bytes, Machine], plan: Plan, tell: Tell
) -> tuple[list[int], list[int], float]:
    """Return hops of all members, children of all parents, and agents per tree that only forward."""
    hops: list[int] = []
    fan_in: list[int] = []
    for index, app in enumerate(roots):
        if index % 10 == 0:
            tell("trees are measured", index, plan.jobs)
        shape = measure(cluster, app)
        hops += shape.hops
        fan_in += shape.fan_in
    # Every agent of a tree but its root is somebody's child.
    forwarders = sum(fan_in) + len(roots) - len(hops)
    return hops, fan_in, forwarders / max(1, len(roots))


def _share_below(bound: int, roots: Counter[bytes], agents: int) -> float:
    return 1 - sum(count >= bound for count in roots.values()) / agents


def _memory_mb() -> int:
    """Return the most memory the process has had, in MB; Linux counts in KiB, macOS in bytes."""
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most // (1_000_000 if sys.platform == "darwin" else 1_000)
