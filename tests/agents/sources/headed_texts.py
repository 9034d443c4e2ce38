"""Logs with headers, drawn: which change within a file, and rows that fit them or do not."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import NamedTuple

_W3C = (
    "c-ip",
    "cs-method",
    "cs-uri-stem",
    "cs-uri-query",
    "sc-status",
    "sc-bytes",
    "time-taken",
    "cs(User-Agent)",
    "x",
)
_CLOUDFRONT = ("x-edge-location", "c-ip", "cs-method", "cs-uri-stem", "sc-status", "time-taken", "x-host-header")
_CSV = ("status", "path", "note", "n", "a b")
_GCS = ("c_ip", "cs_method", "cs_uri", "sc_status", "sc_bytes", "cs_user_agent")


class Kind(NamedTuple):
    """A format, and what draws its headers and its rows."""

    format: str
    header: Callable[[random.Random], list[str]]
    written: Callable[[Sequence[str]], str]
    row: Callable[[Sequence[str], random.Random], str]


def text_of(kind: Kind, rng: random.Random, blocks: int = 3, rows: int = 6) -> bytes:
    """Draw a file: some headers, and rows below each."""
    lines: list[str] = []
    for _ in range(rng.randint(1, blocks)):
        names = kind.header(rng)
        lines.append(kind.written(names))
        for _ in range(rng.randint(0, rows)):
            lines.append(kind.row(names, rng) if rng.random() < 0.9 else rng.choice(("", "nonsense, of course", "-")))
            if rng.random() < 0.05 and kind.format in ("w3c", "cloudfront"):
                lines.append("#Remark: nothing")
    end = rng.choice(("\n", "\n", "\r\n"))
    return "".join(line + end for line in lines).encode()


def _value(name: str, rng: random.Random) -> str:
    values = {
        "c-ip": ("192.0.2.7", "2001:db8::1"),
        "method": ("GET", "POST"),
        "stem": ("/a", "/b/c", "/"),
        "uri": ("/a?x=1", "/"),
        "status": ("200", "404", "000"),
        "bytes": ("0", "77", "-"),
        "time-taken": ("15", "3"),
        "n": ("1", "2", "x", ""),
    }
    known = next((each for part, each in values.items() if part in name or part.replace("-", "_") in name), None)
    return rng.choice(known or ("-", "Mozilla/5.0+(X11)", "a=b", "#Fields:", "ts"))


def _time(rng: random.Random) -> str:
    return f"2026-11-26 09:{rng.randint(0, 59):02}:{rng.randint(0, 59):02}"


def _directives(format: str, fields: Sequence[str], separator: str, signature: Sequence[str]) -> Kind:
    def header(rng: random.Random) -> list[str]:
        names = rng.sample(fields, rng.randint(1, len(fields)))
        names += [name for name in signature if name not in names]
        at = rng.randint(0, len(names))
        return [*names[:at], "date", "time", *names[at:]]

    def row(names: Sequence[str], rng: random.Random) -> str:
        time = _time(rng).split(" ")
        own = {"date": time[0], "time": time[1]}
        return separator.join(own.get(name) or _value(name, rng) for name in names)

    return Kind(format, header, lambda names: "#Fields: " + " ".join(names), row)


def _table(format: str, fields: Sequence[str], separator: str, time: str) -> Kind:
    def quoted(text: str) -> str:
        is_needed = separator in text or '"' in text or "\n" in text or format == "gcs"
        return '"' + text.replace('"', '""') + '"' if is_needed else text

    def header(rng: random.Random) -> list[str]:
        names = rng.sample(fields, rng.randint(1, len(fields)))
        at = rng.randint(0, len(names))
        return [*names[:at], time, *names[at:]]

    def row(names: Sequence[str], rng: random.Random) -> str:
        at = (
            str(1_795_683_600_000_000 + rng.randint(0, 10**9))
            if format == "gcs"
            else _time(rng).replace(" ", "T") + "Z"
        )
        # Whoever is logged may send what looks like a header, or like a row.
        lines = (separator.join((time, *fields)), separator.join((at, *("1" for _ in names[1:]))), "", '"', "#")
        several = "\n".join(rng.choices(lines, k=3))
        extra = ('say "hi"', f"a{separator}b", "", several, several)
        values = [
            at if name == time else rng.choice(extra) if name in ("note", "cs_user_agent") else _value(name, rng)
            for name in names
        ]
        return separator.join(map(quoted, values))

    return Kind(format, header, lambda names: separator.join(map(quoted, names)), row)


KINDS = (
    _directives("w3c", _W3C, " ", ()),
    _directives("cloudfront", _CLOUDFRONT, "\t", ("x-edge-location",)),
    _table("csv", _CSV, ",", "ts"),
    _table("csv", _CSV, "\t", "time"),
    _table("gcs", _GCS, ",", "time_micros"),
)
