"""One node's part in one application: its tree, the records flooded over the tree, and the roll-up of a job.

Owns only the wiring: which machine an input goes to, and that edge events of the tree reach the other two. Pure; the
node (`overlay.node`) and the tests' harness drive the same object. DESIGN section 2: `handle(input, now_ms)`.
"""

from __future__ import annotations

import random

from overlay.contract import OverlaySettings, Record, RollupState
from overlay.effects import (
    Apply,
    ChildDown,
    ChildUp,
    Committed,
    ContactsChanged,
    Effect,
    Input,
    LookedUp,
    Merged,
    Notified,
    ParentDown,
    ParentUp,
    PeerLost,
    Received,
    RootChanged,
    Send,
    Tick,
)
from overlay.ids import Contact
from overlay.messages import Accept, Digest, Heartbeat, Join, Records, Redirect, TreeMessage, Unlink
from overlay.records import RecordMap
from overlay.rollup import Rollup
from overlay.routing import View
from overlay.tree import Role, Tree

#: Bodies in one `Records` message; well below the frame limit, so a large map goes in several.
BATCH_BYTES = 4 << 20


class Application:
    """Tree, records and roll-up of one application on one node."""

    def __init__(
        self, app: bytes, me: Contact, view: View, settings: OverlaySettings, rng: random.Random, root: Contact | None
    ) -> None:
        self.app = app
        self.tree = Tree(app, me, view, settings, rng, root)
        self.records = RecordMap()
        self.rollup: Rollup | None = None
        self._settings, self._rng = settings, rng
        self._agent = settings.agent_id or me.address

    @property
    def deadline_ms(self) -> int:
        """When the next `Tick` is due."""
        return self.tree.deadline_ms

    @property
    def is_idle(self) -> bool:
        """Whether the node has no part in this application any more and may forget it."""
        return self.tree.role is Role.OUT and not self.tree.member

    # ---- the runtime

    def join(
        self,
        member: bool,
        root: Contact | None,
        now_ms: int,
        *,
        state: RollupState | None = None,
        leap_after_ms: int | None = None,
    ) -> list[Effect]:
        """Enter the tree, or change membership, root or settings."""
        if root is not None:
            rollup = self._rollup_of_job()
            if state is not None and rollup.ledger is None:
                rollup.state = state
            if leap_after_ms is not None:
                rollup.set_patience(leap_after_ms)
        effects = self._spread(self.tree.join(member, root, now_ms), now_ms)
        if member and self.rollup is not None:
            effects += self.rollup.enrol(now_ms)
        return effects

    def leave(self, now_ms: int, *, retire: bool) -> list[Effect]:
        """End membership; the node stays a forwarder while it has children."""
        effects = self.rollup.withdraw(retire) if self.rollup is not None else []
        return effects + self._spread(self.tree.leave(now_ms), now_ms)

    def seal(self, through: int, payload: bytes | None, now_ms: int) -> tuple[bool, list[Effect]]:
        """Take over a durable snapshot of a member; False if it is settled already or we are no member of a job."""
        return self.rollup.seal(through, payload, now_ms) if self.rollup is not None else (False, [])

    def add_record(self, record: Record) -> tuple[bool, list[Effect]]:
        """Apply a record of the runtime and flood it; False if ours is the same or newer."""
        if not self.records.apply(record):
            return False, []
        return True, self._flood((record,), None)

    # ---- the network and the clock

    def handle(self, event: Input, now_ms: int) -> list[Effect]:
        """Handle one input."""
        match event:
            case Received(sender=sender, message=message):
                return self._on_message(sender, message, now_ms)
            case PeerLost(peer=peer):
                return self._spread(self.tree.on_peer_lost(peer, now_ms), now_ms)
            case ContactsChanged():
                return self._spread(self.tree.on_contacts_changed(now_ms), now_ms)
            case LookedUp(contacts=contacts):
                return self._spread(self.tree.on_looked_up(contacts, now_ms), now_ms)
            case Tick():
                return self._on_tick(now_ms)
        rollup = self.rollup
        if rollup is None:
            return []
        match event:
            case Merged(ticket=ticket, payload=payload, bad=bad):
                return rollup.on_merged(ticket, payload, bad, now_ms)
            case Committed(through=through):
                return rollup.on_committed(through, now_ms)
            case Notified(through=through):
                return rollup.on_notified(through, now_ms)

    def _on_message(self, sender: Contact, message: TreeMessage, now_ms: int) -> list[Effect]:
        tree = self.tree
        match message:
            case Join():
                return self._spread(tree.on_join(sender, message, now_ms), now_ms)
            case Accept():
                return self._spread(tree.on_accept(sender, message, now_ms), now_ms)
            case Redirect():
                return self._spread(tree.on_redirect(sender, message, now_ms), now_ms)
            case Unlink():
                return self._spread(tree.on_unlink(sender, message, now_ms), now_ms)
            case Heartbeat():
                effects = self._spread(tree.on_heartbeat(sender, message, now_ms), now_ms)
                return effects + (self.rollup.on_heartbeat(sender, message, now_ms) if self.rollup is not None else [])
            case Digest(marks=marks):
                return self._send_records(sender, self.records.newer_than(marks)) if self._is_edge(sender) else []
            case Records(records=records):
                return self._on_records(sender, records) if self._is_edge(sender) else []
        return self.rollup.on_message(sender, message, now_ms) if self.rollup is not None else []

    def _on_tick(self, now_ms: int) -> list[Effect]:
        rollup = self.rollup
        if rollup is None:
            return self._spread(self.tree.on_tick(now_ms, 0, 0), now_ms)
        return self._spread(self.tree.on_tick(now_ms, rollup.term, rollup.committed), now_ms) + rollup.on_tick(now_ms)

    # ---- records

    def _on_records(self, sender: Contact, records: tuple[Record, ...]) -> list[Effect]:
        fresh = tuple(record for record in records if self.records.apply(record))
        return [*(Apply(record) for record in fresh), *self._flood(fresh, sender)]

    def _flood(self, records: tuple[Record, ...], source: Contact | None) -> list[Effect]:
        """Pass new records on over every edge but the one they came from."""
        return [effect for peer in self._edges() if peer != source for effect in self._send_records(peer, records)]

    def _send_records(self, peer: Contact, records: tuple[Record, ...]) -> list[Effect]:
        effects: list[Effect] = []
        batch: list[Record] = []
        size_bytes = 0
        for record in records:
            if batch and size_bytes + len(record.body) > BATCH_BYTES:
                effects.append(Send(peer, Records(self.app, tuple(batch))))
                batch, size_bytes = [], 0
            batch.append(record)
            size_bytes += len(record.body)
        return [*effects, Send(peer, Records(self.app, tuple(batch)))] if batch else effects

    # ---- edges

    def _spread(self, effects: list[Effect], now_ms: int) -> list[Effect]:
        """Let the records and the roll-up see the tree's edge events, in order; everything else passes through."""
        if self.tree.root is not None:
            self._rollup_of_job()
        spread: list[Effect] = []
        for effect in effects:
            match effect:
                case ParentUp(parent=peer) | ChildUp(child=peer):
                    spread.append(Send(peer, Digest(self.app, self.records.marks())))
                    spread += self.rollup.on_edge(effect, now_ms) if self.rollup is not None else []
                case ParentDown() | ChildDown() | RootChanged():
                    spread += self.rollup.on_edge(effect, now_ms) if self.rollup is not None else []
                case _:
                    spread.append(effect)
        return spread

    def _rollup_of_job(self) -> Rollup:
        if self.rollup is None:
            self.rollup = Rollup(self.app, self._agent, self._settings, self._rng)
        return self.rollup

    def _edges(self) -> list[Contact]:
        parent = [self.tree.parent.peer] if self.tree.parent is not None else []
        return parent + [self.tree.children[key].peer for key in sorted(self.tree.children)]

    def _is_edge(self, peer: Contact) -> bool:
        return peer in self._edges()
