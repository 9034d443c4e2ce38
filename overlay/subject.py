"""Whom a certificate is for: hosts, and with ports the places of agents. Pure.

A certificate that names places (`elf://HOST:PORT` among its alternative names) is that of the agents there and of no
others: as a node's id is the hash of its place, whoever issues the certificate decides where in the overlay its holder
sits. One that names hosts only is good for any port, and proves less.
"""

from __future__ import annotations

import contextlib
import ipaddress
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from elf.overlay.ids import canonical_host, format_address, parse_address

SCHEME = "elf://"


class Subject(NamedTuple):
    """Whom one certificate is for, and its serial number."""

    hosts: frozenset[str]
    places: frozenset[str]
    serial: int

    def doubt(self, address: str) -> str | None:
        """Return why an agent at an address, HOST:PORT, cannot be the one meant, None if it can."""
        host, port = parse_address(address)
        if host not in self.hosts:
            return f"not valid for {host}"
        if self.places and format_address(host, port) not in self.places:
            return f"not valid for {format_address(host, port)}"
        return None

    def names(self, address: str) -> bool:
        """Tell whether an address is named with its port."""
        return bool(self.places) and self.doubt(address) is None


def subject(hosts: Iterable[str], uris: Iterable[str], serial: int) -> Subject:
    """Return whom a certificate with these alternative names is for; names of other kinds say nothing."""
    addresses, places = set(), set()
    for host in hosts:
        with contextlib.suppress(ValueError):
            addresses.add(canonical_host(str(ipaddress.ip_address(host.strip()))))
    for uri in uris:
        if uri.startswith(SCHEME):
            with contextlib.suppress(ValueError):
                places.add(format_address(*parse_address(uri.removeprefix(SCHEME))))
    return Subject(frozenset(addresses), frozenset(places), serial)


def subject_of(certificate: Mapping[str, Any] | None) -> Subject:
    """Return whom a certificate is for that a TLS connection has verified, as `ssl` describes it."""
    found = certificate or {}
    names = found.get("subjectAltName", ())
    hosts, uris = ([name for kind, name in names if kind == wanted] for wanted in ("IP Address", "URI"))
    return subject(hosts, uris, int(found.get("serialNumber", "0"), 16))


def split_place(text: str) -> tuple[str, int | None]:
    """Split `IP`, `IP:PORT` or `[IPV6]:PORT`; the port is None where there is none.

    Raises:
        ValueError: `text` is none of these.
    """
    with contextlib.suppress(ValueError):
        return canonical_host(str(ipaddress.ip_address(text))), None
    try:
        host, port = parse_address(text)
        return canonical_host(str(ipaddress.ip_address(host))), _port(port)
    except ValueError:
        raise ValueError(f"{text!r} is no IP address, and no IP:PORT") from None


def _port(port: int) -> int:
    if port == 0:
        raise ValueError
    return port
