"""Whoever lacks the secret learns nothing and changes nothing: no reply, no contact, no hint; only a count."""

from __future__ import annotations

import asyncio
import random
import tracemalloc
from collections.abc import Callable

import pytest

from elf.overlay.dht import Dht, Secret
from elf.overlay.dht.auth import PLAIN, SEEN_MAX, SKEW_MS, Gate
from elf.overlay.dht.hints import Hint
from elf.overlay.dht.messages import Fetch, Fetched, Find, Found, Message, Ping, Pong, Store, Stored, encode, pack
from elf.overlay.ids import Contact
from elf.overlay.sim.loop import SimLoop
from elf.overlay.sim.machines import EPOCH_MS, PORT
from tests.overlay.dht.cluster import DhtCluster

SECRET, OTHER = Secret([b"s" * 32]), Secret([b"x" * 32])
KEY = b"k" * 20
VICTIM, MATE = Contact.at("10.0.0.1", PORT), Contact.at("10.0.0.2", PORT)
STRANGER = Contact.at("10.0.0.66", PORT)
CALL = b"callcall"

Forge = Callable[[Message, int], bytes]
FORGERIES: dict[str, Forge] = {
    "without a seal": lambda message, now: PLAIN + encode(message),
    "bare": lambda message, now: encode(message),
    "with another secret": lambda message, now: Gate(OTHER, STRANGER.address).seal(
        encode(message), VICTIM.address, now
    ),
    "for somebody else": lambda message, now: Gate(SECRET, MATE.address).seal(encode(message), MATE.address, now),
    "too old": lambda message, now: _sealed(message, now - SKEW_MS - 1),
    "from the future": lambda message, now: _sealed(message, now + SKEW_MS + 1),
    "with another body": lambda message, now: _sealed(message, now)[:-1] + b"\x00",
    "with another date": lambda message, now: _sealed(message, now)[:8] + b"\xff" + _sealed(message, now)[9:],
    "with another key id": lambda message, now: _sealed(message, now)[:9] + b"nokey" + _sealed(message, now)[14:],
    "cut short": lambda message, now: _sealed(message, now)[:28],
    "the head alone": lambda message, now: b"\x02",
}


def _sealed(message: Message, now_ms: int, secret: Secret = SECRET) -> bytes:
    """What only a member can make; the forgeries are this, spoilt."""
    return Gate(secret, MATE.address).seal(encode(message), VICTIM.address, now_ms)


def messages_from(sender: Contact) -> list[Message]:
    own = pack(sender)
    return [
        Ping(CALL, own),
        Find(CALL, own, KEY),
        Fetch(CALL, own, KEY),
        Store(CALL, own, KEY, 2**62, b"poison"),
        Pong(CALL, own),
        Found(CALL, own, (pack(STRANGER),)),
        Fetched(CALL, own, 2**62, b"poison"),
        Stored(CALL, own, True),
    ]


async def victim_of(loop: SimLoop) -> Dht:
    """Start two members that know each other, and a hint at the first."""
    cluster = DhtCluster(loop, secret=SECRET)
    victim, mate = await cluster.start(VICTIM.host), await cluster.start(MATE.host)
    assert await mate.join([(VICTIM.host, PORT)]) == 1
    victim.hints.put(KEY, Hint(1, b"true"), 0)
    return victim


@pytest.mark.parametrize("forgery", FORGERIES)
def test_a_forged_datagram_is_counted_and_nothing_else_happens(forgery: str) -> None:
    loop = SimLoop(1)

    async def main() -> None:
        victim = await victim_of(loop)
        assert victim.protocol is not None
        forged = [
            (FORGERIES[forgery](message, EPOCH_MS + loop.now_ms), source)
            for source in (STRANGER, MATE)
            for message in messages_from(source)
        ]
        sent, seen = loop.sent, victim.counters.received
        rejected, contacts = victim.counters.rejected, victim.contacts()
        for data, source in forged:
            victim.protocol.datagram_received(data, (source.host, source.port))
        assert loop.sent == sent, "not one byte goes back"
        assert victim.counters.received - seen == victim.counters.rejected - rejected == len(forged)
        assert victim.contacts() == contacts == [MATE]
        assert victim.hints.fetch(KEY, loop.now_ms) == Hint(1, b"true") and len(victim.hints) == 1
        assert not victim.table.lost

    loop.run(main())


