"""PAOs in Python: the slow path for what no other aggregate can do.

Installed by the operator of an agent, never sent over the wire. A state is anything msgpack carries; the tree sees
bytes, b"" for nothing. Each merge is a Python call, some thousand times slower than an aggregate made of columns.
"""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar, Protocol

import msgpack
import numpy as np
import polars as pl

from cbt.aggregates.contract import Merge, Plain, States
from cbt.aggregates.grouped import convert


class UserPao(Protocol):
    """What a user writes. Merge must be associative and commutative, or results depend on the tree's shape.

    States are numbers, texts, bytes, lists or dicts of these, None.
    """

    #: The type of the final value.
    output: pl.DataType

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
        ValueError: the name is taken.
    """
    if _PAOS.setdefault(name, pao) is not pao:
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
            states = [msgpack.packb(pao.create(values)) if values else b"" for values in groups.to_list()]
            return pl.Series(groups.name, states, dtype=pl.Binary)

        lists = value.drop_nulls().implode().map_batches(pack, return_dtype=pl.Binary(), is_elementwise=True)
        return [lists.alias(f"{name}_state")]

    def merges(self, name: str) -> list[Merge]:
        """Call the PAO once a pair."""
        return [Merge((f"{name}_state",), self._combine)]

    def finish(self, name: str) -> pl.Expr:
        """Call the PAO once a row; NULL where there is no value."""
        pao = _PAOS[self.pao]

        def unpack(states: pl.Series) -> pl.Series:
            values = [pao.finish(msgpack.unpackb(state)) if state else None for state in states.to_list()]
            return pl.Series(states.name, values, dtype=self.output)

        return convert(pl.col(f"{name}_state"), self.output, unpack)

    def _combine(self, left: States, right: States) -> States:
        pao = _PAOS[self.pao]
        merged = np.empty(len(left[0]), dtype=object)
        for row, (one, other) in enumerate(zip(left[0], right[0], strict=True)):
            if one and other:
                merged[row] = msgpack.packb(pao.merge(msgpack.unpackb(one), msgpack.unpackb(other)))
            else:
                merged[row] = one or other
        return (merged,)
