"""The null runtime: nothing but what the overlay's promises need of whoever stands above a node.

Owns what survives a crash: snapshots until their verdict, what verdicts say to carry, commits with the roll-up's state,
control entries heeded. Knows nothing of jobs, versions, groups or agents; those run in `tests/world` as they are.
"""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence

import msgspec

from elf.overlay.contract import NEVER, Commit, ControlEntry, ControlState, LogEntry, Record, RollupState, Verdict
from elf.overlay.ids import Contact
from elf.overlay.messages import Claim
from elf.overlay.node import OverlayNode

#: What is on disk and changed in place; a process that is dead and does not know it goes on with its own.
_CHANGED = ("verdicts", "controls", "control", "snapshots", "carry", "commits")


class Runtime:
    """The `Handler` of one node; its attributes are its disk, so hand the same one to the node after a restart.

    It keeps one tree's roll-up, and the control entries of all.

    Args:
        name: by which the overlay knows the agent.
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
        self.settled = NEVER
        self.sealed = NEVER
        self.snapshots: dict[int, list[str]] = {}
        self.carry: list[str] = []
        #: As a root, what was committed, and the state of the last commit.
        self.commits: list[Commit] = []
        self.state: RollupState | None = None

    async def on_route(self, key: bytes, body: bytes, path: Sequence[str]) -> bytes | Contact | None:
        """Answer for the keys we own, point to the agent recorded for others."""
        if key in self.owned:
            return self.owned[key] + body
        return self.recorded.get(key)

    def admits(self, app: bytes, record: Record) -> bool:
        """Let all in."""
        return True

    def on_record(self, app: bytes, record: Record) -> None:
        """Keep it."""
        self.seen_records.append(record)

    async def on_commit(self, app: bytes, commit: Commit) -> None:
        """Keep the commit and its state, in one step; one that follows another than the last changes nothing."""
        await self._touch_disk()
        if commit.previous == (self.state.committed if self.state is not None else NEVER):
            self.commits.append(commit)
            self.state = commit.state
        await self._touch_disk()

    async def on_verdict(self, app: bytes, verdict: Verdict) -> None:
        """Let go of the snapshots that the verdict covers; carry their items if it did not count them."""
        await self._touch_disk()
        known = max(self.sealed, self.settled)
        assert verdict.missing or verdict.through <= known, "it counts what was never sealed"
        self.verdicts.append(verdict)
        self.settled = verdict.through
        for through in [each for each in self.snapshots if each <= verdict.through]:
            items = self.snapshots.pop(through)
            if verdict.missing:
                self.carry += items
        await self._touch_disk()

    async def on_control(self, app: bytes, entry: ControlEntry) -> None:
        """Keep the entry, and what the log begins with after a restart, in one step."""
        await self._touch_disk()
        state = self.control.get(app, ControlState())
        if entry.mark > state.mark:
            self.controls.append((app, entry))
            self.control[app] = handled(state, entry)
        await self._touch_disk()

    def on_chosen(self, app: bytes, child: Contact, claim: Claim) -> None:
        """Audit nothing."""

    def merge(self, app: bytes, payloads: Sequence[bytes]) -> bytes:
        """Put all items together."""
        return pack([item for payload in payloads for item in unpack(payload)])

    def seal(self, node: OverlayNode, app: bytes, through: int, items: Sequence[str]) -> None:
        """Store a snapshot, then hand it over; through is raised above the last verdict, as the contract says."""
        through = max(through, self.settled + 1, *(each + 1 for each in self.snapshots), NEVER)
        self.snapshots[through] = [*items, *self.carry]
        self.carry = []
        self.sealed = through
        self.hand_over(node, app, through)

    def hand_over(self, node: OverlayNode, app: bytes, through: int) -> None:
        """Hand a stored snapshot to the overlay, also again after a restart."""
        node.seal(app, through, pack(self.snapshots[through]) if self.snapshots[through] else None)

    def after_crash(self) -> Runtime:
        """Return a runtime with the same disk; the process that still holds this one writes to nowhere."""
        heir = copy.copy(self)
        for name in _CHANGED:
            setattr(self, name, copy.copy(getattr(self, name)))
        return heir

    def entries(self, app: bytes) -> list[ControlEntry]:
        """Return the control entries of a tree; at its root these are all that there were."""
        return [entry for key, entry in self.controls if key == app]

    @property
    def retained(self) -> list[str]:
        """The items that no verdict has said to be counted."""
        return [*self.carry, *(item for items in self.snapshots.values() for item in items)]

    async def _touch_disk(self) -> None:
        """Wait as long as a write may take before it is durable, or after."""
        if self._disk is not None:
            await self._disk()

    def counted(self) -> Counter[str]:
        """Return how often each item is in a commit."""
        return Counter(item for commit in self.commits for item in unpack(commit.payload))


def pack(items: Sequence[str]) -> bytes:
    """Return the payload of a snapshot: names of items, so that whoever looks from outside can count them."""
    return msgspec.msgpack.encode(list(items))


def unpack(payload: bytes | None) -> list[str]:
    """Return the items in a payload; None holds none."""
    return msgspec.msgpack.decode(payload, type=list[str]) if payload is not None else []


def handled(state: ControlState, entry: ControlEntry) -> ControlState:
    """Return what is to be stored once an entry was handled, what real stores are held to; O(entries retained)."""
    if entry.retain_above is None:
        return ControlState(entry.mark, entry.mark)
    kept = [old for old in state.entries if old.mark > entry.retain_above]
    return ControlState(entry.mark, entry.retain_above, (*kept, LogEntry(entry.mark, entry.body)))
