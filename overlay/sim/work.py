"""What agents do in a job while faults rage, and what changes meanwhile: members, roots, the job's definition.

Owns the truth about what was produced and what of it must be counted in the end. The job's root is whoever its group
elects; agents hear of it as real ones do, by records in the source's tree and by the job's own. OVERLAY 6.3 and 6.5.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from elf.overlay.contract import NEVER, RollupState, RosterEntry
from elf.overlay.group.log import quorum
from elf.overlay.group.messages import Kind, Seat, decode_seats
from elf.overlay.sim.agents import Cluster, Machine
from elf.overlay.sim.changing import ask, drawn
from elf.overlay.sim.copies import Copy, Enlisted
from elf.overlay.sim.jobs import Job
from elf.overlay.sim.truth import Truth
from elf.overlay.sim.version_checkers import check_changes

#: An interval begins so often.
PACE_S = 0.5
#: Agents that ask for another version of the job at the same time.
RACERS = 5
#: Share of the agents that become members later, and least members that stay.
LATE_SHARE = 0.2
MEMBERS_MIN = 3


def publish(job: Job, members: Sequence[Machine], first: Machine) -> None:
    """Begin a job with these members, and its root group with the first of them alone."""
    known = {machine.runtime.name: Enlisted(machine.contact.address) for machine in members}
    copy = Copy(
        root=first.contact.address,
        reign=first.wall(),
        rollup=RollupState(roster={name: RosterEntry(admitted=NEVER) for name in known}),
        enlisted=known,
        seats=(Seat(first.runtime.name, first.contact.address, True),),
    )
    job.truth = Truth(copy)
    for machine in members:
        machine.join_tree(job.source, member=True)
        machine.runtime.enlisted = True
        machine.trees[job.app] = (True, None)
    assert first.runtime.member is not None
    first.runtime.member.create(copy)


class Work:
    """A job with numbered items.

    Args:
        cluster: all machines, which have grown up with the job.
        job: it; in its source's tree everybody is a member.
        late_share: of the agents, that become members later.
    """

    def __init__(self, cluster: Cluster, job: Job, late_share: float = LATE_SHARE) -> None:
        self.cluster = cluster
        self.job = job
        self.app = job.app
        #: Items, in the order in which they came.
        self.produced: dict[str, None] = {}
        self.intervals = self._asked = 0
        self._asking: set[asyncio.Task[int | None]] = set()
        job.now = lambda off_ms: self.intervals + off_ms // round(PACE_S * 1000)
        machines = list(cluster.machines)
        cluster.rng.shuffle(machines)
        late = int(late_share * len(machines))
        self._outside = machines[:late]
        self._leaving = list[Machine]()
        self._rng = cluster.rng
        publish(job, machines[late:], machines[-1])
        for machine in machines[:late]:
            machine.join_tree(job.source, member=True)

    @property
    def log(self) -> Copy:
        """What the job's group has decided."""
        return self.job.truth.copy

    @property
    def leader(self) -> Machine | None:
        """The machine that is the job's root, of several that take themselves for it the one elected last."""
        roots = [machine for machine in self.cluster.up() if machine.is_root]
        return max(roots, key=lambda machine: machine.heard.reign if machine.heard else 0, default=None)

    @property
    def excused(self) -> set[str]:
        """Items that may be lost: their agent lost its disk when later intervals of it had been committed."""
        runtimes = [machine.runtime for machine in self.cluster.machines]
        begun = [(runtime.source, runtime.counted_before) for runtime in runtimes]
        runs = [items for source, after in begun if after is not None for at, items in source.items() if at <= after]
        return {item for items in runs for item in items}

    @property
    def superseded(self) -> set[str]:
        """Items that must not be counted: whoever read them had not heard yet of the version that counts them.

        That labels say so is held in `Truth`.
        """
        return set(self.job.truth.stale())

    def due(self) -> dict[str, bool]:
        """Return every item and whether it must be counted."""
        exempt = self.excused | self.superseded
        return {item: item not in exempt for item in self.produced}

    # ---- what always goes on

    def interval(self, *, items: bool) -> None:
        """Let every member that runs seal an interval, two in three with an item; the root multicasts now and then."""
        self.intervals += 1
        for machine in self.cluster.up():
            if machine.is_paused or machine.is_starting or self.app not in machine.trees:
                continue
            runtime = machine.runtime
            begins = runtime.enlisted or bool(runtime.succeeds)
            busy = items and begins and machine not in self._leaving and self._rng.random() < 0.67
            names = [f"{runtime.name}#{self.intervals}"] if busy else []
            self.produced.update(dict.fromkeys(names))
            runtime.source[self.intervals] = names
            if runtime.enlisted:
                machine.call(runtime.seal, machine.node, self.app, self.intervals, names)
        self._let_go()
        if items and self._rng.random() < 0.5:
            self._say(b"%d" % self.intervals)

    async def go_on(self, seconds: float, *, items: bool, pace_s: float = PACE_S) -> None:
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
            if each.carry or any(each.snapshots.values()) or not each.enlisted
        ]

    def wrong_versions(self, *, complete: bool) -> list[str]:
        """Check the versions that agents have heard of and work by, all members' copies, and what labels say."""
        runtimes = {machine.runtime.name: machine.runtime for machine in self.cluster.machines}
        heard = {each.runtime.name: each.heard.versions for each in self.cluster.machines if each.heard is not None}
        works = {f"the worker of {name}": runtime.versions for name, runtime in runtimes.items()}
        copies = {name: runtime.group.copy for name, runtime in runtimes.items()}
        held = {name: copy for name, copy in copies.items() if copy is not None}
        return check_changes(self.job.truth, {**heard, **works}, held, self.excused, complete=complete)

    def missing(self) -> set[str]:
        """Return whom the label of the last interval names: not in it, or late for its version."""
        last = self.log.commits[-1:]
        return {name for commit in last for name in (*commit.missing, *self.log.late(commit, commit.through))}

    def names(self) -> set[str]:
        """Return the names of all members."""
        return {machine.runtime.name for machine in self.cluster.machines if self.app in machine.trees}

    def is_done(self) -> bool:
        """Tell whether all is counted, as agents know, and whoever wanted to leave has left, but for the root."""
        return not self.rest() and all(machine.is_root for machine in self._leaving)

    # ---- changes

    def changes(self) -> Sequence[Callable[[], None]]:
        """Return what may happen beside faults."""
        return (self.move_root, self.enter_late, self.retire, self.race, self.race)

    def move_root(self) -> None:
        """Let the root hand over to another member of its group, if that has everything."""
        leader = self.leader
        if leader is not None and not leader.is_paused and leader.node is not None:
            view = leader.node.groups.view(self.app)
            others = [seat.agent for seat in view.seats if seat.votes] if view is not None else []
            if others:
                leader.call(leader.node.groups.hand_over, self.app, self._rng.choice(others))

    def enter_late(self) -> None:
        """Let one more agent become a member."""
        if self._outside:
            self._outside.pop().join_tree(self.app, member=True)

    def retire(self) -> None:
        """Let a member stop: it goes once all it has is counted."""
        members = [machine for machine in self.cluster.machines if self.app in machine.trees]
        able = [machine for machine in members if machine not in self._leaving]
        if len(members) - len(self._leaving) > MEMBERS_MIN and able:
            self._leaving.append(self._rng.choice(able))

    def _let_go(self) -> None:
        for machine in list(self._leaving):
            runtime = machine.runtime
            has_rest = runtime.carry or not runtime.enlisted or any(runtime.snapshots.values())
            if machine.is_up and not machine.is_paused and not has_rest and not machine.is_root:
                self._leaving.remove(machine)
                machine.retire(self.app)

    def race(self) -> None:
        """Let some agents ask for another version of the job at the same time, each whomever it takes for its master.

        A clock that is off makes a master propose an interval that has begun, or a later one than is needed.
        """
        up = [machine for machine in self.cluster.up() if not machine.is_paused]
        for machine in self._rng.sample(up, min(RACERS, len(up))):
            self._asked += 1
            request = drawn(machine, f"{machine.runtime.name}/{self._asked}", self._rng)
            task = machine.task(ask(machine, self.job, request, self._rng))
            self._asking.add(task)
            task.add_done_callback(self._asking.discard)

    def _say(self, body: bytes) -> None:
        leader = self.leader
        node = leader.node if leader is not None else None
        if leader is not None and node is not None and not leader.is_paused and node.tree(self.app).role == "root":
            leader.call(node.multicast, self.app, body)

    # ---- the root group

    def may_lose_disk(self, machine: Machine) -> bool:
        """Tell whether the job outlives the loss of a disk: a majority of its group must have theirs still.

        Without one nobody may go on but an operator with `force`, who gives up what only the lost ones knew.
        """
        intact = {
            each.runtime.name
            for each in self.cluster.machines
            if each is not machine and each.runtime.group.copy is not None
        }
        return all(
            sum(seat.votes and seat.agent in intact for seat in seats) >= quorum(seats) for seats in self._groups()
        )

    def _groups(self) -> list[Sequence[Seat]]:
        """Return who the members are according to what is decided, and to whatever may yet be."""
        applied = self.log.applied.index
        entries = [entry for machine in self.cluster.machines for entry in machine.runtime.group.entries]
        coming = [decode_seats(e.body) for e in entries if e.kind is Kind.SEATS and e.place.index > applied]
        views = [machine.node.groups.view(self.app) for machine in self.cluster.up() if machine.node is not None]
        return [self.log.seats, *coming, *(view.seats for view in views if view is not None and view.leader)]

    def unsettled_group(self) -> list[str]:
        """Check what holds of the group in the end: as large as it can be, all of the same mind, one leads."""
        leader = self.leader
        if leader is None:
            return ["nobody leads the job's root group"]
        wrong = list[str]()
        names = {machine.runtime.name for machine in self.cluster.machines}
        voters = [seat.agent for seat in self.log.seats if seat.votes and seat.agent in names]
        if len(voters) < min(5, len(names)) - 1 + min(5, len(names)) % 2:
            wrong.append(f"only {voters} have a vote in the job's root group")
        for machine in self.cluster.machines:
            copy = machine.runtime.group.copy
            if copy is not None and copy.applied == self.log.applied and copy != self.log:
                wrong.append(f"{machine.runtime.name} has another copy of the job than was decided")
        return wrong
