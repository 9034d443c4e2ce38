"""One node's part in one job's roll-up: its own snapshots, its children's claims, and either a barrier or the ledger.

Owns what goes up (claims, announcements) and what comes down (verdicts, statuses) over the edges that
`elf.overlay.tree.machine` keeps. Pure. Not here: durability, which is the runtime's; it may call a snapshot sealed only
when it survives a crash.

How exactness comes about, message by message: a claim (`messages.Claim`) is true for ever and names its agents, so the
root can choose disjoint ones, whatever ways they took; a commit names everyone it does not contain; a member applies
verdicts in order and without gaps. Paper: §2.3. OVERLAY section 6.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

from elf.overlay.contract import NEVER, OverlaySettings, RollupState, Trust, Verdict
from elf.overlay.effects import (
    Audit,
    ChildDown,
    ChildUp,
    EdgeEvent,
    Effect,
    Merge,
    Notify,
    ParentDown,
    ParentUp,
    Persist,
    RootChanged,
    Send,
)
from elf.overlay.errors import NotJoinedError
from elf.overlay.ids import Contact
from elf.overlay.messages import (
    Announce,
    Claim,
    Contribution,
    Heartbeat,
    Presence,
    Retire,
    Settle,
    Status,
    TreeMessage,
    Unlink,
)
from elf.overlay.rollup.audit import Audits, is_merged
from elf.overlay.rollup.barrier import Barrier
from elf.overlay.rollup.below import Below
from elf.overlay.rollup.claims import OTHERS, OWN, Choice
from elf.overlay.rollup.ledger import Ledger
from elf.overlay.rollup.own import OwnSnapshots
from elf.overlay.rollup.settlement import Settlement
from elf.overlay.rollup.words import Words

#: Members that do not hang under a new root have so much longer than orphans to find their way to it.
NEW_ROOT_MS = 500


class Rollup:
    """The roll-up machine; each method returns the effects of one input."""

    __slots__ = (
        "_audits", "_before", "_below", "_children", "_merging", "_own", "_parent", "_rng", "_settings", "_ticket",
        "agent", "app", "barrier", "committed", "leap_after_ms", "ledger", "settlement", "state", "term", "words",
    )  # fmt: skip

    def __init__(
        self,
        app: bytes,
        agent: str,
        settings: OverlaySettings,
        rng: random.Random,
        trust: Trust | None = None,
        audits: Audits | None = None,
    ) -> None:
        self.app = app
        self.agent = agent
        self._settings = settings
        self._rng = rng
        self.leap_after_ms = settings.leap_after_ms
        self.state = RollupState()
        self.committed = NEVER
        #: The commit before the last; as in the ledger.
        self._before = NEVER
        self.term = 0
        self.settlement: Settlement | None = None
        self.ledger: Ledger | None = None
        self.barrier = self._new_barrier()
        self._parent: ParentUp | None = None
        self._children: dict[bytes, ChildUp] = {}
        self._below = Below()
        self._own = OwnSnapshots(agent)
        self.words = Words(app, agent, trust)
        self._audits = audits or Audits(rng, settings.audit)
        self._ticket = 0
        self._merging: int | None = None

    # ---- the runtime

    def set_patience(self, leap_after_ms: int) -> None:
        """Set how long a root waits for silent members; inner nodes wait half as long, so that it hears in time."""
        self.leap_after_ms = leap_after_ms
        self.barrier.patience_ms = leap_after_ms // 2
        if self.ledger is not None:
            self.ledger.leap_after_ms = leap_after_ms

    def enrol(self, now_ms: int) -> list[Effect]:
        """Become a member: snapshots will come."""
        if self.settlement is None:
            self.settlement = Settlement(self.agent)
        return self._speak_up(now_ms)

    def withdraw(self, retire: bool) -> list[Effect]:
        """Cease to be a member; with `retire` the root expects us no more."""
        if self.settlement is None:
            return []
        retirement = Retire(
            self.app,
            self.agent,
            self.settlement.term or 0,
            sealed=self._own.sealed,
            number=self._rng.getrandbits(62) if retire else 0,
        )
        self.settlement = None
        self._own.clear()
        self.barrier.bag.drop(OWN)
        if not retire:
            return []
        if self.ledger is not None:
            self.ledger.retire(self.agent, named=False)
            return []
        return self._up(self.words.leaving(retirement))

    def exclude(self, agent: str, successor: str | None = None) -> int:
        """Never count an agent again (root only); see `Ledger.exclude`."""
        if self.ledger is None:
            raise NotJoinedError("only a job's root can exclude an agent")
        return self.ledger.exclude(agent, successor)

    def retire(self, agent: str) -> int:
        """Expect a member no more (root only); see `Ledger.retire`."""
        if self.ledger is None:
            raise NotJoinedError("only a job's root can retire an agent")
        return self.ledger.retire(agent, named=True)

    def leap(self, through: int | None, now_ms: int) -> tuple[int, tuple[str, ...], list[Effect]]:
        """Wait no longer for members that others are ahead of; see `OverlayNode.leap`."""
        point, silent = self.committed, tuple[str, ...]()
        if self.ledger is not None:
            point, silent = self.ledger.leap(through, now_ms)
        elif through is not None:
            self.barrier.leap(through)
        return point, silent, self._advance(now_ms)

    def seal(self, through: int, payload: bytes | None, now_ms: int) -> tuple[bool, list[Effect]]:
        """Take over a durable snapshot; see `OverlayNode.seal`."""
        if self.settlement is None or through <= self._own.sealed:
            return False, []
        if through <= self.settlement.durable:
            # Counted without us, before its time had come here: whoever gave us up is to wait for us again.
            self._own.sealed = through
            return False, self._announce(now_ms) + self._advance(now_ms)
        self._own.add(self.settlement.durable, through, payload)
        self._own.prune(self.committed)
        return True, self._advance(now_ms)

    def answer_for(self, claim: Claim, now_ms: int) -> list[Effect]:
        """Hand over another member's snapshot on its behalf; see `OverlayNode`."""
        return self._on_claim_of_others(OTHERS, claim, now_ms) + self._advance(now_ms)

    def below(self, child: bytes) -> tuple[str, ...]:
        """Return the members that hang under a child."""
        return tuple(agent for agent in self._below.agents() if self._below.edge_of(agent) == child)

    @property
    def counted_through(self) -> int:
        """The last interval that is committed, or is about to be with what is here now."""
        pending = None if self.ledger is None else self.ledger.pending
        return self.committed if pending is None else pending.choice.through

    @property
    def congested(self) -> bool:
        """Whether so many own snapshots have no verdict that no more should be made."""
        return self._own.congested

    @property
    def deadline_ms(self) -> int | None:
        """When a tick may end a wait; None while nobody is waited for."""
        return self.barrier.deadline_ms if self.ledger is None else self.ledger.deadline_ms

    # ---- edges

    def on_edge(self, event: EdgeEvent, now_ms: int) -> list[Effect]:
        """An edge came up or went down, or we became or ceased to be the root."""
        match event:
            case ParentUp():
                self._parent = event
                again = sorted(self.barrier.kept, key=lambda claim: claim.through)
                effects = [effect for claim in again for effect in self._contribute(claim)]
                present = self._up(Presence(self.app, self._below.agents(), True)) if self._below else []
                return present + self._speak_up(now_ms) + effects + self._advance(now_ms)
            case ParentDown():
                self._parent = None
            case ChildUp(child=child):
                self._children[child.id] = event
                return self._forget_edge(child.id, now_ms)
            case ChildDown(child=child):
                self._children.pop(child.id, None)
                return self._forget_edge(child.id, now_ms) + self._advance(now_ms)
            case RootChanged(is_root=True):
                return self._become_root(now_ms)
            case RootChanged(is_root=False):
                self._cease_root()
        return []

    def _forget_edge(self, edge: bytes, now_ms: int) -> list[Effect]:
        self.barrier.bag.drop(edge)
        if self.ledger is not None:
            self.ledger.bag.drop(edge)
        return self._lose(edge, None, now_ms)

    def _lose(self, edge: bytes, agents: Sequence[str] | None, now_ms: int) -> list[Effect]:
        """Let the root hear that these (or all) members of a child do not hang under us any more."""
        lost = self._below.lose(edge, agents)
        if self.ledger is not None:
            self.ledger.absent(lost, now_ms)
        return self._up(Presence(self.app, lost, False)) if lost else []

    def _become_root(self, now_ms: int) -> list[Effect]:
        known = self.state.committed > NEVER
        grace_ms = 0 if known else self._settings.grace_ms
        term = self._rng.getrandbits(62) or 1
        ledger = Ledger(self.app, self.state, term, leap_after_ms=self.leap_after_ms, grace_until_ms=now_ms + grace_ms)
        inherited = [(edge, claim) for edge, claims in self.barrier.bag.edges.items() for claim in claims]
        inherited += [(OWN, claim) for claim in self.barrier.kept]
        for agent, entry in {**ledger.roster, **ledger.retired}.items():
            self.words.learn(agent, entry.key)
        # Again, for the roster may know keys that were not known here.
        inherited = [
            (edge, believed)
            for edge, claim in inherited
            if (believed := self.words.believed(claim, at_root=True)) is not None
        ]
        for edge, claim in inherited:
            ledger.add(edge, claim)
            if edge in self._children and is_merged(claim):
                self._audits.passes(self.app, edge, claim.through)
        self._audits.passes_all(self.app, ledger.committed)
        # Who fell with the root before us hangs nowhere, and nobody else would notice.
        ledger.absent(set(ledger.roster) - {*self._below.agents(), self.agent}, now_ms + NEW_ROOT_MS)
        self.ledger = ledger
        self.barrier = self._new_barrier()
        self._merging = None
        self.term = term
        self.committed = max(self.committed, ledger.committed)
        self._own.rewind()
        return self._speak_up(now_ms) + self._advance(now_ms)

    def _cease_root(self) -> None:
        if self.ledger is None:
            return
        ledger = self.ledger
        self.ledger = None
        self._merging = None
        self.state = RollupState(ledger.committed, ledger.roster, ledger.retired)
        for edge, claims in ledger.bag.edges.items():
            for claim in claims:
                self.barrier.add(edge, claim)
        self._own.rewind()

    def _new_barrier(self) -> Barrier:
        return Barrier(patience_ms=self.leap_after_ms // 2)

    # ---- messages

    def on_message(self, sender: Contact, message: TreeMessage, now_ms: int) -> list[Effect]:
        """Handle a message of the roll-up; one that does not fit its edge is answered with Unlink or dropped."""
        child = self._children.get(sender.id)
        from_parent = self._parent is not None and self._parent.parent == sender
        match message:
            case Contribution(epoch=epoch, claim=claim):
                if child is None or child.epoch != epoch:
                    return [Send(sender, Unlink(self.app, epoch))]
                return self._on_claim_of_others(sender.id, claim, now_ms) + self._advance(now_ms)
            case Announce(agent=agent) if child is not None:
                if not self.words.hears(message):
                    return []
                self._meet(sender.id, (agent,))
                return self._on_announce(message, sender.id, now_ms) + self._advance(now_ms)
            case Presence(agents=agents, here=True) if child is not None:
                self._meet(sender.id, agents)
                return self._up(message)
            case Presence(agents=agents) if child is not None:
                return self._lose(sender.id, agents, now_ms) + self._advance(now_ms)
            case Retire(agent=agent) if child is not None:
                if self.ledger is not None and not self.words.lets_go(message, self.term):
                    return []
                self._below.lose(sender.id, (agent,))
                if self.ledger is None:
                    return self._up(message)
                self.ledger.retire(agent, named=False)
                return self._advance(now_ms)
            case Status() if from_parent:
                return self._on_status(message, now_ms)
            case Settle() if from_parent:
                return self._on_settle(message, now_ms)
        return []

    def on_heartbeat(self, sender: Contact, beat: Heartbeat, now_ms: int) -> list[Effect]:
        """A heartbeat from our parent says how far the root has come; if a verdict passed us by, ask."""
        if not beat.down or self._parent is None or self._parent.parent != sender or not beat.term:
            return []
        self._learn(beat.term, beat.committed)
        if self.settlement is not None:
            self.settlement.on_hint(beat.term, beat.committed, now_ms)
        return self._tick_announce(now_ms) + self._advance(now_ms)

    def _on_claim_of_others(self, edge: bytes, claim: Claim, now_ms: int) -> list[Effect]:
        """Take of a claim what its agents have said themselves."""
        if claim.through <= self.committed:
            return []
        believed = self.words.believed(claim, at_root=self.ledger is not None)
        if believed is None:
            return []
        return self._audited(edge, believed, now_ms) + self._on_claim(edge, believed)

    def _audited(self, edge: bytes, claim: Claim, now_ms: int) -> list[Effect]:
        """Have a child's merged claim audited, at the root, or keep it for when that asks."""
        child = self._children.get(edge)
        if child is None or not is_merged(claim):
            return []
        if self.ledger is None:
            self._audits.remember(self.app, child.child, claim, now_ms)
            return []
        return [Audit(child.child, claim)] if self._audits.chooses(self.app, edge, claim) else []

    def _on_claim(self, edge: bytes, claim: Claim) -> list[Effect]:
        if claim.through <= self.committed:
            return []
        if self.ledger is not None:
            self.ledger.add(edge, claim)
            return []
        return [effect for early in self.barrier.add(edge, claim) for effect in self._contribute(early)]

    def _meet(self, edge: bytes, agents: Sequence[str]) -> None:
        self._below.meet(edge, agents)
        if self.ledger is not None:
            self.ledger.present(agents)

    def _on_announce(self, announce: Announce, edge: bytes, now_ms: int) -> list[Effect]:
        if self.ledger is None:
            if announce.sealed >= self._before:
                self.barrier.speak(edge)
            return self._up(announce)
        status = self.ledger.on_announce(announce)
        return self._on_status(status, now_ms) if status is not None else []

    def _on_status(self, status: Status, now_ms: int) -> list[Effect]:
        """Bring a status one step nearer to the agent it is for."""
        self._learn(status.term, status.committed)
        if status.agent == self.agent and self.settlement is not None:
            effects = self._notify(self.settlement.on_status(status))
            self._own.prune(self.committed)
            return effects + self._advance(now_ms)
        via = self._children.get(self._below.edge_of(status.agent) or OWN)
        return [Send(via.child, status)] if via is not None else []

    def _on_settle(self, settle: Settle, now_ms: int) -> list[Effect]:
        """Apply a verdict here and multicast it."""
        self._learn(settle.term, settle.through)
        effects: list[Effect] = [Send(edge.child, settle) for edge in self._children.values()]
        if self.settlement is not None:
            effects += self._notify(self.settlement.on_settle(settle, now_ms))
        self._own.prune(self.committed)
        return effects + self._tick_announce(now_ms) + self._advance(now_ms)

    def _learn(self, term: int, committed: int) -> None:
        self.term = term
        if committed > self.committed:
            self._before = self.committed
            self.committed = committed
            self.barrier.settle(committed)

    def _notify(self, verdicts: list[Verdict]) -> list[Effect]:
        return [Notify(verdict) for verdict in verdicts]

    # ---- answers of the shell

    def on_merged(self, ticket: int, payload: bytes | None, bad: tuple[int, ...], now_ms: int) -> list[Effect]:
        """A merge is done; one that a change of role has overtaken is ignored."""
        if ticket != self._merging:
            return []
        self._merging = None
        return self._finish(payload, bad) + self._advance(now_ms)

    def on_committed(self, through: int, now_ms: int) -> list[Effect]:
        """A commit is durable: now, and only now, everyone may hear of it."""
        ledger = self.ledger
        if ledger is None or ledger.pending is None or ledger.pending.commit is None:
            return []
        if ledger.pending.commit.through != through:
            return []
        settle, answers = ledger.durable()
        effects = self._on_settle(settle, now_ms)
        for status in answers:
            effects += self._on_status(status, now_ms)
        return effects + self._advance(now_ms)

    def on_notified(self, through: int, now_ms: int) -> list[Effect]:
        """A verdict is durable at the runtime: acknowledge an absence, so that the root may forget it."""
        if self.settlement is None or not self.settlement.on_durable(through):
            return []
        return self._announce(now_ms)

    def on_tick(self, now_ms: int) -> list[Effect]:
        """Time passed: repeat announcements, end patience."""
        return self._tick_announce(now_ms) + self._advance(now_ms)

    # ---- moving on

    def _advance(self, now_ms: int) -> list[Effect]:
        """Feed own snapshots and merge whatever is complete, until a merge or a commit must be waited for."""
        effects = self._feed()
        while self._merging is None:
            choice = self._next_choice(now_ms)
            if choice is None:
                break
            # The root merges single payloads too: bytes that do not merge must not reach its store.
            if len(choice.payloads) > 1 or (choice.payloads and self.ledger is not None):
                self._ticket += 1
                self._merging = self._ticket
                effects.append(Merge(self._ticket, choice.payloads))
            else:
                effects += self._finish(choice.payloads[0] if choice.payloads else None, ())
        return effects

    def _next_choice(self, now_ms: int) -> Choice | None:
        if self.ledger is not None:
            return self.ledger.step(now_ms)
        if self._parent is None:
            return None
        participants = self._below.edges()
        if self.settlement is not None:
            participants.add(OWN)
        return self.barrier.step(participants, now_ms)

    def _finish(self, payload: bytes | None, bad: tuple[int, ...]) -> list[Effect]:
        if self.ledger is not None:
            return [Persist(self.ledger.merged(payload, bad))]
        claims = self.barrier.merged(payload, bad, self.committed)
        return [effect for claim in claims for effect in self._contribute(claim)]

    def _feed(self) -> list[Effect]:
        """Hand own snapshots to the barrier or the ledger."""
        return [effect for claim in self._own.due() for effect in self._on_claim(OWN, self.words.signed(claim))]

    def _contribute(self, claim: Claim) -> list[Effect]:
        return self._up(Contribution(self.app, self._parent.epoch, claim)) if self._parent is not None else []

    def _up(self, message: TreeMessage) -> list[Effect]:
        return [Send(self._parent.parent, message)] if self._parent is not None else []

    # ---- announcements

    def _speak_up(self, now_ms: int) -> list[Effect]:
        """Ask the root where we stand: on becoming a member and whenever the way to the root has changed."""
        if self.settlement is None:
            return []
        self.settlement.suspect(now_ms)
        return self._tick_announce(now_ms)

    def _tick_announce(self, now_ms: int) -> list[Effect]:
        if self.settlement is None or (self._parent is None and self.ledger is None):
            return []
        return self._announce(now_ms) if self.settlement.announce_due(now_ms) else []

    def _announce(self, now_ms: int) -> list[Effect]:
        assert self.settlement is not None
        announce = Announce(self.app, self.agent, self.settlement.durable, self._own.sealed, self.settlement.fresh)
        return self._on_announce(self.words.announced(announce), OWN, now_ms)
