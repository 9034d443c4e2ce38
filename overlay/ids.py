"""160-bit identifiers, the XOR metric over them, and the address of one agent.

Owns how names and addresses become ids; knows nothing of routing tables or sockets. Paper: §2.3 (appId is the SHA-1
of the application's name and its creator's; the agent closest to it becomes the job's master). OVERLAY section 3.
"""

from __future__ import annotations

import hashlib
import ipaddress
from dataclasses import dataclass, field
from functools import lru_cache

ID_BYTES = 20
ID_BITS = 8 * ID_BYTES
#: Most trees of one job; each costs every agent an edge, so that useful numbers end far below.
PARTITIONS_MAX = 4_096


@lru_cache(maxsize=16384)
def canonical_host(host: str) -> str:
    """Return the one spelling of an IP address under which all agents hash it; other names are only lower-cased.

    An IPv4 address mapped into IPv6 is the IPv4 address: a dual-stack socket reports the former for the latter.

    >>> canonical_host("[2001:DB8:0::1]"), canonical_host("::ffff:10.0.0.7")
    ('2001:db8::1', '10.0.0.7')
    """
    bare = host[1:-1] if host.startswith("[") and host.endswith("]") else host
    try:
        address = ipaddress.ip_address(bare)
    except ValueError:
        return bare.lower()
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return str(mapped or address)


def format_address(host: str, port: int) -> str:
    """Render `host:port`, with brackets around an IPv6 address."""
    name = canonical_host(host)
    return f"[{name}]:{port}" if ":" in name else f"{name}:{port}"


def parse_address(text: str) -> tuple[str, int]:
    """Split `host:port` or `[ipv6]:port`.

    Raises:
        ValueError: `text` is not such an address; whoever wrote it is at fault.
    """
    host, _, port = text.rpartition(":")
    bare = host[1:-1] if host.startswith("[") and host.endswith("]") else host
    if not bare or (":" in bare and bare == host) or not (port.isascii() and port.isdigit()) or int(port) > 65535:
        raise ValueError(f"{text!r} is not an address; write HOST:PORT or [IPV6]:PORT")
    return canonical_host(bare), int(port)


def node_id(host: str, port: int) -> bytes:
    """Return the id of the agent at an address: SHA-1 of `ip:port`, so nobody can choose where to sit."""
    return hashlib.sha1(format_address(host, port).encode()).digest()


@lru_cache(maxsize=16384)
def app_id(name: str, creator: str) -> bytes:
    """Return the key of a job: SHA-1 of name || creator, as in the paper.

    Differs from the paper: a NUL stands between the two, since plain concatenation gives ("ab", "c") and ("a", "bc")
    the same job. NUL is legal in neither part, so distinct pairs stay distinct.
    """
    return hashlib.sha1(_part(name) + b"\x00" + _part(creator)).digest()


def source_id(source: str) -> bytes:
    """Return the key of the tree that joins all agents with this source.

    The leading NUL keeps it apart from every `app_id`, whose input never starts with one.
    """
    return hashlib.sha1(b"\x00source\x00" + _part(source)).digest()


@lru_cache(maxsize=16384)
def partition_id(tree: bytes, partition: int) -> bytes:
    """Return the key of one of the reducer trees of a job whose keys are partitioned.

    Partition 0 is the job's own tree, so a job that has one tree needs to know nothing of partitions. The keys of the
    others are spread by SHA-1 like those of different jobs, so their roots and inner nodes fall on different agents.
    The leading NUL keeps them apart from every `app_id`, the word after it from every `source_id`.

    Args:
        tree: the job's own key, 20 bytes.
        partition: 0 <= partition < `PARTITIONS_MAX`.

    Raises:
        ValueError: the caller is at fault: no such tree or partition.

    >>> partition_id(bytes(20), 0) == bytes(20), partition_id(bytes(20), 1).hex()[:8]
    (True, '88724dec')
    """
    if len(tree) != ID_BYTES or not 0 <= partition < PARTITIONS_MAX:
        raise ValueError(f"no partition {partition} of a tree with a key of {len(tree)} bytes")
    if partition == 0:
        return tree
    return hashlib.sha1(b"\x00partition\x00" + tree + partition.to_bytes(4)).digest()


def distance(a: bytes, b: bytes) -> int:
    """Return the XOR distance of two ids."""
    return int.from_bytes(a) ^ int.from_bytes(b)


def prefix_bits(a: bytes, b: bytes) -> int:
    """Return how many leading bits two ids share, 0..160.

    >>> prefix_bits(bytes(20), bytes([0b00010000]) + bytes(19))
    3
    """
    return ID_BITS - distance(a, b).bit_length()


@dataclass(frozen=True, slots=True, eq=False)
class Contact:
    """Where an agent is reached: UDP for the DHT and TCP for links share the port number.

    `host` is an IP address in canonical spelling; build one with `Contact.at`.
    """

    id: bytes
    host: str
    port: int
    #: The id as a number, kept because distances are asked for far more often than contacts are made.
    number: int = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "number", int.from_bytes(self.id))

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if not isinstance(other, Contact):
            return NotImplemented
        return self.number == other.number and self.port == other.port and self.host == other.host

    def __hash__(self) -> int:
        return hash(self.number)

    @classmethod
    def at(cls, host: str, port: int) -> Contact:
        """Return the contact of the agent at an address; the same object each time, which makes comparing cheap."""
        return _contact_at(canonical_host(host), port)

    @property
    def address(self) -> str:
        """The address as people write it: `host:port`, IPv6 in brackets."""
        return format_address(self.host, self.port)

    @property
    def genuine(self) -> bool:
        """Whether the id is the one that this address must have."""
        return self.id == node_id(self.host, self.port)

    def __str__(self) -> str:
        return f"{self.id.hex()[:8]}@{self.address}"


@lru_cache(maxsize=16384)
def _contact_at(name: str, port: int) -> Contact:
    return Contact(node_id(name, port), name, port)


def _part(text: str) -> bytes:
    if not text or "\x00" in text:
        raise ValueError(f"{text!r} cannot be part of an id: it must be non-empty, without NUL")
    return text.encode()
