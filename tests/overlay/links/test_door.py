"""The limits of the listening side, from outside: raw sockets and callers that do not behave."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import random
import socket
from collections.abc import AsyncIterator

import aiohttp
import pytest

from elf.overlay.dht.auth import Secret
from elf.overlay.links import door, greeting, wire
from elf.overlay.links.handshake import Caller
from elf.overlay.links.websocket import Links
from tests.overlay.cluster import wait_until
from tests.overlay.links.greetings import greeting as said
from tests.overlay.links.greetings import hello

from .test_websocket import KEY, OTHER_KEY, End, numbers

STRANGER = hello("127.0.0.1:9")


@contextlib.asynccontextmanager
async def end_of(secret: Secret | None = KEY) -> AsyncIterator[End]:
    end = End(1, secret)
    await end.start()
    try:
        yield end
    finally:
        await end.links.stop()


def waiting(links: Links) -> int:
    assert links._door is not None
    return links._door.waiting


async def knock(end: End) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    return await asyncio.open_connection("127.0.0.1", end.contact.port)


async def is_closed(reader: asyncio.StreamReader) -> bool:
    try:
        async with asyncio.timeout(5):
            while await reader.read(1 << 16):
                pass
    except ConnectionError:
        pass
    return True


async def test_500_idle_connections_are_bounded_and_keep_nobody_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(door, "GREETING_S", 2.0)
    async with end_of() as end:
        idle = [await knock(end) for _ in range(500)]
        await wait_until(lambda: waiting(end.links) <= door.WAITING_PER_HOST_MAX)
        assert end.links.counters["links_refused"] >= 500 - door.WAITING_PER_HOST_MAX
        friend = End(2, KEY)
        await friend.start()
        friend.say(end, 7)
        await wait_until(lambda: numbers(end) == [7])
        descriptors = len(os.listdir("/proc/self/fd"))
        await wait_until(lambda: waiting(end.links) == 0)
        for reader, _ in idle:
            assert await is_closed(reader)
        assert len(os.listdir("/proc/self/fd")) < descriptors
        assert end.links.connected() == [friend.contact], "the deadline is for strangers only"
        friend.say(end, 8)
        await wait_until(lambda: numbers(end) == [7, 8])
        for _, writer in idle:
            writer.close()
        await friend.links.stop()


async def test_one_host_does_not_use_up_what_all_hosts_share(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(door, "WAITING_MAX", 10)
    async with end_of() as end:
        idle = [await knock(end) for _ in range(30)]
        await wait_until(lambda: end.links.counters["links_refused"] == 20)
        assert waiting(end.links) == 10
        for reader, _ in idle[:20]:
            assert await is_closed(reader), "the oldest go first"
        for _, writer in idle:
            writer.close()
        await wait_until(lambda: waiting(end.links) == 0)


async def test_a_call_in_the_moment_of_closing_is_hung_up_on() -> None:
    for steps in range(6):
        async with end_of() as end:
            descriptors = len(os.listdir("/proc/self/fd"))
            with socket.create_connection(("127.0.0.1", end.contact.port)) as caller:
                for _ in range(steps):
                    await asyncio.sleep(0)
                assert end.links._door is not None
                await end.links._door.close()
                caller.settimeout(5)
                with contextlib.suppress(ConnectionError):
                    assert caller.recv(1) == b""
            assert len(os.listdir("/proc/self/fd")) < descriptors


async def test_where_no_call_can_be_taken_the_next_ones_are(monkeypatch: pytest.MonkeyPatch) -> None:
    async with end_of() as end:
        failing = iter(range(3))

        def accept(self: socket.socket) -> tuple[socket.socket, object]:
            if next(failing, None) is not None:
                raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
            return original(self)

        original = socket.socket.accept
        monkeypatch.setattr(socket.socket, "accept", accept)
        friend = End(2, KEY)
        await friend.start()
        friend.say(end, 7)
        await wait_until(lambda: numbers(end) == [7])
        await friend.links.stop()
        assert next(failing, None) is None


@pytest.mark.parametrize("progress", ["nothing", "half a request", "a web socket", "a greeting"])
async def test_a_greeting_that_never_ends_is_hung_up_on(progress: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (door, greeting):
        monkeypatch.setattr(module, "GREETING_S", 0.3)
    async with end_of() as end:
        if progress in ("nothing", "half a request"):
            reader, writer = await knock(end)
            if progress == "half a request":
                writer.write(f"GET {greeting.PATH} HTTP/1.1\r\nHost: x\r\n".encode())
            assert await is_closed(reader)
            writer.close()
        else:
            url = f"http://{end.contact.address}{greeting.PATH}"
            async with aiohttp.ClientSession() as session, session.ws_connect(url) as ws:
                if progress == "a greeting":
                    await ws.send_bytes(said(KEY, STRANGER))
                    assert (await ws.receive()).type is aiohttp.WSMsgType.BINARY
                async with asyncio.timeout(5):
                    while not (await ws.receive()).type.name.startswith("CLOS"):
                        pass
        await wait_until(lambda: waiting(end.links) == 0)
        assert end.links.counters["links_refused"] >= 1
        assert not end.opened


async def exchange(end: End, sent: list[bytes]) -> bytes:
    """Speak raw HTTP and WebSocket to an end; return every byte it ever says."""
    reader, writer = await knock(end)
    head = (
        f"GET {greeting.PATH} HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n"
    )
    writer.write(head.encode())
    for data in sent:
        size = bytes([0xFE]) + len(data).to_bytes(2) if len(data) > 125 else bytes([0x80 | len(data)])
        writer.write(b"\x82" + size + bytes(4) + data)
    said = b""
    with contextlib.suppress(ConnectionError, TimeoutError):
        async with asyncio.timeout(1):
            while data := await reader.read(1 << 16):
                said += data
    writer.close()
    return said


async def test_who_lacks_the_secret_learns_nothing_and_changes_nothing() -> None:
    rng = random.Random(3)
    async with end_of() as end:
        tries = [
            [said(None, STRANGER)],
            [said(OTHER_KEY, STRANGER)],
            [said(OTHER_KEY, STRANGER), rng.randbytes(40)],
            [rng.randbytes(100)],
            [],
        ]
        # What a member once said is of no use a second time: the answer is sealed, and its nonce is new.
        recorded = said(KEY, hello("127.0.0.1:10", "member", b"m" * 16))
        tries += [[recorded], [recorded, rng.randbytes(40)]]
        for sent in tries:
            heard = await exchange(end, sent)
            assert heard.startswith(b"HTTP/1.1 101")
            body = heard.split(b"\r\n\r\n", 1)[1]
            for word in (
                end.contact.address.encode(),
                str(end.contact.port).encode(),
                b"agent-1",
                b"127.0.0",
                b"aiohttp",
            ):
                assert word not in body
            assert b"aiohttp" not in heard
            assert b"Python" not in heard
        assert not end.opened
        assert not end.seen
        assert not end.lost
        assert end.links.connected() == []
        assert end.links._losses == {}


async def test_oversized_frames_are_refused_before_they_are_taken_in() -> None:
    async with end_of(None) as end:
        url = f"http://{end.contact.address}{greeting.PATH}"
        for sent in ([bytes(wire.FRAME_BYTES_MAX + 1)], None):
            async with aiohttp.ClientSession() as session, session.ws_connect(url, max_msg_size=0) as ws:
                if sent is None:
                    caller = Caller(None, STRANGER)
                    await ws.send_bytes(caller.greeting)
                    await ws.send_bytes(caller.welcomed(await ws.receive_bytes())[1])
                    await wait_until(lambda: bool(end.opened))
                    sent = [bytes(16 << 20)]
                with contextlib.suppress(ConnectionError):
                    for frame in sent:
                        await ws.send_bytes(frame)
                async with asyncio.timeout(5):
                    while not (await ws.receive()).type.name.startswith("CLOS"):
                        pass
        await wait_until(lambda: len(end.lost) == 1)
        assert not end.seen
