"""Every message that travels on a link between two agents, as validated records.

Owns the vocabulary and its limits; framing, compression and checksums are `elf.overlay.links.wire`'s. Any bytes decode
to a message or raise `DecodeError`. Senders are not named in messages: a link knows who is at its other end. OVERLAY
sections 4 (tree) and 6 (roll-up).
"""

from __future__ import annotations

import enum
from collections.abc import Iterator
from typing import Annotated, TypeAlias

import msgspec

from elf.overlay.contract import (
    CONTROL_ENTRIES_MAX,
    MESSAGE_BYTES_MAX,
    PAYLOAD_BYTES_MAX,
    Absence,
    LogEntry,
    Mark,
    Record,
)
from elf.overlay.errors import DecodeError
from elf.overlay.fields import SERIAL_MAX, Address, AgentId, AppId, Interval, Serial, WireMessage, check_address
from elf.overlay.group.messages import GroupMessage
from elf.overlay.ids import Contact, parse_address
from elf.overlay.keys import KEY_BYTES, SIGNATURE_BYTES

#: Largest body of a record; job definitions are a few KiB.
RECORD_BYTES_MAX = 256 << 10
#: Longest key of a record, in characters.
KEY_LENGTH_MAX = 256
#: Of a digest of a snapshot.
DIGEST_BYTES = 16
#: What naming an agent adds to a claim, with its word, if its id is of the usual length.
NAMED_BYTES = 128
#: Hops a request may take; greedy routing needs about log2(N)/4, so 32 only stops loops of broken peers.
HOPS_MAX = 32

Count: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=1 << 20)]
Agents: TypeAlias = Annotated[tuple[AgentId, ...], msgspec.Meta(max_length=1 << 20)]
Key: TypeAlias = Annotated[str, msgspec.Meta(min_length=1, max_length=KEY_LENGTH_MAX)]
Path: TypeAlias = Annotated[tuple[Address, ...], msgspec.Meta(max_length=HOPS_MAX)]


def contact_of(address: str) -> Contact:
    """Return the contact at an address that passed validation."""
    return Contact.at(*parse_address(address))


class Join(WireMessage, frozen=True, tag=1):
    """Ask to become a child.

    `root`: the recorded master the sender knows, None for a rendezvous tree. `load`: how many children it brings.
    `reign`: of two recorded masters that of the higher reign is the later one.
    """

    app: AppId
    epoch: Serial
    root: Address | None
    load: Count = 0
    reign: Serial = 0

    def __post_init__(self) -> None:
        check_address(self.root)


class Accept(WireMessage, frozen=True, tag=2):
    """The edge of that epoch is up; the sender is the parent. `grandparent`: whom to ask first when it is gone."""

    app: AppId
    epoch: Serial
    grandparent: Address | None = None

    def __post_init__(self) -> None:
        check_address(self.grandparent)


class Reason(enum.IntEnum):
    """Why a JOIN was not granted."""

    #: The sender has as many children as it may; `to` is the one of them that is to take the joiner.
    FULL = 0
    #: The sender is not closer to the key than the joiner; `to` may be.
    NOT_MINE = 1
    #: The sender knows another recorded master than the joiner.
    ROOT_IS = 2


class Redirect(WireMessage, frozen=True, tag=3):
    """Not here: try `to`; None says "nowhere I know, come back later". `reign`: of `to`, if that is another master."""

    app: AppId
    epoch: Serial
    to: Address | None
    reason: Reason = Reason.NOT_MINE
    reign: Serial = 0

    def __post_init__(self) -> None:
        check_address(self.to)


class Heartbeat(WireMessage, frozen=True, tag=4):
    """Both ends still agree on the edge. `load`: children of the sender.

    `down`: from parent to child, then with the root's term, the last commit known, the child's grandparent, and whether
    that has `room` for the child.
    """

    app: AppId
    epoch: Serial
    down: bool
    term: Serial
    committed: Interval
    load: Count = 0
    grandparent: Address | None = None
    room: bool = False

    def __post_init__(self) -> None:
        check_address(self.grandparent)


class Unlink(WireMessage, frozen=True, tag=5):
    """There is no such edge between us (any more): a good-bye, or the answer to a message that assumed one."""

    app: AppId
    epoch: Serial


class Drop(WireMessage, frozen=True, tag=16):
    """The parent gives its child away: the edge of that epoch is gone, and `to` is to take the child."""

    app: AppId
    epoch: Serial
    to: Address

    def __post_init__(self) -> None:
        check_address(self.to)


