"""The world of machines with everything that can befall a job, each durable step held against the model.

Adds to `tests.overlay.harness`: roots that move while the old ones act on, agents that lose their disk, come late or
are retired, forwarders, and changes of the definition. What a group of roots would keep is the model's log.
"""

from __future__ import annotations

from collections.abc import Sequence

from elf.overlay.application import Application
from elf.overlay.contract import NEVER, Commit, OverlaySettings, Verdict
from elf.overlay.effects import Committed, Notified
from tests.overlay.harness import APP, Machine, Store, World
from tests.overlay.moving import MovingMachine
from tests.overlay.rollup.model import FencedError, Model, is_mark, promise
from tests.sweep.runtime import pack, unpack


class ModelMachine(MovingMachine):
    """One agent; the model knows what is on its disk."""

    world: ModelWorld

    def __init__(self, world: ModelWorld, index: int) -> None:
        super().__init__(world, index)
        self.lives = 0
        self.member = True
        #: The name under which it lost its disk, until a root has excluded that.
        self.succeeds = ""
        self.versions: dict[int, int] = {}
        self._terms: dict[int, tuple[Commit, int]] = {}

    def start(self) -> None:
        world = self.world
        settings = OverlaySettings(
            agent_id=self.name, leap_after_ms=world.leap_after_ms, grace_ms=100, fan_in_max=world.fan_in_max
        )
        self.app = Application(APP, self.contact, self.view, settings, world.rng, None, trust=self.trust())
        self.enter()

    def enter(self) -> None:
        leads = self.believes == self.index
        if self.app is None or self.believes is None or (leads and self.term != self.world.model.term):
            return
        state = self.world.model.commits[-1].state if leads and self.world.model.commits else None
        root = self.world.machines[self.believes].contact
        member = self.member and not self.succeeds
        self.run(self.app.join(member, root, self.world.now_ms, state=state))
        if self.ledger is not None:
            for entry in self.world.model.log:
                if isinstance(entry.what, tuple):
                    self.ledger.exclude(entry.what[0])
        for through in sorted(self.store.snapshots) if member else ():
            self.hand_over(through)

    def seal(self, through: int, items: list[str]) -> None:
        store, model = self.store, self.world.model
        through = max(through, store.settled + 1, *(t + 1 for t in store.snapshots), NEVER)
        for item in items:
            model.produce(self.name, item)
        held = model.seal(self.name, through)
        promise(sorted(held) == sorted(items + store.carry), "the model and the disk agree")
        version = max((v for since, v in self.versions.items() if since <= through), default=0)
        store.snapshots[through] = [f"={version}@{through}", *held] if held else []
        store.carry = []
        self.hand_over(through)

    def merge(self, payloads: Sequence[bytes]) -> tuple[bytes | None, tuple[int, ...]]:
        """Merge what is of one version; at a root, of the right one."""
        contents = [unpack(payload) for payload in payloads]
        marks = [next(item for item in held if is_mark(item)) for held in contents]
        right = marks[0]
        if self.ledger is not None:
            through = int(right.partition("@")[2])
            right = f"={self.world.model.version_at(through)}@{through}"
        good = [held for held, mark in zip(contents, marks, strict=True) if mark == right]
        bad = tuple(position for position, mark in enumerate(marks) if mark != right)
        merged = pack([right, *(item for held in good for item in held if not is_mark(item))]) if good else None
        return merged, bad

    def persist(self, commit: Commit) -> None:
        """Write a commit in the term in which it was first asked for; a deposed root tries for ever."""
        _, term = self._terms.setdefault(id(commit), (commit, self.term))
        try:
            self.world.model.write(term, commit)
        except FencedError:
            return
        if self.world.rng.random() < self.world.crash_at_commit:
            self.world.crash(self)
        else:
            self.feed(Committed(commit.through))

    def heed(self, verdict: Verdict) -> None:
        store, model = self.store, self.world.model
        model.heed(self.name, verdict)
        store.settled = max(store.settled, verdict.through)
        for through in [t for t in store.snapshots if t <= verdict.through]:
            items = [item for item in store.snapshots.pop(through) if not is_mark(item)]
            store.carry += items if verdict.missing else []
        if self.world.rng.random() < self.world.crash_at_commit:
            self.world.crash(self)
        else:
            self.feed(Notified(verdict.through))

    def lose_disk(self) -> None:
        """Come back, later, under another name with nothing but the logs."""
        self.world.crash(self)
        self.succeeds = self.succeeds or self.name
        self.lives += 1
        self.name, self.store = f"a{self.index}.{self.lives}", Store()
        self.versions = {}


