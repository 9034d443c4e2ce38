"""One node's place in one application's tree: whom it hangs under and who hangs under it.

Owns JOIN, leases and repair; knows nothing of what travels over the edges. Pure. Invariant (I7): a parent is strictly
closer to the application's id than its child, or it is the root, so the graph has no cycle whatever is lost or
reordered. Paper: §2.3 (Scribe trees over the DHT). OVERLAY section 4.

Two kinds of trees. With a *recorded root* (job trees) that contact alone ever becomes root. Without one (source trees)
a node that knows nobody closer looks the key up, and becomes root if the lookup finds nobody closer either.
"""

from __future__ import annotations

import enum
import random
from dataclasses import dataclass

from overlay.contract import OverlaySettings, TreeView
from overlay.effects import ChildDown, ChildUp, Effect, Lookup, ParentDown, ParentUp, RootChanged, Send, Suspect
from overlay.ids import Contact, distance
from overlay.messages import Accept, Heartbeat, Join, Redirect, Unlink, contact_of
from overlay.routing import View

BACKOFF_MS_MIN = 50
BACKOFF_MS_MAX = 2_000
#: A contact that failed a JOIN is passed over this long, unless it is the recorded root.
STRIKE_MS = 5_000
#: A rendezvous root looks its key up again this often: a closer agent may exist that never became our contact.
RECHECK_MS = 30_000


class Role(enum.Enum):
    """Where a node stands in a tree."""

    OUT = "out"
    JOINING = "joining"
    MEMBER = "member"
    ROOT = "root"


@dataclass(slots=True)
class Edge:
    """An edge to a peer; `lease_ms` is when it counts as lost unless the peer says something before."""

    peer: Contact
    epoch: int
    lease_ms: int


