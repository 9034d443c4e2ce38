"""Lines of all formats with addresses in them, good ones and damaged ones, for agents that must not tell these."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import polars as pl

from elf.agents.language.types import SqlType
from elf.agents.sources.format import Format, make_format, parse_chunk
from elf.agents.sources.privacy.redaction import IP_COLUMNS
from elf.agents.sources.times.zones import UTC
from tests.agents.sources.format_files import formats
from tests.agents.sources.native.damage import damaged

#: A full address of the ranges for documentation, which are all that lines have. A prefix of one is none.
ADDRESS = re.compile(
    r"(?:192\.0\.2|198\.51\.100|203\.0\.113)\.[1-9][0-9]{0,2}|2001:db8:[0-9a-f]{0,4}:{1,2}[1-9a-f][0-9a-f]*", re.I
)
_IPV4, _IPV6 = re.compile(r"(?:192\.0\.2|198\.51\.100|203\.0\.113)\.[0-9]+"), re.compile(r"2001:db8::[1-9a-f]{1,3}\b")
#: What is nothing but addresses, as proxies write them.
_ONE = rf"\s*\[?(?:{ADDRESS.pattern})\]?(?::[0-9]+)?\s*"
_WHOLE = re.compile(rf"{_ONE}(?:,{_ONE})*", re.I)
#: Of formats whose lines name their columns those that are declared.
_DECLARED = {
    "json": {"ip": "STRING", "who": "STRING", "n": "BIGINT", "b": "STRING", "`b.client`": "STRING"},
    "csv": {"status": "BIGINT", "path": "STRING", "note": "STRING", "client_ip": "STRING"},
    "gcs": {"c_ip": "STRING", "cs_uri": "STRING"},
    "logfmt": {"ip": "STRING", "path": "STRING", "status": "BIGINT"},
    "ltsv": {"host": "STRING", "ua": "STRING", "client_ip": "STRING", "status": "BIGINT"},
    "w3c": {"c_ip": "STRING", "s_ip": "STRING", "cs_uri_stem": "STRING"},
    "cloudfront": {"c_ip": "STRING", "x_forwarded_for": "STRING", "cs_uri_stem": "STRING"},
}


class Given(NamedTuple):
    """What a source is given.

    Attributes:
        format: as it is configured.
        columns: those that are declared.
        ip_columns: columns that hold addresses, besides those that are known to.
        lines: its lines.
    """

    format: str
    columns: Mapping[str, str]
    ip_columns: list[str]
    lines: list[str]


def given(name: str, count: int, rng: random.Random) -> Given:
    """Draw lines of a format that tell no address in words: in words it may stay."""
    entry = formats()[name]
    spec = f"{name}+{entry['wraps']}" if entry["how"] == "wrapper" else name
    columns = {column.strip("`"): kind for column, kind in _DECLARED.get(name, {}).items()}
    ip_columns = ["host"] if name == "ltsv" else ["b.client"] if name == "json" else []
    format = make_format(spec, zone=UTC)
    is_headed = entry["how"] in ("csv", "w3c")
    samples = [sample["line"] for sample in entry["samples"]]
    front = [line for line in samples if _is_header(line, name)] if is_headed else []
    pool = [line for line in samples if line not in front] + (_objects(rng) if name == "json" else [])
    pool = [line for line in pool if "\n" not in line]
    wanted = format.columns or {column: SqlType.parse(kind) for column, kind in columns.items()}
    lines = [*front]
    while len(lines) < count + len(front):
        line = _with_addresses(rng.choice(pool) if rng.random() < 0.4 else damaged(pool, rng), rng)
        if not _is_header(line, name) and not _tells(format, line, wanted, ip_columns, front):
            lines.append(line)
    return Given(spec, columns, ip_columns, lines)


def address(rng: random.Random) -> str:
    """Draw an address."""
    if rng.random() < 0.3:
        return f"2001:db8:{rng.choice(('1', '2a', ''))}::{rng.randrange(0x1000, 0xFFFF):x}".replace(":::", "::")
    return f"{rng.choice(('192.0.2', '198.51.100', '203.0.113'))}.{rng.randrange(1, 255)}"


def _with_addresses(line: str, rng: random.Random) -> str:
    """Put other addresses in the place of those of a line; now and then one into a place of its own."""
    line = _IPV4.sub(lambda _: f"192.0.2.{rng.randrange(1, 255)}", line)
    line = _IPV6.sub(lambda _: f"2001:db8::{rng.randrange(0x1000, 0xFFFF):x}", line)
    if rng.random() < 0.2:
        words = line.split(" ")
        words[rng.randrange(len(words))] = address(rng)
        return " ".join(words)
    return line


def _objects(rng: random.Random) -> list[str]:
    """Objects with addresses at several depths, and in columns of other types."""
    when = "2026-11-26T09:00:00Z"
    one: list[dict[str, Any]] = [
        {"ts": when, "ip": address(rng), "n": 1},
        {"ts": when, "who": address(rng), "n": address(rng)},
        {"ts": when, "b": {"client": address(rng), "n": 1}, "who": f"[{address(rng)}]:443"},
        {"ts": when, "b": [address(rng)], "n": {"a": [{"b": address(rng)}]}},
        {"ts": when, "ip": f"{address(rng)}, {address(rng)}", "who": "gw"},
        {"ts": "never", "ip": address(rng)},
    ]
    return [json.dumps(each) for each in one]


def _is_header(line: str, name: str) -> bool:
    if name in ("csv", "gcs"):
        return line.startswith(("ts,", '"time_micros"'))
    return line.startswith("#")


def _tells(format: Format, line: str, wanted: Mapping[str, SqlType], ip_columns: list[str], front: list[str]) -> bool:
    """Whether an event of a line has, or may have, an address among other words."""
    text = "".join(each + "\n" for each in (*front, line)).encode()
    parsed = parse_chunk(format, text, wanted)
    if not parsed.counters.read:
        return True  # part of a record, in the words of which an address may come to stand
    known = IP_COLUMNS | set(format.addresses) | set(ip_columns)
    return any(_is_told(value) for value in _texts(parsed.events, known))


def _is_told(value: str) -> bool:
    is_object = value.lstrip().startswith(("{", "["))
    found = re.findall(r'"((?:[^"\\]|\\.)*)"', value) if is_object and ADDRESS.search(value) else [value]
    rest = re.sub(r'"(?:[^"\\]|\\.)*"', "", value) if is_object else ""
    return bool(ADDRESS.search(rest)) or any(ADDRESS.search(each) and not _WHOLE.fullmatch(each) for each in found)


def _texts(events: pl.DataFrame, known: frozenset[str] | set[str]) -> Iterator[str]:
    for column in events.iter_columns():
        if column.dtype == pl.String and column.name.lower() not in known:
            yield from column.drop_nulls()
