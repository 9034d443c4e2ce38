"""Claims that wait at a node, by the edge they came over, and the choice of disjoint ones to merge.

Owns no clock and no decision when to merge: `elf.overlay.rollup.barrier` (inner nodes) and `elf.overlay.rollup.ledger`
(root) decide that. Exactness rests on two properties kept here: every claim is true for ever (see `Claim`), and a
choice never names an agent twice, so whichever claims are chosen, no snapshot is counted twice (OVERLAY 6.4, M6 and
M8).

Claims overlap when a subtree moved while they were on their way: two nodes have merged the same agents with others. Of
such claims the choice takes those that together cover most agents, as far as a bounded search finds them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import msgspec

from elf.overlay.messages import Claim, Word

#: The edge under which a node files its own claims; peers are filed under their 20-byte ids.
OWN = b""
#: The one for claims that it makes on behalf of others; nobody waits for it.
OTHERS = b"\0"
#: Exchanges among overlapping claims, and attempts at each: the best choice is a set packing, which has no fast answer.
EXCHANGES_MAX = 16


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
    #: Claims for this interval that name someone not covered, but overlap with those chosen.
    refused: tuple[Claim, ...] = ()
    #: What those covered have said themselves.
    words: Mapping[str, Word] = field(default_factory=dict)

    def words_of(self, agents: Iterable[str]) -> tuple[Word | None, ...]:
        """Return what some of them have said, in this order; nothing if nobody of all has."""
        return tuple(self.words.get(agent) for agent in agents) if self.words else ()

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

    __slots__ = ("edges", "overlaps")

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

    def drop_agent(self, agent: str) -> list[Claim]:
        """Forget, and return, every claim that names an agent."""
        dropped: list[Claim] = []
        for edge, claims in self.edges.items():
            dropped += [claim for claim in claims if agent in claim.agents]
            self.edges[edge] = [claim for claim in claims if agent not in claim.agents]
        return dropped

    def settle(self, through: int) -> None:
        """Forget claims of committed intervals and shorten those that reach beyond them."""
        left = {edge: [claim for claim in claims if claim.through > through] for edge, claims in self.edges.items()}
        # Anew, and without those that have none left: of many jobs most have no claim most of the time.
        self.edges = {edge: [_clip(claim, through) for claim in claims] for edge, claims in left.items() if claims}

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

    def spoken_for(self, through: int, floor: int | None = None) -> set[str]:
        """Return every agent that some claim for this interval names; see `choose` for the floor."""
        return {agent for claim in self._covering(through, floor) for agent in claim.agents}

    def _covering(self, through: int, floor: int | None) -> list[Claim]:
        """Return the claims that speak for an interval, those naming most agents first."""
        covering = [
            (-len(claim.agents), edge, position, claim)
            for edge, claims in self.edges.items()
            for position, claim in enumerate(claims)
            if claim.since < through <= claim.through and (floor is None or claim.since <= floor)
        ]
        return [claim for *_, claim in sorted(covering, key=lambda entry: entry[:3])]

    def choose(self, through: int, floor: int | None = None) -> Choice:
        """Choose disjoint claims for one interval that cover as many agents as we can find; count refusals.

        With a `floor` a claim counts only if it speaks for everything above it: the root's verdict covers the whole
        run since its last commit, so a claim that begins later would settle snapshots it does not contain.
        """
        covering = self._covering(through, floor)
        chosen = _disjoint(covering)
        named = {agent for claim in chosen for agent in claim.agents}
        refused = tuple(claim for claim in covering if not named.issuperset(claim.agents))
        self.overlaps += len(refused)
        data = [claim for claim in chosen if claim.through == through and claim.payload is not None]
        with_data = {agent for claim in data for agent in claim.agents}
        return Choice(
            through,
            max((claim.since for claim in chosen), default=through - 1),
            tuple(claim.payload for claim in data if claim.payload is not None),
            tuple(claim.agents for claim in data),
            tuple(sorted(named - with_data)),
            refused,
            {agent: word for claim in chosen for agent, word in claim.spoken()},
        )


def _disjoint(claims: Sequence[Claim]) -> list[Claim]:
    """Choose disjoint claims that cover many agents.

    Greedy in the order given; then, while someone is left out, exchange chosen claims for a refused one that they
    overlap with, if that covers more. Each exchange covers at least one more, so the search ends; bounds keep it short.
    """
    times = Counter(agent for claim in claims for agent in claim.agents)
    contested = [claim for claim in claims if any(times[agent] > 1 for agent in claim.agents)]
    if not contested:
        return list(claims)
    best, covered = _fill([], contested)
    for _ in range(EXCHANGES_MAX):
        refused = [claim for claim in contested if not covered.issuperset(claim.agents)][:EXCHANGES_MAX]
        trials = (_fill([claim, *_apart(best, claim)], contested) for claim in refused)
        better = next((trial for trial in trials if len(trial[1]) > len(covered)), None)
        if better is None:
            break
        best, covered = better
    return [claim for claim in claims if all(times[agent] == 1 for agent in claim.agents)] + best


def _apart(claims: Sequence[Claim], other: Claim) -> list[Claim]:
    agents = set(other.agents)
    return [claim for claim in claims if agents.isdisjoint(claim.agents)]


def _fill(chosen: Sequence[Claim], claims: Sequence[Claim]) -> tuple[list[Claim], set[str]]:
    """Add to disjoint claims whatever still fits, in order; returns them and the agents they name."""
    filled = list(chosen)
    named = {agent for claim in filled for agent in claim.agents}
    for claim in claims:
        if named.isdisjoint(claim.agents):
            filled.append(claim)
            named.update(claim.agents)
    return filled, named


def _clip(claim: Claim, since: int) -> Claim:
    return claim if claim.since >= since else msgspec.structs.replace(claim, since=since)
