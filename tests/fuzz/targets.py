"""Every decoder that takes bytes from outside, with real frames for it and the one family of errors it may raise.

A target's `feed` gets damaged bytes and hands them to the decoder as a peer could: also behind a valid checksum, tag or
compression, so that damage reaches what lies behind those. What comes out must be as if it had never been damaged:
whatever decodes also survives another trip over the wire.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import lz4.block
import lz4.frame
import msgspec

from elf.agents.errors import ElfError
from elf.agents.jobs.definition import Definition
from elf.agents.jobs.orders import Order, What, digest_of
from elf.agents.jobs.versions import Version, Versions
from elf.agents.master.commands import Command, decode_command, encode_command
from elf.agents.master.state import MasterState
from elf.agents.master.version_uptake import NEVER_YET, begun, with_since
from elf.agents.wire import replies, request
from elf.agents.wire.catalogue import Catalogue, job_record, member_record
from elf.agents.wire.purges import purge_record
from elf.agents.wire.records import JobRecord, Member
from elf.agents.worker import payload
from elf.agents.worker.paos import decode_open, encode_open
from elf.cbt import PaoDecodeError
from elf.cbt import decode as decode_block
from elf.cbt.placed import MARK, Placing, decode_placed, encode_placed
from elf.overlay import messages
from elf.overlay.contract import LogEntry, Mark, Record
from elf.overlay.decoding import read_msgpack
from elf.overlay.dht import messages as dht_messages
from elf.overlay.dht import state
from elf.overlay.dht.auth import KEY_BYTES, PLAIN, Gate, Secret
from elf.overlay.dht.hints import Hints
from elf.overlay.dht.messages import DATAGRAM_BYTES_MAX
from elf.overlay.dht.pace import DhtTimes
from elf.overlay.dht.protocol import DhtProtocol
from elf.overlay.dht.table import Table
from elf.overlay.errors import RemoteProtocolError
from elf.overlay.ids import Contact
from elf.overlay.links import former, handshake, wire
from elf.overlay.links.channel import Channel, ChannelSettings
from elf.overlay.links.handshake import Hello
from elf.overlay.links.offer import Offer
from elf.overlay.sim.loop import SimLoop
from tests.fuzz import groups, lines
from tests.fuzz.examples import draw, kinds
from tests.fuzz.machines import play, sequences
from tests.fuzz.mutations import mutate
from tests.fuzz.pao_examples import (
    CHANGED,
    NUMBERS,
    PLAN,
    SCHEMA,
    blocks,
    bodies,
    changed_payloads,
    definitions,
    open_blocks,
    payloads,
    placed_bodies,
)

SECRET = Secret([b"k" * KEY_BYTES])
NOW_MS = 1_700_000_000_000
HERE, THERE = Contact.at("10.0.0.1", 4250), Contact.at("10.0.0.2", 4250)
#: Samples drawn of each kind of message.
EACH = 6


@dataclass(frozen=True, eq=False)
class Target:
    """One decoder, or one way to it."""

    name: str
    feed: Callable[[bytes], object]
    samples: Sequence[bytes]
    #: What the decoder may raise; nothing, if empty.
    errors: tuple[type[Exception], ...]
    #: How often it is fuzzed compared with the others: the slow ones less, since each input costs as much as a hundred.
    weight: float = 1.0
    #: How samples are damaged.
    damage: Callable[[Sequence[bytes], random.Random], bytes] = mutate


def targets() -> list[Target]:
    """Return all targets, the same in every run."""
    rng = random.Random(20)
    return [*_dht_targets(rng), *_link_targets(rng), *_agent_targets(rng), *_line_targets()]


# ---- the DHT


def _dht_targets(rng: random.Random) -> list[Target]:
    drawn = [_dht_example(kind, rng) for kind in kinds(dht_messages.Message) for _ in range(EACH)]
    samples = [dht_messages.encode(message) for message in drawn]
    mate = Gate(SECRET, THERE.address)
    sealed = [mate.seal(body, HERE.address, NOW_MS) for body in samples]
    protocol, keyed = _protocol(None), _protocol(SECRET)
    contacts = [Contact.at(f"10.0.0.{index}", 4250) for index in range(1, 6)] + [Contact.at("2001:db8::1", 4250)]

    def again(body: bytes) -> None:
        message = dht_messages.decode(body)
        assert dht_messages.decode(dht_messages.encode(message)) == message

    def open_strange(datagram: bytes) -> None:
        # Nobody but `seal` finds a tag; the samples themselves do not come through twice.
        assert keyed_gate.open(datagram, NOW_MS) is None or datagram in sealed

    keyed_gate = Gate(SECRET, HERE.address)
    return [
        Target("dht message", again, samples, (RemoteProtocolError,)),
        Target("sealed datagram", open_strange, sealed, ()),
        Target("datagram, no secret", partial(_datagram, protocol, PLAIN), samples, ()),
        Target("datagram, bad tag", partial(_datagram, keyed, b""), sealed, ()),
        Target("datagram, good tag", partial(_sealed_datagram, keyed, mate), samples, (), 0.5),
        Target("contacts file", state.decode, [state.encode(contacts), state.encode([])], (ValueError,)),
    ]


def _dht_example(kind: type[dht_messages.Message], rng: random.Random) -> dht_messages.Message:
    addresses = [dht_messages.pack(Contact.at(host, 4250)) for host in ("10.0.0.2", "10.9.8.7", "2001:db8::7")]
    message = draw(kind, rng)
    if isinstance(message, dht_messages.Found):
        found = tuple(rng.choice(addresses) for _ in range(rng.randrange(21)))
        message = msgspec.structs.replace(message, addresses=found)
    replaced: dht_messages.Message = msgspec.structs.replace(message, sender=rng.choice(addresses))
    return replaced


class _Silence(asyncio.DatagramTransport):
    """A socket whose datagrams go nowhere."""

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return (HERE.host, HERE.port)

    def is_closing(self) -> bool:
        return False

    def sendto(self, data: Any, addr: Any = None) -> None:
        assert len(data) <= DATAGRAM_BYTES_MAX


def _protocol(secret: Secret | None) -> DhtProtocol:
    """Return the datagram side of an agent that has asked somebody something."""
    loop = SimLoop(1)

    async def make() -> DhtProtocol:
        protocol = DhtProtocol(
            HERE,
            Table(HERE),
            Hints(HERE.id),
            gate=Gate(secret, HERE.address),
            rng=random.Random(1),
            clock=lambda: NOW_MS,
            on_change=lambda: None,
            times=DhtTimes(request_ms=1_000, hedge_ms=200),
        )
        protocol.connection_made(_Silence())
        for kind in range(EACH):
            protocol.call_find_node(THERE, bytes([kind]) * 20)
        return protocol

    return loop.run_until_complete(make())


def _datagram(protocol: DhtProtocol, head: bytes, data: bytes) -> None:
    protocol.datagram_received(head + data, (THERE.host, THERE.port))
    assert len(protocol.router) <= 160 * protocol.router.ksize


def _sealed_datagram(protocol: DhtProtocol, mate: Gate, data: bytes) -> None:
    _datagram(protocol, b"", mate.seal(data, HERE.address, NOW_MS))


# ---- links


def _link_targets(rng: random.Random) -> list[Target]:
    drawn = [_message(kind, rng) for kind in kinds(messages.Message) for _ in range(EACH)]
    samples = [messages.encode(message) for message in drawn]
    caller, answerer = (_hello(contact, rng) for contact in (THERE, HERE))
    ends = [
        _Greeted(age, form, secret, caller, answerer)
        for age, form in {"": handshake, "former ": former}.items()
        for secret in (None, SECRET)
    ]
    packed = [wire.pack(samples[index : index + size]) for size in (1, 4, 20) for index in range(0, len(samples), size)]
    bodies = {
        flags: [body for body, own, _ in packed if own == flags] for flags in sorted({own for _, own, _ in packed})
    }

    def again(body: bytes) -> None:
        message = messages.decode(body)
        assert messages.decode(messages.encode(message)) == message

    wrong: tuple[type[Exception], ...] = (RemoteProtocolError,)
    return [
        Target("message", again, samples, wrong, 2.0),
        *(target for end in ends for target in end.targets(wrong)),
        Target("frame", partial(_frame, None), _conversation(None, samples), wrong),
        Target("frame, keyed", partial(_frame, SECRET), _conversation(SECRET, samples), wrong),
        Target("frame, good checksum", _checked_frame, [f[:-4] for f in _conversation(None, samples)], wrong),
        *(Target(f"frame body, flags {flags}", partial(_body, flags), found, wrong) for flags, found in bodies.items()),
        Target("messages to a node", play, sequences(_message, kinds(messages.TreeMessage), rng, 60), wrong),
        Target("messages to a root group", groups.play, groups.sequences(rng, 60), wrong, 4.0),
        Target("channel", _channel, _conversation(None, samples), wrong),
    ]  # fmt: skip


def _message(kind: type[messages.Message], rng: random.Random) -> messages.Message:
    while True:
        if kind is messages.ControlEntries:
            # Its entries must follow each other, which no draw hits.
            after = Mark(3, rng.randrange(9))
            marks = [Mark(3, after.position + step) for step in range(1, rng.randrange(2, 5))]
            entries = tuple(LogEntry(mark, b"body") for mark in marks)
            drawn: messages.Message = messages.ControlEntries(rng.randbytes(20), 7, after, entries)
        else:
            drawn = draw(kind, rng)
        # Some rules are the decoder's and not in the types.
        with contextlib.suppress(RemoteProtocolError):
            return messages.decode(messages.encode(drawn))


def _hello(contact: Contact, rng: random.Random) -> Hello:
    drawn: Hello = draw(Hello, rng)
    return msgspec.structs.replace(drawn, address=contact.address, offer=Offer(wire.OLDEST_VERSION, wire.VERSION))


class _Greeted:
    """A greeting of today's form or of the former, each of its messages as it should be."""

    def __init__(self, age: str, form: Any, secret: Secret | None, mine: Hello, theirs: Hello) -> None:
        self._name = f"{age}{{}}{', keyed' if secret else ''}"
        self._called = lambda data: form.Answerer(secret).called(data)
        self._caller, self._answerer = form.Caller(secret, mine), form.Answerer(secret)
        self.welcome = self._answerer.welcome(self._answerer.called(self._caller.greeting), theirs)
        self.proof = self._caller.welcomed(self.welcome)[1]

    def targets(self, wrong: tuple[type[Exception], ...]) -> list[Target]:
        return [
            Target(self._name.format("welcome"), self._caller.welcomed, [self.welcome], wrong),
            Target(self._name.format("proof"), self._answerer.proven, [self.proof], wrong),
            Target(self._name.format("hello"), self._called, [self._caller.greeting], wrong),
        ]


