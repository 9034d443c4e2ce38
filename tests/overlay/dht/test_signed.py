"""Datagrams signed with certificates: an agent speaks for its own place, and nobody else does, without any secret."""

from __future__ import annotations

import datetime
import random
import tracemalloc
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elf.overlay.dht.auth import PLAIN, SKEW_MS, Gate, Secret
from elf.overlay.dht.hints import Hint
from elf.overlay.dht.messages import Find, Ping, Pong, Store, encode, pack
from elf.overlay.dht.server import Dht
from elf.overlay.dht.signed import FORGED_MAX, FORGED_PER_HOST_MAX, SIGNED, Toll, read_signed
from elf.overlay.ids import Contact
from elf.overlay.links.notary import Notary
from elf.overlay.sim.loop import SimLoop
from elf.overlay.sim.machines import EPOCH_MS, PORT
from tests.overlay.certified import Issuer

NOW = datetime.datetime.fromtimestamp(EPOCH_MS / 1000, datetime.UTC)
HERE, THERE, ELSEWHERE = (Contact.at(f"10.0.0.{number}", PORT) for number in (1, 2, 3))
SECRET = Secret([b"s" * 32])
CALL, KEY = b"callcall", b"k" * 20


@pytest.fixture(scope="module")
def issuer(tmp_path_factory: pytest.TempPathFactory) -> Issuer:
    return Issuer(tmp_path_factory.mktemp("ca"), NOW)


@pytest.fixture(scope="module")
def here(issuer: Issuer) -> Notary:
    return issuer.notary(HERE.address)


@pytest.fixture(scope="module")
def there(issuer: Issuer) -> Notary:
    return issuer.notary(THERE.address)


def gate(notary: Notary | None, contact: Contact = HERE, secret: Secret | None = None) -> Gate:
    return Gate(secret, contact.address, notary=notary)


def sent(notary: Notary, body: bytes = b"body", to: Contact = HERE, at_ms: int = EPOCH_MS) -> bytes:
    return gate(notary, THERE).seal(body, to.address, at_ms)


def test_what_is_signed_is_opened_once_where_it_was_sent_and_speaks_for_its_place(here: Notary, there: Notary) -> None:
    opener, datagram = gate(here), sent(there)
    assert datagram[:1] == SIGNED and len(datagram) < 700
    assert opener.open(datagram, EPOCH_MS, THERE.host) == b"body"
    assert opener.speaks_for(THERE)
    assert not opener.speaks_for(ELSEWHERE) and not opener.speaks_for(Contact.at(THERE.host, PORT + 1))
    assert opener.open(datagram, EPOCH_MS, THERE.host) is None, "again"
    assert gate(there, ELSEWHERE).open(datagram, EPOCH_MS, THERE.host) is None, "sent on"
    assert opener.open(sent(there, b"more"), EPOCH_MS, ELSEWHERE.host) is None, (
        "from another host than the certificate's"
    )


@pytest.mark.parametrize("late_ms", [-SKEW_MS - 1, -SKEW_MS, SKEW_MS, SKEW_MS + 1])
def test_clocks_may_be_apart_by_so_much(here: Notary, there: Notary, late_ms: int) -> None:
    opener = gate(here)
    opened = opener.open(sent(there), EPOCH_MS + late_ms, THERE.host)
    assert (opened is not None) == (abs(late_ms) <= SKEW_MS)
    assert opener.apart_ms == (None if opened else -late_ms)


