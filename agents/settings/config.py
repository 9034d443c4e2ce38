"""The settings of one agent, as typed records; unknown fields are errors (STYLE 3.6).

Owns names, units, defaults and the relations between fields. It reads no file: `elf.checking.validate` turns a TOML
text into an `AgentConfig` and points at the place of a mistake.
"""

from __future__ import annotations

import base64
import importlib.metadata
import ipaddress
import pathlib
import re
from collections.abc import Mapping

import msgspec

from elf.agents.errors import ConfigError, did_you_mean, nearest
from elf.agents.language.durations import parse_duration_ms
from elf.agents.settings.urls import check_url
from elf.overlay.contract import OverlaySettings
from elf.overlay.settings import LEASE_MS_MAX

#: Lengths of prefixes, in bits, that keep whole parts of a written address.
IPV4_PREFIXES, IPV6_PREFIXES = (8, 16, 24), (16, 32, 48, 64)
#: Unless they are set.
IPV4_PREFIX, IPV6_PREFIX = 24, 48
#: The format of a source whose lines are to tell it.
AUTO = "auto"
_CREATOR = re.compile(r"[a-z0-9][a-z0-9._-]{0,62}")
#: Of an Ed25519 key.
_KEY_BYTES = 32
_PERCENT = re.compile(r"\d{1,3}(\.\d{1,6})? ?%")
_SECRET_KEY = re.compile(r"[A-Za-z0-9_.-]{1,64}")
OVERLAY_PORT = 4250
API_PORT = 4260
#: Shorter ones suspect every agent that collects garbage; longer ones leave windows waiting for who is gone.
LEASE_MS_MIN = 200
#: Less would not hold the newest hour of a busy source, of which jobs are verified.
ARCHIVE_BYTES_MIN = 16 << 20


def split_address(text: str) -> tuple[str, int]:
    """Split HOST:PORT or [IPv6]:PORT.

    Raises:
        ConfigError: the text is not an address with a port from 0 to 65535.
    """
    host, colon, port = text.rpartition(":")
    is_written = bool(colon and host and port.isdigit())
    if not is_written or int(port) > 65_535:
        why = ": ports are 0 to 65535" if is_written else ""
        raise ConfigError(f"{text!r} is not an address{why}; write HOST:PORT, for example 127.0.0.1:{OVERLAY_PORT}")
    return host.strip("[]"), int(port)


def is_loopback(host: str) -> bool:
    """Tell whether a host name or address never leaves this machine."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _is_open(setting: str, bind: str) -> bool:
    """Tell whether an address to bind can be reached from other machines; ConfigError names the setting."""
    try:
        return not is_loopback(split_address(bind)[0])
    except ConfigError as error:
        raise ConfigError(f"{setting} = {error}") from None


class PrivacySection(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What of a source's events is blurred or left out before jobs, archive and logs see them."""

    #: IP addresses: "keep", "prefix" (what is beyond the prefixes becomes 0), or "hash" (under the key in `key_file`).
    ip: str = "keep"
    #: Bits that are kept of an address; less tells less of a visitor, and merges more of them.
    ipv4_prefix: int = IPV4_PREFIX
    ipv6_prefix: int = IPV6_PREFIX
    #: File with the key of "hash", the same at all agents, or their counts of distinct visitors do not fit together.
    key_file: str = ""
    #: Columns with addresses, besides those named so by custom (`remote_addr`, `client_ip`, `x_forwarded_for`, ...).
    ip_columns: list[str] = []
    #: Columns that are always null, and columns of text whose every value becomes "***" (null where it is no text).
    drop: list[str] = []
    mask: list[str] = []
    #: Values of secret keys in URLs, cookies and objects (`token=`, `password=`, ...), passwords in URLs and what an
    #: Authorization header has become "***", in all columns of text, and so do columns of text with such a name.
    redact_queries: bool = True
    #: Secret keys besides those known.
    secret_keys: list[str] = []
    #: Columns that are called as secrets are (`session`, `user_token`) and stay as they are.
    keep: list[str] = []

    def __post_init__(self) -> None:
        known = ("keep", "prefix", "hash")
        if self.ip not in known:
            hint = did_you_mean(nearest(self.ip, known)) or f"; use one of {', '.join(known)}"
            raise ConfigError(f"ip = {self.ip!r} is unknown{hint}")
        for setting, bits, lengths, default in (
            ("ipv4_prefix", self.ipv4_prefix, IPV4_PREFIXES, IPV4_PREFIX),
            ("ipv6_prefix", self.ipv6_prefix, IPV6_PREFIXES, IPV6_PREFIX),
        ):
            if bits not in lengths:
                raise ConfigError(f"{setting} = {bits}: use {', '.join(map(str, lengths[:-1]))} or {lengths[-1]}")
            if bits != default and self.ip == "keep":
                raise ConfigError(f'{setting} = {bits} does nothing while addresses are kept; set ip = "prefix", too')
        if (self.ip == "hash") != bool(self.key_file):
            raise ConfigError(
                f'ip = {self.ip!r} and key_file = {self.key_file!r}: "hash" needs a key, and nothing else does '
                "(`elf keygen --out FILE` makes one)"
            )
        for setting, names in (("drop", self.drop), ("mask", self.mask), ("ip_columns", self.ip_columns)):
            if "ts" in map(str.lower, names):
                raise ConfigError(f"{setting} = 'ts': the time of the event cannot be redacted, it is none without")
        for word in self.secret_keys:
            if not _SECRET_KEY.fullmatch(word):
                raise ConfigError(f"secret_keys = {word!r}: no key; use up to 64 of A-Z a-z 0-9 _ . -")

    @property
    def withholds(self) -> bool:
        """Whether lines hold what nobody is to see, so that no text of theirs may be kept as it is."""
        return self.ip != "keep" or bool(self.drop or self.mask)


class SourceConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where one source's lines come from and how they are read."""

    #: File or glob to tail; empty for a source that is only pushed to (`/v1/ingest/NAME`).
    path: str = ""
    #: json, a name of docs/FORMATS.md, or a pasted nginx log_format / Apache LogFormat line; of several the first that
    #: fits a line is its own. "auto": what the first lines are found to be. Unless set: auto; json where columns are
    #: declared, a field is unwrapped, or lines are only pushed.
    format: str | list[str] = ""
    #: JSON field that holds the event time. Unless set: ts, or what auto finds.
    time: str = ""
    #: Field of JSON lines with a text that is a JSON object itself, which paths lead into: of "log", log.status.
    unwrap: str = ""
    #: Zone of times that do not say theirs, such as "Europe/Berlin"; empty: UTC if this machine's is.
    time_zone: str = ""
    #: Where a file that was never read begins: "beginning" (its backlog counts) or "end".
    start: str = "beginning"
    #: How far ahead of this machine's clock an event may be, as a duration; lines of later ones are rejected, for each
    #: would keep an interval open until its time has come. "": as far as it likes.
    ahead_max: str = "1d"
    #: Column types of a JSON source (Spark names); those not listed are inferred from a sample at publish.
    columns: dict[str, str] = {}
    #: What is blurred or left out of its events.
    privacy: PrivacySection = PrivacySection()

    def __post_init__(self) -> None:
        if self.start not in ("beginning", "end"):
            raise ConfigError(f'start = {self.start!r}: use "beginning" or "end"')
        if self.ahead_max:
            try:
                parse_duration_ms(self.ahead_max)
            except ValueError as error:
                raise ConfigError(f'ahead_max = {error}, or "" for no bound') from None

    @property
    def ahead_ms_max(self) -> int | None:
        """How far ahead of the clock an event may be; None without a bound."""
        return parse_duration_ms(self.ahead_max) if self.ahead_max else None

    @property
    def reads_as(self) -> str | list[str]:
        """The format, or `AUTO`."""
        is_open = self.path and not self.columns and not self.unwrap
        return self.format or (AUTO if is_open else "json")

    @property
    def time_field(self) -> str:
        """The field of objects that holds the event time, unless it is found out."""
        return self.time or "ts"


