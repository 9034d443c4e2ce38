r"""One line of names and values taken apart: the twin that defines what the kernel gives. Pure.

LTSV: `name:value` between tabs; `-` is null. logfmt: `name=value` between spaces, the value bare, without space, quote
and `=`, or a text as JSON has it; a name alone is null. A line has at least two pairs, and of a name that it has twice
the last value counts.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Iterator
from typing import NamedTuple

from elf.agents.sources.layouts.misfit import Misfit

_PAIRS_MIN = 2
_LTSV = re.compile(rb"[0-9A-Za-z_.-]*+(:?)")
_NAME = re.compile(rb"[A-Za-z_\x80-\xff][0-9A-Za-z_.@/\x80-\xff-]*+")
_HIGH, _LOW = rb"\\u[dD][89abAB][0-9a-fA-F]{2}", rb"\\u[dD][c-fC-F][0-9a-fA-F]{2}"
_CHARACTER = (
    rb'[^"\\\x00-\x1f]|\\["\\/bfnrt]|' + _HIGH + _LOW + rb"|(?!" + _HIGH + rb"|" + _LOW + rb")\\u[0-9a-fA-F]{4}"
)
#: Not possessive, though it never has to go back: before 3.11.5 Python forgets what must not follow in such a group.
_TEXT = re.compile(rb'"((?:' + _CHARACTER + rb')*)"')
_BARE = re.compile(rb'[^ "=]*+')


class Style(enum.IntEnum):
    """How pairs are written; the numbers are those of the kernel."""

    LTSV = 1
    LOGFMT = 2

    @property
    def expected(self) -> str:
        """What a line has, for people."""
        return "name:value, between tabs" if self is Style.LTSV else "name=value, between spaces"


class Pair(NamedTuple):
    """A name, and where its value begins and ends; -1 if it is null."""

    name: bytes
    begin: int
    end: int


def read_pairs(style: Style, line: bytes) -> list[Pair]:
    """Take a line apart.

    Args:
        style: the line's.
        line: valid UTF-8, without its end.

    Raises:
        Misfit: it does not fit.
    """
    pairs = list((_ltsv if style is Style.LTSV else _logfmt)(line))
    of_value = len(pairs) if style is Style.LTSV else sum(pair.begin >= 0 for pair in pairs)
    if of_value < _PAIRS_MIN:
        raise _misfit(style, len(line))
    return pairs


def _misfit(style: Style, at: int) -> Misfit:
    return Misfit(at, style.name.lower(), style.expected)


def _ltsv(line: bytes) -> Iterator[Pair]:
    at = 0
    while at <= len(line):
        found = _LTSV.match(line, at)
        assert found is not None
        if not found[1] or found.start(1) == at:
            raise _misfit(Style.LTSV, found.start(1))
        begin = found.end()
        tab = line.find(b"\t", begin)
        end = len(line) if tab < 0 else tab
        name = line[at : begin - 1]
        yield Pair(name, -1, -1) if line[begin:end] == b"-" else Pair(name, begin, end)
        at = end + 1


def _logfmt(line: bytes) -> Iterator[Pair]:
    at = 0
    while at < len(line):
        name = _NAME.match(line, at)
        if name is None:
            raise _misfit(Style.LOGFMT, at)
        begin, end, after = -1, -1, name.end()
        if line.startswith(b"=", after):
            text = _TEXT.match(line, after + 1)
            if text is None and line.startswith(b'"', after + 1):
                raise _misfit(Style.LOGFMT, at)
            value = text or _BARE.match(line, after + 1)
            assert value is not None
            (begin, end), after = value.span(1 if text else 0), value.end()
        if after < len(line) and line[after] != ord(" "):
            raise _misfit(Style.LOGFMT, at)
        yield Pair(name[0], begin, end)
        while line.startswith(b" ", after):
            after += 1
        at = after
