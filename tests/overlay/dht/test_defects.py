"""Defects of kademlia 2.2.3 and rpcudp 5.0.1 (OVERLAY section 1) that no other test of this folder holds us to."""

from __future__ import annotations

import asyncio
import random

import pytest

from elf.overlay.dht import Dht, Secret
from elf.overlay.dht.auth import Gate
from elf.overlay.dht.hints import HINT_TTL_MS
from elf.overlay.dht.messages import (
    CONTACTS_MAX,
    DATAGRAM_BYTES_MAX,
    HINT_BYTES_MAX,
    Fetched,
    Find,
    Found,
    Store,
    encode,
    pack,
    unpack,
)
from elf.overlay.ids import Contact, prefix_bits
from elf.overlay.sim.loop import SimLoop
from elf.overlay.sim.machines import PORT
from tests.overlay.dht.cluster import DhtCluster
from tests.ports import free_port

SECRET = Secret([b"s" * 32])
KEY, CALL = b"k" * 20, b"callcall"


async def pair(loop: SimLoop) -> tuple[Dht, Dht]:
    cluster = DhtCluster(loop)
    one, two = await cluster.start(), await cluster.start()
    assert await two.join([(one.contact.host, PORT)]) == 1
    return one, two


# -- reliability: 5 s without a second try


def test_a_call_fails_after_one_second_and_two_datagrams() -> None:
    loop = SimLoop(1)

    async def main() -> None:
        one, two = await pair(loop)
        assert one.protocol is not None
        loop.cut = lambda source, destination: True
        began, sent = loop.now_ms, loop.sent
        assert await one.protocol.call_ping(two.contact) is None
        assert (loop.now_ms - began, loop.sent - sent) == (1000, 2)
        assert (one.counters.timeouts, one.counters.repeated) == (1, 1)

    loop.run(main())


# -- threading: timers and tasks outlive stop()


def test_nothing_of_an_agent_is_left_when_it_stops() -> None:
    loop = SimLoop(1)

    async def main() -> None:
        one, two = await pair(loop)
        two.stop()
        assert one.protocol is not None
        protocol, calls = one.protocol, [one.protocol.call_ping(two.contact) for _ in range(3)]
        one.stop()
        assert all(call.done() for call in calls) and not protocol._outstanding
        await asyncio.gather(one.wait_stopped(), two.wait_stopped())
        timeouts, sent = one.counters.timeouts, loop.sent
        await asyncio.sleep(100)
        assert (one.counters.timeouts, loop.sent) == (timeouts, sent)

    loop.run(main())


# -- size: replies are unchecked


def test_every_reply_fits_a_datagram_and_a_usual_one_an_ethernet_frame() -> None:
    far = [Contact.at(f"2001:db8:ffff:ffff:ffff:ffff:ffff:{index:x}", 65535) for index in range(1, CONTACTS_MAX + 1)]
    own, packed = pack(far[0]), tuple(pack(contact) for contact in far)

    def size(message: Found | Fetched | Store) -> int:
        return len(Gate(SECRET, far[0].address).seal(encode(message), far[1].address, 2**44))

    assert size(Found(CALL, own, packed)) < DATAGRAM_BYTES_MAX
    assert size(Fetched(CALL, own, 2**62, bytes(HINT_BYTES_MAX))) < DATAGRAM_BYTES_MAX
    assert size(Store(CALL, own, KEY, 2**62, bytes(HINT_BYTES_MAX))) < DATAGRAM_BYTES_MAX
    assert size(Found(CALL, own, packed[:20])) < 1280, "the smallest MTU of IPv6, headers included"


# -- values: whatever `set` lets through, `get` fails on; nothing and absent are the same


@pytest.mark.parametrize("value", [{"q": 1}, [1], "text", 7, None, bytearray(b"x")], ids=repr)
def test_only_bytes_are_values(value: object) -> None:
    loop = SimLoop(1)

    async def main() -> None:
        one, two = await pair(loop)
        for setter in (one.set_hint, one.set_digest):
            with pytest.raises(TypeError, match="a hint is bytes"):
                await setter(KEY, value)  # type: ignore[arg-type]
        assert await two.get_hint(KEY) is None

    loop.run(main())


def test_an_empty_value_is_not_an_absent_one() -> None:
    loop = SimLoop(1)

    async def main() -> None:
        one, two = await pair(loop)
        assert await two.get_hint(KEY) is None
        await one.set_hint(KEY, b"")
        assert await two.get_hint(KEY) == b""

    loop.run(main())


# -- store semantics: reading leaves copies that go stale; hand-off hashes the key twice; no value ever expires


def test_reading_leaves_no_copies_and_a_newcomer_hides_nothing() -> None:
    loop = SimLoop(3)

    async def main() -> None:
        cluster = DhtCluster(loop)
        await cluster.grow(40)
        await cluster.agents[0].set_hint(KEY, b"v1")
        holders = [agent.contact for agent in cluster.agents if len(agent.hints)]
        assert len(holders) == 8
        for agent in cluster.agents:
            assert await agent.get_hint(KEY) == b"v1"
        assert [agent.contact for agent in cluster.agents if len(agent.hints)] == holders
        hosts = (f"10.1.{index >> 8}.{index & 255}" for index in range(4000))
        near = next(host for host in hosts if prefix_bits(Contact.at(host, PORT).id, KEY) >= 10)
        newcomer = await cluster.start(near)
        await newcomer.join([(cluster.agents[0].contact.host, PORT)])
        assert cluster.root(KEY) == newcomer.contact and not len(newcomer.hints)
        assert await newcomer.get_hint(KEY) == b"v1"
        await newcomer.set_hint(KEY, b"v2")
        assert {await agent.get_hint(KEY) for agent in cluster.agents} == {b"v2"}

    loop.run(main())


