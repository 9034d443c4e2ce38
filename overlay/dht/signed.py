"""Datagrams that are signed with an agent's certificate: their form, and how many forgeries are looked into. Pure.

Each carries the certificate, so whoever gets one needs to know nothing of its sender; with a key of a P-256 curve that
is 0.6 KiB, and a reply with twenty contacts still fits one packet. To check one takes 80 us: what is forged is looked
into only so often in a second, of one host and in all.
"""

from __future__ import annotations

import hashlib
from typing import Final, NamedTuple, Protocol

from elf.overlay.keys import message_of
from elf.overlay.subject import Subject

SIGNED: Final = b"\x03"
_PURPOSE: Final = b"elf datagram 1"
_TIME_BYTES: Final = 8
#: Forgeries looked into in a second: a tenth of a processor in all; who is beyond it is not heard until the next one.
FORGED_MAX: Final = 1_000
FORGED_PER_HOST_MAX: Final = 100
_SECOND_MS: Final = 1_000


class Notary(Protocol):
    """What `elf.overlay.links.notary.Notary` is to datagrams."""

    @property
    def certificate(self) -> bytes:
        """Ours, DER; empty if it does not name our place."""
        ...

    def sign(self, message: bytes) -> bytes:
        """Return our signature of a message."""
        ...

    def bearer(self, certificate: bytes, at_ms: int) -> Subject | None:
        """Return whose a certificate is at a time; None if it is worth nothing."""
        ...

    def is_signed(self, certificate: bytes, message: bytes, signature: bytes) -> bool:
        """Tell whether a message was signed with the key of a certificate that has a bearer."""
        ...


class Signed(NamedTuple):
    """A signed datagram, taken apart and not yet checked; `stamp` is its time as it was sent, 8 bytes."""

    stamp: bytes
    certificate: bytes
    signature: bytes
    body: bytes

    @property
    def at_ms(self) -> int:
        """When it was sent, by its sender's clock."""
        return int.from_bytes(self.stamp)

    def message(self, address: str) -> bytes:
        """Return what is signed, if it is for the agent at an address."""
        return _message(address, self.stamp, self.body)

    def sight(self, address: str) -> bytes:
        """Return what it is recognised by if it comes again; signatures would not do, of these there are several."""
        return hashlib.blake2b(self.certificate + self.message(address), digest_size=20, person=b"elf seen").digest()


def sign(notary: Notary, body: bytes, to_address: str, now_ms: int) -> bytes:
    """Return the datagram that carries `body` to the agent at `to_address`."""
    stamp = now_ms.to_bytes(_TIME_BYTES)
    signature = notary.sign(_message(to_address, stamp, body))
    certificate = notary.certificate
    lengths = len(certificate).to_bytes(2) + len(signature).to_bytes(2)
    return SIGNED + stamp + lengths + certificate + signature + body


def read_signed(datagram: bytes) -> Signed | None:
    """Take a datagram apart that begins with `SIGNED`; None if it has not that form."""
    head = 1 + _TIME_BYTES + 4
    if len(datagram) < head:
        return None
    stamp, lengths = datagram[1 : head - 4], datagram[head - 4 : head]
    first = head + int.from_bytes(lengths[:2])
    second = first + int.from_bytes(lengths[2:])
    if not head < first < second <= len(datagram):
        return None
    return Signed(stamp, datagram[head:first], datagram[first:second], datagram[second:])


class Toll:
    """How many forgeries came in the present second; times may jump."""

    def __init__(self) -> None:
        self._second = 0
        self._total = 0
        self._forged: dict[str, int] = {}

    def admits(self, host: str, now_ms: int) -> bool:
        """Tell whether a datagram of a host is looked into."""
        if now_ms // _SECOND_MS != self._second:
            self._second = now_ms // _SECOND_MS
            self._total = 0
            self._forged = {}
        return self._forged.get(host, 0) < FORGED_PER_HOST_MAX and self._total < FORGED_MAX

    def forged(self, host: str) -> None:
        """Count one that was looked into, and was none of a member to us."""
        self._forged[host] = self._forged.get(host, 0) + 1
        self._total += 1


def _message(address: str, stamp: bytes, body: bytes) -> bytes:
    return message_of(_PURPOSE, address.encode(), stamp, body)
