"""One line read as an object, every byte of it checked: where the wanted values are, or where it stops to be one. Pure.

This defines what the kernel does. Of members that come twice the last counts.
"""

from __future__ import annotations

import enum
import re
from typing import NamedTuple

from elf.agents.sources.objects.program import Node, Program
from elf.agents.sources.objects.values import unescaped

#: Objects and arrays in a line's object may be nested so deeply.
DEPTH_MAX = 200
SPACES = re.compile(rb"[ \t\r]*")
_PLAIN = rb'[^"\\\x00-\x1f]*'
_OPEN_TEXT = rb'"' + _PLAIN + rb'(?:\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})' + _PLAIN + rb")*"
_DIGITS = rb"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?"
_TEXT, _NUMBER = re.compile(_OPEN_TEXT), re.compile(_DIGITS)
#: The usual member at once: its name without escapes, its value, if it is no object or array, and what ends it.
_MEMBER = re.compile(
    rb'"('
    + _PLAIN
    + rb')"[ \t\r]*:[ \t\r]*('
    + _OPEN_TEXT
    + rb'"|'
    + _DIGITS
    + rb"|true|false|null)[ \t\r]*([,}])[ \t\r]*"
)
#: What may be read of a number that is none.
_BROKEN_NUMBER = re.compile(rb"-?(?:(?:0|[1-9][0-9]*)(?:\.(?:[0-9]+(?:[eE][+-]?)?)?|[eE][+-]?)?)?")
_HEX = frozenset(b"0123456789abcdefABCDEF")
#: What is no value where blanks are none.
_NULLS = (b"null", b'""', b'"-"')
_WORDS = (b"true", b"false", b"null")


class Why(enum.IntEnum):
    """Why a line is no object; the numbers are those of the kernel."""

    END = 1
    OBJECT = 2
    NAME = 3
    COLON = 4
    VALUE = 5
    NUMBER = 6
    TEXT = 7
    ESCAPE = 8
    COMMA = 9
    DEPTH = 10
    MORE = 11


SAID = {
    Why.END: "the line ends too early",
    Why.OBJECT: "not an object",
    Why.NAME: "a name in quotes has to be here",
    Why.COLON: "a colon has to be here",
    Why.VALUE: "no value",
    Why.NUMBER: "a digit has to be here",
    Why.TEXT: "a control character in a text",
    Why.ESCAPE: "no such escape",
    Why.COMMA: "a comma or the end has to be here",
    Why.DEPTH: "nested too deeply",
    Why.MORE: "something behind the object",
}


def reason(why: int, at: int) -> str:
    """Return the reason that a line is rejected with."""
    return f"json: {SAID[Why(why)]} (byte {at})"


class NoObjectError(Exception):
    """The line is no object.

    Attributes:
        why: the reason.
        at: byte of the line at which it stops to be one.
    """

    def __init__(self, why: Why, at: int) -> None:
        super().__init__(why, at)
        self.why = why
        self.at = at


class Found(NamedTuple):
    """Where a value is in its line, and whether it is a text with escapes."""

    begin: int
    end: int
    has_escapes: bool


def read_line(program: Program, line: bytes) -> list[Found | None]:
    """Return where the line's value of each output is; None if it has none, or null.

    Raises:
        NoObjectError: the line is none, or more than one.
    """
    reading = _Reading(program, line)
    reading.read()
    found: list[Found | None] = []
    for first, second in program.outputs:
        value = reading.slots[first]
        if value is None and second >= 0:
            value = reading.slots[second]
        if value is not None and line[value.begin : value.end] in (_NULLS if program.skips_blanks else (b"null",)):
            value = None
        found.append(value)
    return found


