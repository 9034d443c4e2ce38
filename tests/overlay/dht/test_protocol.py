"""One agent on the simulated network: lost datagrams, liars and noise. Every protocol defect of the stock library."""

from __future__ import annotations

import asyncio
import random

import msgspec
import pytest

from elf.overlay.dht import Dht, Secret
from elf.overlay.dht.auth import PLAIN
from elf.overlay.dht.messages import DATAGRAM_BYTES_MAX, Ping, Pong, encode, pack
from elf.overlay.dht.protocol import DhtProtocol
from elf.overlay.ids import Contact
from elf.overlay.sim.loop import SimLoop
from tests.overlay.dht.cluster import DhtCluster

SECRET = Secret([b"s" * 32])


def protocol_of(agent: Dht) -> DhtProtocol:
    assert agent.protocol is not None
    return agent.protocol


async def pair(loop: SimLoop, secret: Secret | None = None) -> tuple[Dht, Dht]:
    cluster = DhtCluster(loop, secret=secret)
    one, two = await cluster.start(), await cluster.start()
    assert await two.join([(one.contact.host, one.contact.port)]) == 1
    return one, two


def test_one_lost_datagram_costs_a_moment_and_no_contact() -> None:
    loop = SimLoop(1)

    async def main() -> None:
        one, two = await pair(loop)
        lost = 0

        def first(source: tuple[str, int], destination: tuple[str, int]) -> bool:
            nonlocal lost
            lost += 1
            return lost == 1

        loop.cut, began = first, loop.now_ms
        assert isinstance(await protocol_of(one).call_ping(two.contact), Pong)
        assert loop.now_ms - began < 400
        assert one.counters.repeated == 1 and one.counters.timeouts == 0
        assert one.contacts() == [two.contact]

    loop.run(main())


def test_a_second_silence_evicts_and_the_first_does_not() -> None:
    loop = SimLoop(1)

    async def main() -> None:
        one, two = await pair(loop)
        two.stop()
        assert await protocol_of(one).call_ping(two.contact) is None
        assert one.contacts() == [two.contact]
        assert await protocol_of(one).call_ping(two.contact) is None
        assert one.contacts() == []
        assert one.counters.evicted == 1

    loop.run(main())


@pytest.mark.parametrize("secret", [None, SECRET])
def test_any_bytes_are_dropped_and_counted(secret: Secret | None) -> None:
    loop = SimLoop(1)

    async def main() -> None:
        one, two = await pair(loop, secret)
        rng, protocol, before = random.Random(3), protocol_of(one), one.counters.received
        noise = [rng.randbytes(rng.randrange(120)) for _ in range(300)]
        noise += [PLAIN + data for data in noise] + [bytes(DATAGRAM_BYTES_MAX + 1), b"", PLAIN]
        noise += [PLAIN + msgspec.msgpack.encode([tag, b"x" * 8]) for tag in range(12)]
        for data in noise:
            protocol.datagram_received(data, (two.contact.host, two.contact.port))
        counters = one.counters
        assert counters.received - before == len(noise) == counters.rejected + counters.malformed
        assert one.contacts() == [two.contact]

    loop.run(main())


def test_a_forged_sender_is_answered_but_never_admitted() -> None:
    loop = SimLoop(1)

    async def main() -> None:
        one, _ = await pair(loop)
        claimed = Contact.at("10.0.0.99", 4250)
        request = PLAIN + encode(Ping(b"callcall", pack(claimed)))
        protocol_of(one).datagram_received(request, ("10.0.0.77", 4250))
        assert one.counters.refused == 1
        assert claimed not in one.contacts()

    loop.run(main())


