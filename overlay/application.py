"""One node's part in one application: its tree, and what travels over it: records, control entries, a job's roll-up.

Owns only the wiring: which machine an input goes to, and that edge events of the tree reach the other three. Pure; the
node (`elf.overlay.node`) and the tests' harness drive the same object. DESIGN section 2: `handle(input, now_ms)`.
"""

from __future__ import annotations

import random
from collections.abc import Callable

from elf.overlay.contract import PAYLOAD_BYTES_MAX, ControlState, OverlaySettings, Record, RollupState, Trust
from elf.overlay.control.flood import Flood
from elf.overlay.control.machine import Control
from elf.overlay.effects import (
    ChildDown,
    ChildUp,
    Committed,
    ContactsChanged,
    Delivered,
    Effect,
    Input,
    LookedUp,
    Merged,
    Notified,
    ParentDown,
    ParentUp,
    PeerLost,
    Received,
    Refused,
    RootChanged,
    Send,
    Tick,
)
from elf.overlay.errors import OverlayError
from elf.overlay.ids import Contact
from elf.overlay.messages import (
    Accept,
    Compare,
    ControlAsk,
    ControlEntries,
    ControlSeen,
    Digest,
    Drop,
    Heartbeat,
    Join,
    Records,
    Redirect,
    Settle,
    TreeMessage,
    Unlink,
)
from elf.overlay.rollup.audit import Audits
from elf.overlay.rollup.machine import Rollup
from elf.overlay.routing import View
from elf.overlay.tree.machine import Role, Tree