def _conversation(secret: Secret | None, samples: Sequence[bytes]) -> list[bytes]:
    """Return the frames of a channel that says everything, small and large, and asks for repeats."""
    channel = Channel(wire.Framer(secret), ChannelSettings(), NOW_MS)
    frames: list[bytes] = []
    for index, sample in enumerate([*samples, bytes(wire.BODY_BYTES_MAX + 1)]):
        channel.offer(sample, bulk=index % 2 == 0)
        frames += channel.frames(NOW_MS) if index % 3 == 0 else []
    return [*frames, *channel.frames(NOW_MS + 1_000), *channel.frames(NOW_MS + 2_000)]


def _read(frame: wire.Frame) -> None:
    """Read a frame to the end, as a link does."""
    found, size = wire.unpack(frame)
    assert found and size <= wire.BODY_BYTES_MAX
    for message in found:
        messages.decode(message)


def _frame(secret: Secret | None, data: bytes) -> None:
    frame = wire.Framer(secret).unwrap(data)
    if frame.flags & wire.DATA and not frame.flags & wire.PARTIAL:
        _read(frame)


def _checked_frame(content: bytes) -> None:
    _frame(None, content + zlib.crc32(content).to_bytes(4, "little"))


def _body(flags: int, body: bytes) -> None:
    # No frame holds more, so no body does.
    _read(wire.Frame(flags | wire.DATA, 1, 0, 0, 0, body[: wire.BODY_BYTES_MAX]))