class RecordMark(msgspec.Struct, frozen=True, array_like=True):
    """Which record of a key a node holds, without its body."""

    key: Key
    version: Serial
    digest: Annotated[bytes, msgspec.Meta(min_length=16, max_length=16)]


class Digest(WireMessage, frozen=True, tag=6):
    """All records the sender holds; the receiver answers with those the sender lacks.

    `mutual`: and with its own digest, if it lacks some itself.
    """

    app: AppId
    marks: Annotated[tuple[RecordMark, ...], msgspec.Meta(max_length=1 << 16)]
    mutual: bool


class Compare(WireMessage, frozen=True, tag=23):
    """A number over all records the sender holds; a receiver with another number answers with a mutual `Digest`."""

    app: AppId
    summary: Annotated[bytes, msgspec.Meta(min_length=16, max_length=16)]


class Records(WireMessage, frozen=True, tag=7):
    """Control records to apply and to flood on."""

    app: AppId
    records: Annotated[tuple[Record, ...], msgspec.Meta(max_length=1 << 16)]


class Word(msgspec.Struct, frozen=True, array_like=True):
    """What an agent has signed of its snapshots with since < interval <= through: there is data at `through` only.

    `digest`: of that data; empty for none. The agent is named beside it. `rollup.words` says what is signed.
    """

    since: Interval
    through: Interval
    digest: Annotated[bytes, msgspec.Meta(max_length=DIGEST_BYTES)]
    signature: Annotated[bytes, msgspec.Meta(min_length=SIGNATURE_BYTES, max_length=SIGNATURE_BYTES)]


class Claim(msgspec.Struct, frozen=True, array_like=True):
    """What a subtree says about its agents' snapshots with since < interval <= through.

    For every agent named: there is data at `through` only, and all of it is in `payload` (None: no data at all).
    Claims stay true for ever, because snapshots are durable and immutable before they are first sent. `words`: what the
    agents have said themselves, in the same order, each of a run that this one is a part of; None of one of a release
    without keys, and nothing at all if all are.
    """

    since: Interval
    through: Interval
    agents: Agents
    payload: Annotated[bytes, msgspec.Meta(max_length=PAYLOAD_BYTES_MAX)] | None
    words: Annotated[tuple[Word | None, ...], msgspec.Meta(max_length=1 << 20)] = ()

    def spoken(self) -> Iterator[tuple[str, Word]]:
        """Yield the agents that have spoken themselves, and what they have said."""
        for agent, word in zip(self.agents, self.words, strict=False):
            if word is not None:
                yield agent, word

    def __post_init__(self) -> None:
        if self.words and len(self.words) != len(self.agents):
            raise ValueError(f"{len(self.words)} words of {len(self.agents)} agents")
        if self.since >= self.through:
            raise ValueError(f"since = {self.since} must be below through = {self.through}")
        if not self.agents or len(set(self.agents)) != len(self.agents):
            raise ValueError("agents must be named, each once")


class Contribution(WireMessage, frozen=True, tag=8):
    """One claim on its way up the edge of that epoch."""

    app: AppId
    epoch: Serial
    claim: Claim


class Announce(WireMessage, frozen=True, tag=9):
    """A member tells the root that it exists, how far its verdicts are durable and how far it has sealed.

    `fresh`: for the first time since its start. `key`: its public one, `signature`: of the rest; empty from releases
    without keys.
    """

    app: AppId
    agent: AgentId
    settled: Interval
    sealed: Interval
    fresh: bool
    key: Annotated[bytes, msgspec.Meta(max_length=KEY_BYTES)] = b""
    signature: Annotated[bytes, msgspec.Meta(max_length=SIGNATURE_BYTES)] = b""


class Status(WireMessage, frozen=True, tag=10):
    """The root's answer to `Announce`: all commits through `committed` counted the agent, but for these runs."""

    app: AppId
    agent: AgentId
    term: Serial
    committed: Interval
    absences: Annotated[tuple[Absence, ...], msgspec.Meta(max_length=1 << 16)]


class Settle(WireMessage, frozen=True, tag=11):
    """A commit's verdict, multicast: previous < interval <= through counted everyone on the roster but the missing.

    `retired`: agents that no later verdict is about, unless they announce themselves again.
    """

    app: AppId
    term: Serial
    previous: Interval
    through: Interval
    missing: Agents
    retired: Agents = ()