class Application:
    """Tree, records, control log and roll-up of one application on one node."""

    __slots__ = (
        "_agent", "_rng", "_rollup_ms", "_settings", "_trust", "app", "audits", "control", "flood", "rollup", "tree",
    )  # fmt: skip

    def __init__(
        self,
        app: bytes,
        me: Contact,
        view: View,
        settings: OverlaySettings,
        rng: random.Random,
        root: Contact | None,
        *,
        admits: Callable[[Record], bool] | None = None,
        trust: Trust | None = None,
    ) -> None:
        self.app = app
        self.tree = Tree(app, me, view, settings, rng, root)
        self.flood = Flood(app, rng, admits)
        self.control = Control(app, rng)
        self.rollup: Rollup | None = None
        self._settings = settings
        self._trust = trust
        #: Which claims of children are merged again; a node has them for all its trees.
        self.audits: Audits | None = None
        self._rng = rng
        self._agent = settings.agent_id or me.address
        self._rollup_ms = 0

    @property
    def deadline_ms(self) -> int:
        """When the next `Tick` is due."""
        due = [self.tree.deadline_ms]
        if not self._rollup_rests:
            due.append(self._rollup_ms)
        if self.rollup is not None and self.rollup.deadline_ms is not None:
            due.append(self.rollup.deadline_ms)
        if self.flood.deadline_ms is not None:
            due.append(self.flood.deadline_ms)
        return min(due)

    @property
    def _rollup_rests(self) -> bool:
        """Whether time alone changes nothing in the roll-up; most of hundreds of jobs do nothing most of the time."""
        rollup = self.rollup
        if rollup is None:
            return True
        told = rollup.settlement is None or rollup.settlement.is_current
        return told and rollup.ledger is None and not any(rollup.barrier.bag.edges.values())

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
        state: RollupState | None = None,
        leap_after_ms: int | None = None,
        control: ControlState | None = None,
        reign: int = 0,
        rooted: bool = True,
    ) -> list[Effect]:
        """Enter the tree, or change membership, root or settings."""
        # What the runtime stored of the log comes first, for we may become the root in the next line.
        effects = self.control.enrol(control)
        if root is not None:
            rollup = self._rollup_of_job()
            if state is not None and rollup.ledger is None:
                rollup.state = state
            if leap_after_ms is not None:
                rollup.set_patience(leap_after_ms)
        effects += self._spread(self.tree.join(member, root, now_ms, reign=reign, rooted=rooted), now_ms)
        if member and self.rollup is not None:
            effects += self.rollup.enrol(now_ms)
        return effects

    def move(self, root: Contact, reign: int, now_ms: int) -> list[Effect]:
        """Heed that another root took over."""
        return self._spread(self.tree.move(root, reign, now_ms), now_ms)

    def leave(self, now_ms: int, *, retire: bool, stay: bool = False) -> list[Effect]:
        """End membership; the node stays a forwarder while it has children, and with `stay` whatever it is."""
        effects = self.rollup.withdraw(retire) if self.rollup is not None else []
        if stay:
            self.tree.member = False
            return effects
        self.control.withdraw()
        return effects + self._spread(self.tree.leave(now_ms), now_ms)

    def depart(self, now_ms: int) -> list[Effect]:
        """Leave at once, children and all."""
        return self._spread(self.tree.depart(now_ms), now_ms)

    def seal(self, through: int, payload: bytes | None, now_ms: int) -> tuple[bool, list[Effect]]:
        """Take over a durable snapshot of a member; False if it is settled already or we are no member of a job."""
        if payload is not None and len(payload) > PAYLOAD_BYTES_MAX:
            raise OverlayError(f"a snapshot of {len(payload)} bytes is over the limit of {PAYLOAD_BYTES_MAX}")
        if self.rollup is None or not self.tree.member:
            return False, []
        return self.rollup.seal(through, payload, now_ms)

    def shut_out(self, peer: Contact, now_ms: int) -> list[Effect]:
        """Have no edge with a peer, now or later."""
        return self._spread(self.tree.shut_out(peer, now_ms), now_ms)

    def avoid(self, peer: Contact, now_ms: int) -> list[Effect]:
        """Look for another parent."""
        return self._spread(self.tree.avoid(peer, now_ms), now_ms)

    def add_record(self, record: Record) -> tuple[bool, list[Effect]]:
        """Apply a record of the runtime and flood it; False if ours is the same or newer."""
        return self.flood.add(record)

    def multicast(self, body: bytes, now_ms: int) -> tuple[int, list[Effect]]:
        """Append to the control log (root only); returns the entry's position."""
        return self.control.append(body, now_ms)

    # ---- the network and the clock

    def handle(self, event: Input, now_ms: int) -> list[Effect]:
        """Handle one input."""
        return self._tell(self._handle(event, now_ms))

    def _tell(self, effects: list[Effect]) -> list[Effect]:
        """Let children hear at once what is new above them, unless a verdict on its way to them says the same."""
        rollup, edges = self.rollup, self.tree.edges
        if rollup is None:
            return effects + edges.tell(0, 0)
        for effect in effects:
            if isinstance(effect, Send) and isinstance(effect.message, Settle):
                edges.has_heard(effect.to, effect.message.term, effect.message.through)
        return effects + edges.tell(rollup.term, rollup.committed)

    def _handle(self, event: Input, now_ms: int) -> list[Effect]:
        match event:
            case Received(sender=sender, message=message):
                return self._on_message(sender, message, now_ms)
            case PeerLost(peer=peer):
                return self._spread(self.tree.on_peer_lost(peer, now_ms), now_ms)
            case ContactsChanged():
                return self._spread(self.tree.on_contacts_changed(now_ms), now_ms)
            case LookedUp(contacts=contacts):
                return self._spread(self.tree.on_looked_up(contacts, now_ms), now_ms)
            case Delivered(mark=mark):
                return self.control.on_delivered(mark)
            case Refused(mark=mark):
                return self.control.on_refused(mark)
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
            case Drop():
                return self._spread(tree.on_drop(sender, message, now_ms), now_ms)
            case Unlink():
                return self._spread(tree.on_unlink(sender, message, now_ms), now_ms)
            case Heartbeat():
                effects = self._spread(tree.on_heartbeat(sender, message, now_ms), now_ms)
                return effects + (self.rollup.on_heartbeat(sender, message, now_ms) if self.rollup is not None else [])
            case Compare() | Digest() | Records():
                return self.flood.on_message(sender, message)
            case ControlAsk() | ControlSeen() | ControlEntries():
                return self.control.on_message(sender, message, now_ms)
        return self.rollup.on_message(sender, message, now_ms) if self.rollup is not None else []

    def _on_tick(self, now_ms: int) -> list[Effect]:
        rollup = self.rollup
        compared = self.flood.on_tick(now_ms)
        if rollup is None:
            return self._spread(self.tree.on_tick(now_ms, 0, 0), now_ms) + compared
        self._rollup_ms = now_ms + self._settings.heartbeat_ms
        effects = self._spread(self.tree.on_tick(now_ms, rollup.term, rollup.committed), now_ms) + compared
        return effects + rollup.on_tick(now_ms)

    # ---- edges

    def _spread(self, effects: list[Effect], now_ms: int) -> list[Effect]:
        """Let the machines above see the tree's edge events, in order; everything else passes through."""
        if self.tree.root is not None:
            self._rollup_of_job()
        spread: list[Effect] = []
        for effect in effects:
            match effect:
                case ParentUp() | ParentDown() | ChildUp() | ChildDown() | RootChanged():
                    spread += self.flood.on_edge(effect, now_ms)
                    spread += self.control.on_edge(effect, now_ms)
                    spread += self.rollup.on_edge(effect, now_ms) if self.rollup is not None else []
                case _:
                    spread.append(effect)
        return spread

    def _rollup_of_job(self) -> Rollup:
        if self.rollup is None:
            self.rollup = Rollup(self.app, self._agent, self._settings, self._rng, self._trust, self.audits)
        return self.rollup