class _Reading:
    """A line that is being read."""

    def __init__(self, program: Program, line: bytes) -> None:
        self.slots: list[Found | None] = [None] * program.slots
        self._nodes = program.nodes
        self._line = line

    def read(self) -> None:
        """Read the line."""
        at = self._spaces(0)
        if not self._line.startswith(b"{", at):
            raise self._stop(Why.OBJECT, at)
        at = self._spaces(self._container(at, self._nodes[0], -1))
        if at < len(self._line):
            raise self._stop(Why.MORE, at)

    def _stop(self, why: Why, at: int) -> NoObjectError:
        return NoObjectError(Why.END if at >= len(self._line) else why, at)

    def _spaces(self, at: int) -> int:
        found = SPACES.match(self._line, at)
        assert found is not None
        return found.end()

    def _container(self, at: int, node: Node | None, depth: int) -> int:
        """Read an object or array; returns where it ends."""
        if depth == DEPTH_MAX:
            raise self._stop(Why.DEPTH, at)
        is_object = self._line.startswith(b"{", at)
        end = b"}" if is_object else b"]"
        behind = self._spaces(at + 1)
        if self._line.startswith(end, behind):
            return behind + 1
        at, index = behind, 0
        while True:
            child: int | None = None
            if is_object and (usual := _MEMBER.match(self._line, at)) is not None:
                if node is not None and (child := node.members.get(usual[1])) is not None:
                    self._put(self._nodes[child], *usual.span(2))
                if usual[3] == end:
                    return usual.end(3)
                at = usual.end()
                continue
            if is_object:
                name, at = self._name(at)
                child = None if node is None else node.members.get(name)
            elif node is not None:
                child = node.items.get(index)
                index += 1
            at = self._spaces(self._value(at, None if child is None else self._nodes[child], depth + 1))
            if self._line.startswith(end, at):
                return at + 1
            if not self._line.startswith(b",", at):
                raise self._stop(Why.COMMA, at)
            at = self._spaces(at + 1)

    def _name(self, at: int) -> tuple[bytes, int]:
        """Read a member's name; returns it and where its value begins."""
        if not self._line.startswith(b'"', at):
            raise self._stop(Why.NAME, at)
        end = self._text(at)
        colon = self._spaces(end)
        if not self._line.startswith(b":", colon):
            raise self._stop(Why.COLON, colon)
        return unescaped(self._line[at + 1 : end - 1]), self._spaces(colon + 1)

    def _value(self, at: int, node: Node | None, depth: int) -> int:
        """Read a value; returns where it ends."""
        first = self._line[at : at + 1]
        if first not in (b"{", b"["):
            end = self._scalar(at, first)
            if node is not None:
                self._put(node, at, end)
            return end
        if node is None:
            return self._container(at, None, depth)
        self._forget(node)
        end = self._container(at, node, depth)
        if node.slot >= 0:
            self.slots[node.slot] = Found(at, end, has_escapes=False)
        return end

    def _forget(self, node: Node) -> None:
        """Of an object that comes twice, what was found the first time is not there."""
        self.slots[node.first : node.end] = [None] * (node.end - node.first)

    def _put(self, node: Node, at: int, end: int) -> None:
        """Take a value that is no object or array."""
        self._forget(node)
        if node.slot >= 0:
            self.slots[node.slot] = Found(at, end, self._line.startswith(b'"', at) and b"\\" in self._line[at:end])

    def _scalar(self, at: int, first: bytes) -> int:
        if first == b'"':
            return self._text(at)
        for word in _WORDS:
            if self._line.startswith(word, at):
                return at + len(word)
        if first not in (b"-", *(bytes([digit]) for digit in b"0123456789")):
            raise self._stop(Why.VALUE, at)
        number, broken = _NUMBER.match(self._line, at), _BROKEN_NUMBER.match(self._line, at)
        assert broken is not None
        if number is None or broken.end() > number.end():
            raise self._stop(Why.NUMBER, broken.end())
        return number.end()

    def _text(self, at: int) -> int:
        """Read a text from its quote on; returns the place behind its other quote."""
        found = _TEXT.match(self._line, at)
        assert found is not None
        end = found.end()
        if self._line.startswith(b'"', end):
            return end + 1
        if not self._line.startswith(b"\\", end):
            raise self._stop(Why.TEXT, end)
        if not self._line.startswith(b"u", end + 1):
            raise self._stop(Why.ESCAPE, end + 1)
        at = end + 2
        while at < len(self._line) and self._line[at] in _HEX:
            at += 1
        raise self._stop(Why.ESCAPE, at)
