"""A small agent runtime with a durable store, for simulations and tests of whole nodes.

Owns what survives a crash (snapshots, carried data, commits with their state, verdicts handled) and the shape of
payloads: lists of item names, so that whoever looks from outside can count each item. Knows nothing of the network.
"""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence

import msgspec

from overlay.contract import NEVER, Commit, ControlEntry, ControlState, Record, RollupState, Verdict
from overlay.ids import Contact
from overlay.node import OverlayNode


def pack(items: Sequence[str]) -> bytes:
    """Return the payload that holds these items."""
    return msgspec.msgpack.encode(list(items))


def unpack(payload: bytes | None) -> list[str]:
    """Return the items in a payload; None holds none."""
    return msgspec.msgpack.decode(payload, type=list[str]) if payload is not None else []


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
        self.commits: list[Commit] = []
        self.verdicts: list[Verdict] = []
        self.controls: list[tuple[bytes, ControlEntry]] = []
        self.control: dict[bytes, ControlState] = {}
        self.state: RollupState | None = None
        self.settled = NEVER
        self.snapshots: dict[int, list[str]] = {}
        self.carry: list[str] = []

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
        await self._touch_disk()
        self.commits.append(commit)
        self.state = RollupState.decode(commit.state.encode())
        await self._touch_disk()

    async def on_verdict(self, app: bytes, verdict: Verdict) -> None:
        """Let go of the snapshots that the verdict covers; carry their items if it did not count them."""
        await self._touch_disk()
        self.verdicts.append(verdict)
        self.settled = verdict.through
        for through in [t for t in self.snapshots if t <= verdict.through]:
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
            self.control[app] = state.after(entry)
        await self._touch_disk()

    def merge(self, app: bytes, payloads: Sequence[bytes]) -> bytes:
        """Put all items together."""
        return pack([item for payload in payloads for item in unpack(payload)])

    def seal(self, node: OverlayNode, app: bytes, through: int, items: Sequence[str]) -> None:
        """Store a snapshot, then hand it over; through is raised above the last verdict, as the contract says."""
        through = max(through, self.settled + 1, *(t + 1 for t in self.snapshots))
        self.snapshots[through] = [*items, *self.carry]
        self.carry = []
        self.hand_over(node, app, through)

    def hand_over(self, node: OverlayNode, app: bytes, through: int) -> None:
        """Hand a stored snapshot to the overlay, also again after a restart."""
        node.seal(app, through, pack(self.snapshots[through]) if self.snapshots[through] else None)

    def after_crash(self) -> Runtime:
        """Return a runtime with the same disk; the process that still holds this one writes to nowhere."""
        heir = copy.copy(self)
        for name in ("commits", "verdicts", "controls", "control", "snapshots", "carry"):
            setattr(self, name, copy.copy(getattr(self, name)))
        return heir

    async def _touch_disk(self) -> None:
        if self._disk is not None:
            await self._disk()

    def counted(self) -> Counter[str]:
        """Return how often each item is in a commit."""
        return Counter(item for commit in self.commits for item in unpack(commit.payload))
