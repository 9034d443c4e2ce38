"""One node's part in one tree's control log: what the root says, on every agent in order and at most once.

Owns the order, the way down and the delivery to the runtime; `elf.overlay.control.log` holds the entries,
`elf.overlay.tree.machine` the edges. Pure. The root's runtime makes an entry durable before anyone else hears of it;
every other node passes entries on at once and lets its own runtime handle them meanwhile. An edge begins with the
child's question for what follows its newest entry and then carries each entry once, so an agent that was away catches
up over its new edge.

Nobody but a root decides what is lost. A root that took over without the old root's entries (a rendezvous tree, an
empty disk) learns from `ControlSeen` that agents are ahead of it, and says an empty entry in a higher term: agents
whose last entry is not in its log then find a gap before that one, and tell their runtime. OVERLAY section 4
(multicast, terms); paper: §2.3.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

from elf.overlay.contract import CONTROL_BYTES_MAX, ORIGIN, ControlEntry, ControlState, LogEntry, Mark
from elf.overlay.control.batches import batches
from elf.overlay.control.log import ControlLog
from elf.overlay.effects import ChildDown, ChildUp, Deliver, EdgeEvent, Effect, ParentDown, ParentUp, RootChanged, Send
from elf.overlay.errors import NotJoinedError, OverlayError
from elf.overlay.ids import Contact
from elf.overlay.messages import ControlAsk, ControlEntries, ControlMessage, ControlSeen, Unlink

#: Entries of a root that may wait to become durable; a root that cannot write must not fill memory.
PENDING_MAX = 1_024
#: Bodies in one message.
BATCH_BYTES = 1 << 20
#: A term is the time (ms) its root began, and random bits below, so that two roots of one moment differ.
TERM_BITS = 16
#: Marks from the year 2527 on are nonsense; believing them would use terms up.
TERM_MAX = 1 << 44 << TERM_BITS


@dataclass(slots=True)
class _Child:
    """The edge to a child; `have` is the newest entry sent on it, None until the child has asked."""

    contact: Contact
    epoch: int
    have: Mark | None = None


class Control:
    """The control machine; each method returns the effects of one input."""

    __slots__ = (
        "_children", "_delivering", "_enrolled", "_parent", "_pending", "_rng", "_root", "_seen", "_stored", "_term",
        "app", "delivered", "log",
    )  # fmt: skip

    def __init__(self, app: bytes, rng: random.Random) -> None:
        self.app = app
        self.log = ControlLog()
        #: The last entry that our runtime has handled.
        self.delivered = ORIGIN
        self._rng = rng
        self._enrolled = False
        self._root = False
        #: The term of our entries while we are the root; chosen with the first.
        self._term: int | None = None
        self._pending: list[LogEntry] = []
        self._delivering: Mark | None = None
        #: The entry before the oldest that our runtime stores as a root's; None until it stores one.
        self._stored: Mark | None = None
        self._seen = ORIGIN
        self._parent: ParentUp | None = None
        self._children: dict[bytes, _Child] = {}

    # ---- the runtime

    def enrol(self, state: ControlState | None) -> list[Effect]:
        """Let the runtime have the entries from now on, first those after what it stored.

        What it stored as a root's goes before what came by the tree: its group may have decided more than came down.
        """
        if state is not None and state.entries and state.entries[-1].mark >= self.log.last:
            self.log = ControlLog(state.floor, state.entries)
            self._stored = state.floor
        elif self._enrolled:
            return []
        if not self._enrolled and state is not None:
            self.delivered = max(self.delivered, state.mark)
        self._enrolled = True
        return [*self._report(), *self._deliver()]

    def withdraw(self) -> None:
        """Deliver nothing more; entries are still passed on."""
        self._enrolled = False

    def append(self, body: bytes, now_ms: int) -> tuple[int, list[Effect]]:
        """Say something to every agent of the tree (root only); see `OverlayNode.multicast`."""
        if not self._root:
            raise NotJoinedError("only a tree's root can multicast")
        if not 1 <= len(body) <= CONTROL_BYTES_MAX:
            raise OverlayError(f"a control entry has 1 to {CONTROL_BYTES_MAX} bytes, not {len(body)}")
        if len(self._pending) >= PENDING_MAX:
            raise OverlayError(f"{len(self._pending)} control entries wait to become durable; try again later")
        return self._append(body, now_ms)

    def on_delivered(self, mark: Mark) -> list[Effect]:
        """The runtime has made an entry durable; if it is the root's own, now everyone may hear of it."""
        if mark != self._delivering:
            return []
        self._delivering = None
        self.delivered = max(self.delivered, mark)
        effects: list[Effect] = []
        if self._pending and self._pending[0].mark == mark:
            self.log.append(self._pending.pop(0))
            effects += self._push()
        return [*effects, *self._report(), *self._deliver()]

    def on_refused(self, mark: Mark) -> list[Effect]:
        """The runtime will never make an entry of ours durable: another root speaks now. Go on without it."""
        if mark != self._delivering:
            return []
        self._delivering = None
        if self._pending and self._pending[0].mark == mark:
            self._pending.clear()
        return self._deliver()

    # ---- edges

    def on_edge(self, event: EdgeEvent, now_ms: int) -> list[Effect]:
        """An edge came up or went down, or we became or ceased to be the root."""
        match event:
            case ParentUp(parent=parent, epoch=epoch):
                self._parent = event
                return [Send(parent, ControlAsk(self.app, epoch, self.log.last)), *self._report()]
            case ParentDown():
                self._parent = None
            case ChildUp(child=child, epoch=epoch):
                self._children[child.id] = _Child(child, epoch)
            case ChildDown(child=child):
                self._children.pop(child.id, None)
            case RootChanged(is_root=True):
                return self._become_root(now_ms)
            case RootChanged(is_root=False):
                self._cease_root()
        return []

    def _become_root(self, now_ms: int) -> list[Effect]:
        self._root = True
        self._term = None
        if not self._enrolled:
            self.delivered = max(self.delivered, self.log.last)
        elif self.delivered > self.log.last:
            # We come back and nobody is above us to ask: what we handled is the history we stand for.
            self.log = ControlLog(self.delivered)
        return [*self._settle_doubts(now_ms), *self._deliver()]

    def _cease_root(self) -> None:
        """Forget what is not durable yet: nobody heard of it, and another root speaks now."""
        self._root = False
        self._stored = None
        self._pending.clear()
        if not self.log.entries:
            self.log = ControlLog()

    # ---- messages

    def on_message(self, sender: Contact, message: ControlMessage, now_ms: int) -> list[Effect]:
        """Handle a message; one that does not fit its edge is answered with Unlink (upward) or dropped."""
        if isinstance(message, ControlEntries):
            parent = self._parent
            if parent is None or parent.parent != sender or parent.epoch != message.epoch:
                return []
            if not self.log.take_over(message.after, message.entries):
                return []
            return [*self._push(), *self._deliver()]
        child = self._children.get(sender.id)
        if child is None or child.epoch != message.epoch:
            return [Send(sender, Unlink(self.app, message.epoch))]
        match message:
            case ControlAsk(after=after):
                if child.have is not None:
                    return []  # once per edge: what follows is on its way
                child.have = after if after.term < TERM_MAX else ORIGIN
                return [*self._notice(after, now_ms), *self._settle_doubts(now_ms), *self._push()]
            case ControlSeen(mark=mark):
                return self._notice(mark, now_ms)

    def _notice(self, mark: Mark, now_ms: int) -> list[Effect]:
        """An agent below is at this mark; if it is above our log, the root must hear of it.

        A peer that invents marks can make the root say empty entries; it is one of us, or it would have no edge.
        """
        if mark <= max(self._seen, self.log.last) or mark.term >= TERM_MAX:
            return []
        self._seen = mark
        return self._settle_doubts(now_ms) if self._root else self._report()

    def _report(self) -> list[Effect]:
        """Tell the parent of the newest entry below that we do not know: it is on its way, or the root lacks it."""
        newest = max(self._seen, self.delivered)
        if self._parent is None or self._root or newest <= self.log.last:
            return []
        return [Send(self._parent.parent, ControlSeen(self.app, self._parent.epoch, newest))]

    def _settle_doubts(self, now_ms: int) -> list[Effect]:
        """At the root, say an empty entry if somebody is at a mark that we cannot continue and have nothing above."""
        if not self._root:
            return []
        have = [child.have for child in self._children.values() if child.have is not None]
        tail = self._tail()
        ahead = max([self._seen, *have]) > tail
        behind = not self.log.entries and not self._pending and min(have, default=tail) < tail
        return self._append(b"", now_ms)[1] if ahead or behind else []

    # ---- entries

    def _append(self, body: bytes, now_ms: int) -> tuple[int, list[Effect]]:
        tail = self._tail()
        highest = max(tail, self._seen, self.delivered)
        if self._term is None or highest > tail:
            began_ms = max(now_ms, (highest.term >> TERM_BITS) + 1)
            self._term = began_ms << TERM_BITS | self._rng.getrandbits(TERM_BITS)
        entry = LogEntry(Mark(self._term, tail.position + 1), body)
        self._pending.append(entry)
        return entry.mark.position, self._deliver()

    def _tail(self) -> Mark:
        return self._pending[-1].mark if self._pending else self.log.last

    def _deliver(self) -> list[Effect]:
        """Hand the next entry to the runtime, unless it is busy with one."""
        if self._delivering is not None or not (self._enrolled or self._root):
            return []
        after, entry = self.log.next_above(self.delivered)
        if entry is None:
            if not self._pending:
                return []
            entry = self._pending[0]
        self._delivering = entry.mark
        keep = None
        if self._root:
            self._stored = after if self._stored is None else max(self._stored, self.log.floor)
            keep = self._stored
        else:
            self._stored = None
        return [Deliver(ControlEntry(entry.mark, entry.body, self.delivered not in self.log, keep))]

    def _push(self) -> list[Effect]:
        """Send each child what it does not have."""
        effects: list[Effect] = []
        for child in self._children.values():
            if child.have is None:
                continue
            after, entries = self.log.above(child.have)
            for batch in batches(entries, BATCH_BYTES):
                effects.append(Send(child.contact, ControlEntries(self.app, child.epoch, after, batch)))
                after = child.have = batch[-1].mark
        return effects