def _channel(data: bytes) -> None:
    """One damaged frame before, between and after sound ones; its checksum may be right or wrong."""
    channel = Channel(wire.Framer(None), ChannelSettings(), NOW_MS)
    sealed = data[:-4] + zlib.crc32(data[:-4]).to_bytes(4, "little")
    for frame in (data, sealed, data, sealed):
        channel.received(frame, NOW_MS)
        channel.frames(NOW_MS)
    channel.tick(NOW_MS + 1_000)
    assert channel.queued_bytes == 0


# ---- agents


def _agent_targets(rng: random.Random) -> list[Target]:
    asked: list[request.AnyRequest] = [draw(kind, rng) for kind in kinds(request.AnyRequest) for _ in range(EACH)]
    jobs = [_job(definition, rng) for definition in definitions() for _ in range(2)]
    decisions: list[Command] = [draw(kind, rng) for kind in kinds(Command) for _ in range(EACH)]
    states = [msgspec.msgpack.encode(draw(MasterState, rng)) for _ in range(EACH)]
    members = [draw(Member, rng) for _ in jobs]
    drawn = [draw(replies.Reply, rng) for _ in range(EACH)]
    # A failure is raised, as the declared error.
    answers = [*drawn, *(msgspec.structs.replace(each, failure=None) for each in drawn)]
    long = [replies.encode_reply(replies.Reply(value=["é" * 1_000] * size)) for size in (200, 1_000)]
    records = [job_record(job).body for job in jobs] + [member_record(member, 1).body for member in members]
    orders = [Order(key="", what="purge", job="job/shop/top", made_ms=5).signed(rng.randbytes(32)) for _ in range(EACH)]
    purges = [purge_record(order).body for order in orders]
    return [
        Target("request", request.decode_request, [request.encode(each) for each in asked], (msgspec.DecodeError,)),
        Target("reply", replies.value_of, [replies.encode_reply(each) for each in answers], (ElfError,)),
        Target("long reply", replies.value_of, long, (ElfError,), 0.2),
        Target("decision", decode_command, [encode_command(each) for each in decisions], (msgspec.DecodeError,)),
        Target("state of a master", lambda data: read_msgpack(data, MasterState), states, (msgspec.DecodeError,)),
        Target("job record", JobRecord.decode, [job.encode() for job in jobs], (msgspec.DecodeError,)),
        # What `elf.agents.agent` catches around it.
        Target("record of a job", partial(_learn, "job/"), records, (msgspec.DecodeError, ElfError, ValueError), 0.2),
        Target("record that is told", _admit, records, (ElfError,), 0.2),
        Target("record of a purge", _purge, purges, (ElfError,), 0.2),
        Target("record of a member", partial(_learn, "member/"), records, (msgspec.DecodeError, ElfError, ValueError)),
        Target("block", lambda data: decode_block(data, SCHEMA), blocks(), (PaoDecodeError,), 0.2),
        Target("block, good compression", _block, bodies(), (PaoDecodeError,), 0.2),
        Target("placed block, good compression", _placed, placed_bodies(), (PaoDecodeError,), 0.2),
        Target("payload", lambda data: payload.unpack(data, PLAN), payloads(), (PaoDecodeError,), 0.2),
        Target("payloads to merge", _merge, bodies(), (PaoDecodeError,), 0.1),
        Target("payloads of a changed job", _of_changed, changed_payloads(), (PaoDecodeError,), 0.1),
        Target("what a worker has open", _open, open_blocks(), (PaoDecodeError,), 0.1),
    ]


