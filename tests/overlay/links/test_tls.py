"""TLS 1.3 on links: members meet; a wrong CA, an expired certificate or another address is refused with one line."""

from __future__ import annotations

import datetime
import logging
import re
import ssl
from pathlib import Path

import pytest

from elf.overlay.contract import OverlaySettings
from elf.overlay.dht.auth import Secret
from elf.overlay.errors import OverlayError
from elf.overlay.links.binding import Bound, bind_sockets
from elf.overlay.links.certificates import make_authority, make_certificate
from elf.overlay.links.tls import Tls
from elf.overlay.node import OverlayNode
from elf.overlay.subject import subject_of
from tests.overlay.cluster import Runtime, wait_until

from .test_websocket import KEY, End, numbers

NOW = datetime.datetime.now(datetime.UTC)
Pair = tuple[bytes, bytes]


@pytest.fixture(scope="module")
def authority() -> Pair:
    return make_authority(NOW, 100)


def settings_of(folder: Path, name: str, ca: Pair, pair: Pair, **more: str) -> OverlaySettings:
    files = {}
    for part, data in (("cert", pair[0]), ("key", pair[1]), ("ca", ca[0])):
        file = folder / f"{name}-{part}.pem"
        file.write_bytes(data)
        file.chmod(0o600)
        files[f"tls_{part}_file"] = str(file)
    return OverlaySettings(**files, **more)


class TlsEnd(End):
    """An end with certificates; contexts are made by hand, since `Tls.load` would refuse most of them."""

    def __init__(self, seed: int, folder: Path, ca: Pair, pair: Pair, secret: Secret | None = None) -> None:
        super().__init__(seed, secret)
        settings = settings_of(folder, f"end{seed}", ca, pair)
        contexts = [ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)]
        for context in contexts:
            context.minimum_version = ssl.TLSVersion.TLSv1_3
            context.verify_mode = ssl.CERT_REQUIRED
            context.load_cert_chain(settings.tls_cert_file, settings.tls_key_file)
            context.load_verify_locations(settings.tls_ca_file)
        self.tls = Tls(*contexts)

    async def start(self) -> None:
        await self.links.start(Bound(self.listener, ("127.0.0.1", 0), self.contact, self.tls))


def pair_of(ca: Pair, address: str = "127.0.0.1", now: datetime.datetime = NOW, days: int = 10) -> Pair:
    return make_certificate(*ca, [address], now, days)


@pytest.mark.parametrize("secret", [None, KEY], ids=["certificates only", "and a secret"])
async def test_members_meet_over_tls_1_3(tmp_path: Path, authority: Pair, secret: Secret | None) -> None:
    ends = [TlsEnd(seed, tmp_path, authority, pair_of(authority), secret) for seed in (1, 2)]
    try:
        for end in ends:
            await end.start()
        for number in range(300):
            ends[0].say(ends[1], number)
            ends[1].say(ends[0], number)
        await wait_until(lambda: all(numbers(end) == list(range(300)) for end in ends))
        link = next(iter(ends[0].links._open))
        found = link.end.socket.get_extra_info("ssl_object")
        assert found.version() == "TLSv1.3"
        peer = subject_of(link.end.socket.get_extra_info("peercert"))
        assert (peer.hosts, peer.places) == ({"127.0.0.1"}, frozenset())
    finally:
        for end in ends:
            await end.links.stop()


STRANGERS = {
    "another CA": "unable to get local issuer certificate|self-signed|unknown ca|certificate verify failed",
    "expired": "expired",
    "another address": "not valid for 127.0.0.1|mismatch",
    "no TLS at all": "no TLS with it",
}


