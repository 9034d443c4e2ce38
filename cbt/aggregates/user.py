"""PAOs in Python: the slow path for what no other aggregate can do.

Installed by the operator of an agent, never sent over the wire. A state is anything msgpack carries; the tree sees
bytes, b"" for nothing. Each merge is a Python call, some thousand times slower than an aggregate made of columns.

A PAO that fails on values fails there and then, before anything has changed. Where it fails on states, in the middle of
a tree, nobody could leave anything out: the merged state says why it failed, so does all that it is merged with, and
asking for the answer of its key is the error.
"""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar, Protocol

import msgpack
import numpy as np
import polars as pl

from elf.cbt.aggregates.contract import Merge, Plain, States, UserPaoError
from elf.cbt.aggregates.grouped import convert
from elf.cbt.foreign import is_theirs, python_values

#: A state that failed: a byte that no msgpack begins with, and the reason as text.
_FAILED = b"\xc1"
_REASON_CHARS_MAX = 200
#: One state, packed. More than one group's share of a snapshot should be is a sign of a state that grows with the data.
STATE_BYTES_MAX = 1 << 20


class UserPao(Protocol):
    """What a user writes. Merge must be associative and commutative, or results depend on the tree's shape.

    States are numbers, texts, bytes, lists or dicts of these, None.
    """

    @property
    def output(self) -> pl.DataType:
        """The type of the final value; mostly a plain attribute."""

    def create(self, values: list[Any]) -> Any:
        """Reduce values, at least one and none of them None, to a state."""

    def merge(self, left: Any, right: Any) -> Any:
        """Merge two states; both may be changed."""

    def finish(self, state: Any) -> Any:
        """Compute the final value; None for NULL."""


_PAOS: dict[str, UserPao] = {}


def register(name: str, pao: UserPao) -> None:
    """Make a PAO known under a name; every agent of a job must know the same.

    Raises:
        ValueError: another PAO has the name.
    """
    if _PAOS.setdefault(name, pao) != pao:
        raise ValueError(f"there is already a PAO named {name!r}")


def registered() -> tuple[str, ...]:
    """The names of all PAOs, sorted."""
    return tuple(sorted(_PAOS))


@dataclasses.dataclass(frozen=True)
class UserAggregate(Plain):
    """A registered PAO. State `state`: bytes.

    Attributes:
        pao: its name.
    """

    kind: ClassVar[str] = "user"
    pao: str = ""

    def __post_init__(self) -> None:
        if self.pao not in _PAOS:
            raise ValueError(f"there is no PAO named {self.pao!r}; registered: {', '.join(registered()) or 'none'}")

    @property
    def output(self) -> pl.DataType:
        """As the PAO says."""
        return _PAOS[self.pao].output

    def states(self, name: str) -> dict[str, pl.DataType]:
        """The packed state."""
        return {f"{name}_state": pl.Binary()}

    def identity(self, name: str) -> dict[str, object]:
        """No bytes."""
        return {f"{name}_state": b""}

    def create(self, name: str, value: pl.Expr | None) -> list[pl.Expr]:
        """Call the PAO once a group."""
        if value is None:
            raise ValueError(f"{self.pao} needs an input column")
        pao = _PAOS[self.pao]

        def pack(groups: pl.Series) -> pl.Series:
            try:
                states = [_packed(pao.create(values)) if values else b"" for values in python_values(groups)]
            except BaseException as error:
                if not is_theirs(error):
                    raise
                raise UserPaoError(_reason(self.pao, error)) from None
            return pl.Series(groups.name, states, dtype=pl.Binary)

        lists = value.drop_nulls().implode().map_batches(pack, return_dtype=pl.Binary(), is_elementwise=True)
        return [lists.alias(f"{name}_state")]

    def merges(self, name: str) -> list[Merge]:
        """Call the PAO once a pair."""
        return [Merge((f"{name}_state",), self._combine)]

    def finish(self, name: str) -> pl.Expr:
        """Call the PAO once a row; NULL where there is no value."""
        return convert(pl.col(f"{name}_state"), self.output, self._finished)

    def unfit(self, name: str) -> pl.Expr:
        """What the PAO fails with, if it does; called as often as `finish` calls it."""

        def said(states: pl.Series) -> pl.Series:
            return pl.Series(states.name, map(self._failure, states), dtype=pl.String)

        return convert(pl.col(f"{name}_state"), pl.String(), said)

    def _finished(self, states: pl.Series) -> pl.Series:
        pao = _PAOS[self.pao]
        try:
            values = [pao.finish(_unpacked(state)) if state else None for state in states.to_list()]
            return pl.Series(states.name, values, dtype=self.output)
        except UserPaoError:
            raise
        except BaseException as error:
            if not is_theirs(error):
                raise
            raise UserPaoError(_reason(self.pao, error)) from None

    def _failure(self, state: bytes) -> str | None:
        try:
            self._finished(pl.Series([state], dtype=pl.Binary))
        except UserPaoError as error:
            return str(error)
        return None

    def _combine(self, left: States, right: States) -> States:
        pao = _PAOS[self.pao]
        merged = np.empty(len(left[0]), dtype=object)
        for row, (one, other) in enumerate(zip(left[0], right[0], strict=True)):
            merged[row] = self._merged(pao, one, other) if one and other else one or other
        return (merged,)

    def _merged(self, pao: UserPao, one: bytes, other: bytes) -> bytes:
        failed = [state for state in (one, other) if state.startswith(_FAILED)]
        if failed:
            return min(failed)
        try:
            return _packed(pao.merge(_unpacked(one), _unpacked(other)))
        except BaseException as error:
            if not is_theirs(error):
                raise
            return _FAILED + _reason(self.pao, error).encode(errors="replace")


def _packed(state: Any) -> bytes:
    packed: bytes = msgpack.packb(state)
    if len(packed) > STATE_BYTES_MAX:
        raise ValueError(f"a state of {len(packed)} bytes; it may have {STATE_BYTES_MAX}")
    return packed


def _unpacked(state: bytes) -> Any:
    if state.startswith(_FAILED):
        raise UserPaoError(state[1 : 2 * _REASON_CHARS_MAX].decode(errors="replace"))
    return msgpack.unpackb(state, strict_map_key=False)


def _reason(name: str, error: BaseException) -> str:
    first = next(iter(str(error).strip().splitlines()), "")
    return f"the aggregate {name} fails: {type(error).__name__}" + (f": {first[:_REASON_CHARS_MAX]}" if first else "")
