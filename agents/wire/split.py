"""What agents on one side of a split root group ask each other. Pure.

A side is the agents that reach each other while none of them reaches a majority of a job's root group. OVERLAY 6.5.
"""

from __future__ import annotations

import hashlib
from typing import Annotated

import msgspec

from elf.agents.wire.questions import OfSide
from elf.agents.wire.records import JobRecord
from elf.overlay.decoding import read_msgpack
from elf.overlay.ids import ID_BYTES, Contact, parse_address

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
