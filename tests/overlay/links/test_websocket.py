from __future__ import annotations

import asyncio
import contextlib
import gc
import random
import socket
from collections.abc import AsyncIterator

import aiohttp
import msgspec
import pytest

from elf.overlay.clock import now_ms
from elf.overlay.dht.auth import Secret
from elf.overlay.ids import Contact
from elf.overlay.links import wire
from elf.overlay.links.binding import Bound
from elf.overlay.links.greeting import PATH
from elf.overlay.links.handshake import Caller
from elf.overlay.links.layer import LinkOwner
from elf.overlay.links.proofs import Proof
from elf.overlay.links.websocket import HANG_UPS_MIN, Links
from elf.overlay.messages import Message, Reply, Request
from elf.overlay.settings import OverlaySettings
from tests.overlay.cluster import wait_until
from tests.overlay.links.greetings import greeting, hello


class End:
    """One end: links that write down what they see."""

    def __init__(self, seed: int, secret: Secret | None = None, *, lease_ms: int = 3_000, port: int = 0) -> None:
        self.listener = socket.socket()
        self.listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.listener.bind(("127.0.0.1", port))
        self.contact = Contact.at("127.0.0.1", self.listener.getsockname()[1])
        self.seen: list[Message] = []
        self.opened: list[Contact] = []
        self.lost: list[Contact] = []
        self.links = Links(
            self.contact,
            f"agent-{seed}",
            secret,
            random.Random(seed),
            clock=now_ms,
            owner=LinkOwner(
                on_message=lambda _, message: self.seen.append(message),
                on_open=self.opened.append,
                on_lost=self.lost.append,
            ),
            settings=OverlaySettings(heartbeat_ms=50, lease_ms=lease_ms),
        )

    async def start(self) -> None:
        await self.links.start(Bound(self.listener, ("127.0.0.1", 0), self.contact))

    def say(self, to: End, number: int) -> None:
        self.links.send(to.contact, request(number))


def request(number: int, body: bytes = b"") -> Request:
    return Request(number.to_bytes(8), b"k" * 20, body, (), False, 1_000)


@contextlib.asynccontextmanager
async def ends(*secrets: Secret | None, lease_ms: int = 3_000) -> AsyncIterator[list[End]]:
    made = [End(index, secret, lease_ms=lease_ms) for index, secret in enumerate(secrets)]
    try:
        for end in made:
            await end.start()
        yield made
    finally:
        for end in made:
            await end.links.stop()


def numbers(end: End) -> list[int]:
    return [int.from_bytes(message.id) for message in end.seen if isinstance(message, Request | Reply)]


KEY, OTHER_KEY = Secret([b"1" * 32]), Secret([b"2" * 32])


@pytest.mark.parametrize("secret", [None, KEY], ids=["open", "keyed"])
async def test_messages_arrive_in_order_over_one_link_used_both_ways(secret: Secret | None) -> None:
    async with ends(secret, secret) as (a, b):
        for number in range(500):
            a.say(b, number)
        await wait_until(lambda: len(b.seen) == 500)
        assert numbers(b) == list(range(500))
        assert b.links.connected() == [a.contact]
        b.say(a, 7)
        await wait_until(lambda: numbers(a) == [7])
        assert a.links.counters["links_opened"] == b.links.counters["links_opened"] == 1


async def test_simultaneous_calls_lose_nothing_and_end_on_one_link() -> None:
    async with ends(*[None] * 4) as all_ends:
        for number in range(50):
            for end in all_ends:
                for other in all_ends:
                    if other is not end:
                        end.say(other, number)
        await wait_until(lambda: all(len(end.seen) == 150 for end in all_ends))
        assert not any(end.lost for end in all_ends)
        await wait_until(lambda: all(len(end.links._open) == 3 for end in all_ends))
        assert not any(end.lost for end in all_ends)


async def test_large_messages_pass_and_compress() -> None:
    async with ends(KEY, KEY) as (a, b):
        body = random.Random(1).randbytes(1 << 20)
        a.links.send(b.contact, request(1, body * 8))
        await wait_until(lambda: len(b.seen) == 1)
        message = b.seen[0]
        assert isinstance(message, Request)
        assert message.body == body * 8


async def test_a_closed_peer_is_lost_once_and_found_again() -> None:
    async with ends(None, None) as (a, b):
        a.say(b, 1)
        await wait_until(lambda: bool(b.seen))
        await b.links.stop()
        await wait_until(lambda: a.lost == [b.contact])
        a.say(b, 2)
        await wait_until(lambda: a.lost == [b.contact] * 2)
        again = End(1, port=b.contact.port)
        await again.start()
        a.say(b, 3)
        await wait_until(lambda: numbers(again) == [3])
        await again.links.stop()


async def test_a_silent_peer_is_lost_after_its_lease() -> None:
    async with ends(None, lease_ms=300) as (a,):
        caller = Caller(None, hello("127.0.0.1:9", lease_ms=1))
        async with aiohttp.ClientSession() as session, session.ws_connect(f"http://{a.contact.address}{PATH}") as ws:
            await ws.send_bytes(caller.greeting)
            await ws.send_bytes(caller.welcomed(await ws.receive_bytes())[1])
            await wait_until(lambda: a.opened == [Contact.at("127.0.0.1", 9)])
            await wait_until(lambda: a.lost == [Contact.at("127.0.0.1", 9)])


