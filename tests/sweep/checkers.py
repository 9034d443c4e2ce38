"""What must hold of a cluster under faults, looked at from outside: edges at any moment, multicast and counting.

Owns the properties of OVERLAY 6.7 beside those of a settled tree, which are `elf.overlay.sim.checkers`'; knows nothing
of how agents keep them, nor whether they are simulated. Each check returns sentences about what is wrong, none when all
is well.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Protocol

from elf.overlay.contract import Commit, ControlEntry
from elf.overlay.ids import distance
from elf.overlay.sim.checkers import SENTENCES_MAX
from tests.sweep.machines import Cluster, Machine


class Log(Protocol):
    """What a job's roots committed; see `runtime.Runtime`."""

    @property
    def commits(self) -> Sequence[Commit]:
        """The commits in their order."""
        ...

    def counted(self) -> Counter[str]:
        """Return how often each item is in a commit."""
        ...


def check_edges(cluster: Cluster, app: bytes, fan_in_max: int) -> list[str]:
    """Check what holds at any moment: fan-in within the cap (I8), parents closer than their children (I7)."""
    wrong: list[str] = []
    for machine in cluster.up():
        assert machine.node is not None
        view = machine.node.tree(app)
        if len(view.children) > fan_in_max:
            wrong.append(f"I8: {machine.contact} has {len(view.children)} children, {fan_in_max} are allowed")
        if view.root == machine.contact:
            continue  # also one that leads no more: it keeps its children until it hears who does
        own = distance(machine.contact.id, app)
        wrong += [
            f"I7: {machine.contact} is parent of {child}, which is closer"
            for child in view.children
            if distance(child.id, app) <= own
        ]
    return wrong[:SENTENCES_MAX]


def is_attached(cluster: Cluster, machine: Machine, app: bytes) -> bool:
    """Tell whether an agent reaches a root over live edges that both ends agree on."""
    seen: set[bytes] = set()
    node = machine.node
    while node is not None and machine.contact.id not in seen:
        view = node.tree(app)
        if view.role == "root":
            return True
        if view.parent is None:
            return False
        seen.add(machine.contact.id)
        child, machine = machine, cluster.by_id[view.parent.id]
        node = machine.node
        if node is not None and child.contact not in node.tree(app).children:
            return False
    return False


def check_counted(log: Log, produced: Mapping[str, bool], *, complete: bool) -> list[str]:
    """Check what a job's roots committed: nothing counted twice or never produced, one commit after the other.

    Args:
        log: the commits.
        produced: every item that there is, and whether it must be counted in the end; some may have been lost.
        complete: this is the end.
    """
    counted = log.counted()
    wrong = [f"counted {count} times: {item}" for item, count in counted.items() if count > 1]
    wrong += [f"counted but never produced: {item}" for item in counted if item not in produced]
    if complete:
        wrong += [f"never counted: {item}" for item, due in produced.items() if due and item not in counted]
    wrong += [
        f"commit {later.through} follows {earlier.through} but says {later.previous}"
        for earlier, later in itertools.pairwise(log.commits)
        if later.previous != earlier.through or later.through <= earlier.through
    ]
    return wrong[:SENTENCES_MAX]


def check_multicast(cluster: Cluster, app: bytes, truth: Sequence[ControlEntry], *, complete: bool) -> list[str]:
    """Check control entries: every agent got the roots', in their order, each once, no gap that it was not told of.

    With `complete`, also that everybody who is up and in the tree has the last one.
    """
    place = {entry.mark: position for position, entry in enumerate(truth)}
    wrong = [] if len(place) == len(truth) else ["two entries have one mark"]
    for machine in cluster.machines:
        last = -1
        for entry in [entry for key, entry in machine.runtime.controls if key == app]:
            at = place.get(entry.mark)
            if at is None or truth[at].body != entry.body:
                wrong.append(f"{machine.contact} got {entry.mark}, which no root said so")
                break
            if at <= last:
                wrong.append(f"{machine.contact} got {entry.mark} again or out of order")
            if at > last + 1 and last >= 0 and not entry.skipped:
                wrong.append(f"{machine.contact} missed something before {entry.mark} and was not told")
            last = at
        inside = machine.node is not None and machine.node.tree(app).member
        if complete and inside and last != len(truth) - 1:
            wrong.append(f"{machine.contact} has {last + 1} of {len(truth)} entries")
    return wrong[:SENTENCES_MAX]
