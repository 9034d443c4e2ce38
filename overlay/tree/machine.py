"""One node's place in one application's tree: whom it hangs under and who hangs under it.

Owns who has an edge: JOIN, push-down, going up, repair and leaving. The choices are `elf.overlay.tree.policy`'s,
heartbeats and leases are `elf.overlay.tree.edges`', the memory of a search is `elf.overlay.tree.seeking`'s; nothing
here knows what travels over the edges. Pure. Invariants: I7, a parent ranks strictly before its child, so the graph has
no cycle whatever is lost, repeated or reordered; I8, at most `fan_in_max` children. Both are decided by the end that
they protect, so no peer can break them.
Paper: §2.3 (Scribe trees over the DHT). OVERLAY section 4.

Two kinds of trees. With a *recorded root* (job trees) that contact alone ever becomes root. Without one (source trees)
a node that knows nobody closer looks the key up, and becomes root if the lookup finds nobody closer either.

Differs from Scribe: no path lists travel; the order of ranks is the loop guard. A silent peer is the link's to notice
(`PeerLost`); heartbeats of an edge only keep both ends agreed that it exists, and carry news down.
"""

from __future__ import annotations

import enum
import random

from elf.overlay.contract import OverlaySettings, TreeView
from elf.overlay.effects import ChildDown, Effect, Lookup, ParentDown, ParentUp, RootChanged, Send, Suspect
from elf.overlay.ids import Contact
from elf.overlay.messages import Accept, Drop, Heartbeat, Join, Reason, Redirect, Unlink, contact_of
from elf.overlay.routing import View
from elf.overlay.tree.edges import Edge, Edges
from elf.overlay.tree.hosting import answer_join
from elf.overlay.tree.policy import Standing, climbs, first_choice, rank, with_root
from elf.overlay.tree.seeking import BACKOFF_MS_MAX, DOUBTS_MAX, REDIRECTS_MAX, STRIKE_MS, Search

#: A rendezvous root looks its key up again this often: a closer agent may exist that never became our contact.
RECHECK_MS = 30_000
#: Most peers that a tree is closed to.
SHUT_MAX = 1_024


class Role(enum.Enum):
    """Where a node stands in a tree."""

    OUT = "out"
    JOINING = "joining"
    MEMBER = "member"
    ROOT = "root"


