"""The combining-tree barrier of an inner node: wait for all participants, merge, forward one claim.

Owns when to forward and what was forwarded; the root's side is `elf.overlay.rollup.ledger`. Pure. The barrier is about
*less traffic*: whatever it lets through early or late, claims stay true and the root counts nobody twice. Hence three
liberties: it gives up on a silent participant after `patience_ms`; a claim that comes after its interval was forwarded
passes through unmerged (M8: what was forwarded is never changed); a new parent gets everything unsettled again. Paper:
§2.3 ("roll up"). OVERLAY 6.2.
"""

from __future__ import annotations

import msgspec

from elf.overlay.contract import MESSAGE_BYTES_MAX, NEVER, PAYLOAD_BYTES_MAX
from elf.overlay.messages import NAMED_BYTES, Claim
from elf.overlay.rollup.claims import Bag, Choice


class Barrier:
    """Claims of the participants of one node, and those it forwarded that are not settled yet."""

    __slots__ = (
        "_given_up", "_leapt", "_waiting_since_ms", "bag", "deadline_ms", "forwarded_through", "kept", "merging",
        "patience_ms",
    )  # fmt: skip

    def __init__(self, patience_ms: int) -> None:
        self.bag = Bag()
        self.forwarded_through = NEVER
        #: Forwarded claims, oldest first: sent again to every new parent until their commit.
        self.kept: list[Claim] = []
        #: The choice whose payloads are being merged; nothing else is forwarded meanwhile, which keeps the order.
        self.merging: Choice | None = None
        self.patience_ms = patience_ms
        #: When `step` may have something to do although nothing was heard; None: only then.
        self.deadline_ms: int | None = None
        self._waiting_since_ms: int | None = None
        #: Up to this interval we wait for nobody who is silent.
        self._leapt = NEVER
        #: Participants that outlasted our patience; they are waited for again once they speak.
        self._given_up: tuple[bytes, ...] = ()

    def add(self, edge: bytes, claim: Claim) -> list[Claim]:
        """File a claim; returns what must go up at once because its interval was forwarded already."""
        self.speak(edge)
        if claim.through <= self.forwarded_through:
            return self._pass(claim)
        early: list[Claim] = []
        if claim.since < self.forwarded_through:
            # The part up to the last forwarded interval is empty by definition, but the root must hear so.
            early = self._pass(Claim(claim.since, self.forwarded_through, claim.agents, None, claim.words))
            claim = msgspec.structs.replace(claim, since=self.forwarded_through)
        self.bag.add(edge, claim)
        return early

    def speak(self, edge: bytes) -> None:
        """Take note that a participant is there: it is waited for (again)."""
        if edge in self._given_up:
            self._given_up = tuple(other for other in self._given_up if other != edge)

    def _pass(self, claim: Claim) -> list[Claim]:
        spoken_for = {
            agent for kept in self.kept if kept.since < claim.through <= kept.through for agent in kept.agents
        }
        if spoken_for.issuperset(claim.agents):
            return []  # the same again, over a new edge
        self.kept.append(claim)
        return [claim]

    def settle(self, through: int) -> None:
        """A commit through this interval is known: everything up to it is obsolete."""
        self.bag.settle(through)
        self.kept = [claim for claim in self.kept if claim.through > through]
        self.forwarded_through = max(self.forwarded_through, through)

    def leap(self, through: int) -> None:
        """Wait for nobody who is silent, up to an interval."""
        self._leapt = max(self._leapt, through)

    def step(self, participants: set[bytes], now_ms: int) -> Choice | None:
        """Return the next choice to merge, if the barrier is complete or patience is at an end."""
        self.deadline_ms = None
        if self.merging is not None:
            return None
        point = self.bag.next_point()
        if point is None:
            self._waiting_since_ms = None
            return None
        behind = {edge for edge in participants.difference(self._given_up) if not self._spoke(edge, point)}
        if behind:
            if self._waiting_since_ms is None:
                self._waiting_since_ms = now_ms
            until_ms = self._waiting_since_ms + self.patience_ms
            if now_ms < until_ms and point > self._leapt:
                self.deadline_ms = until_ms
                return None
            self._given_up += tuple(behind)
        self._waiting_since_ms = None
        choice = self.bag.choose(point)
        self.forwarded_through = point
        self.bag.settle(point)
        self.merging = choice
        return choice

    def _spoke(self, edge: bytes, point: int) -> bool:
        reach = self.bag.reach(edge)
        return reach is not None and reach >= point

    def merged(self, payload: bytes | None, bad: tuple[int, ...], committed: int) -> list[Claim]:
        """The merge is done: return what to forward; nothing if a commit has overtaken it.

        A merge too large for one message goes up in its parts, as if it had not been merged.
        """
        assert self.merging is not None
        choice = self.merging
        self.merging = None
        if choice.through <= committed:
            return []
        since = max(choice.since, committed)
        parts: list[tuple[tuple[str, ...], bytes | None]] = [(choice.agents(bad), payload)]
        if payload is not None and len(payload) > _room(len(parts[0][0])):
            good = [position for position in range(len(choice.payloads)) if position not in bad]
            parts = [(choice.owners[position], choice.payloads[position]) for position in good]
            parts.append((choice.idle, None))
        # What does not merge here goes up as it came, too: the root names it missing at once, or takes it.
        parts += [(choice.owners[position], choice.payloads[position]) for position in bad]
        claims = [
            Claim(since, choice.through, agents, part, choice.words_of(agents)) for agents, part in parts if agents
        ]
        # What overlaps goes up as it came: only the root, which sees all, may leave anyone out.
        claims += [_part(claim, committed, choice.through) for claim in choice.refused]
        self.kept += claims
        return claims


def _part(claim: Claim, committed: int, through: int) -> Claim:
    """Return what a claim says of the uncommitted intervals up to one that it covers."""
    payload = claim.payload if claim.through == through else None
    return Claim(max(claim.since, committed), through, claim.agents, payload, claim.words)


def _room(agents: int) -> int:
    """Return how large the payload of a claim may be that names so many agents."""
    return min(PAYLOAD_BYTES_MAX, MESSAGE_BYTES_MAX - NAMED_BYTES * (agents + 1))
