"""Claims that wait at a node, by the edge they came over, and the choice of disjoint ones to merge.

Owns no clock and no decision when to merge: `overlay.barrier` (inner nodes) and `overlay.ledger` (root) decide that.
Exactness rests on two properties kept here: every claim is true for ever (see `Claim`), and a choice never names an
agent twice, so whichever claims are chosen, no snapshot is counted twice (OVERLAY 6.4, M6 and M8).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import msgspec

from overlay.messages import Claim

#: The edge under which a node files its own claims; peers are filed under their 20-byte ids.
OWN = b""


@dataclass(frozen=True, slots=True)
class Choice:
    """Disjoint claims that cover one interval: those with data exactly there, and all agents covered."""

    through: int
    since: int
    payloads: tuple[bytes, ...]
    #: For each payload, the agents it speaks for.
    owners: tuple[tuple[str, ...], ...]
    #: Agents covered without data.
    idle: tuple[str, ...]

    def agents(self, bad: Iterable[int] = ()) -> tuple[str, ...]:
        """Return all agents covered, sorted, leaving out the owners of payloads that turned out bad."""
        left_out = set(bad)
        named = set(self.idle)
        for position, owners in enumerate(self.owners):
            if position not in left_out:
                named.update(owners)
        return tuple(sorted(named))


class Bag:
    """Uncommitted claims by edge, each list ascending by `through`."""

    def __init__(self) -> None:
        self.edges: dict[bytes, list[Claim]] = {}
        self.overlaps = 0

    def add(self, edge: bytes, claim: Claim) -> None:
        """File a claim; the same agents and interval over the same edge replace each other (set, never added)."""
        claims = self.edges.setdefault(edge, [])
        claims[:] = [held for held in claims if (held.through, held.agents) != (claim.through, claim.agents)]
        claims.append(claim)
        claims.sort(key=lambda held: held.through)

    def drop(self, edge: bytes) -> None:
        """Forget everything that came over an edge; its children send it again wherever they go."""
        self.edges.pop(edge, None)

    def drop_agent(self, agent: str) -> None:
        """Forget every claim that names an agent; the others it names must claim again."""
        for edge, claims in self.edges.items():
            self.edges[edge] = [claim for claim in claims if agent not in claim.agents]

    def settle(self, through: int) -> None:
        """Forget claims of committed intervals and shorten those that reach beyond them."""
        for edge, claims in self.edges.items():
            self.edges[edge] = [_clip(claim, through) for claim in claims if claim.through > through]

    def next_point(self) -> int | None:
        """Return the earliest interval at which a claim ends; None when empty."""
        return min((claims[0].through for claims in self.edges.values() if claims), default=None)

    def reach(self, edge: bytes) -> int | None:
        """Return how far an edge has spoken, as far as we still hold it."""
        claims = self.edges.get(edge)
        return claims[-1].through if claims else None

    def agents(self) -> set[str]:
        """Return every agent that some claim names."""
        return {agent for claims in self.edges.values() for claim in claims for agent in claim.agents}

    def choose(self, through: int, floor: int | None = None) -> Choice:
        """Choose disjoint claims that cover an interval, those naming most agents first; count refusals.

        With a `floor` a claim counts only if it speaks for everything above it: the root's verdict covers the whole
        run since its last commit, so a claim that begins later would settle snapshots it does not contain.
        """
        covering = [
            (-len(claim.agents), edge, position, claim)
            for edge, claims in self.edges.items()
            for position, claim in enumerate(claims)
            if claim.since < through <= claim.through and (floor is None or claim.since <= floor)
        ]
        named: set[str] = set()
        since = None
        payloads: list[bytes] = []
        owners: list[tuple[str, ...]] = []
        idle: list[str] = []
        for _, _, _, claim in sorted(covering, key=lambda entry: entry[:3]):
            if not named.isdisjoint(claim.agents):
                self.overlaps += not named.issuperset(claim.agents)
                continue
            named.update(claim.agents)
            since = claim.since if since is None else max(since, claim.since)
            if claim.through == through and claim.payload is not None:
                payloads.append(claim.payload)
                owners.append(claim.agents)
            else:
                idle.extend(claim.agents)
        begin = through - 1 if since is None else since
        return Choice(through, begin, tuple(payloads), tuple(owners), tuple(sorted(idle)))


def _clip(claim: Claim, since: int) -> Claim:
    return claim if claim.since >= since else msgspec.structs.replace(claim, since=since)