def test_everything_said_in_a_cluster_is_worth_nothing_to_who_recorded_it() -> None:
    """Replayed at once or later, sent back, and sent on to each other member: all of it is refused."""
    loop = SimLoop(2)

    async def main() -> None:
        cluster = DhtCluster(loop, secret=SECRET)
        recorded: list[tuple[tuple[str, int], tuple[str, int], bytes]] = []
        carry = loop.carry

        def tap(source: tuple[str, int], destination: tuple[str, int], data: bytes) -> None:
            recorded.append((source, destination, data))
            carry(source, destination, data)

        loop.carry = tap  # type: ignore[method-assign]
        await cluster.grow(6)
        await cluster.agents[0].set_hint(KEY, b"old")
        await cluster.agents[0].set_hint(KEY, b"new")
        loop.carry = carry  # type: ignore[method-assign]
        await asyncio.sleep(1)
        assert len(recorded) > 100
        for pause_s in (0.0, 20.0, 20.0, 60.0):
            await asyncio.sleep(pause_s)
            before = [(agent.counters.received, agent.counters.rejected, agent.contacts()) for agent in cluster.agents]
            sent = loop.sent
            for source, destination, data in recorded:
                for agent in cluster.agents:
                    assert agent.protocol is not None
                    agent.protocol.datagram_received(data, source)
                    agent.protocol.datagram_received(data, destination)
            assert loop.sent == sent
            for agent, (received, rejected, contacts) in zip(cluster.agents, before, strict=True):
                assert agent.counters.received - received == 2 * len(recorded) == agent.counters.rejected - rejected
                assert agent.contacts() == contacts
        assert await cluster.agents[3].get_hint(KEY) == b"new"

    loop.run(main())


def test_a_flood_without_the_secret_leaves_no_trace_in_memory() -> None:
    loop = SimLoop(3)

    async def main() -> None:
        victim = await victim_of(loop)
        assert victim.protocol is not None
        rng = random.Random(4)

        def flood(count: int) -> None:
            assert victim.protocol is not None
            for _ in range(count):
                source = Contact.at(f"10.{rng.randrange(256)}.{rng.randrange(256)}.{rng.randrange(1, 255)}", PORT)
                gate, body = Gate(OTHER, source.address), encode(rng.choice(messages_from(source)))
                data = rng.choice([gate.seal(body, VICTIM.address, EPOCH_MS + loop.now_ms), PLAIN + body])
                victim.protocol.datagram_received(data, (source.host, source.port))

        sent = loop.sent
        flood(20_000)
        tracemalloc.start()
        try:
            before = tracemalloc.get_traced_memory()[0]
            flood(10_000)
            after = tracemalloc.get_traced_memory()[0]
        finally:
            tracemalloc.stop()
        # What is traced also holds the bounded caches of addresses, which this test fills as the sender.
        assert after - before < 8 << 20
        assert loop.sent == sent and victim.contacts() == [MATE]
        assert victim.counters.rejected == 30_000

    loop.run(main())


def test_the_replay_window_is_bounded_and_refuses_what_it_cannot_remember() -> None:
    gate, mate = Gate(SECRET, VICTIM.address), Gate(SECRET, MATE.address)
    gate._seen = {number.to_bytes(20) for number in range(SEEN_MAX)}
    gate._turned_ms = EPOCH_MS
    assert gate.open(mate.seal(b"one more", VICTIM.address, EPOCH_MS), EPOCH_MS) is None
    later_ms = EPOCH_MS + 2 * SKEW_MS
    assert gate.open(mate.seal(b"one more", VICTIM.address, later_ms), later_ms) == b"one more"
    assert len(gate._seen) == 1


