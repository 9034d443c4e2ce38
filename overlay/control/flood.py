"""Who is told which control record: each new one over all edges at once, and comparisons that heal what was missed.

Owns the exchange; what is held is `elf.overlay.control.records`'. Pure. When an edge comes up, its child sends what it
holds as marks (`Digest`); the parent answers with the records that the child lacks, and with its own marks if it lacks
some itself. On an edge that stays up, the child now and then compares one number over all marks: they differ only if a
record was lost or refused on the way, and then the parent begins the same exchange. What the runtime does not believe
is neither held nor passed on. OVERLAY section 4 (anti-entropy).
"""

from __future__ import annotations

import random
from collections.abc import Callable

from elf.overlay.contract import Record
from elf.overlay.control.batches import batches
from elf.overlay.control.records import RecordMap
from elf.overlay.effects import Apply, ChildDown, ChildUp, EdgeEvent, Effect, ParentDown, ParentUp, Send
from elf.overlay.errors import OverlayError
from elf.overlay.ids import Contact
from elf.overlay.messages import Compare, Digest, FloodMessage, Records, record_fault

#: Bodies in one `Records` message; well below the frame limit, so a large map goes in several.
BATCH_BYTES = 4 << 20
#: A child compares this often: two short messages a minute and edge. Heals what no event would.
COMPARE_MS = 30_000


class Flood:
    """The records of one application on one node, and their exchange with its neighbours in the tree.

    Args:
        app: the application.
        rng: spreads comparisons over time.
        admits: whether a neighbour's record may be taken; one that is not is not passed on either. None: all are.
    """

    __slots__ = ("_admits", "_children", "_parent", "_rng", "app", "deadline_ms", "map")

    def __init__(self, app: bytes, rng: random.Random, admits: Callable[[Record], bool] | None = None) -> None:
        self.app = app
        self._admits = admits or (lambda record: True)
        self.map = RecordMap()
        #: When the next comparison is due; None without a parent.
        self.deadline_ms: int | None = None
        self._rng = rng
        self._parent: Contact | None = None
        self._children: dict[bytes, Contact] = {}

    def add(self, record: Record) -> tuple[bool, list[Effect]]:
        """Apply a record of the runtime and flood it; False if ours is the same or newer, or there is no room.

        Raises:
            OverlayError: its key, version or size is illegal.
        """
        fault = record_fault(record)
        if fault is not None:
            raise OverlayError(fault)
        if not self.map.apply(record):
            return False, []
        return True, self._flood((record,), None)

    def on_edge(self, event: EdgeEvent, now_ms: int) -> list[Effect]:
        """An edge came up or went down."""
        match event:
            case ParentUp(parent=parent):
                self._parent = parent
                # Spread over time, or all edges of a tree that was built at once would compare at once.
                self.deadline_ms = now_ms + self._rng.randint(1, COMPARE_MS)
                return [self._digest(parent, mutual=True)]
            case ParentDown():
                self._parent = self.deadline_ms = None
            case ChildUp(child=child):
                self._children[child.id] = child
            case ChildDown(child=child):
                self._children.pop(child.id, None)
        return []

    def on_tick(self, now_ms: int) -> list[Effect]:
        """Time passed: compare with the parent if it is due."""
        if self._parent is None or self.deadline_ms is None or now_ms < self.deadline_ms:
            return []
        self.deadline_ms = now_ms + COMPARE_MS
        return [Send(self._parent, Compare(self.app, self.map.summary))]

    def on_message(self, sender: Contact, message: FloodMessage) -> list[Effect]:
        """Handle a message of a neighbour; from anyone else it is dropped."""
        if sender != self._parent and self._children.get(sender.id) != sender:
            return []
        match message:
            case Compare(summary=summary):
                return [self._digest(sender, mutual=True)] if summary != self.map.summary else []
            case Digest(marks=marks, mutual=mutual):
                effects = self._send(sender, self.map.newer_than(marks))
                return [*effects, self._digest(sender, mutual=False)] if mutual and self.map.lacks(marks) else effects
            case Records(records=records):
                fresh = tuple(filter(self._take, records))
                return [*(Apply(record) for record in fresh), *self._flood(fresh, sender)]

    def _take(self, record: Record) -> bool:
        """Take a neighbour's record, if it is new and may be taken."""
        return self.map.is_new(record) and self._admits(record) and self.map.apply(record)

    def _digest(self, peer: Contact, *, mutual: bool) -> Send:
        return Send(peer, Digest(self.app, self.map.marks(), mutual))

    def _flood(self, records: tuple[Record, ...], source: Contact | None) -> list[Effect]:
        """Pass new records on over every edge but the one they came from."""
        edges = [*self._children.values(), *([self._parent] if self._parent is not None else [])]
        return [effect for peer in edges if peer != source for effect in self._send(peer, records)]

    def _send(self, peer: Contact, records: tuple[Record, ...]) -> list[Effect]:
        return [Send(peer, Records(self.app, batch)) for batch in batches(records, BATCH_BYTES)]