def test_a_reply_counts_only_from_the_agent_asked() -> None:
    loop = SimLoop(1)

    async def main() -> None:
        one, two = await pair(loop)
        liar, protocol, unmatched = Contact.at("10.0.0.77", 4250), protocol_of(one), one.counters.unmatched
        loop.cut = lambda source, destination: True
        answer = protocol.call_ping(two.contact)
        [call_id] = protocol._outstanding
        protocol.datagram_received(PLAIN + encode(Pong(call_id, pack(liar))), (liar.host, liar.port))
        protocol.datagram_received(PLAIN + encode(Ping(call_id, pack(two.contact))), (liar.host, liar.port))
        assert one.counters.unmatched == unmatched + 1
        assert not answer.done()
        assert await answer is None

    loop.run(main())


def test_a_datagram_recorded_on_the_way_cannot_be_used_again() -> None:
    loop = SimLoop(1)

    async def main() -> None:
        one, two = await pair(loop, SECRET)
        recorded: list[tuple[tuple[str, int], tuple[str, int], bytes]] = []
        carry = loop.carry

        def tap(source: tuple[str, int], destination: tuple[str, int], data: bytes) -> None:
            recorded.append((source, destination, data))
            carry(source, destination, data)

        loop.carry = tap  # type: ignore[method-assign]
        assert await protocol_of(one).call_ping(two.contact) is not None
        rejected = two.counters.rejected, one.counters.rejected
        for source, destination, data in recorded:
            carry(source, destination, data)
            carry(destination, source, data)
        loop.carry = carry  # type: ignore[method-assign]
        await asyncio.sleep(1)
        assert (two.counters.rejected - rejected[0], one.counters.rejected - rejected[1]) == (2, 2)

    loop.run(main())


def test_agents_with_another_secret_or_none_stay_strangers() -> None:
    loop = SimLoop(1)

    async def main() -> None:
        member = await DhtCluster(loop, secret=SECRET).start("10.0.0.1")
        for host, secret in (("10.0.0.2", Secret([b"x" * 32])), ("10.0.0.3", None)):
            stranger = await DhtCluster(loop, secret=secret).start(host)
            assert await stranger.join([("10.0.0.1", 4250)]) == 0
        assert member.contacts() == []
        assert member.counters.rejected == 4

    loop.run(main())


def test_a_typo_is_not_a_remote_call() -> None:
    loop = SimLoop(1)

    async def main() -> None:
        one, _ = await pair(loop)
        with pytest.raises(AttributeError, match="call_pong"):
            protocol_of(one).call_pong(one.contact)

    loop.run(main())


def test_calls_end_when_the_agent_stops() -> None:
    loop = SimLoop(1)

    async def main() -> None:
        one, two = await pair(loop)
        protocol = protocol_of(one)
        answer, began = protocol.call_ping(two.contact), loop.now_ms
        one.stop()
        assert await answer is None
        assert await protocol.call_ping(two.contact) is None
        assert loop.now_ms == began

    loop.run(main())


def test_ipv6_agents_find_each_other() -> None:
    loop = SimLoop(1, names={"seed.example": ["2001:db8::1", "10.0.0.1"]})

    async def main() -> None:
        cluster = DhtCluster(loop, secret=SECRET)
        agents = [await cluster.start(f"2001:db8::{index:x}") for index in range(1, 6)]
        for agent in agents[1:]:
            assert await agent.join([("seed.example", 4250)])
        assert all(len(agent.contacts()) == 4 for agent in agents)

    loop.run(main())


def test_a_dual_stack_socket_reaches_and_hears_ipv4() -> None:
    loop = SimLoop(1)

    async def main() -> None:
        one, _ = await pair(loop)
        protocol = protocol_of(one)
        other = Contact.at("10.0.0.9", 4250)
        protocol._mapped = True
        sent: list[tuple[str, int]] = []
        loop.carry = lambda source, destination, data: sent.append(destination)  # type: ignore[method-assign]
        call = protocol.call_ping(other)
        assert sent == [("::ffff:10.0.0.9", 4250)]
        [call_id] = protocol._outstanding
        protocol.datagram_received(PLAIN + encode(Pong(call_id, pack(other))), ("::ffff:10.0.0.9", 4250))
        assert isinstance(await call, Pong)
        assert other in one.contacts()

    loop.run(main())