def test_even_a_member_cannot_be_made_to_admit_an_agent_elsewhere() -> None:
    loop = SimLoop(5)

    async def main() -> None:
        victim = await victim_of(loop)
        assert victim.protocol is not None
        for message in messages_from(STRANGER):
            data = Gate(SECRET, MATE.address).seal(encode(message), VICTIM.address, EPOCH_MS + loop.now_ms)
            victim.protocol.datagram_received(data, (MATE.host, MATE.port))
        assert victim.contacts() == [MATE]
        assert (victim.counters.refused, victim.counters.unmatched) == (4, 4)

    loop.run(main())


def test_keys_are_changed_under_load_without_losing_anybody() -> None:
    old, new = b"o" * 32, b"n" * 32
    loop = SimLoop(6)

    async def main() -> None:
        cluster = DhtCluster(loop, secret=Secret([old]))
        await cluster.grow(8)
        hosts = [agent.contact.host for agent in cluster.agents]
        for keys in ([old, new], [new, old], [new]):
            cluster.secret = Secret(keys)
            for host in hosts:
                # One agent after the other is restarted with the next secret, as an operator would.
                leaver = next(agent for agent in cluster.agents if agent.contact.host == host)
                cluster.crash(leaver)
                agent = await cluster.start(host)
                assert await agent.join([(cluster.agents[0].contact.host, PORT)]) == 7
                root = cluster.root(KEY)
                assert {(await each.lookup(KEY))[0] for each in cluster.agents} == {root}

    loop.run(main())


def test_a_member_whose_clock_is_wrong_is_named_once_in_a_while(caplog: pytest.LogCaptureFixture) -> None:
    loop = SimLoop(3)

    async def main() -> None:
        victim = await victim_of(loop)
        assert victim.protocol is not None
        for forgery in ("too old", "from the future", "with another secret"):
            for message in messages_from(MATE):
                forged = FORGERIES[forgery](message, EPOCH_MS + loop.now_ms)
                victim.protocol.datagram_received(forged, (MATE.host, PORT))
        assert victim.counters.out_of_time == 2 * len(messages_from(MATE))

    loop.run(main())
    told = [record.getMessage() for record in caplog.records if "clock" in record.getMessage()]
    assert told == [f"the clock of {MATE.host} is 30 s behind ours: it is not heard"]


def test_an_agent_that_is_set_otherwise_is_named_with_what_to_compare(caplog: pytest.LogCaptureFixture) -> None:
    loop = SimLoop(3)
    unheard: list[str] = []

    async def main() -> None:
        victim = await victim_of(loop)
        assert victim.protocol is not None
        for port, forgery in enumerate(FORGERIES):
            for message in messages_from(MATE):
                forged = FORGERIES[forgery](message, EPOCH_MS + loop.now_ms)
                victim.protocol.datagram_received(forged, (STRANGER.host, port + 1))
        unheard.extend(victim.unheard())
        await asyncio.sleep(61)
        assert victim.unheard() == []

    loop.run(main())
    told = [record.getMessage() for record in caplog.records if "datagrams" in record.getMessage()]
    assert sorted(told) == sorted(line for line in unheard if "datagrams" in line)
    assert "clock" in unheard[0], "members first"
    reasons = {
        line.partition(f"datagrams from {STRANGER.host}:")[2].partition(" are not heard: ")[::2] for line in told
    }
    ports = {forgery: str(port + 1) for port, forgery in enumerate(FORGERIES)}
    for forgery, why in (
        ("without a seal", "they have no seal and this agent has a cluster secret; set overlay.secret_file there"),
        (
            "with another secret",
            "their cluster secret is not ours; overlay.secret_file has to be the same there and here",
        ),
    ):
        assert (ports[forgery], why) in reasons
    assert any(port == ports["for somebody else"] and "overlay.advertise" in why for port, why in reasons)
    assert not {ports["bare"], ports["cut short"], ports["the head alone"]} & {port for port, _ in reasons}


def test_an_agent_without_a_secret_says_so_of_those_that_have_one() -> None:
    gate = Gate(None, VICTIM.address)
    assert gate.open(_sealed(messages_from(MATE)[0], EPOCH_MS), EPOCH_MS) is None
    assert gate.unlike is not None and gate.unlike.endswith("set overlay.secret_file here")
    assert gate.open(PLAIN + b"body", EPOCH_MS) == b"body"
    assert gate.unlike is None
