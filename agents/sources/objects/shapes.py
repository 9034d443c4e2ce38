"""The shape of a line that is an object, as a regular expression: what lines of one writer have in common. Pure.

A line that matches has the same members in the same order, written with the same spaces, and other values. Each such
line is an object, every byte of it, in which `elf.agents.sources.objects.line` would find the wanted values at the same
places: between the groups of the expression, which follow each other without a gap.
"""

from __future__ import annotations

import itertools
import re
from typing import NamedTuple

from elf.agents.sources.objects.line import SPACES
from elf.agents.sources.objects.program import Node, Program

#: Objects nested more deeply, and longer lines, have no shape: these are few, or none is like the other.
_DEPTH_MAX = 8
_LINE_BYTES_MAX = 1 << 14
#: Members of all objects of a line, and of a part of it that has an expression of its own: longer ones are slow.
_MEMBERS_MAX, _PART_MEMBERS = 400, 16
_TEXT = r'"[^"\\\x00-\x1f]*(?:\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})[^"\\\x00-\x1f]*)*"'
_SCALAR = rf"(?:{_TEXT}|-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?|true|false|null)"
_ITEMS = re.compile(rb'\[[^\[\]{}"]*\]|\[(?:[^\[\]{}"\\]|"[^"\\]*")*\]')
_ARRAY = rf"\[[ \t\r]*(?:{_SCALAR}[ \t\r]*(?:,[ \t\r]*{_SCALAR}[ \t\r]*)*)?\]"


class Shape(NamedTuple):
    """What lines have in common.

    Attributes:
        patterns: of the parts of a line, which follow each other, as Polars takes them: the last group of each but the
            last one is the rest of the line, its newline included. Groups follow each other without a gap.
        slots: of each slot of the program the groups before its value, and before what comes behind it; (-1, -1) where
            lines of this shape have none.
        scalars: of each slot whether its value is one group, which may be null or a blank.
    """

    patterns: tuple[str, ...]
    slots: tuple[tuple[int, int], ...]
    scalars: tuple[bool, ...]


class _NoShapeError(Exception):
    """A line has no shape that helps with others."""


def shape_of(program: Program, line: bytes) -> Shape | None:
    """Return the shape of a line; None if it has none, or is no object."""
    if len(line) > _LINE_BYTES_MAX:
        return None
    try:
        return _Reading(program, line).shape()
    except _NoShapeError:
        return None


class _Reading:
    def __init__(self, program: Program, line: bytes) -> None:
        self._nodes = program.nodes
        self._line = line
        self._members = 0
        #: The pattern of the group that is being made, and those of the groups before it.
        self._open = ""
        self._groups: list[str] = []
        #: How many groups there are before each further part.
        self._parts: list[int] = []
        self._slots = [(-1, -1)] * program.slots
        self._scalars = [False] * program.slots

    def shape(self) -> Shape:
        at = self._spaces(0)
        at = self._spaces(self._object(at, self._nodes[0], 0))
        if at != len(self._line):
            raise _NoShapeError
        groups = [f"({group})" for group in self._groups]
        bounds = [0, *self._parts, len(groups)]
        parts = ["".join(groups[first:last]) for first, last in itertools.pairwise(bounds)]
        ends = [*([r"([^\n]*\n)"] * len(self._parts)), rf"{self._open}\n"]
        patterns = tuple(f"^{part}{end}$" for part, end in zip(parts, ends, strict=True))
        return Shape(patterns, tuple(self._slots), tuple(self._scalars))

    def _literal(self, text: bytes) -> None:
        self._open += re.escape(text.decode())

    def _cut(self) -> int:
        """End the group that is being made; return how many there are."""
        if self._open:
            self._groups.append(self._open)
            self._open = ""
        return len(self._groups)

    def _spaces(self, at: int) -> int:
        found = SPACES.match(self._line, at)
        assert found is not None
        self._literal(found[0])
        return found.end()

    def _object(self, at: int, node: Node | None, depth: int) -> int:
        """Take an object; returns where it ends."""
        if depth == _DEPTH_MAX or not self._line.startswith(b"{", at) or (node is not None and node.items):
            raise _NoShapeError
        self._literal(b"{")
        at, names = self._spaces(at + 1), set[bytes]()
        if self._line.startswith(b"}", at):
            self._literal(b"}")
            return at + 1
        while True:
            name, at = self._name(at)
            self._members += 1
            if name in names or self._members > _MEMBERS_MAX:
                raise _NoShapeError  # the last one counts
            names.add(name)
            child = None if node is None else node.members.get(name)
            at = self._spaces(self._value(at, None if child is None else self._nodes[child], depth + 1))
            if self._line[at : at + 1] not in (b",", b"}"):
                raise _NoShapeError
            self._literal(self._line[at : at + 1])
            if self._members % _PART_MEMBERS == 0:
                self._parts.append(self._cut())
            if self._line.startswith(b"}", at):
                return at + 1
            at = self._spaces(at + 1)

    def _name(self, at: int) -> tuple[bytes, int]:
        """Take a member's name; returns it and where its value begins."""
        found = _NAME.match(self._line, at)
        if found is None:
            raise _NoShapeError
        self._literal(found[0])
        return found[1], found.end()

    def _value(self, at: int, node: Node | None, depth: int) -> int:
        """Take a value; returns where it ends."""
        if node is None or node.slot < 0:
            if node is not None and not self._line.startswith(b"{", at):
                # What is in it is wanted of objects, of which there may be some in other lines.
                raise _NoShapeError
            return self._content(at, node, depth)
        first = self._cut()
        end = self._content(at, node, depth)
        self._slots[node.slot] = first, self._cut()
        self._scalars[node.slot] = self._line[at : at + 1] not in (b"{", b"[")
        return end

    def _content(self, at: int, node: Node | None, depth: int) -> int:
        if self._line.startswith(b"{", at):
            return self._object(at, node, depth)
        if node is not None and (node.members or node.items):
            raise _NoShapeError
        if self._line.startswith(b"[", at):
            items = _ITEMS.match(self._line, at)
            if items is None:
                raise _NoShapeError
            self._open += _ARRAY
            return items.end()
        scalar = _VALUE.match(self._line, at)
        if scalar is None:
            raise _NoShapeError
        self._open += _SCALAR
        return scalar.end()


_NAME = re.compile(rb'"([^"\\\x00-\x1f]*)"[ \t\r]*:[ \t\r]*')
_VALUE = re.compile(_SCALAR.encode())
