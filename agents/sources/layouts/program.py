"""A layout as a program: the steps that take a line apart, one after the other, without ever going back.

The twin (`elf.agents.sources.layouts.line`) and the kernel run the same steps. LINES sections 2 and 8.
"""

from __future__ import annotations

import enum
import struct
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from elf.agents.sources.layouts.kinds import NO_TEXTS, Kind
from elf.agents.sources.layouts.layout import TIME, Field, Layout, Part, Token, first_of
from elf.agents.sources.times.notations import Notation

_ENDS_UNQUOTED = frozenset(b"])}\t|")
#: Values between these may have spaces, the last one, too, behind which there is none.
_SEPARATORS = (b"\t", b"|")
#: Whose grammar says itself what nothing is.
_NEVER_LACK = frozenset((Kind.TIME, Kind.LOOSE, Kind.REST, Kind.QUERY))


class Op(enum.IntEnum):
    """What a step does; the numbers are those of the kernel."""

    LITERAL = 1
    FIELD = 2
    PART = 3
    END = 4


class Step(NamedTuple):
    """One step.

    Attributes:
        op: what it does.
        text: the literal; of a part the text that says that it is there.
        skip: of a part: the step to go on with where it is missing.
        kind: of a field.
        slot: of a field: which value it is; -1 if it is read over.
        stops: bytes of which one ends the field's run.
        after: the literal that comes after the field if no part does; empty if none does.
        quoted: the field stands between quotes.
        pads: spaces may stand before the field.
        cell: the field is a value of CSV.
        may_lack: nothing in the place of the field is null.
        notations: of a time.
        shown: the field for people.
    """

    op: Op
    text: bytes = b""
    skip: int = 0
    kind: Kind = Kind.REST
    slot: int = -1
    stops: bytes = b""
    after: bytes = b""
    quoted: bool = False
    pads: bool = False
    cell: bool = False
    may_lack: bool = False
    notations: tuple[Notation, ...] = ()
    shown: str = ""

    @property
    def place(self) -> str:
        """Where in a line it is, for people: its field, or what it is between."""
        if self.op is Op.FIELD:
            return self.shown
        return "behind all fields" if self.op is Op.END else "between fields"


class Program(NamedTuple):
    """Steps, and the fields whose values they fill.

    Attributes:
        steps: the last one is the end.
        slots: the field of each value, by its number; a column's first.
        is_open: as the layout's.
    """

    steps: tuple[Step, ...]
    slots: tuple[Field, ...]
    is_open: bool


def compiled(layout: Layout) -> Program:
    """Compile a layout that has been checked. O(tokens)."""
    slots: dict[str, Field] = {}
    for field in layout.fields():
        if field.column:
            slots.setdefault(field.column, field)
    names = {column: number for number, column in enumerate(slots)}
    steps: list[Step] = []
    _add(steps, layout.tokens, (), False, names)
    steps.append(Step(Op.END))
    return Program(tuple(steps), tuple(slots.values()), layout.is_open)


def _add(
    steps: list[Step], tokens: Sequence[Token], behind: Sequence[bytes], quoted: bool, names: dict[str, int]
) -> None:
    """Add the steps of tokens, behind which, in the whole, come these texts."""
    for index, token in enumerate(tokens):
        follow = _follow(tokens, index + 1, behind)
        if isinstance(token, bytes):
            steps.append(Step(Op.LITERAL, token))
            quoted ^= token.count(b'"') % 2 == 1
        elif isinstance(token, Field):
            before = tokens[index - 1] if index else b""
            ends = before[:1] if not follow and isinstance(before, bytes) and before[:1] in _SEPARATORS else b""
            may_lack = token.may_lack or (token.kind in NO_TEXTS and _is_alone(tokens, index))
            token = token._replace(ends=token.ends or ends, may_lack=may_lack and token.kind not in _NEVER_LACK)
            steps.append(_field(token, follow, quoted, names))
        else:
            steps.append(Step(Op.PART, first_of(token)))
            place = len(steps) - 1
            _add(steps, token.tokens, follow, quoted, names)
            steps[place] = steps[place]._replace(skip=len(steps))


def _is_alone(tokens: Sequence[Token], index: int) -> bool:
    """Tell whether a field has quotes before and behind it."""
    sides = tokens[max(index - 1, 0)], tokens[min(index + 1, len(tokens) - 1)]
    before, behind = (token if isinstance(token, bytes) else b"" for token in sides)
    return before.endswith(b'"') and behind.startswith(b'"')


def _field(field: Field, follow: Sequence[bytes], quoted: bool, names: dict[str, int]) -> Step:
    stops = {text[0] for text in follow} | set(field.ends)
    if field.cell:
        # A quote in a value that is not between quotes; there are no others of them to be ended.
        stops.add(ord('"'))
    elif quoted:
        stops.add(ord('"'))
    elif not stops & _ENDS_UNQUOTED:
        stops.add(ord(" "))
    kind = field.kind
    if field.cell:
        pass
    elif kind is Kind.QUOTED and not quoted:
        kind = Kind.WORD
    elif kind is Kind.WORD and quoted:
        kind = Kind.QUOTED
    return Step(
        Op.FIELD,
        kind=kind,
        slot=names.get(field.column, -1),
        stops=bytes(sorted(stops)),
        after=follow[-1] if follow else b"",
        quoted=quoted,
        pads=field.pads,
        cell=field.cell,
        may_lack=field.may_lack,
        notations=field.notations,
        shown=field.shown,
    )


def _follow(tokens: Sequence[Token], begin: int, behind: Sequence[bytes]) -> list[bytes]:
    """Return what may follow from a token on: beginnings of parts that may be missing, and last of what must come."""
    found: list[bytes] = []
    for place in range(begin, len(tokens)):
        token = tokens[place]
        if first := first_of(token):
            found.append(first)
        # A query may be nothing, so what comes after it may come, too.
        if not isinstance(token, Part) and not (isinstance(token, Field) and token.kind is Kind.QUERY):
            return found
    return [*found, *behind]


#: Outputs of slots: none, and the event time.
NO_OUTPUT, TIME_OUTPUT = -1, -2
HEADER = struct.Struct("<HHB")
STEP = struct.Struct("<BBhHBB32s")


def encoded(program: Program, outputs: Mapping[str, int]) -> bytes:
    """Encode a program for the kernel.

    Args:
        program: what to do.
        outputs: of the columns that are wanted, which of the outputs each is.

    The bytes, little endian: steps (u16), slots (u16), is open (u8); of each slot its output (i16); of each step: op,
    kind (u8 each), slot (i16), skip (u16), flags (u8; 1 quoted, 2 pads, 4 cell, 8 may lack), number of notations (u8),
    a bitmap of its stops (256 bits, bit b of byte a is the byte 8 a + b), and as texts, each behind its length (u16):
    text, after, and the pattern of each notation.
    """
    parts = [HEADER.pack(len(program.steps), len(program.slots), program.is_open)]
    for field in program.slots:
        output = TIME_OUTPUT if field.column == TIME else outputs.get(field.column, NO_OUTPUT)
        parts.append(struct.pack("<h", output))
    for step in program.steps:
        stops = sum(1 << byte for byte in step.stops).to_bytes(32, "little")
        flags = step.quoted | step.pads << 1 | step.cell << 2 | step.may_lack << 3
        parts.append(STEP.pack(step.op, step.kind, step.slot, step.skip, flags, len(step.notations), stops))
        texts = [step.text, step.after, *(notation.pattern.encode() for notation in step.notations)]
        parts += [struct.pack("<H", len(text)) + text for text in texts]
    return b"".join(parts)