def test_upkeep_and_reading_do_not_prolong_a_hint() -> None:
    loop = SimLoop(3)

    async def main() -> None:
        one, two = await pair(loop)
        await one.set_hint(KEY, b"v")
        await asyncio.sleep(300)
        assert await two.get_hint(KEY) == b"v"
        expires_ms = HINT_TTL_MS + 1_000
        assert one.hints.fetch(KEY, expires_ms) is None and two.hints.fetch(KEY, expires_ms) is None

    loop.run(main())


# -- refresh: after an hour, and not if a stranger asked meanwhile


def test_a_level_that_fell_empty_is_filled_within_a_minute_or_so_whatever_others_ask() -> None:
    loop = SimLoop(4)

    async def main() -> None:
        cluster = DhtCluster(loop)
        await cluster.grow(60)
        agent = cluster.agents[7]
        other = next(a for a in cluster.agents if prefix_bits(a.contact.id, agent.contact.id) == 1)
        assert other.protocol is not None

        def far_contacts() -> list[Contact]:
            return [contact for contact in agent.contacts() if prefix_bits(contact.id, agent.contact.id) == 0]

        while gone := far_contacts():  # those that waited for a place on the level come after the first twenty
            for contact in gone:
                assert not agent.table.strike(contact) and agent.table.strike(contact)
        agent.table.lost.clear()
        far = {a.contact.host for a in cluster.agents if prefix_bits(a.contact.id, agent.contact.id) == 0}
        asked: set[str] = set()

        def cut(source: tuple[str, int], destination: tuple[str, int]) -> bool:
            """The far half answers but does not ask: the agent has to find it by itself."""
            if source[0] == agent.contact.host:
                asked.add(destination[0])
            return destination[0] == agent.contact.host and source[0] in far - asked

        loop.cut = cut
        for _ in range(10):
            await other.protocol.call_find_node(agent.contact, KEY)
        assert not far_contacts()
        await asyncio.sleep(75)
        assert far_contacts()

    loop.run(main())


# -- own id: the agent with the very id looked for is left out


def test_an_agent_is_found_under_its_own_id() -> None:
    loop = SimLoop(5)

    async def main() -> None:
        cluster = DhtCluster(loop)
        await cluster.grow(40)
        for agent in cluster.agents:
            assert (await cluster.agents[0].lookup(agent.contact.id))[0] == agent.contact

    loop.run(main())


# -- NAT, and families: what cannot be reached must not be passed on


def test_an_ipv4_agent_knows_no_ipv6_contacts_and_no_names() -> None:
    loop = SimLoop(6)

    async def main() -> None:
        one, two = await pair(loop)
        assert one.protocol is not None and two.protocol is not None
        strangers = [Contact.at("2001:db8::9", PORT), Contact.at("web-9.example", PORT), Contact.at("10.0.0.9", 99999)]
        for contact in strangers:
            assert contact.genuine
            one.observe(contact)
            assert not one.protocol.reaches(contact)
        assert one.contacts() == [two.contact]
        # Were one of them in the table, this answer could not even be encoded.
        reply = one.protocol.respond(Find(CALL, pack(two.contact), KEY), Contact.at("10.0.0.77", PORT))
        assert reply == Found(CALL, pack(one.contact), (pack(two.contact),))
        # A member that passes them on all the same costs no call.
        respond = two.protocol.respond
        two.protocol.respond = lambda request, sender: (  # type: ignore[method-assign]
            Found(request.call, pack(two.contact), (pack(strangers[0]),))
            if isinstance(request, Find)
            else respond(request, sender)
        )
        sent = loop.sent
        assert await one.lookup(strangers[0].id) == sorted(
            [one.contact, two.contact], key=lambda c: int.from_bytes(c.id) ^ int.from_bytes(strangers[0].id)
        )
        assert loop.sent - sent <= 4

    loop.run(main())


def test_a_dual_stack_peer_is_known_by_its_ipv4_address() -> None:
    mapped = bytes(10) + b"\xff\xff" + bytes([10, 0, 0, 7])
    assert unpack(mapped + PORT.to_bytes(2)) == Contact.at("10.0.0.7", PORT) == Contact.at("::ffff:10.0.0.7", PORT)
    assert len(pack(Contact.at("::ffff:10.0.0.7", PORT))) == 6


async def test_the_advertised_address_need_not_be_the_bound_one() -> None:
    port, other_port = free_port(), free_port()
    wide = Dht(Contact.at("127.0.0.1", port), secret=SECRET, rng=random.Random(1))
    plain = Dht(Contact.at("127.0.0.1", other_port), secret=SECRET, rng=random.Random(2))
    try:
        await wide.start(bind=("0.0.0.0", port))
        await plain.start()
        assert await plain.join([("127.0.0.1", port)]) == 1
        assert plain.contacts() == [wide.contact] and wide.contacts() == [plain.contact]
    finally:
        for agent in (wide, plain):
            agent.stop()
            await agent.wait_stopped()