class Retire(WireMessage, frozen=True, tag=12):
    """A member leaves for good; it says so to the root of a term, signed.

    `sealed`: how far it has. `number`: random, so that no good-bye of one that comes and goes is like another.
    """

    app: AppId
    agent: AgentId
    term: Serial = 0
    signature: Annotated[bytes, msgspec.Meta(max_length=SIGNATURE_BYTES)] = b""
    sealed: Interval = -SERIAL_MAX
    number: Serial = 0


class Presence(WireMessage, frozen=True, tag=17):
    """These members hang under the sender (`here`), or do so no longer: whether the root should wait for them."""

    app: AppId
    agents: Annotated[Agents, msgspec.Meta(min_length=1)]
    here: bool


class Request(WireMessage, frozen=True, tag=13):
    """A question on its way to a key. `direct`: for the receiver alone. `path`: hops so far, receiver included."""

    id: Annotated[bytes, msgspec.Meta(min_length=8, max_length=8)]
    key: AppId
    body: Annotated[bytes, msgspec.Meta(max_length=PAYLOAD_BYTES_MAX)]
    path: Path
    direct: bool
    timeout_ms: Annotated[int, msgspec.Meta(ge=1, le=600_000)]


class Reply(WireMessage, frozen=True, tag=14):
    """The answer to a `Request`, back along the same links.

    `status`: 0 found, 1 not found, 2 unreachable; 3 is no answer yet, but a sign that one is being worked on.
    """

    id: Annotated[bytes, msgspec.Meta(min_length=8, max_length=8)]
    status: Annotated[int, msgspec.Meta(ge=0, le=3)]
    body: Annotated[bytes, msgspec.Meta(max_length=PAYLOAD_BYTES_MAX)]
    path: Path


class ControlAsk(WireMessage, frozen=True, tag=20):
    """A child wants the control entries after this mark, and all later ones as they come; once per edge."""

    app: AppId
    epoch: Serial
    after: Mark


class ControlSeen(WireMessage, frozen=True, tag=21):
    """Some agent in the sender's subtree has handled an entry that the sender does not know."""

    app: AppId
    epoch: Serial
    mark: Mark


class ControlEntries(WireMessage, frozen=True, tag=22):
    """A run of the control log, down the edge of that epoch; `after` is the entry before the first."""

    app: AppId
    epoch: Serial
    after: Mark
    entries: Annotated[tuple[LogEntry, ...], msgspec.Meta(min_length=1, max_length=CONTROL_ENTRIES_MAX)]

    def __post_init__(self) -> None:
        previous = self.after
        for entry in self.entries:
            if entry.mark.position != previous.position + 1 or entry.mark.term < max(previous.term, 1):
                raise ValueError(f"entry {entry.mark} cannot follow {previous}")
            previous = entry.mark


_EdgeMessage: TypeAlias = Join | Accept | Redirect | Heartbeat | Unlink | Drop
_RollupMessage: TypeAlias = Contribution | Announce | Status | Settle | Retire | Presence
ControlMessage: TypeAlias = ControlAsk | ControlSeen | ControlEntries
FloodMessage: TypeAlias = Compare | Digest | Records
TreeMessage: TypeAlias = _EdgeMessage | _RollupMessage | ControlMessage | FloodMessage
Message: TypeAlias = TreeMessage | GroupMessage | Request | Reply

_encoder = msgspec.msgpack.Encoder()
_decoder: msgspec.msgpack.Decoder[Message] = msgspec.msgpack.Decoder(Message)


def encode(message: Message) -> bytes:
    """Return the bytes of a message."""
    return _encoder.encode(message)


def decode(data: bytes | memoryview) -> Message:
    """Read a message.

    Raises:
        DecodeError: the bytes are none; the peer is at fault.
    """
    if len(data) > MESSAGE_BYTES_MAX:
        raise DecodeError(f"a message of {len(data)} bytes is over the limit of {MESSAGE_BYTES_MAX}")
    try:
        message = _decoder.decode(data)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise DecodeError(f"not a message: {error}") from error
    if isinstance(message, Records):
        for record in message.records:
            fault = record_fault(record)
            if fault is not None:
                raise DecodeError(fault)
    return message


def record_fault(record: Record) -> str | None:
    """Return what no peer would accept about a record, as a sentence; None for a sound one."""
    if not 1 <= len(record.key) <= KEY_LENGTH_MAX or not 0 <= record.version <= SERIAL_MAX:
        return f"record {record.key[:32]!r} has an illegal key or version {record.version}"
    if len(record.body) > RECORD_BYTES_MAX:
        return f"record {record.key!r} has {len(record.body)} bytes, over {RECORD_BYTES_MAX}"
    return None
