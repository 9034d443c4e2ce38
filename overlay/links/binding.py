"""The sockets of one node: TCP and UDP on the same port, and the address that others are told.

Owns the checks that keep an unprotected node on loopback (DESIGN section 8) and the search for a port free for both.
"""

from __future__ import annotations

import asyncio
import errno
import ipaddress
import socket
from dataclasses import dataclass

from elf.overlay.contract import OverlaySettings
from elf.overlay.errors import OverlayError
from elf.overlay.ids import Contact, parse_address
from elf.overlay.links.tls import Tls

#: Ports tried when any will do; one that is free for TCP is nearly always free for UDP.
TRIES = 32


@dataclass(frozen=True, slots=True)
class Bound:
    """A bound TCP socket (none in a simulation), the UDP address, the contact to reach both by, and certificates."""

    tcp: socket.socket | None
    udp: tuple[str, int]
    contact: Contact
    tls: Tls | None = None


async def bind_sockets(settings: OverlaySettings, *, secure: bool) -> Bound:
    """Bind the TCP socket, choose the UDP address and load the certificates that others will see there.

    Args:
        settings: `bind`, `advertise` and the certificates' files count.
        secure: whether there is a cluster secret; without one, or a certificate that names our place, only loopback
            is allowed.

    Raises:
        OverlayError: an address is wrong, taken or unsafe; the operator's fault.
    """
    bind, advertise = settings.bind, settings.advertise
    host, port = await _resolve(bind, "bind")
    address = ipaddress.ip_address(host)
    if not secure and not address.is_loopback and not settings.tls_cert_file:
        raise OverlayError(
            f"bind = {bind!r} is open to the network but there is no cluster secret; set secret_file, or tls_cert_file "
            "with a certificate that names address and port"
        )
    if address.is_unspecified and not advertise:
        raise OverlayError(f"bind = {bind!r} is every address of this machine; set advertise to one that others reach")
    tcp, port = _bind_pair(host, port)
    try:
        told = await _resolve(advertise, "advertise") if advertise else (host, port)
        contact = Contact.at(told[0], told[1] or port)
        tls = Tls.load(settings, contact.address)
        if not secure and not address.is_loopback:
            check_place(tls, contact.address)
    except OverlayError:
        tcp.close()
        raise
    return Bound(tcp, (host, port), contact, tls)


def check_place(tls: Tls | None, address: str) -> None:
    """Check that an agent off loopback needs no secret: its certificate names its address, HOST:PORT.

    Raises:
        OverlayError: it does not; the operator's fault.
    """
    if tls is None or not tls.proves_place:
        raise OverlayError(
            "its certificate names no port, so it protects the agent's links, but not its datagrams; set secret_file, "
            f"or make one with `elf certgen --address {address}`"
        )


def _bind_pair(host: str, port: int) -> tuple[socket.socket, int]:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    for _ in range(TRIES):
        tcp = socket.socket(family, socket.SOCK_STREAM)
        tcp.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            tcp.bind((host, port))
            found: int = tcp.getsockname()[1]
            with socket.socket(family, socket.SOCK_DGRAM) as udp:
                udp.bind((host, found))
        except OSError as error:
            tcp.close()
            if port:
                advice = "; choose another port" if error.errno == errno.EADDRINUSE else ""
                raise OverlayError(f"bind = '{host}:{port}' cannot be bound: {error.strerror}{advice}") from error
            continue
        tcp.setblocking(False)
        return tcp, found
    raise OverlayError(f"no port of {host} is free for both TCP and UDP")


async def _resolve(text: str, field: str) -> tuple[str, int]:
    """Return the IP address and port that a setting means."""
    try:
        host, port = parse_address(text)
    except ValueError as error:
        raise OverlayError(f"{field}: {error}") from error
    try:
        infos = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise OverlayError(f"{field} = {text!r}: {host} is no address of a machine: {error}") from error
    return str(infos[0][4][0]), port
