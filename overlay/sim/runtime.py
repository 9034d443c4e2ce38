"""A small agent runtime with a durable store, for simulations and tests of whole nodes.

Owns what survives a crash (snapshots, carried data, verdicts handled, its part in a root group) and how payloads merge.
Knows nothing of the network. A root without a group has the only copy of its job.
"""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import msgspec

from elf.overlay.contract import NEVER, Commit, ControlEntry, ControlState, Record, RollupState, Verdict
from elf.overlay.group.messages import Entry
from elf.overlay.ids import Contact
from elf.overlay.node import OverlayNode
from elf.overlay.sim.controls import handled
from elf.overlay.sim.copies import Copy, Count, Say
from elf.overlay.sim.payloads import Row, pack, read, row_of, told, unpack
from elf.overlay.sim.versions import FIRST, Version, boundaries, counts, taken_up, version_at

if TYPE_CHECKING:
    from elf.overlay.sim.members import Member

__all__ = ["GroupDisk", "Runtime", "pack", "unpack"]


@dataclass(slots=True)
class GroupDisk:
    """What an agent has on disk of a job's root group; no copy: it is no member."""

    term: int = 0
    vote: str = ""
    entries: tuple[Entry, ...] = ()
    copy: Copy | None = None

    def detached(self) -> GroupDisk:
        """Return a disk for a process that is dead and does not know it."""
        return replace(self, copy=self.copy.detached() if self.copy is not None else None)


