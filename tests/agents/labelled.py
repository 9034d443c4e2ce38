"""Real workers and a real master on the simulated tree; at every commit: does some label claim too much?

What a label claims of an agent that it expects and does not name: whatever the agent had read of an interval when it
sealed that is in the rows. What it read later is late: it comes with a later revision, and no label can know of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from elf.agents.completeness.label import Label
from elf.agents.jobs.plan import Plan
from elf.agents.master.master import Master
from elf.agents.master.state import MasterState
from elf.agents.store.panes import Panes
from elf.agents.worker import payload
from elf.agents.worker.state import Snapshot, WorkerState
from elf.agents.worker.worker import Worker
from elf.overlay.application import Application
from elf.overlay.contract import NEVER, Commit, OverlaySettings, RollupState, RosterEntry, Verdict
from elf.overlay.effects import Committed, Notified
from elf.overlay.group.messages import Place
from elf.overlay.messages import Claim
from tests.agents.plans import events, opened
from tests.overlay.harness import APP, Machine, World
from tests.overlay.moving import MovingMachine

#: A line of a log: event time in ms, and a name of its own, which is the event's only key.
Line = tuple[int, str]


@dataclass(frozen=True)
class Disk:
    """An agent's last checkpoint: how far its log was read, the worker, and its snapshots without a verdict."""

    read: int = 0
    state: WorkerState | None = None
    snapshots: dict[int, Snapshot] = field(default_factory=dict)


class LabelMachine(MovingMachine):
    """One agent: it reads its log, seals and stores as a pump does, and may fall between any two of these."""

    world: LabelWorld

    def __init__(self, world: LabelWorld, index: int) -> None:
        super().__init__(world, index)
        self.log: list[Line] = []
        self.disk = Disk()
        self.worker: Worker | None = None
        self.read = 0
        #: Whether it stands in the tree in this life; what it sealed in others was handed over then.
        self.entered = False
        #: The verdict that the runtime was last told of and has not made durable yet.
        self.heeding: Verdict | None = None
        #: Interval -> what had been read of it when it was sealed; all intervals up to `sealed`.
        self.due: dict[int, set[str]] = {}
        self.sealed = 0

    # ---- a life

    def start(self) -> None:
        world, state = self.world, self.disk.state
        settings = OverlaySettings(agent_id=self.name, leap_after_ms=world.leap_after_ms, grace_ms=100)
        self.app = Application(APP, self.contact, self.view, settings, world.rng, None)
        self.read = self.disk.read
        self.worker = self.make(state)
        self.worker.resume(world.now_ms)
        self.enter()

    def make(self, state: WorkerState | None) -> Worker:
        """Return the worker that a life begins with."""
        if state is not None:
            return Worker.restore(self.world.plan, self.name, state)
        worker = Worker(self.world.plan, self.name, tree=APP, new=True)
        worker.begin(None)
        return worker

    def interval_of(self, ts_ms: int) -> int:
        """The interval of an event, as this agent numbers them."""
        return ts_ms // self.world.plan.interval_ms

    def insert(self, lines: Sequence[Line]) -> None:
        """Feed the worker."""
        assert self.worker is not None
        self.worker.insert(events([(ts_ms, name, 1) for ts_ms, name in lines]))

    def crash(self) -> None:
        super().crash()
        self.worker = self.heeding = None
        self.entered = False

    def enter(self) -> None:
        leads = self.believes == self.index
        if self.app is None or self.believes is None or (leads and self.term != self.world.term):
            return
        state = self.world.master.state.rollup if leads else None
        root = self.world.machines[self.believes].contact
        self.run(self.app.join(True, root, self.world.now_ms, state=state, leap_after_ms=self.world.leap_after_ms))
        if not self.entered:
            self.entered = True
            for snapshot in list(self.disk.snapshots.values()):
                self.give(snapshot)

    # ---- its log

    def write(self, ts_ms: int) -> None:
        """Let the server log an event."""
        self.log.append((ts_ms, f"{self.name}#{len(self.log)}"))

    def pump(self, most: int) -> None:
        """Read some lines, heed the verdict that waits, seal, store, hand over."""
        worker, rng = self.worker, self.world.rng
        assert worker is not None
        lines = self.log[self.read : self.read + most]
        self.read += len(lines)
        if lines:
            self.insert(lines)
        at_end = self.read == len(self.log)
        watermark_ms = self.world.now_ms if at_end else max(ts_ms for ts_ms, _ in lines)
        if rng.random() < self.world.pauses:
            return
        verdict = self.heeding
        if verdict is not None:
            held = self.disk.snapshots.values()
            run = [each for each in held if verdict.previous < each.through <= verdict.through]
            worker.settle(verdict, run if verdict.missing else ())
        sealed = worker.seal(watermark_ms)
        if rng.random() < self.world.falls:
            self.world.crash(self)
            return
        self._store(sealed)
        if rng.random() < self.world.falls:
            self.world.crash(self)
            return
        self.heeding = None
        if verdict is not None and verdict.missing:
            self.feed(Notified(verdict.through))
        for snapshot in sealed:
            self.give(snapshot)

    def _store(self, sealed: Sequence[Snapshot]) -> None:
        assert self.worker is not None
        state = self.worker.state(sealed)
        settled = NEVER if state.progress.settled is None else state.progress.settled
        held = {**self.disk.snapshots, **{each.through: each for each in sealed}}
        self.disk = Disk(self.read, state, {through: each for through, each in held.items() if through > settled})
        through = max([self.sealed, *(each.through for each in sealed)])
        for ts_ms, name in self.log[: self.read]:
            interval = self.interval_of(ts_ms)
            if self.sealed < interval <= through:
                self.due.setdefault(interval, set()).add(name)
        self.sealed = through

    def give(self, snapshot: Snapshot) -> None:
        """Hand a stored snapshot to the tree, once we stand in it, and to a neighbour, who may answer for us."""
        if self.app is None or not self.entered:
            return
        world, through = self.world, snapshot.through
        taken, effects = self.app.seal(through, snapshot.payload, world.now_ms)
        if taken:
            if world.rng.random() < world.replicas:
                copy = Claim(self.handed, through, (self.name,), snapshot.payload)
                world.copies.append((world.rng.randrange(len(world.machines)), copy))
            self.handed = through
        self.run(effects)

    # ---- what the tree asks for

    def heed(self, verdict: Verdict) -> None:
        """Pass a verdict on to the worker: heeded with the next checkpoint; what counted us need not be durable."""
        while self.verdicts and (joined := verdict.joined(self.verdicts[0])) is not None:
            verdict = joined
            self.verdicts.popleft()
        if self.heeding is not None:
            self.verdicts.appendleft(verdict)
            return
        self.heeding = verdict
        if not verdict.missing:
            self.feed(Notified(verdict.through))

    def merge(self, payloads: Sequence[bytes]) -> tuple[bytes | None, tuple[int, ...]]:
        return payload.merge(payloads, self.world.plan), ()

    def persist(self, commit: Commit) -> None:
        """Have a commit decided in the term in which we were elected, unless another root was since."""
        if self.term != self.world.term:
            return
        self.world.take(commit)
        if self.world.rng.random() < self.world.crash_at_commit:
            self.world.crash(self)
        else:
            self.feed(Committed(commit.through))