async def test_a_link_lasts_as_long_as_its_more_patient_end_says() -> None:
    short, long = End(1, lease_ms=300), End(2, lease_ms=5_000)
    await short.start()
    await long.start()
    try:
        short.say(long, 1)
        await wait_until(lambda: short.opened == [long.contact] and long.opened == [short.contact])
        for one, other in ((short, long), (long, short)):
            link = one.links._peers[other.contact.id].link
            assert link is not None
            assert not link.channel.is_lost(link.channel.heard_ms + 5_000)
            assert link.channel.is_lost(link.channel.heard_ms + 5_001)
    finally:
        await short.links.stop()
        await long.links.stop()


@pytest.mark.parametrize(("ours", "theirs"), [(KEY, OTHER_KEY), (None, KEY), (KEY, None)])
async def test_another_secret_opens_no_link(ours: Secret | None, theirs: Secret | None) -> None:
    async with ends(ours, theirs) as (a, b):
        a.say(b, 1)
        await wait_until(lambda: a.lost == [b.contact])
        b.say(a, 1)
        await wait_until(lambda: b.lost == [a.contact])
        assert not a.seen
        assert not b.seen


async def test_any_bytes_from_a_caller_are_refused_and_counted() -> None:
    async with ends(None, None, lease_ms=300) as (a, b):
        rng = random.Random(5)
        good, own = greeting(None, hello("127.0.0.1:9")), greeting(None, hello(a.contact.address))
        framer, frame = wire.Framer(None), wire.Frame
        garbage: list[list[bytes]] = [[rng.randbytes(rng.randint(0, 300))] for _ in range(10)]
        garbage += [[good, rng.randbytes(20)], [own], [b"x" * 5_000]]
        proof = msgspec.msgpack.encode(Proof(b""))
        garbage += [[good, proof, rng.randbytes(rng.randint(0, 100))] for _ in range(10)]
        batches = [(0, b"\x99\x99"), (0, b""), (wire.BATCH, b"\x99\x99"), (wire.BATCH, b""), (wire.COMPRESSED, b"x")]
        garbage += [[good, proof, framer.wrap(frame(wire.DATA | flags, 1, 0, 0, 0, body))] for flags, body in batches]
        garbage += [[good, proof, framer.wrap(frame(0, 1, 0, 1, 0))], [good, proof, bytes(wire.FRAME_BYTES_MAX + 1)]]
        async with aiohttp.ClientSession() as session:
            for frames in garbage:
                async with session.ws_connect(f"http://{a.contact.address}{PATH}") as ws:
                    with contextlib.suppress(ConnectionError):
                        for frame in frames:
                            await ws.send_bytes(frame)
                    async with asyncio.timeout(5):
                        while not (await ws.receive()).type.name.startswith("CLOS"):
                            pass
        await wait_until(lambda: not a.links.connected())
        counters = a.links.counters
        assert counters["links_refused"] >= 17
        assert counters["frames_damaged"] == 10, "without a secret what does not add up is asked for again"
        b.say(a, 4)
        await wait_until(lambda: 4 in numbers(a))


@pytest.mark.parametrize("host", ["h" * 64 + ".example", "a..b", "\N{WAVING HAND SIGN}" * 60, "not a host"])
async def test_a_peer_of_a_name_that_no_host_can_have_is_lost_like_any_other(
    host: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with ends(None) as (a,):
        nowhere = Contact.at(host, 1)
        a.links.send(nowhere, request(1))
        await wait_until(lambda: a.lost == [nowhere])
    gc.collect()
    assert not [record for record in caplog.records if record.name == "asyncio"]


@pytest.mark.parametrize("says", ["nothing", "the beginning"])
async def test_who_hangs_up_once_is_being_stopped_and_who_always_does_refuses(
    says: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def hang_up(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        if says == "the beginning":
            writer.write(b"HTTP/1.1 101 Swit")
        writer.close()

    server = await asyncio.start_server(hang_up, "127.0.0.1", 0)
    neighbour = Contact.at("127.0.0.1", server.sockets[0].getsockname()[1])
    try:
        async with ends(None) as (end,):
            for attempt in range(1, HANG_UPS_MIN + 1):
                assert not end.links.refused and not caplog.records
                assert end.links.counters["links_refused"] == 0
                end.links.send(neighbour, request(attempt))
                await wait_until(lambda: len(end.lost) == attempt)  # noqa: B023
            assert "overlay.tls_cert_file" in end.links.refused[neighbour.address]
            assert [record.getMessage().partition(":")[0] for record in caplog.records] == ["no link with 127.0.0.1"]
            server.close()
            await server.wait_closed()
            end.links.send(neighbour, request(9))
            await wait_until(lambda: len(end.lost) == HANG_UPS_MIN + 1)
            assert not end.links.refused, "nobody is there, and nobody refuses"
    finally:
        server.close()
