"""What the members of a root group say to each other (Ongaro and Ousterhout, "Raft", USENIX ATC'14).

Members are named by agent id, which dies with an agent's disk: an agent that comes back without its log at an old
address is a stranger, whose vote or acknowledgement would break the promise of its predecessor. OVERLAY 6.5.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import Annotated, TypeAlias

import msgspec

from elf.overlay.decoding import read_msgpack
from elf.overlay.fields import Address, AgentId, AppId, Serial, WireMessage, check_address
from elf.overlay.ids import Contact, parse_address
from elf.overlay.interning import interned

#: Largest part of a command in one entry, and most entries in one message: a few messages of the usual size at most.
PART_BYTES_MAX = 4 << 20
ENTRIES_MAX = 1_024
#: Members of a group, those that only listen included.
MEMBERS_MAX = 16


class Place(msgspec.Struct, frozen=True, array_like=True, order=True):
    """A place in a group's log; of two logs the one whose last place is higher is the more complete one."""

    term: Serial = 0
    index: Serial = 0


class Seat(msgspec.Struct, frozen=True, array_like=True):
    """One member; without a vote it only keeps a copy."""

    agent: AgentId
    address: Address
    votes: bool

    def __post_init__(self) -> None:
        check_address(self.address)

    @property
    def contact(self) -> Contact:
        """Where the member is reached."""
        return Contact.at(*parse_address(self.address))


Seats: TypeAlias = Annotated[tuple[Seat, ...], msgspec.Meta(max_length=MEMBERS_MAX)]


class Kind(enum.IntEnum):
    """What an entry is."""

    #: The runtime's: opaque bytes.
    COMMAND = 0
    #: A part of the runtime's that goes on in the next entry.
    PART = 1
    #: The members from here on, encoded.
    SEATS = 2
    #: The first entry of every term: what earlier terms left undecided is decided by it.
    TERM = 3


class Entry(msgspec.Struct, frozen=True, array_like=True):
    """One entry of the log."""

    place: Place
    kind: Kind
    body: Annotated[bytes, msgspec.Meta(max_length=PART_BYTES_MAX)]


def encode_seats(seats: Sequence[Seat]) -> bytes:
    """Return the body of a `SEATS` entry."""
    return msgspec.msgpack.encode(list(seats))


def decode_seats(body: bytes) -> tuple[Seat, ...]:
    """Read the body of a `SEATS` entry; raises ValueError on anything else."""
    try:
        return tuple(map(interned, read_msgpack(body, Seats)))
    except msgspec.DecodeError as error:
        raise ValueError(f"no list of members: {error}") from None


class GroupVote(WireMessage, frozen=True, tag=30):
    """Ask `to` for its vote in a term; a `trial` asks only whether it would give it."""

    app: AppId
    term: Serial
    candidate: AgentId
    to: AgentId
    last: Place
    trial: bool


class GroupVoted(WireMessage, frozen=True, tag=31):
    """The answer; `term`: the highest that the voter knows."""

    app: AppId
    term: Serial
    voter: AgentId
    granted: bool
    trial: bool


class GroupAppend(WireMessage, frozen=True, tag=32):
    """The leader's entries after a place, none to show that it leads; `decided`: all up to this index are final."""

    app: AppId
    term: Serial
    leader: AgentId
    to: AgentId
    after: Place
    entries: Annotated[tuple[Entry, ...], msgspec.Meta(max_length=ENTRIES_MAX)]
    decided: Serial

    def __post_init__(self) -> None:
        place = self.after
        for entry in self.entries:
            if entry.place.index != place.index + 1 or not place.term <= entry.place.term <= self.term:
                raise ValueError(f"entry {entry.place} cannot follow {place} in term {self.term}")
            place = entry.place
            if entry.kind is Kind.SEATS:
                decode_seats(entry.body)


class GroupAppended(WireMessage, frozen=True, tag=33):
    """Everything through an index is durable at the member; if not `good`, the leader is to begin after that index."""

    app: AppId
    term: Serial
    member: AgentId
    good: bool
    through: Serial


class GroupBehind(WireMessage, frozen=True, tag=34):
    """The leader's log no longer reaches back to what the member needs: it is to fetch a copy of everything."""

    app: AppId
    term: Serial
    leader: AgentId
    to: AgentId


class GroupHandOver(WireMessage, frozen=True, tag=35):
    """The leader wants `to` to lead: it may stand for election at once."""

    app: AppId
    term: Serial
    to: AgentId


class GroupGone(WireMessage, frozen=True, tag=36):
    """`to` is no member any more; it may forget the job's copy."""

    app: AppId
    term: Serial
    to: AgentId


GroupMessage: TypeAlias = GroupVote | GroupVoted | GroupAppend | GroupAppended | GroupBehind | GroupHandOver | GroupGone