class LabelWorld(World):
    """All machines, and the master, whose copy no fault loses.

    Args:
        plan: of the job; its keys are the names of events.
        store: the master's.
    """

    machines: list[LabelMachine]  # type: ignore[assignment]  # made by `new_machine`

    def __init__(self, plan: Plan, store: Panes, count: int, seed: int) -> None:
        self.plan, self.term = plan, 0
        roster = {f"a{index}": RosterEntry(admitted=NEVER) for index in range(count)}
        store.create(plan.definition.app_id, b"job", b"")
        self.master = Master(plan, store, None)
        self.master.windows.state = MasterState(rollup=RollupState(roster=roster))
        super().__init__(count, seed, root=seed % count)
        self.leap_after_ms, self.replicas = 1, 0.2
        #: How often an agent rests between reading and sealing, and falls between sealing and what follows.
        self.pauses, self.falls = 0.2, 0.01
        self.counted: set[str] = set()  # type: ignore[assignment]  # the harness counts items of its own
        #: How often a commit named somebody, and how often somebody was struck off the names of one.
        self.leapt = self.corrected = 0
        #: Sentences about labels that claimed too much.
        self.wrong: list[str] = []
        assert self.root is not None
        self._elect(self.root)

    def new_machine(self, index: int) -> Machine:
        return LabelMachine(self, index)

    def _elect(self, index: int) -> None:
        self.term += 1
        machine = self.machines[index]
        self.root, machine.believes, machine.term = index, index, self.term

    def move_root(self) -> None:
        """Elect another root; who does not know that it was deposed cannot be it."""
        fit = [machine for machine in self.machines if machine.app is not None and machine.believes != machine.index]
        if fit:
            machine = self.rng.choice(fit)
            self._elect(machine.index)
            machine.enter()

    def spread_news(self) -> None:
        """Let one machine hear who is the root."""
        assert self.root is not None
        self.rng.choice(self.machines).follow(self.root)

    def disturb(self) -> None:
        """Let news of the tree go round, and now and then let something fail, or the root move."""
        if self.rng.random() < 0.02:
            self.spread_news()
        if self.rng.random() < 0.001:
            self.cut(*self.rng.sample(range(len(self.machines)), 2))
        if self.rng.random() < 0.002:
            self.crash(self.rng.choice(self.machines))
        if self.rng.random() < 0.001:
            self.move_root()

    def take(self, commit: Commit) -> None:
        """Let the master take a commit in, and hold all its labels to what was read."""
        master = self.master
        before, named = master.state.rollup.committed, self._named()
        master.commit(commit, Place(1, master.state.applied.index + 1))
        if commit.previous != before:
            return
        if commit.payload is not None:
            _, rows = opened(commit.payload, self.plan)
            again = self.counted.intersection(rows["k0"])
            assert not again, f"counted twice: {again}"
            self.counted.update(rows["k0"])
        self.leapt += bool(commit.missing)
        self.corrected += bool(named - self._named())
        for label in master._history.labels.all():
            self._hold(label, commit)

    def _named(self) -> set[tuple[int, str]]:
        """Return the intervals at which panes end that name somebody, with whom; a job's total is one pane."""
        total = self.plan.window is None
        labels = self.master._history.labels.all()
        return {(0 if total else label.through, name) for label in labels for name in label.missing}

    def _hold(self, label: Label, commit: Commit) -> None:
        void = label.void > 0
        for machine in self.machines:
            if machine.name in label.missing or machine.name not in commit.state.roster or void:
                continue
            if machine.sealed < label.through:
                self.wrong.append(f"{label} counts {machine.name} in, which has sealed {machine.sealed} only")
            for interval, due in machine.due.items():
                inside = self.plan.window is None or label.previous < interval
                if inside and interval <= label.through and not due <= self.counted:
                    self.wrong.append(f"commit {commit.through}: {label} has not {sorted(due - self.counted)}")