def test_certificates_that_are_worth_nothing_open_nothing(tmp_path: Path, issuer: Issuer, here: Notary) -> None:
    other = Issuer(tmp_path / "other", NOW)
    long_ago = Issuer(tmp_path / "same", NOW)
    long_ago.pair = issuer.pair
    long_ago.now = NOW - datetime.timedelta(days=50)
    revoked = issuer.notary(THERE.address)
    opener = gate(issuer.notary(HERE.address, revoked=frozenset({revoked._holder.subject.serial})))
    assert gate(here).open(sent(revoked), EPOCH_MS, THERE.host) == b"body"
    for worthless in (other.notary(THERE.address), long_ago.notary(THERE.address, days=10), revoked):
        assert opener.open(sent(worthless), EPOCH_MS, THERE.host) is None
        assert opener.unlike is not None and "compare overlay.tls_ca_file" in opener.unlike
    # One without a port does not sign, and if it did, it would be worth nothing.
    portless = issuer.notary(THERE.address, THERE.host)
    assert portless.certificate == b"" and sent(portless) == PLAIN + b"body"
    portless.certificate = portless._holder.certificate
    assert opener.open(sent(portless), EPOCH_MS, THERE.host) is None


def test_a_certificate_alone_signs_nothing(here: Notary, there: Notary, issuer: Issuer) -> None:
    """It is in every datagram, for anybody to copy."""
    rogue = issuer.notary(ELSEWHERE.address)
    rogue.certificate = there.certificate
    opener = gate(here)
    for host in (THERE.host, ELSEWHERE.host):
        assert opener.open(sent(rogue), EPOCH_MS, host) is None


@given(st.integers(0, 1 << 16), st.integers(0, 7))
def test_whatever_is_changed_on_the_way_opens_nothing(here: Notary, there: Notary, index: int, bit: int) -> None:
    opener, wire = gate(here), bytearray(sent(there))
    wire[index % len(wire)] ^= 1 << bit
    assert opener.open(bytes(wire), EPOCH_MS, THERE.host) is None


@given(st.binary(max_size=60))
def test_any_bytes_open_nothing_and_raise_nothing(here: Notary, junk: bytes) -> None:
    assert gate(here).open(SIGNED + junk, EPOCH_MS, THERE.host) is None
    read_signed(SIGNED + junk)


def test_another_signature_of_the_same_is_a_repetition_too(here: Notary, there: Notary) -> None:
    """Of ECDSA everybody can make a second signature out of a first one."""
    opener = gate(here)
    first, second = sent(there), sent(there)
    assert first != second, "drawn anew"
    assert opener.open(first, EPOCH_MS, THERE.host) == b"body"
    assert opener.open(second, EPOCH_MS, THERE.host) is None


def test_secret_and_certificates_live_together_until_the_last_agent_has_one(here: Notary, there: Notary) -> None:
    sealed, signed = Gate(SECRET, THERE.address).seal(b"body", HERE.address, EPOCH_MS), sent(there)
    both, certified, keyed = gate(here, secret=SECRET), gate(here), gate(None, secret=SECRET)
    assert both.open(sealed, EPOCH_MS, THERE.host) == both.open(signed, EPOCH_MS, THERE.host) == b"body"
    for opener, datagram, why in (
        (certified, sealed, "set overlay.tls_cert_file there"),
        (certified, PLAIN + b"body", "set overlay.tls_cert_file there"),
        (keyed, signed, "set overlay.tls_cert_file here"),
        (gate(None), signed, "set overlay.tls_cert_file here"),
    ):
        assert opener.open(datagram, EPOCH_MS, THERE.host) is None
        assert opener.unlike is not None and why in opener.unlike


def test_forgeries_are_looked_into_so_often_in_a_second() -> None:
    toll = Toll()
    for _ in range(FORGED_PER_HOST_MAX):
        assert toll.admits("a", 0)
        toll.forged("a")
    assert not toll.admits("a", 999) and toll.admits("b", 999) and toll.admits("a", 1_000)
    for number in range(FORGED_MAX):
        assert toll.admits(str(number), 1_000)
        toll.forged(str(number))
    assert not toll.admits("c", 1_999) and toll.admits("c", 2_000) and toll.admits("c", 0)


