"""Entries of the journal as `journalctl -o export` writes them: taken apart, and written as objects. Pure.

An entry is fields `NAME=value`, each on a line, up to an empty line. Of what has newlines or other control characters
in it, the name is alone on its line; then come the length, in eight bytes, little endian, so many bytes, and a newline.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from elf.agents.sources.carried import Carried
from elf.agents.sources.lines import LINE_BYTES_MAX, line_ends

#: An entry that nobody has ended yet has at most so many lines; those of a value count, too.
ENTRY_LINES_MAX = 16_384
_LENGTH_BYTES = 8
_BINARY = re.compile(rb"^([A-Z_][A-Z0-9_]*)\n", re.M)
_FIELD = re.compile(rb"^([A-Z_][A-Z0-9_]*)=(.*)$", re.M)
_NO_FIELD = re.compile(rb"^(?![A-Z_][A-Z0-9_]*=).+$", re.M)
_CONTROL = re.compile(rb"[\x00-\x09\x0b-\x1f]")
_BETWEEN = re.compile(rb"\n{2,}")


class Entries(NamedTuple):
    """The entries of a text.

    Attributes:
        objects: each as an object on a line; what is no entry is no object either.
        begun: where the entry begins that has no end yet; the length of the text if none does.
    """

    objects: bytes
    begun: int


def entries(text: bytes, *, is_over: bool) -> Entries:
    """Find the entries of whole lines. O(bytes), and a step for each field with a length.

    Args:
        text: the lines.
        is_over: nothing follows them, so that an entry is over without an empty line; one within a value is none.
    """
    pieces, begin, at, entry = list[bytes](), 0, 0, 0
    is_torn = False
    while (field := _BINARY.search(text, at)) is not None:
        value = field.end() + _LENGTH_BYTES
        end = value + int.from_bytes(text[field.end() : value], "little")
        if end - value > LINE_BYTES_MAX or (end < len(text) and text[end] != ord("\n")):
            at = field.end()
            continue
        if value > len(text) or end >= len(text):
            is_torn = True
            break
        entry = _entry_begin(text, begin, field.start(), entry)
        pieces += [_escaped(text[begin : field.start()]), field[1], b"=", _value(text[value:end]), b"\n"]
        begin = at = end + 1
    entry = _entry_begin(text, begin, field.start() if field is not None else len(text), entry)
    rest = text[entry:]
    is_short = len(rest) <= LINE_BYTES_MAX and rest.count(b"\n") <= ENTRY_LINES_MAX
    if rest.strip(b"\n") and not is_over and is_short:
        return Entries(entries(text[:entry], is_over=True).objects, entry)
    # What is torn within a value is no entry, whatever bytes it has.
    tail = text[begin : field.start()] + b"torn\n" if is_torn and field is not None else text[begin:]
    return Entries(_objects(b"".join([*pieces, _escaped(tail)])), len(text))


class BegunEntries:
    """Carries the lines of an entry that has begun; see `elf.agents.sources.carried.Carrier`."""

    goes_on = False

    def behind(self, carried: Sequence[Carried], text: bytes, at: int) -> tuple[Carried, ...]:
        """Return the lines of the entry that has no end yet."""
        before = b"".join(each.line for each in carried)
        whole = before + text
        begun = entries(whole, is_over=False).begun
        if begun == len(whole):
            return ()
        if begun == 0 and carried:
            return (*carried, *_lines(text, at))
        # An entry that has begun before has ended, so this one begins in the text.
        return _lines(whole[begun:], at + begun - len(before))

    def waiting(self, carried: Sequence[Carried]) -> Sequence[Carried]:
        """Return all of them."""
        return carried


def _lines(text: bytes, at: int) -> tuple[Carried, ...]:
    ends = (line_ends(text) + 1).tolist()
    return tuple(Carried(at + begin, text[begin:end]) for begin, end in zip([0, *ends], ends, strict=False))


def _entry_begin(text: bytes, begin: int, end: int, known: int) -> int:
    """Return where the last entry begins that does between two places, each a line's; the known one if none does."""
    # A value with a length ends with a newline, as a line does.
    place = (b"\n" + text[begin:end]).rfind(b"\n\n")
    return known if place < 0 else begin + place + 1


def _escaped(lines: bytes) -> bytes:
    """Return lines as they are within texts of JSON."""
    return _CONTROL.sub(_number, lines.replace(b"\\", b"\\\\").replace(b'"', b'\\"'))


def _value(value: bytes) -> bytes:
    return _escaped(value).replace(b"\n", b"\\n")


def _number(control: re.Match[bytes]) -> bytes:
    return b"\\u%04x" % control[0][0]


def _objects(lines: bytes) -> bytes:
    """Return entries, whose values are escaped, as objects."""
    text = lines.strip(b"\n")
    if not text:
        return b""
    fields = _FIELD.sub(rb'"\1":"\2",', _NO_FIELD.sub(rb"!\g<0>", text))
    # No NUL is left that was not escaped.
    whole = _BETWEEN.sub(b"\0", fields).replace(b"\n", b"").replace(b",\0", b"\0").removesuffix(b",")
    return b"{" + whole.replace(b"\0", b"}\n{") + b"}\n"