class Runtime:
    """The `Handler` of one agent; its attributes are its disk, so hand the same one to the node after a restart.

    Args:
        disk: awaited before and after each write, so that a crash may come between a write and what follows from it.
    """

    def __init__(self, name: str, disk: Callable[[], Awaitable[None]] | None = None) -> None:
        self.name = name
        self._disk = disk
        self.owned: dict[bytes, bytes] = {}
        self.recorded: dict[bytes, Contact] = {}
        self.seen_records: list[Record] = []
        self.verdicts: list[Verdict] = []
        self.controls: list[tuple[bytes, ControlEntry]] = []
        self.control: dict[bytes, ControlState] = {}
        self.settled = self.sealed = NEVER
        self.snapshots: dict[int, list[str]] = {}
        self.carry: list[str] = []
        #: What the machine's logs hold, by interval; they outlive the rest of its disk.
        self.source: dict[int, list[str]] = {}
        #: Names of agents whose disk was lost and whose logs are ours; until the root has said from where on.
        self.succeeds: list[str] = []
        #: The versions of the job that we work by; since when we count by which, to be told until it is known, and
        #: the first snapshot of this process that tells.
        self.versions: tuple[Version, ...] = FIRST
        self.since: dict[int, int] = {}
        self._told_at: int | None = None
        #: Our part in the job's root group: what is on disk of it, and, while a process runs, the part itself.
        self.group = GroupDisk()
        self.member: Member | None = None
        #: Whether we have begun to work on the job; a new name asks its root first where to begin.
        self.enlisted = False
        #: Through which interval whom we succeed had been counted; None if we succeed nobody, or do not know yet.
        self.counted_before: int | None = None

    @property
    def commits(self) -> list[Commit]:
        """The intervals that our copy of the job knows as committed."""
        return self.group.copy.commits if self.group.copy is not None else []

    @property
    def decided(self) -> list[ControlEntry]:
        """The control entries that our copy of the job knows."""
        return self.group.copy.controls if self.group.copy is not None else []

    @property
    def state(self) -> RollupState | None:
        """As a root without a group, the state of its last commit."""
        return self.group.copy.rollup if self.group.copy is not None else None

    async def on_route(self, key: bytes, body: bytes, path: Sequence[str]) -> bytes | Contact | None:
        """Answer for the keys we own, point to the agent recorded for others; for the job, our part does."""
        if self.member is not None and key in (self.member.contact.id, self.member.app):
            return await (self.member.answer(body) if key != self.member.app else self.member.direct(body))
        if key in self.owned:
            return self.owned[key] + body
        return self.recorded.get(key)

    def on_record(self, app: bytes, record: Record) -> None:
        """Keep it."""
        self.seen_records.append(record)
        if self.member is not None:
            self.member.on_record(app, record)

    async def on_commit(self, app: bytes, commit: Commit) -> None:
        """Have the commit and its state decided by the group, or keep them, in one step."""
        if self.member is not None:
            await self.member.commit(commit)
            return
        await self.touch_disk()
        self._own_copy().do(Count(commit))
        await self.touch_disk()

    def _own_copy(self) -> Copy:
        if self.group.copy is None:
            self.group.copy = Copy()
        return self.group.copy

    async def on_verdict(self, app: bytes, verdict: Verdict) -> None:
        """Let go of the snapshots that the verdict covers; carry their items if it did not count them."""
        await self.touch_disk()
        known = max(self.sealed, self.settled)
        assert verdict.missing or verdict.through <= known, "who counts what was never sealed met another disk"
        self.verdicts.append(verdict)
        self.settled = verdict.through
        for through in [t for t in self.snapshots if t <= verdict.through]:
            texts = self.snapshots.pop(through)
            if verdict.missing:
                self.carry += [text for text in texts if not text.startswith("=") and self._takes(text, through)]
        if not verdict.missing and self._told_at is not None and verdict.through >= self._told_at:
            self.since = {}
        await self.touch_disk()

    async def on_control(self, app: bytes, entry: ControlEntry) -> None:
        """Keep the entry, and what the log begins with after a restart, in one step; a root's group decides first."""
        if self.member is not None and app == self.member.app:
            if entry.retain_above is not None:
                await self.member.say(entry)
                entry = msgspec.structs.replace(entry, retain_above=None)
            await self.touch_disk()
        else:
            await self.touch_disk()
            if entry.retain_above is not None:
                self._own_copy().do(Say(entry.mark, entry.body, entry.retain_above))
        self.heed(app, entry)
        await self.touch_disk()

    def heed(self, app: bytes, entry: ControlEntry) -> None:
        """Do what an entry says, unless it or a later one was heeded before."""
        state = self.control.get(app, ControlState())
        if entry.mark > state.mark:
            self.controls.append((app, entry))
            self.control[app] = handled(state, entry)

    def merge(self, app: bytes, payloads: Sequence[bytes]) -> bytes:
        """Put all together, of whatever version; the root knows what counts."""
        return pack([text for payload in payloads for text in read(payload)])

    def adopt(self, versions: tuple[Version, ...], unread: int | None) -> None:
        """Work by these versions from now on; what they make void of what is not sealed is dropped, and told.

        `unread`: the first interval that we have read nothing of; None: we have read nothing at all.
        """
        old = self.versions[-1]
        if versions[-1].number > old.number:
            self.since = taken_up(self.since, old, versions, unread)
            self._told_at = None
            self.versions = versions
            self.carry = [text for text in self.carry if self._takes(text, self.settled)]

    @property
    def unread(self) -> int | None:
        """The first interval of which we have read nothing; None if we have read nothing at all."""
        return max(self.source) + 1 if self.source else None

    def _takes(self, text: str, interval: int) -> bool:
        row = row_of(text, interval)
        return counts(self.versions, row.kind, row.interval)

    def seal(self, node: OverlayNode, app: bytes, through: int, items: Sequence[str]) -> None:
        """Store snapshots, then hand them over; through is raised above the last verdict, as the contract says.

        What is sealed now is of one kind: a run in which the kind of rows changes is sealed in several snapshots.
        """
        after = max(self.settled, *self.snapshots, NEVER)
        held = [*self._reduced(items, through), *self.carry]
        through = max(through, after + 1)
        self.carry = []
        for end in [*(first - 1 for first in boundaries(self.versions, after, through)), through]:
            within = [text for text in held if end == through or row_of(text, through).interval <= end]
            held = [text for text in held if text not in within]
            self._seal_one(node, app, after, end, within)
            after = end

    def _seal_one(self, node: OverlayNode, app: bytes, after: int, through: int, rows: Sequence[str]) -> None:
        self._told_at = through if self._told_at is None and self.since else self._told_at
        self.snapshots[through] = [*told(self.name, self.since), *rows]
        self.sealed = through
        if self.member is not None:
            self.member.job.truth.seal(self.name, after, through, self.snapshots[through])
        self.hand_over(node, app, through)

    def _reduced(self, items: Sequence[str], interval: int) -> list[str]:
        """Return the rows of items, of the kind that we know for their interval; without versions the bare items."""
        if self.member is None:
            return [*items]
        rows = [Row(item, interval, version_at(self.versions, interval).kind) for item in items]
        self.member.job.truth.reduce(self.name, rows)
        return [row.text for row in rows]

    def hand_over(self, node: OverlayNode, app: bytes, through: int) -> None:
        """Hand a stored snapshot to the overlay, also again after a restart."""
        node.seal(app, through, pack(self.snapshots[through]) if self.snapshots[through] else None)

    def after_crash(self) -> Runtime:
        """Return a runtime with the same disk; the process that still holds this one writes to nowhere."""
        heir = copy.copy(self)
        heir.member = None
        heir._told_at = None
        for name in ("verdicts", "controls", "control", "snapshots", "carry", "source", "since"):
            setattr(self, name, copy.copy(getattr(self, name)))
        self.group = self.group.detached()
        return heir

    def without_disk(self, name: str) -> Runtime:
        """Return a runtime under a new name that has the logs and nothing else; see `after_crash` for the old one."""
        heir = Runtime(name, self._disk)
        heir.source = copy.copy(self.source)
        heir.succeeds = [*self.succeeds, self.name]
        heir.counted_before = self.counted_before
        return heir

    def begin(self, counted: int | None, versions: tuple[Version, ...]) -> None:
        """Begin to work on a job; after an agent whose disk was lost, where that was last counted.

        Everything later in the logs is ours to bring, read now, by these versions.
        """
        self.adopt(versions, None)
        if self.succeeds:
            after = NEVER if counted is None else counted
            logs = [(interval, items) for interval, items in sorted(self.source.items()) if interval > after]
            self.carry = [text for interval, items in logs for text in self._reduced(items, interval)]
            self.counted_before = counted
        self.succeeds = []
        self.enlisted = True

    async def touch_disk(self) -> None:
        """Wait as long as a write may take before it is durable, or after."""
        if self._disk is not None:
            await self._disk()

    def counted(self) -> Counter[str]:
        """Return how often each item is in a commit, as a root without a group."""
        return self._own_copy().counted()