@pytest.mark.parametrize("kind", STRANGERS)
@pytest.mark.parametrize("calls", [True, False], ids=["calling", "called"])
async def test_strangers_are_refused_with_one_line(
    kind: str, calls: bool, tmp_path: Path, authority: Pair, caplog: pytest.LogCaptureFixture
) -> None:
    member = TlsEnd(1, tmp_path, authority, pair_of(authority))
    match kind:
        case "another CA":
            stranger: End = TlsEnd(2, tmp_path, authority, pair_of(make_authority(NOW, 100)))
        case "expired":
            long_ago = NOW - datetime.timedelta(days=50)
            stranger = TlsEnd(2, tmp_path, authority, pair_of(authority, now=long_ago))
        case "another address":
            stranger = TlsEnd(2, tmp_path, authority, pair_of(authority, "127.0.0.2"))
        case _:
            stranger = End(2)
    caplog.set_level(logging.WARNING, "overlay")
    try:
        await member.start()
        await stranger.start()
        caller, called = (stranger, member) if calls else (member, stranger)
        for attempt in range(1, 4):
            caller.say(called, attempt)
            await wait_until(lambda: len(caller.lost) == attempt)  # noqa: B023
        await wait_until(lambda: member.links.counters["links_refused"] >= 3)
        assert not member.seen
        assert not member.opened
        assert not stranger.seen
        # Whoever calls knows why in vain; the reasons that OpenSSL names are said in words.
        assert list(caller.links.refused) == [called.contact.address]
        assert not called.links.refused
        assert not re.search("[A-Z]{4,}_[A-Z]{2,}", caller.links.refused[called.contact.address])
        who = "127.0.0.1:" if calls else f"{stranger.contact.address}:"
        said = [record.getMessage() for record in caplog.records]
        ours = [line for line in said if line.startswith(f"no link with {who} ")]
        assert len(ours) == 1, said
        assert re.search(STRANGERS[kind], ours[0])
    finally:
        await member.links.stop()
        await stranger.links.stop()


async def test_an_agent_finds_out_at_its_start_that_others_would_refuse_it(tmp_path: Path, authority: Pair) -> None:
    long_ago = NOW - datetime.timedelta(days=50)
    other = make_authority(NOW, 100)
    good = pair_of(authority)
    for name, ca, pair, text in (
        ("address", authority, pair_of(authority, "10.0.0.7"), "not valid for 127.0.0.1"),
        ("expired", authority, pair_of(authority, now=long_ago), "valid from"),
        ("port", authority, pair_of(authority, "127.0.0.1:1"), r"not valid for 127.0.0.1:\d+, the address of this"),
        ("ca", other, good, "not signed by the CA"),
        ("key", authority, (good[0], pair_of(authority)[1]), "does not fit"),
        ("nonsense", authority, (b"nonsense", good[1]), "no certificate in PEM form"),
    ):
        with pytest.raises(OverlayError, match=text):
            await bind_sockets(settings_of(tmp_path, name, ca, pair), secure=False)
    readable = settings_of(tmp_path, "readable", authority, good)
    (tmp_path / "readable-key.pem").chmod(0o644)
    with pytest.raises(OverlayError, match="chmod 600"):
        await bind_sockets(readable, secure=False)
    with pytest.raises(OverlayError, match="belong together"):
        OverlaySettings(tls_cert_file="a")
    with pytest.raises(OverlayError, match="no cluster secret; set secret_file, or tls_cert_file"):
        await bind_sockets(OverlaySettings(bind="0.0.0.0:0", advertise="127.0.0.1:0"), secure=False)
    with pytest.raises(OverlayError, match=r"but not its datagrams.*certgen --address 127.0.0.1:\d+`"):
        await bind_sockets(
            settings_of(tmp_path, "open", authority, good, bind="0.0.0.0:0", advertise="127.0.0.1:0"), secure=False
        )


async def test_nodes_with_certificates_work_together(tmp_path: Path, authority: Pair) -> None:
    nodes: list[OverlayNode] = []
    runtimes = [Runtime(f"agent-{i}") for i in range(2)]
    try:
        for index, runtime in enumerate(runtimes):
            settings = settings_of(tmp_path, f"node{index}", authority, pair_of(authority), agent_id=runtime.name)
            node = OverlayNode(settings, runtime)
            await node.start()
            nodes.append(node)
        runtimes[1].owned[nodes[1].contact.id] = b"hello "
        assert await nodes[0].ask(nodes[1].contact, b"world") == b"hello world"
    finally:
        for node in nodes:
            await node.stop()