class Tree:
    """The tree machine; each method returns the effects of one input."""

    def __init__(
        self, app: bytes, me: Contact, view: View, settings: OverlaySettings, rng: random.Random, root: Contact | None
    ) -> None:
        self.app = app
        self.me = me
        self.root = root
        #: Which of several recorded roots `root` is: a higher one took over from it.
        self.reign = 0
        self._view = view
        self._settings = settings
        self._rng = rng
        self.role = Role.OUT
        self.member = False
        self.epoch = 0
        self.deadline_ms = 0
        self.edges = Edges(app, me, settings)
        self.search = Search(rng)
        #: Ids of peers with whom we have no edge, whatever they say.
        self.shut: set[bytes] = set()
        self._recheck_ms = 0
        self._idle_since_ms: int | None = None

    @property
    def parent(self) -> Edge | None:
        """The edge to our parent."""
        return self.edges.parent

    @property
    def children(self) -> dict[bytes, Edge]:
        """The edges to our children, by id."""
        return self.edges.children

    # ---- what the runtime wants

    def join(
        self, member: bool, root: Contact | None, now_ms: int, *, reign: int = 0, rooted: bool = True
    ) -> list[Effect]:
        """Enter the tree, or change membership or the recorded root; not `rooted`: we are that, but do not lead now."""
        effects: list[Effect] = []
        # Without a root the runtime changes nothing, but what a forwarder learned from others yields to what it says,
        # unless that is older.
        if root != self.root and reign >= self.reign and (root is not None or (member and not self.member)):
            self.root = root
            effects += self._drop_illegal_edges(now_ms)
        self.reign = max(self.reign, reign)
        self.member = member or self.member
        if self.role is Role.ROOT and (self.root not in (None, self.me) or not rooted):
            effects += self._step_down(now_ms)
        elif self.root == self.me and self.role is not Role.ROOT and rooted:
            effects += self._become_root(now_ms)
        elif self.role is Role.OUT:
            effects += self._seek(now_ms)
        return effects + self._schedule(now_ms)

    def move(self, root: Contact, reign: int, now_ms: int) -> list[Effect]:
        """Another root took over: heed it, unless we are the root or know a later one."""
        if reign <= self.reign or self.role is Role.ROOT or root == self.me:
            return []
        self.root = root
        self.reign = reign
        if self.role is Role.OUT:
            return []
        return self._drop_illegal_edges(now_ms) + self._schedule(now_ms)

    def leave(self, now_ms: int) -> list[Effect]:
        """End membership; stay as a forwarder while there are children, unless we are the recorded root."""
        self.member = False
        if self.children and not (self.role is Role.ROOT and self.root == self.me):
            return []
        return self.depart(now_ms)

    def depart(self, now_ms: int) -> list[Effect]:
        """Leave at once and for good, as a node that stops does: children are handed to our parent."""
        effects = self.edges.dissolve()
        if self.role is Role.ROOT:
            effects.append(RootChanged(False))
        self.search.end()
        self.member = False
        self.role = Role.OUT
        return effects + self._schedule(now_ms)

    def shut_out(self, peer: Contact, now_ms: int) -> list[Effect]:
        """Have no edge with a peer, now or later."""
        if peer == self.me or len(self.shut) >= SHUT_MAX:
            return []
        self.shut.add(peer.id)
        effects: list[Effect] = []
        if (edge := self.children.pop(peer.id, None)) is not None:
            effects += [Send(peer, Unlink(self.app, edge.epoch)), ChildDown(peer)]
        return effects + self.avoid(peer, now_ms)

    def avoid(self, peer: Contact, now_ms: int) -> list[Effect]:
        """Look for another parent than a peer; it is passed over for a while."""
        effects: list[Effect] = []
        self.search.strike(peer, self.root, now_ms)
        if self.parent is not None and self.parent.peer == peer:
            effects += self._leave_parent(peer, now_ms)
        elif self.search.asked == peer:
            self.search.asked = None
            effects += self._seek(now_ms)
        return effects + self._schedule(now_ms)

    # ---- messages to a parent

    def on_join(self, sender: Contact, join: Join, now_ms: int) -> list[Effect]:
        """Decide whether the sender may hang under us: only a node that ranks before it, or the root, takes it in."""
        if sender.id in self.shut:
            return [Send(sender, Redirect(self.app, join.epoch, None))]
        theirs = contact_of(join.root) if join.root is not None else None
        if self.root is None and self.role is Role.OUT:
            # We enter as a forwarder and know the tree from this JOIN only.
            self.root = theirs
            self.reign = join.reign
        effects = self.move(theirs, join.reign, now_ms) if theirs is not None else []
        standing = Standing(self.me, self.app, self.root, self.role is Role.ROOT)
        effects += answer_join(sender, join, theirs, self.edges, standing, self.reign, self._view, now_ms)
        if self.role is Role.OUT and self.children:
            effects += self._seek(now_ms)
        return effects + self._schedule(now_ms)

    # ---- messages to a child

    def on_accept(self, sender: Contact, accept: Accept, now_ms: int) -> list[Effect]:
        """Our JOIN was granted; a grant of an older JOIN is given back."""
        if self.edges.is_parent(sender, accept.epoch):
            return []
        if not self._is_asked(sender, accept.epoch):
            return [Send(sender, Unlink(self.app, accept.epoch))]
        self.search.end()
        self.role = Role.MEMBER
        self.edges.set_parent(sender, accept, now_ms)
        return [ParentUp(sender, accept.epoch), *self._schedule(now_ms)]

    def on_redirect(self, sender: Contact, redirect: Redirect, now_ms: int) -> list[Effect]:
        """Follow a redirect that leads to a lower rank than ours; else try the next candidate."""
        if not self._is_asked(sender, redirect.epoch):
            return []
        self.search.asked = None
        self.search.redirects += 1
        to = contact_of(redirect.to) if redirect.to is not None else None
        moved = self.move(to, redirect.reign, now_ms) if to is not None and redirect.reason is Reason.ROOT_IS else []
        if self.role is not Role.JOINING or self.search.asked is not None:
            return moved
        follow = to is not None and self._is_legal(to, now_ms) and self.search.redirects <= REDIRECTS_MAX
        if redirect.reason is not Reason.FULL or not follow:
            self.search.strike(sender, self.root, now_ms)
        if to is not None and follow:
            return moved + self._ask(to, now_ms) + self._schedule(now_ms)
        return moved + self._seek(now_ms) + self._schedule(now_ms)

    def on_drop(self, sender: Contact, drop: Drop, now_ms: int) -> list[Effect]:
        """Our parent gives us to another one; it stays the next best if that one does not take us."""
        effects: list[Effect] = []
        if self.edges.is_parent(sender, drop.epoch):
            self.edges.lose_parent()
            effects.append(ParentDown())
        elif self._is_asked(sender, drop.epoch):
            self.search.asked = None  # the grant comes after its end; it will be given back
        else:
            return []
        self.search.hints = [contact_of(drop.to), sender]
        return effects + self._seek(now_ms) + self._schedule(now_ms)

    # ---- messages on an edge

    def on_heartbeat(self, sender: Contact, beat: Heartbeat, now_ms: int) -> list[Effect]:
        """Renew a lease, and go up to a grandparent that has room; an edge we do not have is answered with Unlink."""
        if self.edges.is_parent(sender, beat.epoch) and climbs(beat, now_ms - self.epoch, self._rng):
            return self._leave_parent(sender, now_ms) + self._schedule(now_ms)
        return self.edges.on_heartbeat(sender, beat, now_ms)

    def on_unlink(self, sender: Contact, unlink: Unlink, now_ms: int) -> list[Effect]:
        """Take note that the peer has no such edge."""
        effects: list[Effect] = []
        if self.edges.is_parent(sender, unlink.epoch):
            effects += self._lose_parent(now_ms)
        elif self._is_asked(sender, unlink.epoch):
            self.search.asked = None
            self.search.strike(sender, self.root, now_ms)
            effects += self._seek(now_ms)
        if self.edges.is_child(sender, unlink.epoch):
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
            self.search.strike(peer, self.root, now_ms)
            effects += self._lose_parent(now_ms)
        elif self.search.asked == peer:
            self.search.asked = None
            self.search.strike(peer, self.root, now_ms)
            effects += self._seek(now_ms)
        return effects + self._schedule(now_ms)

    def on_contacts_changed(self, now_ms: int) -> list[Effect]:
        """A rendezvous root that learns of a closer agent goes under it; a seeker with nobody to ask asks again."""
        if self.role is Role.JOINING and self.search.asked is None and self._candidates(now_ms):
            return self._seek(now_ms) + self._schedule(now_ms)
        if self.role is Role.ROOT and self.root is None and self._candidates(now_ms):
            return self._step_down(now_ms) + self._schedule(now_ms)
        return []

    def on_looked_up(self, contacts: tuple[Contact, ...], now_ms: int) -> list[Effect]:
        """The lookup before a root claim, or a root's regular doubt, is answered."""
        search = self.search
        waiting = search.lookup_until_ms is not None
        search.lookup_until_ms = None
        if self.root is not None or self.role not in (Role.JOINING, Role.ROOT) or search.asked is not None:
            return []
        struck = search.struck(now_ms)
        closer = [contact for contact in contacts if self._rank(contact) < self._rank(self.me)]
        better = [contact for contact in closer if contact.id not in struck]
        effects: list[Effect] = []
        if better:
            effects += [RootChanged(False)] if self.role is Role.ROOT else []
            effects += self._ask(better[0], now_ms)
        elif waiting and closer and search.doubts < DOUBTS_MAX:
            # It answers lookups, so it lives, but no JOIN: a claim now would split the tree, so ask it again first.
            search.doubts += 1
            search.forgive(closer[0])
            search.hints = [closer[0]]
            search.retry_ms = now_ms + search.backoff_ms()
        elif waiting and self.role is Role.JOINING:
            effects += self._become_root(now_ms)
        return effects + self._schedule(now_ms)

    def on_tick(self, now_ms: int, term: int, committed: int) -> list[Effect]:
        """Time passed: heartbeats, leases, JOIN timeouts, retries."""
        effects = self.edges.expire_children(now_ms)
        if self.parent is not None and self.parent.lease_ms <= now_ms:
            self.search.strike(self.parent.peer, self.root, now_ms)
            effects += self._leave_parent(self.parent.peer, now_ms)
        effects += self.edges.beat(term, committed, now_ms)
        if self.role is Role.JOINING:
            effects += self._tick_joining(now_ms)
        if self.role is Role.ROOT and self.root is None and now_ms >= self._recheck_ms:
            self._recheck_ms = now_ms + RECHECK_MS
            effects += self._step_down(now_ms) if self._candidates(now_ms) else [Lookup()]
        return effects + self._tick_idle(now_ms) + self._schedule(now_ms)

    def _tick_joining(self, now_ms: int) -> list[Effect]:
        search = self.search
        if search.asked is not None and now_ms >= search.asked_until_ms:
            silent = search.asked
            search.asked = None
            search.strike(silent, self.root, now_ms)
            return [Suspect(silent), *self._seek(now_ms)]
        if search.lookup_until_ms is not None and now_ms >= search.lookup_until_ms:
            search.lookup_until_ms = None
            return self._seek(now_ms)
        if search.retry_ms is not None and now_ms >= search.retry_ms:
            return self._seek(now_ms)
        return []

    def _tick_idle(self, now_ms: int) -> list[Effect]:
        if self.member or self.children or self.role is Role.OUT or self.root == self.me:
            self._idle_since_ms = None
        elif self._idle_since_ms is None:
            self._idle_since_ms = now_ms
        elif now_ms - self._idle_since_ms >= self._settings.linger_ms:
            return self.depart(now_ms)
        return []

    # ---- views

    def view(self) -> TreeView:
        """Return what this node knows of the tree's shape around it."""
        root = self.me if self.role is Role.ROOT else self.root
        children = tuple(self.children[key].peer for key in sorted(self.children))
        return TreeView(self.role.value, self.member, root, self.parent.peer if self.parent else None, children)

    # ---- seeking a parent

    def _seek(self, now_ms: int) -> list[Effect]:
        """Ask the best candidate; without one look the key up (rendezvous) or come back later."""
        search = self.search
        self.role = Role.JOINING
        search.retry_ms = None
        while search.hints:
            hint = search.hints.pop(0)
            if self._is_legal(hint, now_ms):
                return self._ask(hint, now_ms)
        candidates = self._candidates(now_ms)
        if candidates:
            chosen = first_choice(candidates, self.me, self.app, self._settings.fan_in_max, self._rng)
            return self._ask(chosen, now_ms)
        search.redirects = 0
        if self.root is not None:
            search.retry_ms = search.struck(now_ms).get(self.root.id, now_ms + BACKOFF_MS_MAX)
            return []
        search.lookup_until_ms = now_ms + 10 * self._settings.join_timeout_ms
        return [Lookup()]

    def _candidates(self, now_ms: int) -> list[Contact]:
        """Return whom to ask, best first: closer contacts and the recorded root, also if it failed a while ago."""
        found = with_root(self._view(self.app), self.me, self.app, self.root)
        struck = self.search.struck(now_ms)
        passed = {*struck, *self.shut, self.me.id}
        return [contact for contact in found if contact.id not in passed]

    def _ask(self, to: Contact, now_ms: int) -> list[Effect]:
        # Epochs never repeat, not even over a restart with an empty memory: the clock is their floor.
        self.epoch = max(self.epoch + 1, now_ms)
        self.role = Role.JOINING
        self.search.ask(to, now_ms + self._settings.join_timeout_ms)
        root = self.root.address if self.root is not None else None
        return [Send(to, Join(self.app, self.epoch, root, len(self.children), self.reign))]

    def _is_asked(self, peer: Contact, epoch: int) -> bool:
        return self.role is Role.JOINING and self.search.asked == peer and self.epoch == epoch

    def _is_legal(self, to: Contact, now_ms: int) -> bool:
        """Whether a peer may point us there: it ranks before us and did not fail us lately."""
        is_passed = to.id in self.shut or to.id in self.search.struck(now_ms)
        return self._rank(to) < self._rank(self.me) and not is_passed

    def _rank(self, contact: Contact) -> int:
        return rank(contact, self.app, self.root)

    # ---- changes of our own place

    def _become_root(self, now_ms: int) -> list[Effect]:
        effects: list[Effect] = []
        if self.parent is not None:
            effects += [Send(self.parent.peer, Unlink(self.app, self.epoch)), ParentDown()]
        self.edges.become_root()
        self.role = Role.ROOT
        self._recheck_ms = now_ms + (STRIKE_MS if self.search.struck(now_ms) else RECHECK_MS)
        self.search.end()
        return [*effects, RootChanged(True)]

    def _step_down(self, now_ms: int) -> list[Effect]:
        return [RootChanged(False), *self._seek(now_ms)]

    def _lose_parent(self, now_ms: int) -> list[Effect]:
        """Repair: the grandparent has a free place now, or knows where there is one; then as for a first JOIN."""
        above = self.edges.lose_parent()
        self.search.hints = [above] if above is not None else []
        return [ParentDown(), *self._seek(now_ms)]

    def _leave_parent(self, parent: Contact, now_ms: int) -> list[Effect]:
        return [Send(parent, Unlink(self.app, self.epoch)), *self._lose_parent(now_ms)]

    def _drop_illegal_edges(self, now_ms: int) -> list[Effect]:
        """A new root is recorded: keep only edges that the ranks under it allow (M12)."""
        if self.root is not None:
            self.search.forgive(self.root)  # who sent us away before it was the root takes us in now
        effects: list[Effect] = []
        for edge in list(self.children.values()):
            if self._rank(self.me) > self._rank(edge.peer):
                del self.children[edge.peer.id]
                effects += [Send(edge.peer, Unlink(self.app, edge.epoch)), ChildDown(edge.peer)]
        if self.root == self.me:
            return effects
        parent, asked = self.parent, self.search.asked
        if parent is not None and self._rank(parent.peer) > self._rank(self.me):
            effects += self._leave_parent(parent.peer, now_ms)
        elif self.role is Role.JOINING and (asked is None or self._rank(asked) > self._rank(self.me)):
            self.search.asked = None
            effects += self._seek(now_ms)
        return effects

    # ---- time

    def _schedule(self, now_ms: int) -> list[Effect]:
        """Set when the next tick is due; returns no effects so that callers can chain it."""
        due = [self.edges.beat_ms, *self.search.deadlines()]
        if self.role is Role.ROOT and self.root is None:
            due.append(self._recheck_ms)
        if self._idle_since_ms is not None:
            due.append(self._idle_since_ms + self._settings.linger_ms)
        self.deadline_ms = max(now_ms + 1, min(due))
        return []
