"""How one node takes part in the overlay: addresses, secrets, and the times and sizes that everything else follows."""

from __future__ import annotations

import msgspec

from elf.overlay.errors import OverlayError

#: The longest lease of a link: who died is missed for so long at most.
LEASE_MS_MAX = 60_000


class OverlaySettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How one node takes part in the overlay; the runtime fills it from the agent's configuration."""

    #: HOST:PORT of UDP (DHT) and TCP (links), same number; port 0 takes one that is free for both.
    bind: str = "127.0.0.1:0"
    #: HOST:PORT the others reach us at; empty: the bound address.
    advertise: str = ""
    #: Addresses of agents to join through.
    join: tuple[str, ...] = ()
    #: File with the cluster secret; empty: unauthenticated, for loopback only.
    secret_file: str = ""
    #: PEM files of this agent's certificate, its key and the cluster's CA: links are TLS 1.3 with both ends certified.
    tls_cert_file: str = ""
    tls_key_file: str = ""
    tls_ca_file: str = ""
    #: Serial numbers of certificates of this CA that are worth nothing any more, a line each; empty: none.
    tls_revoked_file: str = ""
    #: File in which known contacts survive a restart; empty: none.
    contacts_file: str = ""
    #: Kademlia's k.
    k: int = 20
    #: Name of this agent in contributor lists; must be unique and survive restarts. Empty: the advertised address.
    agent_id: str = ""
    #: Of the program, shown to agents that speak other versions.
    release: str = ""
    #: Every link says something at least this often; a quarter of the lease, so three losses in a row do no harm.
    heartbeat_ms: int = 500
    #: A link silent for this long is lost, or for as long as its other end says if that is longer. Shorter repairs
    #: faster and suspects busy agents wrongly more often.
    lease_ms: int = 2_000
    #: A JOIN unanswered for this long goes to the next candidate.
    join_timeout_ms: int = 1_000
    #: How long a new root collects members before its first commit, so that a fresh job does not start incomplete.
    grace_ms: int = 1_000
    #: Default of `join_tree(leap_after_ms=...)`: how long a root waits for members that others are ahead of.
    leap_after_ms: int = 10_000
    #: A forwarder without children and membership leaves a tree after this long.
    linger_ms: int = 60_000
    #: Share of the merged claims of a root's children that are merged again from the snapshots, 0 to 1.
    audit: float = 0.0
    #: Most children a node has in one tree: what its one merge an interval may cost. Halving it adds about a level.
    fan_in_max: int = 16

    def __post_init__(self) -> None:
        files = (self.tls_cert_file, self.tls_key_file, self.tls_ca_file)
        if any(files) and not all(files):
            raise OverlayError("tls_cert_file, tls_key_file and tls_ca_file belong together: set all three or none")
        if self.tls_revoked_file and not self.tls_cert_file:
            raise OverlayError("tls_revoked_file lists certificates, and there are none: set tls_cert_file, too")
        if self.heartbeat_ms * 3 > self.lease_ms:
            raise OverlayError(
                f"lease_ms = {self.lease_ms} must be at least three heartbeats of {self.heartbeat_ms} ms"
            )
        if self.lease_ms > LEASE_MS_MAX:
            raise OverlayError(f"lease_ms = {self.lease_ms} is too long; use {LEASE_MS_MAX} at most")
        if not 0 <= self.audit <= 1:
            raise OverlayError(f"audit = {self.audit} must be a share, 0..1")
        if not 2 <= self.fan_in_max <= 1_024:
            raise OverlayError(f"fan_in_max = {self.fan_in_max} must be 2..1024: one child makes no tree")
