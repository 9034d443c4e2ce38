"""What the texts of fields are worth: numbers, the parts of a request, of an address. Pure; it defines the kernel's."""

from __future__ import annotations

import math
import re
from typing import NamedTuple

from elf.agents.sources.layouts.hosts import is_authority

_BIGINT = 2**63
#: No integer of 64 bits has more digits, and Python reads but 4,300 of them.
_DIGITS_MAX = 19
_METHOD = rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+"
_REQUEST = re.compile(rb"(" + _METHOD + rb") (.+) ([A-Z]+/[0-9](?:\.[0-9])?)", re.S)
_ABSOLUTE = re.compile(rb"[A-Za-z][A-Za-z0-9+.-]*://([^/?]*)", re.S)
_DURATION = re.compile(rb"([+-]?[0-9]+(?:\.[0-9]+)?)(.*)", re.S)
#: Of each unit the power of ten, or the number, that makes it s.
_UNITS = {b"ns": 1e9, b"us": 1e6, b"\xc2\xb5s": 1e6, b"\xce\xbcs": 1e6, b"ms": 1e3, b"": 1e3, b"s": 1.0}
_LONG_UNITS = {b"m": 60.0, b"h": 3600.0}

Span = tuple[int, int] | None


class Request(NamedTuple):
    """Where the parts of a request are in its text."""

    method: tuple[int, int]
    uri: tuple[int, int]
    protocol: tuple[int, int]


def integer(text: bytes) -> int | None:
    """Return an integer; None if it is beyond 64 bits. `-` is 0."""
    if text == b"-":
        return 0
    digits = text.lstrip(b"+-").lstrip(b"0") or b"0"
    if len(digits) > _DIGITS_MAX:
        return None
    value = -int(digits) if text.startswith(b"-") else int(digits)
    return value if -_BIGINT <= value < _BIGINT else None


def decimal(text: bytes) -> float | None:
    """Return a number; None if it is beyond a double."""
    value = float(text)
    return value if math.isfinite(value) else None


def seconds(text: bytes) -> float | None:
    """Return a duration in s, which without unit is in ms; None if it is beyond a double."""
    found = _DURATION.fullmatch(text)
    assert found is not None
    number, unit = float(found[1]), found[2]
    value = number * _LONG_UNITS[unit] if unit in _LONG_UNITS else number / _UNITS[unit]
    return value if math.isfinite(value) else None


def request(text: bytes) -> Request | None:
    """Take a request apart; None if it is malformed: no method, path and protocol, or a method of `-`."""
    found = _REQUEST.fullmatch(text)
    if found is None or found[1] == b"-":
        return None
    return Request(found.span(1), found.span(2), found.span(3))


def uri(text: bytes, *, absolute: bool) -> tuple[Span, Span, Span]:
    """Take an address apart into its path, its query without `?`, and, if it may be absolute, its host.

    Behind a host that nothing follows the path is `/`, the last of `://`. A host and a port alone, as of CONNECT, have
    neither path nor query.
    """
    begin, host = 0, None
    if absolute and (found := _ABSOLUTE.match(text)) is not None:
        begin, host = found.end(), found.span(1)
        if begin == len(text):
            return (host[0] - 1, host[0]), None, host
    elif absolute and is_authority(text):
        return None, None, (0, len(text))
    mark = text.find(b"?", begin)
    if mark < 0:
        return (begin, len(text)), None, host
    return (begin, mark), (mark + 1, len(text)) if mark + 1 < len(text) else None, host
