"""Certificates in the place of the secret: who meets over them, who is refused, and what revoking one does."""

from __future__ import annotations

import datetime
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from elf.overlay.contract import OverlaySettings
from elf.overlay.errors import OverlayError, RemoteProtocolError
from elf.overlay.links.certificates import serial_of
from elf.overlay.links.notary import REVOKED_BYTES_MAX, read_revoked
from elf.overlay.links.tls import Tls
from elf.overlay.node import OverlayNode
from tests.overlay.certified import Issuer
from tests.overlay.cluster import Runtime, wait_until
from tests.ports import free_port

NOW = datetime.datetime.now(datetime.UTC)
SECRET = "5e" * 32 + "\n"


@pytest.fixture(scope="module")
def issuer(tmp_path_factory: pytest.TempPathFactory) -> Issuer:
    return Issuer(tmp_path_factory.mktemp("ca"), NOW)


@pytest.fixture
def secret(tmp_path: Path) -> str:
    file = tmp_path / "secret"
    file.write_text(SECRET)
    file.chmod(0o600)
    return str(file)


class Site:
    """Nodes on loopback, which are stopped at the end."""

    def __init__(self, issuer: Issuer) -> None:
        self.issuer = issuer
        self.nodes: list[OverlayNode] = []

    async def node(self, *, names: str = "", issuer: Issuer | None = None, **more: Any) -> OverlayNode:
        """Start one that joins through the first; its certificate names address and port unless told otherwise."""
        port = free_port()
        files = (issuer or self.issuer).settings(names or f"127.0.0.1:{port}")
        join = tuple(node.contact.address for node in self.nodes[:1])
        settings = OverlaySettings(bind=f"127.0.0.1:{port}", join=join, agent_id=str(port), **(files | more))
        runtime = Runtime(str(port))
        node = OverlayNode(settings, runtime)
        await node.start()
        runtime.owned[node.contact.id] = b"hello "
        self.nodes.append(node)
        return node


@pytest.fixture
async def site(issuer: Issuer) -> AsyncIterator[Site]:
    made = Site(issuer)
    yield made
    for node in made.nodes:
        await node.stop()


async def meet(one: OverlayNode, other: OverlayNode) -> None:
    assert await other.join() >= 1
    assert await one.ask(other.contact, b"world") == b"hello world"
    assert await other.ask(one.contact, b"world") == b"hello world"


async def refuse(one: OverlayNode, other: OverlayNode) -> None:
    """Neither hears the other, by datagram or link."""
    assert await other.join() == 0
    for caller, called in ((one, other), (other, one)):
        with pytest.raises(OverlayError):
            await caller.ask(called.contact, b"world", 1_500)


async def test_agents_with_certificates_need_no_secret(site: Site) -> None:
    one, other = await site.node(), await site.node()
    await meet(one, other)
    assert one.contacts() == [other.contact]


@pytest.mark.parametrize("kind", ["another authority", "no port", "revoked"])
async def test_other_certificates_are_refused(site: Site, tmp_path: Path, kind: str) -> None:
    revoked = tmp_path / "revoked"
    revoked.touch()
    one = await site.node(tls_revoked_file=str(revoked))
    match kind:
        case "another authority":
            other = await site.node(issuer=Issuer(tmp_path / "other", NOW))
        case "no port":
            other = await site.node(names="127.0.0.1")
        case _:
            other = await site.node()
            await meet(one, other)
            revoked.write_text(f"{serial_of(other.settings.tls_cert_file):x}  # lost\n")
            one.renewal(one.settings)()
            # Also the link that was open is gone, and nobody hears of it any more.
            await wait_until(lambda: one.linked() == [])
            with pytest.raises(OverlayError):
                await one.ask(other.contact, b"world", 1_500)
            with pytest.raises(OverlayError):
                await other.ask(one.contact, b"world", 1_500)
            assert "revoked" in one._links.refused[other.contact.address]  # type: ignore[union-attr]
            return
    await refuse(one, other)


async def test_a_certificate_is_worth_nothing_at_another_address(site: Site, caplog: pytest.LogCaptureFixture) -> None:
    """A thief has the key of an agent that is away, and says that it is that one."""
    one = await site.node()
    away = f"127.0.0.2:{free_port()}"
    thief = await site.node(names=away, advertise=away)
    await refuse(one, thief)
    assert one.contacts() == []
    assert "it calls from another address than its certificate is for" in caplog.text


async def test_the_secret_goes_from_one_agent_after_the_other(site: Site, secret: str) -> None:
    """With a secret and certificates on some, certificates alone on others, all hear each other."""
    both = [await site.node(secret_file=secret), await site.node(secret_file=secret)]
    await meet(*both)
    certified = await site.node()
    await meet(both[0], certified)
    await meet(both[1], certified)


async def test_certificates_of_before_need_the_secret_as_ever(site: Site, secret: str) -> None:
    """Without ports, next to one that has a port and both: who knows the secret is heard where it is asked for."""
    one = await site.node(names="127.0.0.1", secret_file=secret)
    other = await site.node(names="127.0.0.1", secret_file=secret)
    await meet(one, other)
    stranger = await site.node(names="127.0.0.1")
    await refuse(one, stranger)


def test_a_certificate_for_another_place_or_revoked_is_refused_with_a_sentence(issuer: Issuer) -> None:
    files = issuer.settings("127.0.0.1:4250")
    tls = Tls.load(OverlaySettings(**files), "127.0.0.1:4250")
    assert tls is not None and tls.notary is not None and tls.proves_place
    mine = tls.notary.bearer(tls.notary.certificate, int(NOW.timestamp() * 1000))
    assert mine is not None
    tls.check(mine, "127.0.0.1:4250", needs_place=True)
    with pytest.raises(RemoteProtocolError, match=r"not valid for 127.0.0.1:4251"):
        tls.check(mine, "127.0.0.1:4251", needs_place=False)
    portless = mine._replace(places=frozenset())
    tls.check(portless, "127.0.0.1:4251", needs_place=False)
    with pytest.raises(RemoteProtocolError, match=r"not made for a port; `elf certgen --address 127.0.0.1:4251`"):
        tls.check(portless, "127.0.0.1:4251", needs_place=True)
    tls.notary.revoked = frozenset({mine.serial})
    with pytest.raises(RemoteProtocolError, match="its certificate is revoked"):
        tls.check(mine, "127.0.0.1:4250", needs_place=True)
    with pytest.raises(OverlayError, match=r"not valid for 127.0.0.1:4251, the address of this agent"):
        Tls.load(OverlaySettings(**files), "127.0.0.1:4251")


def test_a_list_of_revoked_certificates_is_read_or_refused(tmp_path: Path) -> None:
    file = tmp_path / "revoked"
    file.write_text("# none of these\n\n0A:ff  # web3\n  7\n")
    assert read_revoked(str(file)) == {0xAFF, 7} and read_revoked("") == frozenset()
    for text, why in (
        ("7\nweb3\n", r"revoked:2: 'web3' is no serial number"),
        ("0" * (REVOKED_BYTES_MAX + 1), "new CA"),
    ):
        file.write_text(text)
        with pytest.raises(OverlayError, match=why):
            read_revoked(str(file))
    with pytest.raises(OverlayError, match="cannot be read: No such file"):
        read_revoked(str(tmp_path / "none"))
