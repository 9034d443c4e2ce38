"""The world of `labelled`, of a job that is changed while agents fall, are leapt over and learn of it too late.

Each version counts some of the events, told apart by `cents`: what a window's rows are has to be what its version
counts, of its intervals and no others, once each; and what its label does not name has to be in them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from msgspec.structs import replace

from elf.agents.jobs.definition import Definition
from elf.agents.jobs.plan import Plan
from elf.agents.jobs.versions import Versions, compile_versions
from elf.agents.master.results import Span
from elf.agents.master.version_decision import next_version, with_version
from elf.agents.store.panes import Panes
from elf.agents.wire.changes import Amend, Kind
from elf.agents.wire.records import JobRecord
from elf.agents.worker import payload
from elf.agents.worker.state import WorkerState
from elf.agents.worker.worker import Worker
from elf.overlay.contract import Commit
from elf.overlay.group.messages import Place
from tests.agents.labelled import LabelMachine, LabelWorld
from tests.agents.plans import events
from tests.overlay.harness import APP, Machine

#: How many of the newest windows are held to what was read, at each commit.
HELD = 12
CLASSES = 3


def cents_of(name: str) -> int:
    """Which class of events one is of."""
    return sum(name.encode()) % CLASSES


def counts(definition: Definition, name: str) -> bool:
    """Whether a version counts an event."""
    wanted = definition.query.partition("cents <> ")[2][:1]
    return not wanted or cents_of(name) != int(wanted)


class ChangedMachine(LabelMachine):
    """One agent, and the versions that it has heard of."""

    world: ChangedWorld

    def __init__(self, world: ChangedWorld, index: int) -> None:
        super().__init__(world, index)
        self.versions = world.versions

    def start(self) -> None:
        super().start()
        self._adopt()

    def make(self, state: WorkerState | None) -> Worker:
        if state is not None:
            return Worker.restore(self.versions, self.name, state)
        worker = Worker(self.versions, self.name, tree=APP, new=True)
        worker.begin(None)
        return worker

    def hear(self) -> None:
        """Hear of the newest version there is."""
        if self.versions is not self.world.versions:
            self.versions = self.world.versions
            self._adopt()

    def _adopt(self) -> None:
        if self.worker is not None:
            read = [ts_ms for ts_ms, _ in self.log[: self.read]]
            unread = self.interval_of(max(read)) + 1 if read else None
            self.worker.adopt(self.versions, unread)

    def interval_of(self, ts_ms: int) -> int:
        return self.versions.number(ts_ms)

    def insert(self, lines: Sequence[tuple[int, str]]) -> None:
        assert self.worker is not None
        self.worker.insert(events([(ts_ms, name, cents_of(name)) for ts_ms, name in lines]))

    def merge(self, payloads: Sequence[bytes]) -> tuple[bytes | None, tuple[int, ...]]:
        return payload.merge(payloads, self.versions), ()


class ChangedWorld(LabelWorld):
    """All machines, the master, and the job's record as its root group has decided it.

    Args:
        plan: of the job as it is published.
    """

    def __init__(self, plan: Plan, store: Panes, count: int, seed: int) -> None:
        definition = replace(plan.definition, columns={"product": "STRING", "cents": "BIGINT"})
        self.job = JobRecord(
            definition=definition,
            master_host="127.0.0.1",
            master_port=9,
            published_ms=0,
            instance="i",
            stamp_ms=0,
        )
        self.versions = Versions.of(plan)
        super().__init__(plan, store, count, seed)
        #: How often the job was changed, of these how often to intervals of another length, and how often an agent was
        #: named because it had learnt of it too late.
        self.changes = self.renumbered = self.late = 0

    def new_machine(self, index: int) -> Machine:
        return ChangedMachine(self, index)

    def change(self, kind: Kind | Literal["stop"], query: str | None = None) -> None:
        """Decide another version, so soon that some agents hear of it only when it counts."""
        definition = None if query is None else replace(self.job.definition, query=query)
        request = Amend(self.job.definition.app_id, kind, "t", definition)
        version = next_version(self.job, self.versions, request, self.now_ms)
        # Up to before the last commit: it then begins behind that.
        sooner = version.since - self.rng.randrange(7)
        changed = with_version(self.job, replace(version, since=sooner), self.master.state.rollup.committed)
        assert changed is not None
        self.job, self.changes = changed, self.changes + 1
        before = self.versions.newest.plan.numbering
        self.versions = compile_versions(changed.history, self.versions)
        self.renumbered += self.versions.newest.plan.numbering != before
        self.master.adopt(self.versions)

    def take(self, commit: Commit) -> None:
        """Let the master take a commit in, and hold what it answers then to what was read."""
        master = self.master
        before = master.state.rollup.committed
        master.commit(commit, Place(1, master.state.applied.index + 1))
        if commit.previous != before:
            return
        self.leapt += bool(commit.missing)
        for last in range(max(commit.through - HELD, 0), commit.through + 1):
            for first in {last, max(last - 1, 0)}:
                self._hold_window(first, last, commit)

    def _hold_window(self, first: int, last: int, commit: Commit) -> None:
        versions = self.versions
        start_ms, interval_ms = versions.start_ms(first), versions.at(last).plan.interval_ms
        # One that begins among intervals of another length holds nothing of these.
        span = Span(start_ms - start_ms % interval_ms, versions.end_ms(last))
        found = self.master.windows.share(span, None, None, str)
        by = versions.numbered(found.plan.definition.version)
        assert by is not None and found.rows is not None
        version = by.version
        rows = dict(found.rows.select("o0", "o1").rows())
        if set(rows.values()) - {1}:
            self.wrong.append(f"[{first}, {last}] at {commit.through} counts twice: {rows}")
        inside = range(max(first, version.begins), last + 1)
        for machine in self.machines:
            assert isinstance(machine, ChangedMachine)
            mine = {name for name in rows if name.startswith(f"{machine.name}#")}
            logged = [(versions.number(ts_ms), name) for ts_ms, name in machine.log]
            right = {name for interval, name in logged if interval in inside and counts(version.definition, name)}
            if not mine <= right:
                self.wrong.append(f"[{first}, {last}] by version {version.number} has {sorted(mine - right)}")
            named = machine.name in found.label.missing
            if named or found.label.void or machine.name not in commit.state.roster:
                self.late += named and machine.name not in commit.missing
                continue
            if first < version.begins:
                self.wrong.append(f"[{first}, {last}] does not say that it begins with {version.begins}")
            due = {name for interval in inside for name in machine.due.get(interval, ())}
            lacking = {name for name in due if counts(version.definition, name)} - mine
            if lacking:
                self.wrong.append(f"[{first}, {last}] by version {version.number} has not {sorted(lacking)}")