class OverlaySection(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How this agent meets the others."""

    #: HOST:PORT for UDP (DHT) and TCP (links), same number; port 0 takes a free one.
    bind: str = f"127.0.0.1:{OVERLAY_PORT}"
    #: HOST:PORT the others reach us at; empty: the bound address. The node id is its SHA-1 (paper, section 2.3).
    advertise: str = ""
    #: Agents to join through; any one that answers is enough.
    join: list[str] = []
    #: File with the cluster secret; without it, or a certificate that names address and port, only loopback addresses
    #: are allowed. It tells members from strangers, not one member from another, nor who was one from who is.
    secret_file: str = ""
    #: PEM files of this agent's certificate and key and of the cluster's CA: links are TLS 1.3, both ends certified for
    #: their addresses. `elf certgen` makes them. With certificates that name a port, too, no secret is needed.
    tls_cert_file: str = ""
    tls_key_file: str = ""
    tls_ca_file: str = ""
    #: Certificates that are worth nothing any more: their serial numbers, a line each (`elf certgen --revoke`).
    tls_revoked_file: str = ""
    #: Kademlia's k: contacts per bucket. 8 buys little traffic and halves resilience to churn.
    k: int = 20
    #: A link silent for this long is lost, and says something four times as often; of the two ends of a link the longer
    #: one holds. Shorter repairs sooner; longer suits machines where agents wait for the processor, and costs less.
    lease_ms: int = 2_000
    #: Share of the sums of members of a job's tree that its master merges again from the snapshots, to find out who
    #: alters what it merges: "0 %" to "100 %".
    audit: str = "1 %"

    @property
    def audit_share(self) -> float:
        """The share of sums that are audited, 0 to 1."""
        return float(self.audit.rstrip("% ")) / 100

    def __post_init__(self) -> None:
        files = (self.tls_cert_file, self.tls_key_file, self.tls_ca_file)
        if any(files) and not all(files):
            raise ConfigError(
                "overlay.tls_cert_file, overlay.tls_key_file and overlay.tls_ca_file belong together; set all three "
                "(`elf certgen` makes them) or none"
            )
        if self.tls_revoked_file and not self.tls_cert_file:
            raise ConfigError("overlay.tls_revoked_file lists certificates, and there are none; set tls_cert_file, too")
        if not _PERCENT.fullmatch(self.audit) or self.audit_share > 1:
            raise ConfigError(f'overlay.audit = {self.audit!r} is no share; use "0 %" to "100 %", such as "1 %"')
        if not LEASE_MS_MIN <= self.lease_ms <= LEASE_MS_MAX:
            raise ConfigError(
                f"overlay.lease_ms = {self.lease_ms} is too short or too long; use {LEASE_MS_MIN} to {LEASE_MS_MAX}"
            )
        if _is_open("overlay.bind", self.bind) and not self.secret_file and not self.tls_cert_file:
            raise ConfigError(
                f"overlay.bind = {self.bind!r} is open to the network but there is no cluster secret; "
                "create one with `elf keygen --out /etc/elf/secret` and set overlay.secret_file, or bind 127.0.0.1"
            )


def _check_keys(setting: str, keys: Mapping[str, str], maker: str) -> None:
    """Refuse what are no names with public keys; raises ConfigError."""
    for name, key in keys.items():
        if not _CREATOR.fullmatch(name):
            raise ConfigError(f"{setting} = {name!r} cannot be a creator of jobs; use up to 63 of a-z 0-9 . _ -")
        try:
            raw = base64.b64decode(key, validate=True)
        except ValueError:
            raw = b""
        if len(raw) != _KEY_BYTES:
            raise ConfigError(f"{setting} = {key!r}, of {name}, is no public key; {maker} prints one")


class ApiSection(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The HTTP door for the command line, the library and dashboards."""

    #: HOST:PORT; port 0 takes a free one.
    bind: str = f"127.0.0.1:{API_PORT}"
    #: File with the bearer token that clients must send; required off loopback. Unless set, the agent makes one at its
    #: first start, `api.token` in its data folder, and processes of its own user, and root's, need none.
    token_file: str = ""
    #: On loopback: no token, for any user of this machine and whatever forwards to it.
    open: bool = False
    #: Name -> public key (`elf keygen --creator` prints it) of who may purge jobs and agents; alike at all agents.
    operators: dict[str, str] = {}
    #: Largest request body, and largest decompressed body, of one push.
    request_bytes_max: int = 16 << 20

    def __post_init__(self) -> None:
        if _is_open("api.bind", self.bind) and not self.token_file:
            raise ConfigError(
                f"api.bind = {self.bind!r} is open to the network but there is no token; set api.token_file "
                "(`elf keygen --out FILE` makes one), or bind 127.0.0.1"
            )
        _check_keys("api.operators", self.operators, "`elf keygen --creator`")
        if self.open and self.token_file:
            raise ConfigError("api.open = true wants no token, but api.token_file names one; leave out one of them")


class ArchiveSection(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The Parquet copy of parsed events that Spark reads."""

    #: Off: lines that no job wants may be skipped unparsed, and `elf verify` has nothing to read.
    enabled: bool = True
    #: Folder; empty: `archive` below the agent's data folder.
    path: str = ""
    #: Events held in memory at most, and no more than some 8 MiB of them; files become visible with each checkpoint.
    rows_max: int = 500_000
    #: How long after it was written an event is kept, as a duration; "" keeps it as long as there is room.
    retain: str = "30d"
    #: Bytes on disk of all of this agent's files; beyond, the oldest hours go. 0: no bound. Checked once a minute.
    bytes_max: int = 10 << 30

    #: URL of a copy (s3://bucket/elf) that this agent keeps of its own files, for readers elsewhere; empty: none.
    copy_to: str = ""

    def __post_init__(self) -> None:
        if self.copy_to:
            try:
                check_url(self.copy_to)
            except ValueError as error:
                raise ConfigError(f"archive.copy_to = {error}") from None
            if not self.enabled:
                raise ConfigError("archive.copy_to = needs an archive to copy; set archive.enabled = true")
        if self.retain:
            try:
                parse_duration_ms(self.retain)
            except ValueError as error:
                raise ConfigError(f'archive.retain = {error}, or "" for no bound') from None
        if self.bytes_max < 0 or 0 < self.bytes_max < ARCHIVE_BYTES_MIN:
            raise ConfigError(
                f"archive.bytes_max = {self.bytes_max}: use {ARCHIVE_BYTES_MIN} (16 MiB) or more, or 0 for no bound"
            )

    @property
    def retain_ms(self) -> int | None:
        """How long an event is kept; None without a bound."""
        return parse_duration_ms(self.retain) if self.retain else None


class AgentSection(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The process itself."""

    #: Shown to people; empty: the overlay address.
    name: str = ""
    #: Folder for durable state (checkpoints, snapshots, panes); created if missing.
    data: str = "elf-data"
    #: Bytes of whole lines read and parsed at a time: larger is faster per line, smaller keeps memory low.
    chunk_bytes: int = 4 << 20
    #: Longest time between two checkpoints while events flow; bounds what is read again after a crash.
    checkpoint_ms: int = 1_000
    #: How much is logged: debug, info, warning, or error.
    log_level: str = "info"

    def __post_init__(self) -> None:
        if not 65_536 <= self.chunk_bytes <= 16 << 20:
            raise ConfigError(f"agent.chunk_bytes = {self.chunk_bytes}: use 65536 to 16777216")


class FunctionsSection(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Functions that come with jobs, over the network: off unless somebody is trusted."""

    #: Creator -> the public key that its functions are signed with, as `elf keygen --signing` prints it.
    trusted: dict[str, str] = {}

    def __post_init__(self) -> None:
        _check_keys("functions.trusted", self.trusted, "`elf keygen --signing --out FILE`")


class AgentConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Everything one agent is told at start."""

    agent: AgentSection = AgentSection()
    overlay: OverlaySection = OverlaySection()
    api: ApiSection = ApiSection()
    archive: ArchiveSection = ArchiveSection()
    functions: FunctionsSection = FunctionsSection()
    sources: dict[str, SourceConfig] = {}


def overlay_settings(config: AgentConfig, agent_id: str) -> OverlaySettings:
    """Return what the overlay is to know of an agent's settings."""
    overlay = config.overlay
    return OverlaySettings(
        bind=overlay.bind,
        advertise=overlay.advertise,
        join=tuple(overlay.join),
        secret_file=overlay.secret_file,
        tls_cert_file=overlay.tls_cert_file,
        tls_key_file=overlay.tls_key_file,
        tls_ca_file=overlay.tls_ca_file,
        tls_revoked_file=overlay.tls_revoked_file,
        contacts_file=str(pathlib.Path(config.agent.data) / "contacts.json"),
        k=overlay.k,
        heartbeat_ms=overlay.lease_ms // 4,
        lease_ms=overlay.lease_ms,
        audit=overlay.audit_share,
        agent_id=agent_id,
        release=importlib.metadata.version("elf-stream"),
    )