def _line_targets() -> list[Target]:
    """An input is a hundred lines, so a hundredth of the others' number is as many."""
    formats = lines.Formats()
    programs, run = lines.program_samples()
    seeds = [bytes([number]) for number in range(4)]
    return [
        Target("log lines", formats.feed, formats.samples(), (), 0.05, formats.draw),
        Target("log lines, any bytes", formats.feed, formats.samples(), (), 0.02),
        Target("log lines of drawn layouts", lines.feed_drawn, seeds, (), 0.05, lines.damaged_seed),
        Target("values of log lines", lines.feed_values, [b"1\n-\n2.5"], (), 0.05, lines.damaged_texts),
        Target("program of a layout", run, programs, (ValueError,), 0.1),
    ]


def _job(definition: Definition, rng: random.Random) -> JobRecord:
    drawn: JobRecord = draw(JobRecord, rng)
    changed = msgspec.structs.replace(definition, version=definition.version + 1)
    versions = (
        Version(number=definition.version, definition=definition),
        Version(number=changed.version, definition=changed, what="update", since=9, begins=9, pao_kind=changed.version),
    )
    newest, versions = (changed, versions) if rng.random() < 0.5 else (definition, ())
    job = msgspec.structs.replace(
        drawn, definition=newest, versions=versions, master_host="10.0.0.1", stamp_ms=5, published=None, ended=None
    )
    return _owned(job) if rng.random() < 0.5 else job


