"""A layout: literals, fields, and parts that may be missing, and the checks that nothing in it is ambiguous."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence, Set
from itertools import pairwise
from typing import NamedTuple

from elf.agents.errors import ConfigError
from elf.agents.language.types import SqlType
from elf.agents.sources.layouts.kinds import BEGINS, LISTS, TYPES, Kind
from elf.agents.sources.times.notations import NOTATIONS, Notation

#: The event time's column.
TIME = "ts"
#: INT is enough for these.
_SMALL = ("server_port", "remote_port", "local_port")
_DIGITS = b"0123456789+-.eE"


class Field(NamedTuple):
    """A value in a line.

    Attributes:
        column: whose value it is; empty if it is only read over.
        kind: what it holds.
        notations: of a time: those that it may have, the first that fits first.
        pads: spaces may stand before it: it is aligned to the right.
        cell: it is a value of CSV: between quotes, where a quote is written twice, or bare.
        may_lack: nothing may stand in its place, and is null.
        ends: bytes that end it whatever comes behind: the separator of a table, which the last value has none behind.
    """

    column: str
    kind: Kind
    notations: tuple[Notation, ...] = ()
    pads: bool = False
    cell: bool = False
    may_lack: bool = False
    ends: bytes = b""

    @property
    def type(self) -> SqlType:
        """Of the column."""
        kind = TYPES.get(self.kind, SqlType.STRING)
        return SqlType.INT if kind is SqlType.BIGINT and self.column in _SMALL else kind

    @property
    def shown(self) -> str:
        """What people know it by."""
        name = "time" if self.kind is Kind.TIME else self.kind.name.lower()
        return f"{self.column or 'what is read over'} ({name})"


class Part(NamedTuple):
    """What may be missing: it is there if its first literal, or the beginning of its first field's kind, is."""

    tokens: tuple[Token, ...]


Token = bytes | Field | Part


class Layout(NamedTuple):
    """What a line is made of.

    Attributes:
        tokens: in their order.
        is_open: behind the last token, the line may go on with a space and whatever follows.
    """

    tokens: tuple[Token, ...]
    is_open: bool = False

    def fields(self) -> Iterator[Field]:
        """Yield all fields, those of parts that may be missing, too."""
        return _fields(self.tokens)

    def within(self, outer: Layout, columns: Set[str]) -> Layout:
        """Return this layout in the place of the last field of another.

        Args:
            outer: a wrapper's layout: what its last field holds is a line of this one.
            columns: of the outer layout, what is only read over, as lines within have it.
        """
        around = Layout(outer.tokens[:-1]).changed(
            lambda field: field._replace(column="") if field.column in columns else field
        )
        return Layout((*around.tokens, *self.tokens), self.is_open)

    def changed(self, change: Callable[[Field], Field]) -> Layout:
        """Return this layout with other fields in the place of its own."""
        return self._replace(tokens=_changed(self.tokens, change))


def checked(layout: Layout) -> Layout:
    """Return a layout whose lines can be read in one way only.

    Raises:
        ConfigError: two fields stand side by side and nothing tells where one ends, and the like.
    """
    fields = list(layout.fields())
    if sum(field.kind is Kind.LOOSE for field in fields) > 1:
        raise ConfigError("only one text of a layout can be without escapes; escape the quotes in the others")
    for field in fields:
        if field.column == TIME and field.kind is not Kind.TIME:
            raise ConfigError(f"{field.shown} in the layout is no time; write {{{TIME}:time:clf}}, say")
        for notation in field.notations if field.column == TIME else ():
            if not notation.is_whole:
                raise ConfigError(f"the time {notation.name!r} of the layout does not say both day and hour")
    _check(layout.tokens)
    return layout


def first_of(token: Token) -> bytes:
    """Return what a token always begins with; nothing if that is not known."""
    if isinstance(token, bytes):
        return token
    if isinstance(token, Part):
        return first_of(token.tokens[0])
    return BEGINS[token.kind][0] if token.kind in BEGINS else b""


def zoneless(layout: Layout) -> list[Notation]:
    """Return the notations of the event time that do not say in which zone it is."""
    return [n for field in layout.fields() if field.column == TIME for n in field.notations if n.needs_zone]


def notations_of(names: str) -> tuple[Notation, ...]:
    """Return the notations of these names, which `|` separates; raises ConfigError for one that there is not."""
    for name in names.split("|"):
        if name not in NOTATIONS:
            raise ConfigError(f"there is no time notation {name!r}; there are {', '.join(NOTATIONS)}")
    return tuple(NOTATIONS[name] for name in names.split("|"))


def _changed(tokens: Sequence[Token], change: Callable[[Field], Field]) -> tuple[Token, ...]:
    found: list[Token] = []
    for token in tokens:
        if isinstance(token, Part):
            found.append(Part(_changed(token.tokens, change)))
        else:
            found.append(change(token) if isinstance(token, Field) else token)
    return tuple(found)


def _fields(tokens: Sequence[Token]) -> Iterator[Field]:
    for token in tokens:
        if isinstance(token, Field):
            yield token
        elif isinstance(token, Part):
            yield from _fields(token.tokens)


def _check(tokens: Sequence[Token]) -> None:
    for token in tokens:
        if isinstance(token, Part):
            if not first_of(token):
                raise ConfigError("a part that may be missing has to begin with a text")
            _check(token.tokens)
    for left, right in pairwise(tokens):
        if isinstance(left, Field):
            _check_end(left, right)


def _check_end(left: Field, right: Token) -> None:
    """Check that something tells where a field ends."""
    if left.kind is Kind.REST:
        raise ConfigError(f"{left.column!r} takes the rest of the line, so nothing can come after it")
    if isinstance(right, Field):
        if right.kind in BEGINS and left.kind in BEGINS[right.kind][1]:
            return
        raise ConfigError(
            f"nothing tells where {left.column!r} ends and {right.column!r} begins; write a space, or quotes, between "
            "them"
        )
    text = first_of(right)
    joints = (b", ", b" : ") if left.kind is not Kind.ADDRESSES else (b",",)
    if text and ((left.kind in TYPES and text[:1] in _DIGITS) or (left.kind in LISTS and text.startswith(joints))):
        raise ConfigError(f"{left.column!r} may go on with {text[:3].decode()!r}, so it cannot end there")
