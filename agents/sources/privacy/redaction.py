"""What happens to each column of a source before jobs, archive and logs see an event: kept, blurred, or left out.

Events are redacted right after they are parsed, so the online answer and Spark's over the archive see the same. Texts
that are no events yet (rejected lines, messages of failures) are redacted too, or withheld where that cannot be done.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import polars as pl

from elf.agents.language.codes import is_coded
from elf.agents.language.paths import Step, steps_of
from elf.agents.language.types import SqlType
from elf.agents.settings.config import PrivacySection
from elf.agents.sources.privacy.addresses import Anonymiser
from elf.agents.sources.privacy.secret_values import MASK, SECRET_KEYS, Secrets
from elf.agents.sources.raw_texts import typed_name

# fmt: off
#: Columns that hold a client's address by custom; `ip_columns` adds to them.
IP_COLUMNS = frozenset(
    (
        "ip", "ip_address", "ipaddress", "client", "client_addr", "client_address", "client_ip", "clientip",
        "remote_addr", "remote_address", "remote_ip", "realip_remote_addr", "proxy_protocol_addr", "peer_ip",
        "source_ip", "src_ip", "user_ip", "x_forwarded_for", "x_real_ip", "forwarded", "http_x_forwarded_for",
        "proxy_add_x_forwarded_for", "http_x_real_ip", "http_x_client_ip", "http_client_ip", "http_forwarded",
        "http_cf_connecting_ip", "http_true_client_ip",
    )
)
# fmt: on
#: Columns that hold servers' addresses by custom: which of a machine's servers it was, only the port says.
SERVER_COLUMNS = frozenset(("target", "upstream_addr", "upstream", "server_addr", "backend"))
#: Columns of access logs, where what a header Authorization has is not looked for: that costs most, and is elsewhere.
_OF_CLIENTS = frozenset(("user_agent", "referer", "request", "uri", "path", "query", "method", "protocol"))
#: What stands around one: of the header Forwarded, of servers that escape quotes, of people.
_OPEN = r"""(?:(?i:for|by)=)?(?:\\*["']|\\+x22|[(<])?"""
_CLOSE = r"""(?:/[0-9]{1,3}|#[0-9]+|\.)?(?:\\*["']|\\+x22|[)>])?"""
#: Also as JSON writes it.
_SPACE = r"(?:\s|\\[tnr])"
#: What may be an address, with brackets, zone and port or without; the judge of that is the anonymiser.
_ADDRESS = (
    rf"{_SPACE}*{_OPEN}\[?"
    r"(?:[0-9]{1,3}(?:\.[0-9]{1,3}){3}|[0-9A-Fa-f]{0,4}:[0-9A-Fa-f:]*:[0-9A-Fa-f:.]*(?:%[\w.-]+)?)"
    rf"\]?(?::[0-9]*)*{_CLOSE}{_SPACE}*"
)
#: What stands for one that is not known, and what the header Forwarded says beside them.
_NO_ADDRESS = rf"{_SPACE}*(?:-|unknown|localhost|unix:|_[\w.-]+|(?i:proto|host)=[^,;\s]*){_SPACE}*"
_JOINT = rf"(?:[,;|]|\s:\s|{_SPACE})"
_ADDRESSES = rf"(?:{_NO_ADDRESS}{_JOINT})*{_ADDRESS}(?:{_JOINT}(?:{_ADDRESS}|{_NO_ADDRESS}))*"
_WHOLE_ADDRESS = f"^{_ADDRESSES}$"
#: An object or an array with such a text in it.
_OBJECT_WITH_ADDRESS = rf'^\s*[\[{{].*"{_ADDRESSES}"'
#: Which columns of an access log hold others, or are made of them: who leaves out a part means all that has it.
_PARTS = {
    "request": ("method", "uri", "path", "query", "protocol"),
    "uri": ("path", "query"),
}


class Redactor:
    """Redacts one source.

    Args:
        settings: the source's `privacy`.
        key: what addresses are hashed under, if they are.
        derived: the lines have no fields of their own for the parts of a request, these are all made of it.
        addresses: the columns that hold addresses, whatever their names.
    """

    def __init__(
        self,
        settings: PrivacySection,
        key: bytes | None = None,
        *,
        derived: bool = False,
        addresses: Collection[str] = (),
    ) -> None:
        self._derived = derived
        self._drop = _with_relatives(settings.drop)
        self._mask = _with_relatives(settings.mask)
        self._addresses: frozenset[str] = frozenset()
        #: Paths to values in objects that are redacted, which other columns may hold, or be in.
        self._dropped_paths = _paths(settings.drop)
        self._masked_paths = _paths(settings.mask)
        self._address_paths = _paths(settings.ip_columns if settings.ip != "keep" else ())
        self._anonymiser = Anonymiser(settings.ipv4_prefix, settings.ipv6_prefix, key)
        if settings.ip != "keep":
            self._addresses = IP_COLUMNS | {_plain(name) for name in (*settings.ip_columns, *addresses)}
        keys = (*SECRET_KEYS, *settings.secret_keys) if settings.redact_queries else ()
        self._secrets = Secrets(keys, frozenset(name.lower() for name in settings.keep))
        #: Whether a text says things that only a parsed event lets us find: such texts are withheld whole.
        self._withholds = bool(self._drop or self._mask or self._addresses)

    def events(self, events: pl.DataFrame) -> pl.DataFrame:
        """Redact parsed events; `ts` stays, and so do columns of codes, whose texts are redacted (`texts`)."""
        clean = self._clean(events)
        names = (name for name in events.columns if name not in clean and not is_coded(events[name]))
        changed = [column for name in names if (column := self._column(events[name])) is not None]
        return events.with_columns(changed) if changed else events

    def texts(self, column: pl.Series) -> pl.Series:
        """Redact a column of texts."""
        redacted = self._column(column)
        return column if redacted is None else redacted

    def rejects(self, rejects: Sequence[tuple[bytes, str]]) -> list[tuple[bytes, str]]:
        """Redact rejected lines, which are given with their reasons."""
        return [(self._line(line), reason) for line, reason in rejects]

    def message(self, text: str) -> str:
        """Redact what a failure said, which may quote the line or the event that it failed on."""
        return "(withheld for privacy)" if self._withholds else self._secrets.masked(pl.Series([text]))[0]

    def literals(self, literals: Sequence[Sequence[str]]) -> Sequence[Sequence[str]]:
        """Return which texts lines must contain for their events to: none that redaction may have put there."""
        if self._addresses:
            return []
        return [[text for text in texts if not set(text) & set(MASK)] for texts in literals]

    def _clean(self, events: pl.DataFrame) -> set[str]:
        """Find columns that hold no secret because what they are made of holds none; the search is most of the work."""
        special = self._drop | self._mask | self._addresses
        clean: set[str] = set()
        for whole, parts in _PARTS.items() if self._derived else ():
            if (
                whole in events.columns
                and whole not in clean
                and not is_coded(events[whole])
                and not self._secrets.has(events[whole], may_authorize=False)
            ):
                clean.update((whole, *parts))
        return clean - special

    def _column(self, column: pl.Series) -> pl.Series | None:
        """Return a column redacted, or None if it stays."""
        name, dtype = typed_name(column.name.lower()), column.dtype
        if name == "ts":
            return None
        path = steps_of(name)
        is_dropped = name in self._drop or _is_related(path, self._dropped_paths)
        is_masked = name in self._mask or _is_related(path, self._masked_paths)
        is_secret = dtype == pl.String and self._secrets.names(name)
        is_address = _plain(name) in self._addresses or self._is_address(path)
        # An object that holds an address is no address itself.
        if is_dropped or _holds(path, self._address_paths) or (dtype != pl.String and (is_masked or is_address)):
            return pl.Series(column.name, [None], dtype=dtype).new_from_index(0, column.len())
        if dtype != pl.String:
            return None
        if is_masked or is_secret:
            return pl.select(pl.when(column.is_not_null()).then(pl.lit(MASK)).alias(column.name)).to_series()
        if is_address:
            return self._anonymiser.column(column, with_ports=name in SERVER_COLUMNS)
        texts = self._secrets.masked(column, may_authorize=name not in _OF_CLIENTS)
        redacted = self._without_addresses(texts, with_ports=name in SERVER_COLUMNS)
        return None if redacted is column else redacted

    def _is_address(self, path: Sequence[Step]) -> bool:
        """Tell whether a path of several steps ends at what holds an address: by custom, by name, or as an item."""
        if not self._addresses or len(path) < 2:
            return False
        names = [step for step in path if isinstance(step, str)]
        return _plain(names[-1]) in self._addresses or tuple(path) in self._address_paths

    def _without_addresses(self, texts: pl.Series, *, with_ports: bool) -> pl.Series:
        """Anonymise texts that are addresses as a whole, in whichever column; the very same column if none is.

        Objects and arrays with such texts are null: what is left of them would be other objects.
        """
        if not self._addresses:
            return texts
        if (holds := texts.str.contains(_OBJECT_WITH_ADDRESS).fill_null(False)).any():
            texts = texts.set(holds, None)
        found = texts.str.contains(_WHOLE_ADDRESS).fill_null(False)
        if not found.any():
            return texts
        return texts.zip_with(~found, self._anonymiser.column(texts.set(~found, None), with_ports=with_ports))

    def _line(self, line: bytes) -> bytes:
        if self._withholds:
            return b"(withheld for privacy: %d bytes)" % len(line)
        text = line.decode(errors="replace")
        redacted: str = self._secrets.masked(pl.Series([text]))[0]
        return line if redacted == text else redacted.encode()


def _plain(name: str) -> str:
    """Return a name as columns of access logs are called: headers have hyphens."""
    return name.lower().replace("-", "_")


def _paths(names: Collection[str]) -> frozenset[tuple[Step, ...]]:
    return frozenset(steps_of(name.lower()) for name in names)


def _holds(path: Sequence[Step], others: Collection[tuple[Step, ...]]) -> bool:
    """Tell whether the value of a path holds that of another one."""
    return any(len(path) < len(other) and other[: len(path)] == tuple(path) for other in others)


def _is_related(path: Sequence[Step], others: Collection[tuple[Step, ...]]) -> bool:
    """Tell whether the value of a path is, holds, or is in that of another one."""
    return _holds(path, others) or any(tuple(path[: len(other)]) == other for other in others)


def _with_relatives(names: Sequence[str]) -> frozenset[str]:
    """Add to names, in lower case, the columns that hold them and those that are made of them."""
    given = {name.lower() for name in names}
    holders = {whole for whole, parts in _PARTS.items() if given & set(parts)}
    made = {part for whole, parts in _PARTS.items() if whole in given for part in parts}
    return frozenset(given | holders | made)


def unknown_columns(columns: Mapping[str, SqlType] | None, settings: PrivacySection) -> list[tuple[str, int, str]]:
    """Return setting, index and name of each column that a source with a fixed schema does not have."""
    if columns is None:
        return []
    lists = ("drop", "mask", "ip_columns", "keep")
    named = [(setting, getattr(settings, setting)) for setting in lists]
    return [
        (setting, index, name)
        for setting, names in named
        for index, name in enumerate(names)
        if name.lower() not in columns
    ]


def masked_without_text(columns: Mapping[str, SqlType], settings: PrivacySection) -> list[tuple[int, str, SqlType]]:
    """Return index, name and type of each column to be masked that is known to hold no text, so no "***" either."""
    kinds = {column.lower(): kind for column, kind in columns.items()}
    return [
        (index, name, kind)
        for index, name in enumerate(settings.mask)
        if (kind := kinds.get(name.lower(), SqlType.STRING)) is not SqlType.STRING
    ]
