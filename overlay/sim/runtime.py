"""A small agent runtime with a durable store, for simulations and tests of whole nodes.

Owns what survives a crash (snapshots, carried data, commits with their state, verdicts handled) and the shape of
payloads: lists of item names, so that whoever looks from outside can count each item. Knows nothing of the network.
"""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence

import msgspec

from overlay.contract import NEVER, Commit, ControlEntry, ControlState, Record, RollupState, Verdict
from overlay.ids import Contact
from overlay.node import OverlayNode
from overlay.sim.rootlog import RootLog, read, unpack


def pack(items: Sequence[str]) -> bytes:
    """Return the payload that holds these items."""
    return msgspec.msgpack.encode(list(items))


__all__ = ["Runtime", "pack", "unpack"]


class Runtime:
    """The `Handler` of one agent; its attributes are its disk, so hand the same one to the node after a restart.

    Args:
        disk: awaited before and after each write, so that a crash may come between a write and what follows from it.
    """

    def __init__(self, name: str, disk: Callable[[], Awaitable[None]] | None = None) -> None:
        self.name, self._disk = name, disk
        self.owned: dict[bytes, bytes] = {}
        self.recorded: dict[bytes, Contact] = {}
        self.seen_records: list[Record] = []
        self.verdicts: list[Verdict] = []
        self.controls: list[tuple[bytes, ControlEntry]] = []
        self.control: dict[bytes, ControlState] = {}
        self.settled = NEVER
        self.snapshots: dict[int, list[str]] = {}
        self.carry: list[str] = []
        #: What the machine's logs hold, by interval; they outlive the rest of its disk.
        self.source: dict[int, list[str]] = {}
        #: Names of agents whose disk was lost and whose logs are ours; until the root has said from where on.
        self.succeeds: list[str] = []
        #: Versions of the job's definition that we were told of, by their first interval; and all there are, as the
        #: job's record says: for those who were told that something passed them by.
        self.versions: dict[int, int] = {}
        self.record: Mapping[int, int] = {}
        #: As a root: its job's log, and the term in which it may add to it; 0 once it knows of another root.
        self.root_log, self.root_term = RootLog(), 0
        #: In which term each commit and control entry was first asked for, by its identity.
        self._terms: dict[int, tuple[object, int]] = {}

    @property
    def commits(self) -> list[Commit]:
        """As a root, the intervals it committed."""
        return self.root_log.commits

    @property
    def state(self) -> RollupState | None:
        """As a root, the state of its last commit."""
        return self.root_log.state

    async def on_route(self, key: bytes, body: bytes, path: Sequence[str]) -> bytes | Contact | None:
        """Answer for the keys we own, point to the agent recorded for others."""
        if key in self.owned:
            return self.owned[key] + body
        return self.recorded.get(key)

    def on_record(self, app: bytes, record: Record) -> None:
        """Keep it."""
        self.seen_records.append(record)

    async def on_commit(self, app: bytes, commit: Commit) -> None:
        """Keep the commit and its state, in one step."""
        term = self._term_of(commit)
        await self._touch_disk()
        self.root_log.commit(term, commit)
        await self._touch_disk()

    def _term_of(self, wish: object) -> int:
        """Return in which term a root first asked for something: it counts as said then, however often it is tried."""
        return self._terms.setdefault(id(wish), (wish, self.root_term))[1]

    async def on_verdict(self, app: bytes, verdict: Verdict) -> None:
        """Let go of the snapshots that the verdict covers; carry their items if it did not count them."""
        await self._touch_disk()
        self.verdicts.append(verdict)
        self.settled = verdict.through
        for through in [t for t in self.snapshots if t <= verdict.through]:
            items = self.snapshots.pop(through)
            if verdict.missing:
                self.carry += [item for item in items if not item.startswith("=")]
        await self._touch_disk()

    async def on_control(self, app: bytes, entry: ControlEntry) -> None:
        """Keep the entry, and what the log begins with after a restart, in one step.

        A root that was deposed insists until it knows; what it wanted to say then never was.
        """
        term = self._term_of(entry.mark)
        await self._touch_disk()
        if entry.retain_above is not None and not self.root_log.has(entry.mark):
            if term != self.root_log.term and term != self.root_term:
                return
            self.root_log.say(term, entry)
        state = self.control.get(app, ControlState())
        if entry.mark > state.mark:
            self.controls.append((app, entry))
            if entry.skipped:
                self.versions |= self.record
            if entry.body.startswith(b"version "):
                _, version, since = entry.body.split()
                self.versions[int(since)] = int(version)
            self.control[app] = state.after(entry)
        await self._touch_disk()

    def merge(self, app: bytes, payloads: Sequence[bytes]) -> bytes:
        """Put all items together; a root takes none of another version of the job than the interval's."""
        marks = {item for payload in payloads for item in read(payload) if item.startswith("=")}
        if len(marks) > 1:
            raise ValueError(f"these cannot be merged: {sorted(marks)}")
        for version, through in [mark[1:].split("@") for mark in marks]:
            if self.root_term and self.root_log.version_at(int(through)) != int(version):
                raise ValueError(f"interval {through} has another version than {version}")
        return pack([*marks, *(item for payload in payloads for item in unpack(payload))])

    def version_at(self, through: int) -> int:
        """Return the version of a job at an interval, as far as we were told."""
        return max((version for since, version in self.versions.items() if since <= through), default=0)

    def seal(self, node: OverlayNode, app: bytes, through: int, items: Sequence[str]) -> None:
        """Store a snapshot, then hand it over; through is raised above the last verdict, as the contract says."""
        through = max(through, self.settled + 1, *(t + 1 for t in self.snapshots))
        held = [*items, *self.carry]
        self.snapshots[through] = [f"={self.version_at(through)}@{through}", *held] if held else []
        self.carry = []
        self.hand_over(node, app, through)

    def hand_over(self, node: OverlayNode, app: bytes, through: int) -> None:
        """Hand a stored snapshot to the overlay, also again after a restart."""
        node.seal(app, through, pack(self.snapshots[through]) if self.snapshots[through] else None)

    def after_crash(self) -> Runtime:
        """Return a runtime with the same disk; the process that still holds this one writes to nowhere."""
        heir = copy.copy(self)
        for name in ("verdicts", "controls", "control", "snapshots", "carry", "source", "versions"):
            setattr(self, name, copy.copy(getattr(self, name)))
        self.root_log = self.root_log.detached()
        return heir

    def without_disk(self, name: str) -> Runtime:
        """Return a runtime under a new name that has the logs and nothing else; see `after_crash` for the old one."""
        heir = Runtime(name, self._disk)
        heir.source, heir.succeeds = copy.copy(self.source), [*self.succeeds, self.name]
        heir.root_log, heir.root_term, heir.record = self.root_log, self.root_term, self.record
        return heir

    def take_over(self, app: bytes) -> None:
        """As a root, know of every control entry in its log: the group handled them."""
        self.controls = [(app, entry) for entry in self.root_log.controls]
        self.control[app] = self.root_log.control

    def succeed(self, counted: int) -> None:
        """Begin where an agent whose disk was lost was last counted: everything later in the logs is ours to bring."""
        self.versions |= self.record
        self.carry = [item for interval, items in sorted(self.source.items()) if interval > counted for item in items]
        self.succeeds = []

    async def _touch_disk(self) -> None:
        if self._disk is not None:
            await self._disk()

    def counted(self) -> Counter[str]:
        """Return how often each item is in a commit."""
        return self.root_log.counted()
