"""Which members hang under a node, and by way of which child.

Owns the map by which statuses find their agents, the barrier knows whom to wait for, and a lost child is known to take
everybody below it along. Pure. Children say what they like: a name stands under the child that named it last.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

#: Most members whose way is remembered, whatever children say; for others nobody waits.
BELOW_MAX = 1 << 20


class Below:
    """Members by the edge to the child that they hang under."""

    __slots__ = ("_via",)

    def __init__(self) -> None:
        self._via: dict[str, bytes] = {}

    def __bool__(self) -> bool:
        return bool(self._via)

    def agents(self) -> tuple[str, ...]:
        """Return all members below, sorted."""
        return tuple(sorted(self._via))

    def edges(self) -> set[bytes]:
        """Return the children with members below them."""
        return set(self._via.values())

    def edge_of(self, agent: str) -> bytes | None:
        """Return the child by which a member is reached; None for one that is not below us."""
        return self._via.get(agent)

    def meet(self, edge: bytes, agents: Sequence[str]) -> None:
        """Take note that a child has these members below it, or is one."""
        if len(self._via) + len(agents) <= BELOW_MAX:
            self._via.update(dict.fromkeys(agents, edge))

    def lose(self, edge: bytes, agents: Iterable[str] | None = None) -> tuple[str, ...]:
        """Forget these (or all) members of a child, sorted; those that have come back by another way stay. O(below)."""
        named = self._via if agents is None else agents
        lost = tuple(sorted(agent for agent in named if self._via.get(agent) == edge))
        for agent in lost:
            del self._via[agent]
        return lost
