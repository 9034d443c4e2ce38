"""Agents of this release and of the one before, over real connections."""

from __future__ import annotations

from functools import partial

import aiohttp
import pytest
from aiohttp import web

from elf.overlay.dht.auth import Secret
from elf.overlay.errors import RemoteProtocolError, UnsupportedVersionError
from elf.overlay.ids import Contact
from elf.overlay.links import former, greeting, handshake
from elf.overlay.links.former import OFFER
from elf.overlay.links.handshake import Hello
from elf.overlay.links.offer import Offer
from tests.overlay.cluster import wait_until
from tests.overlay.links.greetings import SPOKEN, hello
from tests.overlay.links.test_websocket import End, numbers, request

KEY = Secret([b"1" * 32])
LATER = Offer(OFFER.newest + 1, OFFER.newest + 2, release="9.9")


class Answering:
    """An agent that answers greetings on some paths, and what came of it."""

    def __init__(self, secret: Secret | None, paths: list[str], offer: Offer = SPOKEN) -> None:
        self._secret, self._paths, self._offer = secret, paths, offer
        self.greeted: list[tuple[Hello, Hello]] = []
        self.errors: list[Exception] = []

    async def __aenter__(self) -> Answering:
        app = web.Application()
        for path in self._paths:
            app.router.add_get(path, self._serve)
        self._runner = web.AppRunner(app)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        self.contact = Contact.at("127.0.0.1", self._runner.addresses[0][1])
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._runner.cleanup()

    async def _serve(self, request: web.Request) -> web.WebSocketResponse:
        ws = web.WebSocketResponse()
        await ws.prepare(request)
        mine = hello(self.contact.address, "answering", b"a" * 16, offer=self._offer)
        try:
            self.greeted.append(await greeting.answer(request, ws, self._secret, None, self.contact, lambda _: mine))
        except RemoteProtocolError as error:
            self.errors.append(error)
        await ws.close()
        return ws


async def call(to: Contact, secret: Secret | None, offer: Offer = SPOKEN) -> tuple[Hello, Hello]:
    mine = partial(hello, "127.0.0.1:9", "calling", offer=offer)
    async with aiohttp.ClientSession() as session:
        ws, said, theirs = await greeting.call(session, to, secret, None, mine)
        await ws.close()
    return said, theirs


@pytest.mark.parametrize("secret", [None, KEY])
async def test_an_agent_of_the_release_before_is_greeted_as_it_knows(secret: Secret | None) -> None:
    async with Answering(secret, [greeting.FORMER_PATH]) as before:
        said, theirs = await call(before.contact, secret)
        assert (theirs.agent, theirs.offer) == ("answering", OFFER)
        handshake.framer(secret, said, theirs, calling=True)
        await wait_until(lambda: bool(before.greeted))
        assert before.greeted[0][0].agent == "calling"


@pytest.mark.parametrize("secret", [None, KEY])
async def test_an_agent_of_the_release_before_is_answered_as_it_knows(secret: Secret | None) -> None:
    end = End(1, secret)
    await end.start()
    try:
        caller = former.Caller(secret, hello("127.0.0.1:9", "before"))
        async with (
            aiohttp.ClientSession() as session,
            session.ws_connect(f"http://{end.contact.address}{greeting.FORMER_PATH}") as ws,
        ):
            await ws.send_bytes(caller.greeting)
            theirs, proof = caller.welcomed(await ws.receive_bytes())
            assert theirs.contact == end.contact
            await ws.send_bytes(proof)
            await wait_until(lambda: end.opened == [Contact.at("127.0.0.1", 9)])
            end.links.send(end.opened[0], request(7))
            framer = handshake.framer(secret, hello("127.0.0.1:9"), theirs, calling=True)
            assert framer.unwrap(await ws.receive_bytes()).number == 1
    finally:
        await end.links.stop()
    assert numbers(end) == []


@pytest.mark.parametrize("secret", [None, KEY])
async def test_both_ends_say_why_they_have_no_version_in_common(secret: Secret | None) -> None:
    async with Answering(secret, [greeting.PATH], LATER) as later:
        with pytest.raises(UnsupportedVersionError, match=r"release 9\.9.*upgrade this agent"):
            await call(later.contact, secret)
        await wait_until(lambda: bool(later.errors))
        assert "upgrade the other agent" in str(later.errors[0])


async def test_a_release_that_skipped_one_is_told_so_by_the_one_before() -> None:
    async with Answering(None, [greeting.FORMER_PATH]) as before:
        with pytest.raises(UnsupportedVersionError, match=r"release 0\.1.*upgrade the other agent"):
            await call(before.contact, None, LATER)