def _owned(job: JobRecord) -> JobRecord:
    """Return a job as its creator's, who has ordered all of it."""
    key, publication = job.definition.first.key, job.publication[:64]

    def order(what: What, made_ms: int, definition: Definition) -> Order:
        about = digest_of(definition)
        return Order(key="", what=what, job=key, publication=publication, about=about, made_ms=made_ms).signed(
            bytes(32)
        )

    first, *later = job.versions or job.history
    turned = [msgspec.structs.replace(each, order=order("update", 3, each.definition)) for each in later]
    return msgspec.structs.replace(
        job,
        instance=publication,
        versions=(first, *turned) if job.versions else (),
        published=order("publish", 2, first.definition),
        ended=order("end", 4, job.definition) if job.stopped else None,
    )


def _admit(body: bytes) -> None:
    key, version = "member/x", 5
    with contextlib.suppress(msgspec.DecodeError, ValueError):
        job = JobRecord.decode(body)
        key, version = f"job/{job.definition.key}", job.stamp_ms
    Catalogue().admit(b"", Record(key, version, body), NOW_MS)


def _purge(body: bytes) -> None:
    Catalogue().admit(b"", Record("purge/job/shop/top", 5, body), NOW_MS)


def _learn(prefix: str, body: bytes) -> None:
    Catalogue().learn_record(Record(prefix + "x", 1, body))


def _block(body: bytes) -> None:
    decode_block(lz4.frame.compress(body, store_size=True), SCHEMA)


def _placed(body: bytes) -> None:
    placed = decode_placed(MARK + lz4.frame.compress(body, store_size=True), NUMBERS.schema)
    again = decode_placed(encode_placed(placed), NUMBERS.schema)
    assert (again.order, again.height, again.count) == (placed.order, placed.height, placed.count)
    if placed.height < 1 << 16:
        Placing(NUMBERS.schema, placed).add(placed)


def _of_changed(data: bytes) -> None:
    """A payload of several kinds, as a forwarder and then the master take it."""
    for versions in (Versions(CHANGED.all[:1]), CHANGED):
        merged = payload.merge([data, changed_payloads()[0]], versions)
        notes, _ = payload.unpack(merged, versions)
        begun(with_since({}, notes.since, versions), {"w1": 50, "w2": NEVER_YET}, versions, 0, 100)


def _open(data: bytes) -> None:
    again = decode_open(data, CHANGED)
    assert decode_open(encode_open(again, CHANGED), CHANGED).height == again.height


def _merge(body: bytes) -> None:
    damaged = msgspec.msgpack.encode((payload.Notes(), lz4.frame.compress(body, store_size=True)))
    payload.merge([damaged, payloads()[0]], PLAN)
