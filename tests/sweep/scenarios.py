"""Calm scenarios: what trees, multicast and upkeep cost in a cluster in which nothing fails.

Owns what is set up, waited for and measured; bounds are those of the issue and of the paper (Figures 12 and 13).
Scenarios with failures are in `trials`.
"""

from __future__ import annotations

import asyncio

from elf.overlay.contract import Record
from elf.overlay.messages import ControlEntries, Join
from elf.overlay.sim.checkers import check_settled, follow_routes, measure
from tests.sweep.checkers import check_edges, check_multicast
from tests.sweep.machines import Cluster, Machine
from tests.sweep.report import Outcome

#: The paper's fan-in, and our cap.
FAN_IN_MAX = 16
#: One way of a link of the paper's testbed, for `multicast`.
MULTICAST_DELAY_MS = (0.5, 0.5)
#: Everybody enters a tree within this time, in an order drawn anew.
ENTER_S = 2.0


async def enter(cluster: Cluster, app: bytes, *, recorded: bool, within_s: float = ENTER_S) -> float:
    """Let every agent join a tree, one after the other in random order; returns how long it took to settle.

    A recorded root comes first.

    Raises:
        TimeoutError: the tree did not settle.
    """
    machines = cluster.up()
    cluster.rng.shuffle(machines)
    root = None
    if recorded:
        master = cluster.closest(app)
        root = master.contact
        # As when a job is published: a master is installed first, then others hear of it.
        machines.sort(key=lambda machine: machine is not master)
    began_s = cluster.loop.time()
    for machine in machines:
        machine.join_tree(app, member=True, root=root)
        await asyncio.sleep(within_s / len(machines))
    await cluster.wait(lambda: not check_settled(cluster, app, root), 60.0, 0.1)
    return cluster.loop.time() - began_s


async def join(cluster: Cluster, outcome: Outcome, *, keys: int = 200, trees: int = 4) -> None:
    """Grow a cluster, look for false roots, build trees and measure them."""
    count = outcome.agents
    await cluster.grow(count)
    routes = follow_routes(cluster, cluster.keys(keys))
    outcome.note(f"false roots, {keys} keys", routes.false_roots, "= 0")
    outcome.note("agents under a wrong root", routes.misled, "= 0")
    outcome.note("hops of a request, mean", routes.hops_mean, "<= 2.6")
    outcome.note("hops of a request, most", routes.hops_max)
    outcome.note("datagrams to join, per agent", cluster.loop.sent / count)
    hops: list[float] = []
    depth = fan_in = joins = 0
    for index, app in enumerate(cluster.keys(trees)):
        before = cluster.sent()[Join.__name__]
        await enter(cluster, app, recorded=index % 2 == 0)
        outcome.failures += check_edges(cluster, app, FAN_IN_MAX)
        joins += cluster.sent()[Join.__name__] - before
        shape = measure(cluster, app)
        hops.append(shape.hops_mean)
        depth, fan_in = max(depth, shape.depth), max(fan_in, shape.fan_in_max)
    # No tree of 1,280 agents with 16 children each has less than 2.78: 16 at one hop, 256 at two, the rest at three.
    outcome.note(f"hops to a tree's root, mean of {trees} trees", sum(hops) / trees)
    outcome.note("depth", depth, "<= 7")
    outcome.note("fan-in", fan_in, f"<= {FAN_IN_MAX}")
    outcome.note("JOINs per member", joins / trees / count, "<= 1.3")


async def multicast(cluster: Cluster, outcome: Outcome, *, times: int = 10) -> None:
    """Measure how long it takes until everybody has heard the root; links are those of `MULTICAST_DELAY_MS`."""
    await cluster.grow(outcome.agents)
    app = cluster.keys(1)[0]
    await enter(cluster, app, recorded=True)
    root = cluster.closest(app)
    took_ms: list[float] = []
    for index in range(times):
        # Not always at the same moment between two heartbeats.
        await asyncio.sleep(cluster.rng.uniform(1.0, 2.0))
        before = {machine: _copies(machine) for machine in cluster.machines}
        took_ms.append(1000 * await _tell_all(cluster, app, root, b"%d" % index))
        copies = max(_copies(machine) - before[machine] for machine in cluster.machines)
        outcome.note_most("copies an agent sends, most", copies, f"<= {FAN_IN_MAX}")
    outcome.note("ms until all are notified, mean", sum(took_ms) / times)
    outcome.note("ms until all are notified, most", max(took_ms), "<= 10")
    flooded_ms = [1000 * await _flood(cluster, app, root, version) for version in range(1, times + 1)]
    outcome.note("ms until all have a record, most", max(flooded_ms), "<= 10")
    outcome.note("depth", measure(cluster, app).depth)
    outcome.failures += check_multicast(cluster, app, root.runtime.entries(app), complete=True)


async def _tell_all(cluster: Cluster, app: bytes, root: Machine, body: bytes) -> float:
    """Multicast once; returns the seconds until everybody has heard."""
    assert root.node is not None
    root.call(root.node.multicast, app, body)
    heard = [machine.runtime.controls for machine in cluster.machines]
    count = len(root.runtime.controls) + 1
    return await cluster.wait(lambda: all(len(each) >= count for each in heard), 5.0, 0.0005)


async def _flood(cluster: Cluster, app: bytes, root: Machine, version: int) -> float:
    """Put a record into the tree; returns the seconds until everybody has it."""
    await asyncio.sleep(cluster.rng.uniform(1.0, 2.0))
    record = Record("news", version, b"%d" % version)
    assert root.node is not None
    root.call(root.node.add_record, app, record)
    nodes = [machine.node for machine in cluster.machines if machine.node is not None]
    return await cluster.wait(lambda: all(record in node.records(app) for node in nodes), 5.0, 0.0005)


def _copies(machine: Machine) -> int:
    assert machine.links is not None
    return machine.links.sent[ControlEntries.__name__]


async def upkeep(cluster: Cluster, outcome: Outcome, *, seconds: float = 60.0) -> None:
    """Measure what one idle job costs each agent."""
    await cluster.grow(outcome.agents)
    await enter(cluster, cluster.keys(1)[0], recorded=True)
    # What joining stirred up (new contacts, first pings) is not upkeep.
    await asyncio.sleep(30.0)
    loop, streams = cluster.loop, cluster.streams
    datagrams, datagram_bytes = loop.sent, loop.sent_bytes
    frames, frame_bytes = streams.frames, streams.bytes
    before = {machine: _packets(cluster, machine.index) for machine in cluster.machines}
    await asyncio.sleep(seconds)
    share = outcome.agents * seconds
    each = [(_packets(cluster, machine.index) - before[machine]) / seconds for machine in cluster.machines]
    outcome.note("packets/s an agent, mean", sum(each) / len(each), "<= 10")
    outcome.note("packets/s an agent, most", max(each))
    outcome.note("of these DHT datagrams", (loop.sent - datagrams) / share)
    outcome.note("of these link frames", (streams.frames - frames) / share)
    sent_bytes = loop.sent_bytes - datagram_bytes + streams.bytes - frame_bytes
    outcome.note("bytes/s an agent, mean", sent_bytes / share)


def _packets(cluster: Cluster, index: int) -> int:
    node = cluster.machines[index].node
    assert node is not None
    counters = node.counters()
    return counters["dht_sent"] + counters["frames_out"]
