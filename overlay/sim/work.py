"""What agents do in a job while faults rage, and what changes meanwhile: members, roots, the job's definition.

Owns the truth about what was produced and what of it must be counted in the end. Roots share a `RootLog`, which stands
for their group; agents hear of a new root one by one, and may follow the old one for a while. OVERLAY 6.3 and 6.5.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence

from overlay.contract import NEVER, ORIGIN
from overlay.errors import NotJoinedError
from overlay.sim.agents import Cluster, Machine
from overlay.sim.rootlog import FencedError, RootLog

#: An agent hears of a new root after so long at most, if it runs then.
HEARSAY_S = 5.0
#: What has to be waited for is tried again after this.
RETRY_S = 0.5
#: A change of the definition takes effect so many intervals later: nobody has sealed them by then.
AHEAD = 8
#: Share of the agents that become members later, and least members that stay.
LATE_SHARE = 0.2
MEMBERS_MIN = 3


class Work:
    """A job with numbered items."""

    def __init__(self, cluster: Cluster, app: bytes) -> None:
        self.cluster, self.app = cluster, app
        self.log = RootLog()
        #: Items, and whether they may be lost: their agent lost its disk when later intervals had been committed.
        self.produced: dict[str, None] = {}
        self.excused: set[str] = set()
        self.intervals = 0
        machines = list(cluster.machines)
        cluster.rng.shuffle(machines)
        late = int(LATE_SHARE * len(machines))
        self._outside, self._leaving = machines[:late], list[Machine]()
        self._tasks: set[asyncio.Task[None]] = set()
        self._rng = cluster.rng
        self.root = machines[-1]
        for machine in machines:
            machine.runtime.record = self.log.versions
        for machine in machines[late:]:
            machine.trees[app] = (True, self.root.contact)
        self.root.lead(app, self.log)
        for machine in machines[late:-1]:
            machine.follow(app, self.root.contact)

    def due(self) -> dict[str, bool]:
        """Return every item and whether it must be counted."""
        return {item: item not in self.excused for item in self.produced}

    # ---- what always goes on

    def interval(self, *, items: bool) -> None:
        """Let every member that runs seal an interval, two in three with an item; the root multicasts now and then."""
        self.intervals += 1
        for machine in self.cluster.up():
            if machine.is_paused or machine.is_starting or self.app not in machine.trees:
                continue
            runtime = machine.runtime
            busy = items and machine not in self._leaving and self._rng.random() < 0.67
            names = [f"{runtime.name}#{self.intervals}"] if busy else []
            self.produced.update(dict.fromkeys(names))
            runtime.source[self.intervals] = names
            if not runtime.succeeds:
                machine.call(runtime.seal, machine.node, self.app, self.intervals, names)
        self._let_go()
        self._enlist()
        # Who was down when a root was elected, and forwards now, hears of it some time.
        self._later(self._tell(self._rng.choice(self.cluster.machines), self.root))
        if items and self._rng.random() < 0.5:
            self._say(b"%d" % self.intervals)

    async def go_on(self, seconds: float, *, items: bool, pace_s: float = 0.5) -> None:
        """Seal interval after interval for a while."""
        end_s = self.cluster.loop.time() + seconds
        while self.cluster.loop.time() < end_s:
            await asyncio.sleep(pace_s)
            self.interval(items=items)

    def rest(self) -> list[str]:
        """Return what is not counted, as far as agents know."""
        members = [machine.runtime for machine in self.cluster.machines if self.app in machine.trees]
        return [
            f"{each.name}: {len(each.snapshots)} snapshots, {len(each.carry)} carried, succeeds {each.succeeds}"
            for each in members
            if each.carry or any(each.snapshots.values()) or each.succeeds
        ]

    def names(self) -> set[str]:
        """Return the names of all members."""
        return {machine.runtime.name for machine in self.cluster.machines if self.app in machine.trees}

    def is_done(self) -> bool:
        """Tell whether everything produced is counted, as far as agents know, and whoever wanted to leave has left."""
        return not self.rest() and not self._leaving

    # ---- changes

    def changes(self) -> Sequence[Callable[[], None]]:
        """Return what may happen beside faults."""
        return (self.move_root, self.enter_late, self.retire, self.change_version)

    def move_root(self) -> None:
        """Elect another root, mostly one that heard everything; the others hear of it one by one, the old one too."""
        fit = [machine for machine in self.cluster.up() if self._may_lead(machine)]
        if not fit:
            return
        self.root = self._rng.choice(fit)
        self.root.lead(self.app, self.log)
        for machine in self.cluster.machines:
            if machine is not self.root:
                self._later(self._tell(machine, self.root))

    def _may_lead(self, machine: Machine) -> bool:
        known = [entry.mark for app, entry in machine.runtime.controls if app == self.app]
        knows_all = max(known, default=ORIGIN) >= self.log.control.mark
        busy = machine.is_paused or machine.is_starting or machine in self._leaving
        if not knows_all or busy or self.app not in machine.trees:
            return False
        # A root that was deposed and does not know it cannot be elected: it hears of the term first.
        return machine.trees[self.app][1] != machine.contact

    async def _tell(self, machine: Machine, root: Machine) -> None:
        await asyncio.sleep(self._rng.uniform(0, HEARSAY_S))
        if self.root is not root:
            return
        if machine.is_paused:
            self._later(self._tell(machine, root))
        else:
            machine.follow(self.app, root.contact)

    def enter_late(self) -> None:
        """Let one more agent become a member."""
        if self._outside:
            machine = self._outside.pop()
            machine.trees[self.app] = (True, self.root.contact)
            machine.runtime.versions |= self.log.versions
            machine.follow(self.app, self.root.contact)

    def retire(self) -> None:
        """Let a member stop: it goes once all it has is counted."""
        members = [machine for machine in self.cluster.machines if self.app in machine.trees]
        able = [machine for machine in members if machine is not self.root and machine not in self._leaving]
        if len(members) - len(self._leaving) > MEMBERS_MIN and able:
            self._leaving.append(self._rng.choice(able))

    def _let_go(self) -> None:
        for machine in list(self._leaving):
            runtime = machine.runtime
            has_rest = runtime.carry or runtime.succeeds or any(runtime.snapshots.values())
            if machine.is_up and not machine.is_paused and not has_rest and machine is not self.root:
                self._leaving.remove(machine)
                machine.retire(self.app)

    def change_version(self) -> None:
        """Let the root change the job's definition from an interval on that nobody has sealed yet."""
        self._say(b"version %d %d" % (len(self.log.versions) + 1, self.intervals + AHEAD))

    def _say(self, body: bytes) -> None:
        node = self.root.node
        if node is not None and not self.root.is_paused and node.tree(self.app).role == "root":
            self.root.call(node.multicast, self.app, body)

    # ---- agents that lost their disk

    def _enlist(self) -> None:
        for machine in self.cluster.up():
            if machine.runtime.succeeds and self.app in machine.trees and not machine.is_paused:
                self._later(self._ask_for_place(machine))

    async def _ask_for_place(self, machine: Machine) -> None:
        """Have the root exclude those whom an agent succeeds; the agent begins where they were counted."""
        runtime, root, node = machine.runtime, self.root, self.root.node
        if node is None or root.is_paused:
            return
        term = root.runtime.root_term
        try:
            counted = max(root.call(node.exclude, self.app, lost) for lost in runtime.succeeds)
            # What is on its way to a commit has to get there: it may hold what is not asked for again.
            while counted > (self.log.commits[-1].through if self.log.commits else NEVER):
                await asyncio.sleep(RETRY_S / 10)
                self.log.check(term)
                if root.node is not node:
                    return
            for lost in runtime.succeeds:
                self.log.exclude(term, lost, counted)
        except (NotJoinedError, FencedError):
            return
        if machine.runtime is runtime and runtime.succeeds:
            early = (items for interval, items in runtime.source.items() if interval <= counted)
            self.excused.update(item for items in early for item in items)
            machine.succeed(self.app, counted)

    def _later(self, work: Coroutine[None, None, None]) -> None:
        task = self.cluster.loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