async def pair_of(issuer: Issuer, loop: SimLoop) -> tuple[Dht, Dht]:
    """Start two agents that know each other."""
    agents = []
    for contact in (HERE, THERE):
        agent = Dht(
            contact,
            notary=issuer.notary(contact.address),
            rng=random.Random(contact.port),
            clock=lambda: EPOCH_MS + loop.now_ms,
        )
        await agent.start()
        agents.append(agent)
    assert await agents[1].join([(HERE.host, PORT)]) == 1
    return agents[0], agents[1]


def test_agents_with_certificates_find_each_other_and_hints_without_a_secret(issuer: Issuer) -> None:
    loop = SimLoop(1)

    async def main() -> None:
        here, there = await pair_of(issuer, loop)
        assert here.contacts() == [THERE] and there.contacts() == [HERE]
        assert await here.set_hint(KEY, b"hint") == 2
        assert await there.get_hint(KEY) == b"hint"
        assert not here.counters.rejected and not there.counters.rejected

    loop.run(main())


def test_a_member_speaks_for_no_other_place_and_chooses_none(issuer: Issuer) -> None:
    """A rogue with a certificate: it says that it is another, that it has another port, and comes from elsewhere."""
    loop = SimLoop(2)

    async def main() -> None:
        here, there = await pair_of(issuer, loop)
        here.hints.put(KEY, Hint(1, b"true"), 0)
        assert here.protocol is not None
        rogue = gate(issuer.notary(ELSEWHERE.address), ELSEWHERE)
        before = loop.sent
        for claimed in (THERE, Contact.at(ELSEWHERE.host, PORT + 7), Contact.at("10.0.0.9", PORT)):
            own = pack(claimed)
            for message in (
                Ping(CALL, own),
                Find(CALL, own, KEY),
                Store(CALL, own, KEY, 9, b"poison"),
                Pong(CALL, own),
            ):
                data = rogue.seal(encode(message), HERE.address, EPOCH_MS + loop.now_ms)
                for source in (claimed, ELSEWHERE):
                    here.protocol.datagram_received(data, (source.host, source.port))
        assert loop.sent == before, "not one byte goes back"
        assert here.contacts() == [there.contact] and here.hints.fetch(KEY, 0) == Hint(1, b"true")
        data = rogue.seal(encode(Ping(CALL, pack(ELSEWHERE))), HERE.address, EPOCH_MS + loop.now_ms)
        here.protocol.datagram_received(data, (ELSEWHERE.host, PORT))
        assert ELSEWHERE in here.contacts(), "as itself it is a member"

    loop.run(main())


def test_a_flood_of_forgeries_costs_no_memory_and_is_over_when_it_ends(tmp_path: Path, issuer: Issuer) -> None:
    other = Issuer(tmp_path / "other", NOW)
    loop = SimLoop(3)

    async def main() -> None:
        here, _ = await pair_of(issuer, loop)
        assert here.protocol is not None
        rng = random.Random(4)
        rogues = [gate(other.notary(f"10.9.{number}.1:{PORT}"), ELSEWHERE) for number in range(3)]
        forged = [rogue.seal(rng.randbytes(40), HERE.address, EPOCH_MS) for rogue in rogues for _ in range(100)]
        forged += [SIGNED + rng.randbytes(8) + b"\x02\x00\x00\x40" + rng.randbytes(700) for _ in range(300)]

        def flood(count: int) -> None:
            assert here.protocol is not None
            for number in range(count):
                here.protocol.datagram_received(rng.choice(forged), (f"10.9.{number % 250}.1", PORT))

        flood(5_000)
        tracemalloc.start()
        try:
            before = tracemalloc.get_traced_memory()[0]
            flood(5_000)
            grown = tracemalloc.get_traced_memory()[0] - before
        finally:
            tracemalloc.stop()
        assert grown < 1 << 20
        assert here.counters.rejected == 10_000 and here.contacts() == [THERE]
        assert here.protocol._gate._toll._total <= FORGED_MAX

    loop.run(main())
