"""What agents on one side of a split root group ask each other, and which of them answers for the side. Pure.

A side is the agents that reach each other while none of them reaches a majority of a job's root group. OVERLAY 6.5.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Annotated, NamedTuple

import msgspec

from elf.agents.wire.questions import OfSide
from elf.agents.wire.records import JobRecord
from elf.overlay.decoding import read_msgpack
from elf.overlay.ids import ID_BYTES, Contact, distance, parse_address

Key = Annotated[bytes, msgspec.Meta(min_length=ID_BYTES, max_length=ID_BYTES)]
#: Bytes of a job's tree that its sides' trees share: as many as decide who is near (`JobRecord.tree`).
SHARED_BYTES = 12
#: The key of the record, in a side's tree, that names the job's own tree; forwarders merge payloads of it.
SIDE_KEY = "side"


class _Question(msgspec.Struct, frozen=True, tag_field="of"):
    """The base of all questions."""


class AskStand(_Question, frozen=True, tag="stand"):
    """Tell where you stand in a job's root group; asked of its members. The answer is a `Stand`."""

    tree: Key


class Partake(_Question, frozen=True, tag="partake"):
    """Hand your snapshots of a job to a provisional master, too, for as long as it asks for them again and again.

    The answer is how far the job's own verdicts are known; None if the agent has nothing for it.
    """

    #: The job's own tree and that of the side.
    tree: Key
    side: Key
    root: str

    def __post_init__(self) -> None:
        parse_address(self.root)
        if self.side == self.tree or self.side[:SHARED_BYTES] != self.tree[:SHARED_BYTES]:
            raise ValueError("the tree of a side is named after another job")


class Seek(_Question, frozen=True, tag="seek"):
    """Name the provisional master of a job, if there is one as far as you know. The answer is an address or None."""

    app: Key


Question = AskStand | Partake | Seek


class Stand(msgspec.Struct, frozen=True):
    """Where a member stands: whom it knows as leader, whether it is a provisional master, how far its copy has come."""

    leader: str
    holds: bool
    term: int
    index: int


class Candidate(NamedTuple):
    """A member and where it stands."""

    agent: str
    contact: Contact
    stand: Stand


def encode_question(question: Question) -> OfSide:
    """Return a question as a request."""
    return OfSide(msgspec.msgpack.encode(question))


def decode_question(body: bytes) -> Question:
    """Decode a question; raises msgspec.DecodeError (ValidationError among them) on anything else."""
    question: Question = read_msgpack(body, Question)
    return question


def side_tree(job: JobRecord, root: Contact, began_ms: int) -> bytes:
    """Return the key of a side's tree: near the same agents as the job's own, and never used again."""
    unique = f"{job.instance} {root.address} {began_ms}".encode()
    return job.tree[:SHARED_BYTES] + hashlib.sha1(unique).digest()[: ID_BYTES - SHARED_BYTES]


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