class ModelWorld(World):
    """All machines and the model."""

    machines: list[ModelMachine]  # type: ignore[assignment]  # made by `new_machine`

    def __init__(self, count: int, seed: int, *, changes: float = 0.0) -> None:
        self.model = Model()
        super().__init__(count, seed, root=seed % count)
        #: How often anything changes: a root, the members, the definition, a disk.
        self.changes = changes
        for machine in self.machines:
            machine.member = machine.index % 5 != 4 and (not changes or machine.index % 4 != 3)
        self.members = {machine.index for machine in self.machines if machine.member}
        assert self.root is not None
        self.machines[self.root].term = self.model.elect()

    def new_machine(self, index: int) -> Machine:
        return ModelMachine(self, index)

    def produce(self, machine: Machine, through: int) -> None:
        """Let a machine seal an interval, if it may already."""
        assert isinstance(machine, ModelMachine)
        if machine.member and not machine.succeeds:
            item = f"{machine.name}#{machine.produced}@{through}"
            machine.produced += 1
            machine.seal(through, [item] if self.rng.random() < 0.7 else [])

    def step(self) -> None:
        super().step()
        if self.rng.random() < 0.02:
            self._spread_news(self.rng.choice(self.machines))
        if self.changes and self.rng.random() < self.changes:
            self.rng.choice([self._move_root, self._lose_a_disk, self._admit, self._retire, self._change])()

    def _spread_news(self, machine: ModelMachine) -> None:
        """Let one machine hear who is the root, which versions there are, and of an exclusion that it waits for."""
        assert self.root is not None
        root = self.machines[self.root]
        machine.versions |= self.model.versions
        machine.follow(self.root)
        ledger = root.ledger
        if not machine.succeeds or ledger is None or ledger.pending is not None or machine.app is None:
            return
        counted = ledger.exclude(machine.succeeds)
        self.model.write(root.term, (machine.succeeds, counted))
        self.model.succeed(machine.succeeds, machine.name, counted, counted)
        machine.store.carry = list(self.model.members[machine.name].carried)
        machine.succeeds = ""
        machine.enter()

    def _move_root(self) -> None:
        # A root that was deposed and does not know it cannot be elected: it hears of the term first.
        fit = [machine for machine in self.machines if machine.app is not None and machine.believes != machine.index]
        if fit:
            machine = self.rng.choice(fit)
            self.root, machine.believes, machine.term = machine.index, machine.index, self.model.elect()
            machine.enter()

    def _lose_a_disk(self) -> None:
        self.rng.choice(self.machines).lose_disk()

    def _admit(self) -> None:
        outside = [machine for machine in self.machines if not machine.member and machine.index % 5 != 4]
        if outside:
            machine = self.rng.choice(outside)
            machine.member = True
            self.members.add(machine.index)
            machine.enter()

    def _retire(self) -> None:
        self.retire(self.rng.choice(self.machines))

    def _change(self) -> None:
        assert self.root is not None
        sealed = [t for each in self.model.members.values() for t in (*each.sealed, each.settled)]
        self.model.write(self.machines[self.root].term, max([0, self.model.committed, *sealed]) + 2)