class Tree:
    """The tree machine; each method returns the effects of one input."""

    def __init__(
        self, app: bytes, me: Contact, view: View, settings: OverlaySettings, rng: random.Random, root: Contact | None
    ) -> None:
        self.app, self.me, self.root = app, me, root
        self._view, self._settings, self._rng = view, settings, rng
        self.role = Role.OUT
        self.member = False
        self.parent: Edge | None = None
        self.children: dict[bytes, Edge] = {}
        self.epoch = 0
        self.deadline_ms = 0
        self._asked: Contact | None = None
        self._asked_until_ms = 0
        self._retry_ms: int | None = None
        self._lookup_until_ms: int | None = None
        self._failures = 0
        self._struck: dict[bytes, int] = {}
        self._beat_ms = 0
        self._recheck_ms = 0
        self._idle_since_ms: int | None = None

    # ---- what the runtime wants

    def join(self, member: bool, root: Contact | None, now_ms: int) -> list[Effect]:
        """Enter the tree, or change membership or the recorded root."""
        self.member = member or self.member
        effects: list[Effect] = []
        if root is not None and root != self.root:
            self.root = root
            effects += self._drop_illegal_edges(now_ms)
        if self.role is Role.ROOT and self.root not in (None, self.me):
            effects += self._step_down(now_ms)
        elif self.root == self.me and self.role is not Role.ROOT:
            effects += self._become_root(now_ms)
        elif self.role is Role.OUT:
            effects += self._seek(now_ms)
        return effects + self._schedule(now_ms)

    def leave(self, now_ms: int) -> list[Effect]:
        """End membership; stay as a forwarder while there are children, unless we are the recorded root."""
        self.member = False
        if self.children and not (self.role is Role.ROOT and self.root == self.me):
            return []
        return self._exit()

    def _exit(self) -> list[Effect]:
        effects: list[Effect] = []
        for edge in list(self.children.values()):
            effects += [Send(edge.peer, Unlink(self.app, edge.epoch)), ChildDown(edge.peer)]
        self.children.clear()
        if self.parent is not None:
            effects += [Send(self.parent.peer, Unlink(self.app, self.parent.epoch)), ParentDown()]
        if self.role is Role.ROOT:
            effects.append(RootChanged(False))
        self.parent = self._asked = None
        self.role = Role.OUT
        return effects

    # ---- messages

    def on_join(self, sender: Contact, join: Join, now_ms: int) -> list[Effect]:
        """Decide whether the sender may hang under us; only a closer node or the root says yes."""
        known = self.children.get(sender.id)
        if known is not None and join.epoch < known.epoch:
            return []
        if not self._may_adopt(sender, join):
            return [Send(sender, Redirect(self.app, join.epoch, self._elsewhere(sender)))]
        effects: list[Effect] = []
        if known is None or join.epoch > known.epoch:
            self.children[sender.id] = Edge(sender, join.epoch, now_ms + self._settings.lease_ms)
            effects += [Send(sender, Accept(self.app, join.epoch)), ChildUp(sender, join.epoch)]
        else:
            effects.append(Send(sender, Accept(self.app, join.epoch)))
        if self.role is Role.OUT:
            effects += self._seek(now_ms)
        return effects + self._schedule(now_ms)

    def _may_adopt(self, sender: Contact, join: Join) -> bool:
        if sender.id == self.me.id:
            return False
        theirs = contact_of(join.root) if join.root is not None else None
        if self.root is not None and theirs is not None and theirs != self.root:
            return False
        if self.root is None and theirs is not None and self.role is not Role.ROOT:
            self.root = theirs
        if self.root == sender:
            return False
        if self.role is Role.ROOT and self.root == self.me:
            return True
        if self.root == self.me:
            return False  # we are the recorded master but not told yet (just restarted): our state is not here
        return self._distance(self.me) < self._distance(sender)

    def _elsewhere(self, sender: Contact) -> str | None:
        """Return a legal place to send a refused joiner to: the recorded root, or a contact closer than the joiner."""
        if self.root is not None and self.root not in (self.me, sender):
            return self.root.address
        for contact in self._view(self.app):
            if contact != sender and self._distance(contact) < self._distance(sender):
                return contact.address
        return None

    def on_accept(self, sender: Contact, accept: Accept, now_ms: int) -> list[Effect]:
        """Our JOIN was granted; a grant of an older JOIN is given back."""
        current = self.parent is not None and self.parent.peer == sender and self.parent.epoch == accept.epoch
        if current:
            return []
        if self.role is not Role.JOINING or accept.epoch != self.epoch or sender != self._asked:
            return [Send(sender, Unlink(self.app, accept.epoch))]
        self._asked = None
        self._failures = 0
        self.role = Role.MEMBER
        self.parent = Edge(sender, accept.epoch, now_ms + self._settings.lease_ms)
        return [ParentUp(sender, accept.epoch), *self._schedule(now_ms)]

    def on_redirect(self, sender: Contact, redirect: Redirect, now_ms: int) -> list[Effect]:
        """Follow a redirect that leads closer to the key or to the recorded root; else try the next candidate."""
        if self.role is not Role.JOINING or redirect.epoch != self.epoch or sender != self._asked:
            return []
        self._asked = None
        self._strike(sender, now_ms)
        to = contact_of(redirect.to) if redirect.to is not None else None
        if to is not None and to != self.me and to.id not in self._live_strikes(now_ms):
            legal = to == self.root or self._distance(to) < self._distance(self.me)
            if legal:
                return self._ask(to, now_ms) + self._schedule(now_ms)
        return self._seek(now_ms) + self._schedule(now_ms)

    def on_heartbeat(self, sender: Contact, beat: Heartbeat, now_ms: int) -> list[Effect]:
        """Renew a lease; a heartbeat on an edge we do not have is answered with Unlink."""
        edge = self.parent if beat.down else self.children.get(sender.id)
        if edge is None or edge.peer != sender or edge.epoch != beat.epoch:
            return [Send(sender, Unlink(self.app, beat.epoch))]
        edge.lease_ms = now_ms + self._settings.lease_ms
        return []

    def on_unlink(self, sender: Contact, unlink: Unlink, now_ms: int) -> list[Effect]:
        """Take note that the peer has no such edge."""
        effects: list[Effect] = []
        if self.parent is not None and self.parent.peer == sender and self.parent.epoch == unlink.epoch:
            effects += self._lose_parent(now_ms)
        child = self.children.get(sender.id)
        if child is not None and child.epoch == unlink.epoch:
            del self.children[sender.id]
            effects.append(ChildDown(sender))
        return effects + self._schedule(now_ms)

    # ---- the world

    def on_peer_lost(self, peer: Contact, now_ms: int) -> list[Effect]:
        """Drop all edges to a peer whose link is gone."""
        effects: list[Effect] = []
        if self.children.pop(peer.id, None) is not None:
            effects.append(ChildDown(peer))
        if self.parent is not None and self.parent.peer == peer:
            self._strike(peer, now_ms)
            effects += self._lose_parent(now_ms)
        elif self._asked == peer and self.role is Role.JOINING:
            self._asked = None
            self._strike(peer, now_ms)
            effects += self._seek(now_ms)
        return effects + self._schedule(now_ms)

    def on_contacts_changed(self, now_ms: int) -> list[Effect]:
        """A rendezvous root that learns of a closer agent goes under it; a seeker with nobody to ask asks again."""
        if self.role is Role.JOINING and self._asked is None and self._candidates(now_ms):
            return self._seek(now_ms) + self._schedule(now_ms)
        if self.role is Role.ROOT and self.root is None and self._candidates(now_ms):
            return self._step_down(now_ms) + self._schedule(now_ms)
        return []

    def on_looked_up(self, contacts: tuple[Contact, ...], now_ms: int) -> list[Effect]:
        """The lookup before a root claim, or a root's regular doubt, is answered."""
        waiting, self._lookup_until_ms = self._lookup_until_ms is not None, None
        struck = self._live_strikes(now_ms)
        better = [c for c in contacts if c.id not in struck and self._distance(c) < self._distance(self.me)]
        if self.root is not None or self.role not in (Role.JOINING, Role.ROOT):
            return []
        effects: list[Effect] = []
        if better and self.role is Role.ROOT:
            effects += [RootChanged(False)]
            self.role = Role.JOINING
            effects += self._ask(better[0], now_ms)
        elif better and self._asked is None:
            effects += self._ask(better[0], now_ms)
        elif not better and waiting and self.role is Role.JOINING and self._asked is None:
            effects += self._become_root(now_ms)
        return effects + self._schedule(now_ms)

    def on_tick(self, now_ms: int, term: int, committed: int) -> list[Effect]:
        """Time passed: heartbeats, leases, JOIN timeouts, retries."""
        effects: list[Effect] = []
        if now_ms >= self._beat_ms:
            self._beat_ms = now_ms + self._settings.heartbeat_ms
            effects += self._heartbeats(term, committed)
        for edge in [edge for edge in self.children.values() if edge.lease_ms <= now_ms]:
            del self.children[edge.peer.id]
            effects += [Send(edge.peer, Unlink(self.app, edge.epoch)), ChildDown(edge.peer)]
        if self.parent is not None and self.parent.lease_ms <= now_ms:
            self._strike(self.parent.peer, now_ms)
            effects += [Send(self.parent.peer, Unlink(self.app, self.parent.epoch)), *self._lose_parent(now_ms)]
        if self.role is Role.JOINING:
            effects += self._tick_joining(now_ms)
        if self.role is Role.ROOT and self.root is None and now_ms >= self._recheck_ms:
            self._recheck_ms = now_ms + RECHECK_MS
            effects += self._step_down(now_ms) if self._candidates(now_ms) else [Lookup()]
        effects += self._tick_idle(now_ms)
        return effects + self._schedule(now_ms)

    def _tick_joining(self, now_ms: int) -> list[Effect]:
        if self._asked is not None and now_ms >= self._asked_until_ms:
            silent, self._asked = self._asked, None
            self._strike(silent, now_ms)
            return [Suspect(silent), *self._seek(now_ms)]
        if self._lookup_until_ms is not None and now_ms >= self._lookup_until_ms:
            self._lookup_until_ms = None
            return self._seek(now_ms)
        if self._retry_ms is not None and now_ms >= self._retry_ms:
            return self._seek(now_ms)
        return []

    def _tick_idle(self, now_ms: int) -> list[Effect]:
        busy = self.member or bool(self.children) or self.role is Role.OUT or self.root == self.me
        if busy:
            self._idle_since_ms = None
        elif self._idle_since_ms is None:
            self._idle_since_ms = now_ms
        elif now_ms - self._idle_since_ms >= self._settings.linger_ms:
            return self._exit()
        return []

    def view(self) -> TreeView:
        """Return what this node knows of the tree's shape around it."""
        root = self.me if self.role is Role.ROOT else self.root
        children = tuple(self.children[key].peer for key in sorted(self.children))
        return TreeView(self.role.value, self.member, root, self.parent.peer if self.parent else None, children)

    def check(self) -> None:
        """Assert the machine's invariants (for tests; O(children))."""
        assert self.parent is None or self.role is Role.MEMBER
        assert self.role is not Role.MEMBER or self.parent is not None
        legal_root = self.role is Role.ROOT and self.root == self.me
        for edge in self.children.values():
            assert legal_root or self._distance(self.me) < self._distance(edge.peer), "I7: child closer than parent"

    # ---- seeking a parent

    def _seek(self, now_ms: int) -> list[Effect]:
        """Ask the best candidate; without one look the key up (rendezvous) or come back later."""
        self.role = Role.JOINING
        self._retry_ms = None
        candidates = self._candidates(now_ms)
        if candidates:
            return self._ask(candidates[0], now_ms)
        if self.root is None:
            self._lookup_until_ms = now_ms + 10 * self._settings.join_timeout_ms
            return [Lookup()]
        self._retry_ms = self._struck.get(self.root.id, now_ms + BACKOFF_MS_MAX)
        return []

    def _candidates(self, now_ms: int) -> list[Contact]:
        """Return whom to ask, best first: closer contacts, then the recorded root, also if it failed a while ago."""
        struck = self._live_strikes(now_ms)
        found = [contact for contact in self._view(self.app) if contact.id not in struck and contact != self.me]
        if self.root is not None and self.root != self.me and self.root not in found and self.root.id not in struck:
            found.append(self.root)
        return found

    def _live_strikes(self, now_ms: int) -> dict[bytes, int]:
        self._struck = {peer: until for peer, until in self._struck.items() if until > now_ms}
        return self._struck

    def _strike(self, contact: Contact, now_ms: int) -> None:
        """Pass a contact over for a while; the recorded root, which nobody replaces, only for a jittered back-off."""
        self._failures += 1
        wait_ms = STRIKE_MS
        if contact == self.root:
            ceiling = min(BACKOFF_MS_MAX, BACKOFF_MS_MIN << min(self._failures, 10))
            wait_ms = self._rng.randint(BACKOFF_MS_MIN, ceiling)
        self._struck[contact.id] = now_ms + wait_ms

    def _ask(self, to: Contact, now_ms: int) -> list[Effect]:
        # Epochs never repeat, not even over a restart with an empty memory: the clock is their floor.
        self.epoch = max(self.epoch + 1, now_ms)
        self.role = Role.JOINING
        self._asked = to
        self._asked_until_ms = now_ms + self._settings.join_timeout_ms
        return [Send(to, Join(self.app, self.epoch, self.root.address if self.root else None))]

    def _become_root(self, now_ms: int) -> list[Effect]:
        effects: list[Effect] = []
        if self.parent is not None:
            effects += [Send(self.parent.peer, Unlink(self.app, self.parent.epoch)), ParentDown()]
        self.parent = self._asked = None
        self.role = Role.ROOT
        self._recheck_ms = now_ms + (STRIKE_MS if self._live_strikes(now_ms) else RECHECK_MS)
        return [*effects, RootChanged(True)]

    def _step_down(self, now_ms: int) -> list[Effect]:
        return [RootChanged(False), *self._seek(now_ms)]

    def _lose_parent(self, now_ms: int) -> list[Effect]:
        self.parent = None
        return [ParentDown(), *self._seek(now_ms)]

    def _drop_illegal_edges(self, now_ms: int) -> list[Effect]:
        """A new root is recorded: keep only edges that the distance order alone allows (M12)."""
        effects: list[Effect] = []
        for edge in list(self.children.values()):
            if self.root != self.me and self._distance(self.me) > self._distance(edge.peer):
                del self.children[edge.peer.id]
                effects += [Send(edge.peer, Unlink(self.app, edge.epoch)), ChildDown(edge.peer)]
        parent = self.parent
        if parent is not None and parent.peer != self.root and self._distance(parent.peer) > self._distance(self.me):
            effects += [Send(parent.peer, Unlink(self.app, parent.epoch)), *self._lose_parent(now_ms)]
        return effects

    # ---- upkeep

    def _heartbeats(self, term: int, committed: int) -> list[Effect]:
        effects: list[Effect] = []
        for edge in self.children.values():
            effects.append(Send(edge.peer, Heartbeat(self.app, edge.epoch, True, term, committed)))
        if self.parent is not None:
            effects.append(Send(self.parent.peer, Heartbeat(self.app, self.parent.epoch, False, 0, committed)))
        return effects

    def _schedule(self, now_ms: int) -> list[Effect]:
        """Set when the next tick is due; returns no effects so that callers can chain it."""
        due = [self._beat_ms]
        if self.role is Role.JOINING:
            due += [t for t in (self._retry_ms, self._lookup_until_ms) if t is not None]
            due += [self._asked_until_ms] if self._asked is not None else []
        self.deadline_ms = max(now_ms + 1, min(due))
        return []

    def _distance(self, contact: Contact) -> int:
        return distance(contact.id, self.app)
