"""What must hold of a cluster, looked at from outside: all agents at once, and only what they would answer.

Owns what a settled tree is, and how trees and routes are measured; knows nothing of how agents keep them, nor whether
they are simulated. The check returns sentences about what is wrong, none when all is well. What must hold under faults
is in `tests/sweep/checkers.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from elf.overlay.contract import TreeView
from elf.overlay.ids import Contact
from elf.overlay.sim.machines import Cluster

#: Sentences that one check returns at most: a broken tree has one cause and a thousand symptoms.
SENTENCES_MAX = 10


@dataclass(frozen=True, slots=True)
class Shape:
    """One tree as it stands: hops from each member to the root, and children of each agent that has any."""

    hops: tuple[int, ...]
    fan_in: tuple[int, ...]

    @property
    def hops_mean(self) -> float:
        """Mean number of edges between a member and the root."""
        return sum(self.hops) / max(1, len(self.hops))

    @property
    def depth(self) -> int:
        """Most edges between a member and the root."""
        return max(self.hops, default=0)

    @property
    def fan_in_max(self) -> int:
        """Most children of one agent."""
        return max(self.fan_in, default=0)


@dataclass(frozen=True, slots=True)
class Routes:
    """Where the ways toward some keys end, summed over keys and agents.

    `false_roots` know nobody closer although there is somebody; `misled` agents end at such a one, or at a dead one.
    """

    false_roots: int
    misled: int
    hops_mean: float
    hops_max: int


def views(cluster: Cluster, app: bytes) -> dict[bytes, TreeView]:
    """Ask every agent that is up for its place in a tree."""
    return {machine.contact.id: machine.node.tree(app) for machine in cluster.machines if machine.node is not None}


def check_settled(cluster: Cluster, app: bytes, root: Contact | None = None) -> list[str]:
    """Check what holds once the faults have stopped: every live member reaches the one true root, nobody is an orphan.

    The true root is the recorded `root`, without one the live agent closest to `app`.
    """
    true_root = root if root is not None else cluster.closest(app).contact
    found = views(cluster, app)
    roots = [key for key, view in found.items() if view.role == "root"]
    wrong = [f"a false root: {cluster.by_id[key].contact}" for key in roots if key != true_root.id]
    if true_root.id not in roots:
        wrong.append(f"{true_root} is not the root, although it should be")
    rooted = {true_root.id}
    for key, view in found.items():
        if view.member or view.children:
            wrong += _climb(cluster, key, found, rooted)
        for child in view.children:
            theirs = found.get(child.id)
            if theirs is None or theirs.parent is None or theirs.parent.id != key:
                wrong.append(f"{cluster.by_id[key].contact} holds {child} for its child, which does not agree")
        if len(wrong) >= SENTENCES_MAX:
            break
    return wrong[:SENTENCES_MAX]


def _climb(cluster: Cluster, start: bytes, found: dict[bytes, TreeView], rooted: set[bytes]) -> list[str]:
    """Follow parents from an agent to one that is known to reach the root; all on the way then do."""
    way: list[bytes] = []
    key = start
    while key not in rooted:
        view = found.get(key)
        name = cluster.by_id[key].contact
        if view is None:
            return [f"the parent of {cluster.by_id[way[-1]].contact} is not up"]
        if key in way:
            return [f"I7: a cycle through {name}"]
        way.append(key)
        if view.parent is None:
            return [f"an orphan: {name}, which is {view.role}"]
        above = found.get(view.parent.id)
        if above is None or all(child.id != key for child in above.children):
            return [f"{name} holds {view.parent} for its parent, which does not agree"]
        key = view.parent.id
    rooted.update(way)
    return []


def measure(cluster: Cluster, app: bytes) -> Shape:
    """Measure a settled tree."""
    found = views(cluster, app)
    hops: dict[bytes, int] = {key: 0 for key, view in found.items() if view.role == "root"}
    for start in found:
        way: list[bytes] = []
        key = start
        while key not in hops and len(way) <= len(found):
            parent = found[key].parent if key in found else None
            if parent is None:
                break
            way.append(key)
            key = parent.id
        if key in hops:
            for position, passed in enumerate(reversed(way), 1):
                hops[passed] = hops[key] + position
    return Shape(
        tuple(hops[key] for key, view in found.items() if view.member and key in hops),
        tuple(len(view.children) for view in found.values() if view.children),
    )


def follow_routes(cluster: Cluster, keys: Sequence[bytes]) -> Routes:
    """Follow every agent's next hops toward each key, to the agent that knows nobody closer."""
    numbers = {machine.contact.id: machine.contact.number for machine in cluster.up()}
    known = {
        machine.contact.id: [contact.number for contact in machine.node.contacts()]
        for machine in cluster.machines
        if machine.node is not None
    }
    by_number = {number: agent for agent, number in numbers.items()}
    false = under = hops_sum = hops_max = 0
    for key in keys:
        target = int.from_bytes(key)
        true_root = cluster.closest(key).contact.id
        # Nearest first: where an agent's way ends is known once its next hop has been dealt with.
        ends: dict[bytes, tuple[bytes | None, int]] = {}
        for agent in sorted(numbers, key=lambda agent: numbers[agent] ^ target):
            best = min((number ^ target for number in known[agent]), default=None)
            if best is None or best > numbers[agent] ^ target:
                ends[agent] = agent, 0
            else:
                end, hops = ends.get(by_number.get(best ^ target, b""), (None, 0))
                ends[agent] = end, hops + 1
        false += sum(end == agent != true_root for agent, (end, _) in ends.items())
        under += sum(end not in (agent, true_root) for agent, (end, _) in ends.items())
        hops_sum += sum(hops for _, hops in ends.values())
        hops_max = max(hops_max, *(hops for _, hops in ends.values()))
    return Routes(false, under, hops_sum / max(1, len(keys) * len(numbers)), hops_max)


def percentile(values: Sequence[float], share: float) -> float:
    """Return the smallest value that at least `share` of the values do not exceed; 0 for no values.

    >>> percentile([3.0, 1.0, 2.0], 0.5), percentile([], 0.99)
    (2.0, 0.0)
    """
    ordered = sorted(values)
    return ordered[max(0, -(-int(len(ordered) * share * 1000) // 1000) - 1)] if ordered else 0.0
