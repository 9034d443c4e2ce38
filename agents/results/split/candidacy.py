"""Which member of a root group answers for a side of it that has no leader: who becomes, and stays, provisional. Pure.

Every member that reaches others decides for itself, from where they stand; the better one stays. OVERLAY 6.5.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from elf.agents.wire.split import Stand
from elf.overlay.ids import Contact, distance


class Candidate(NamedTuple):
    """A member and where it stands."""

    agent: str
    contact: Contact
    stand: Stand


def may_hold(key: bytes, me: Candidate, others: Iterable[Candidate]) -> bool:
    """Tell whether a member without a leader becomes its side's provisional master.

    It is the one whose copy has come farthest, and of these the nearest to the key. One that holds already stays.

    Args:
        key: the job's tree.
        me: the member.
        others: the members that it reaches.
    """
    return all(
        not _is_led(other, me) and not other.stand.holds and _rank(key, me) < _rank(key, other) for other in others
    )


def must_yield(key: bytes, me: Candidate, others: Iterable[Candidate]) -> bool:
    """Tell whether a provisional master ends because it reaches one that has a leader, or a better one like it."""
    return any(_is_led(other, me) or (other.stand.holds and _rank(key, other) < _rank(key, me)) for other in others)


def _is_led(other: Candidate, me: Candidate) -> bool:
    """Whether a member has a leader; it may still take us for one, who have lost our majority."""
    return other.stand.leader not in ("", me.agent)


def _rank(key: bytes, member: Candidate) -> tuple[int, int, int]:
    return -member.stand.term, -member.stand.index, distance(member.contact.id, key)
