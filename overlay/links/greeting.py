"""How a link is opened: the call, TLS, and the three messages of the greeting over the new connection.

Owns the I/O of both sides until the first frame; what the messages say is `elf.overlay.links.handshake`'s. Shell.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from http import HTTPStatus

import aiohttp
from aiohttp import web

from elf.overlay.dht.auth import Secret
from elf.overlay.errors import RemoteProtocolError
from elf.overlay.ids import Contact, canonical_host
from elf.overlay.links import former, handshake, wire
from elf.overlay.links.door import GREETING_S
from elf.overlay.links.handshake import Hello
from elf.overlay.links.offer import agreed
from elf.overlay.links.tls import Tls
from elf.overlay.subject import Subject, subject_of

PATH = "/overlay/v3"
#: Where agents of the release before greet.
FORMER_PATH = "/overlay/v2"
#: Why a call fails without anybody being to blame; ValueError: for a host of a name that no host can have.
UNREACHABLE = (OSError, aiohttp.ClientError, TimeoutError, ValueError)


class HungUpError(RemoteProtocolError):
    """The other end went away in the middle of the greeting: it stops, or it will not have us and does not say why."""


async def call(
    client: aiohttp.ClientSession, to: Contact, secret: Secret | None, tls: Tls | None, hello: Callable[[], Hello]
) -> tuple[aiohttp.ClientWebSocketResponse, Hello, Hello]:
    """Call an agent and greet it; returns the connection, what we said, made by `hello`, and who answered.

    An agent that does not know the greeting is of the release before, and greeted once more as that does. Certificates
    that name the places of both take the secret's place.

    Raises:
        RemoteProtocolError: what answers is not this agent, has not our secret, or speaks no version that we do.
        OSError: nothing answers, or its certificate is refused; so do `UNREACHABLE`'s others.
    """
    async with asyncio.timeout(GREETING_S):
        try:
            ws = await _open(client, to, tls, PATH)
            peer = subject_of(ws.get_extra_info("peercert"))
            mine = hello()
            asked = None if _takes_its_place(tls, peer) else secret
            caller: handshake.Caller | former.Caller = handshake.Caller(asked, mine)
        except aiohttp.WSServerHandshakeError as error:
            if error.status != HTTPStatus.NOT_FOUND:
                raise
            ws = await _open(client, to, tls, FORMER_PATH)
            peer = subject_of(ws.get_extra_info("peercert"))
            mine = hello()
            caller = former.Caller(secret, mine)
        try:
            if tls is not None:
                tls.check(peer, to.address, needs_place=tls.proves_place and secret is None)
            await ws.send_bytes(caller.greeting)
            theirs, proof = caller.welcomed(await ws.receive_bytes())
            if theirs.contact != to:
                raise RemoteProtocolError(f"{to.address} says it is {theirs.address}")
            await ws.send_bytes(proof)
        except TypeError as error:  # aiohttp: "not bytes", the peer closed or sent text
            await ws.close()
            raise HungUpError("it closed during the greeting") from error
        except BaseException:
            await ws.close()
            raise
    return ws, mine, theirs


async def _open(
    client: aiohttp.ClientSession, to: Contact, tls: Tls | None, path: str
) -> aiohttp.ClientWebSocketResponse:
    return await client.ws_connect(
        f"{'https' if tls is not None else 'http'}://{to.address}{path}",
        compress=0,
        max_msg_size=wire.FRAME_BYTES_MAX,
        timeout=aiohttp.ClientWSTimeout(ws_close=1.0),
        ssl=tls.client if tls is not None else True,
    )


async def answer(
    request: web.Request,
    ws: web.WebSocketResponse,
    secret: Secret | None,
    tls: Tls | None,
    me: Contact,
    hello: Callable[[bytes], Hello],
) -> tuple[Hello, Hello]:
    """Answer a call on a connection that is open; returns the caller and what we said, made by `hello` from its id.

    Raises:
        RemoteProtocolError: the caller is no agent of this cluster, or speaks no version that we do.
        TimeoutError: it does not say so in time; so do aiohttp's errors.
    """
    is_former = request.path == FORMER_PATH
    try:
        async with asyncio.timeout(GREETING_S):
            data, peer = await ws.receive_bytes(), subject_of(ws.get_extra_info("peercert"))
            if _takes_its_place(tls, peer) and not is_former and not handshake.is_sealed(data):
                secret = None
            answerer = former.Answerer(secret) if is_former else handshake.Answerer(secret)
            theirs = answerer.called(data)
            if theirs.contact == me:
                raise RemoteProtocolError("a greeting with our own address")
            if tls is not None:
                tls.check(peer, theirs.contact.address, needs_place=tls.proves_place and secret is None)
                if tls.proves_place and secret is None and canonical_host(request.remote or "") not in peer.hosts:
                    raise RemoteProtocolError("it calls from another address than its certificate is for")
            mine = hello(theirs.contact.id)
            await ws.send_bytes(answerer.welcome(theirs, mine))
            agreed(mine.offer, theirs.offer)  # it was told what we speak, and learns what is wrong as we do
            answerer.proven(await ws.receive_bytes())
    except TypeError as error:
        raise HungUpError("it closed during the greeting") from error
    return theirs, mine


def _takes_its_place(tls: Tls | None, peer: Subject) -> bool:
    """Tell whether certificates of both ends take the place of the secret."""
    return tls is not None and tls.proves_place and bool(peer.places)
