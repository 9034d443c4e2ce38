"""Wanted paths as a program: which members of an object are looked at, and where their values go.

The twin (`elf.agents.sources.objects.twin`) and the kernel run the same program. LINES section 6.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import NamedTuple

from elf.agents.language.paths import Step, steps_of

#: No slot.
NONE = -1
_HEADER = struct.Struct("<6H")
_OUTPUT = struct.Struct("<2h")
_NODE = struct.Struct("<h4H")
_MEMBER = struct.Struct("<2H")
_ITEM = struct.Struct("<IH")


class Node(NamedTuple):
    """A value that is wanted, or in which one is.

    Attributes:
        slot: where it goes; `NONE` if it is not wanted itself.
        first: the first slot of it and of all that is in it; ...
        end: ... and the one behind the last of these.
        members: of an object what is wanted of it, by name: the numbers of nodes.
        items: of an array, by number.
    """

    slot: int
    first: int
    end: int
    members: dict[bytes, int]
    items: dict[int, int]


class Program(NamedTuple):
    """What is wanted of objects.

    Attributes:
        nodes: the first is the object itself; in each only later ones are.
        slots: how many values are looked for.
        outputs: of each wanted column the slot of its value, and that of the value it has where there is none there.
        skips_blanks: `""` and `"-"` are no values.
    """

    nodes: tuple[Node, ...]
    slots: int
    outputs: tuple[tuple[int, int], ...]
    skips_blanks: bool = False


class _Tree:
    """A node that is being made."""

    def __init__(self) -> None:
        self.is_wanted = False
        self.slot = NONE
        self.members: dict[bytes, _Tree] = {}
        self.items: dict[int, _Tree] = {}

    def at(self, steps: Sequence[Step]) -> _Tree:
        """Return what is below, made if need be."""
        tree = self
        for step in steps:
            if isinstance(step, int):
                tree = tree.items.setdefault(step, _Tree())
            else:
                tree = tree.members.setdefault(step.encode("utf-8", "replace"), _Tree())
        tree.is_wanted = True
        return tree


def compiled(columns: Sequence[str], *, skips_blanks: bool = False) -> Program:
    """Compile wanted columns. O(characters)."""
    root = _Tree()
    found = [(root.at([column]), root.at(steps_of(column))) for column in columns]
    nodes: list[Node | None] = []
    slots = 0

    def put(tree: _Tree) -> int:
        nonlocal slots
        number, first = len(nodes), slots
        nodes.append(None)
        if tree.is_wanted:
            tree.slot = slots
            slots += 1
        members = {name: put(member) for name, member in tree.members.items()}
        items = {index: put(item) for index, item in tree.items.items()}
        nodes[number] = Node(tree.slot, first, slots, members, items)
        return number

    put(root)
    outputs = tuple((exact.slot, NONE if path is exact else path.slot) for exact, path in found)
    return Program(tuple(node for node in nodes if node is not None), slots, outputs, skips_blanks)


def encoded(program: Program) -> bytes:
    """Encode a program for the kernel.

    The bytes, little endian: nodes, slots, outputs, members and items of all nodes, whether blanks are skipped (u16
    each); of each output its two slots (i16); of each node: slot (i16), first, end, members, items (u16 each), then of
    each member its node and the length of its name (u16 each) and the name, and of each item its number (u32) and its
    node (u16).
    """
    members = sum(len(node.members) for node in program.nodes)
    items = sum(len(node.items) for node in program.nodes)
    parts = [
        _HEADER.pack(len(program.nodes), program.slots, len(program.outputs), members, items, program.skips_blanks)
    ]
    parts += [_OUTPUT.pack(*output) for output in program.outputs]
    for node in program.nodes:
        parts.append(_NODE.pack(node.slot, node.first, node.end, len(node.members), len(node.items)))
        parts += [_MEMBER.pack(number, len(name)) + name for name, number in node.members.items()]
        parts += [_ITEM.pack(index, number) for index, number in node.items.items()]
    return b"".join(parts)


def decoded(program: bytes) -> Program:
    """Decode what `encoded` made."""
    count, slots, output_count, _, _, skips_blanks = _HEADER.unpack_from(program)
    at = _HEADER.size

    def take(shape: struct.Struct) -> tuple[int, ...]:
        nonlocal at
        at += shape.size
        return shape.unpack_from(program, at - shape.size)

    outputs = []
    for _ in range(output_count):
        first, second = take(_OUTPUT)
        outputs.append((first, second))
    nodes = []
    for _ in range(count):
        slot, begin, end, members, items = take(_NODE)
        node = Node(slot, begin, end, {}, {})
        for _ in range(members):
            number, length = take(_MEMBER)
            node.members[program[at : at + length]] = number
            at += length
        for _ in range(items):
            index, number = take(_ITEM)
            node.items[index] = number
        nodes.append(node)
    return Program(tuple(nodes), slots, tuple(outputs), bool(skips_blanks))
