"""What an aggregate is: state columns, how they merge, and what is read from them in the end.

DESIGN section 4; paper section 3.1, "PAOs execution". An aggregate of a name `a0` owns the state columns `a0_<state>`.
Its laws, which the tests hold: merge is associative and commutative (exactly so for all but floating-point moments),
the identity changes nothing, and finish of merged parts equals the aggregate of the whole.

State columns are never null: what SQL calls NULL is a count of zero or a flag `a0_has`. Null rules are SQL's: `count`
counts, every other aggregate skips nulls and is null where nothing was left.

Slotted aggregates keep their detail in further rows of the same tree. Such a row carries a slot value beside its keys
and identity states for everyone else; plain rows have null slots. So merging needs nothing special: slot columns are
just more key columns.
"""

from __future__ import annotations

import abc
import dataclasses
from collections.abc import Callable
from typing import Any, ClassVar, Literal, NamedTuple

import numpy.typing as npt
import polars as pl

#: Aligned state columns of some rows: Int64, Int32, Date and Datetime as int64, Float64 as float64, Boolean as uint8,
#: String as int64 ranks that keep order and equality within one call, Binary as objects of type `bytes`.
States = tuple[npt.NDArray[Any], ...]
#: Merges row by row: the states of left PAOs, the states of right PAOs -> the states of merged PAOs.
Combine = Callable[[States, States], States]
Word = Literal["sum", "min", "max"]


class Merge(NamedTuple):
    """State columns that merge together.

    Attributes:
        states: full column names.
        how: a word merges each column alone, by `np.add`, `np.fmin` (`np.minimum`) or `np.maximum`; else all at once.
    """

    states: tuple[str, ...]
    how: Word | Combine


class AggregateOverflow(ArithmeticError):
    """An exact sum left the range of its type: the data's fault.

    Attributes:
        column: the aggregate, or in a tree the state column, that it happened in; named in the text, too.
    """

    # Polars raises a copy of what was raised inside an expression, made from its text alone.
    def __init__(self, text: str, column: str = "") -> None:
        super().__init__(text)
        self.column = column

    @classmethod
    def of(cls, column: str, bounds: str = "64 bits") -> AggregateOverflow:
        """Say that the sum in a column does not fit."""
        return cls(f"the sum in column {column!r} does not fit into {bounds}", column)


class AggregateLimit(ValueError):
    """A bounded aggregate met more distinct values under one key than it may hold: the query's fault.

    Attributes:
        column: the aggregate it happened in.
        limit: the most distinct values of a key.
    """

    def __init__(self, column: str, limit: int) -> None:
        super().__init__(f"column {column!r} has more than {limit} distinct values under one key")
        self.column = column
        self.limit = limit


class UserPaoError(ValueError):
    """A PAO in Python failed; the text names it and says why."""

    # As above; Polars adds the expression.
    def __init__(self, text: str) -> None:
        super().__init__(text.partition("\n")[0])


@dataclasses.dataclass(frozen=True)
class Aggregate(abc.ABC):
    """One aggregate over one input column.

    Attributes:
        dtype: the input's Polars type.
    """

    dtype: pl.DataType

    #: The name under which `aggregate` makes it.
    kind: ClassVar[str]

    @property
    @abc.abstractmethod
    def output(self) -> pl.DataType:
        """The type of the final value."""

    @abc.abstractmethod
    def states(self, name: str) -> dict[str, pl.DataType]:
        """Name the state columns and their types."""

    @abc.abstractmethod
    def identity(self, name: str) -> dict[str, object]:
        """The value of each state in a PAO of nothing; merging with it changes nothing."""

    @abc.abstractmethod
    def create(self, name: str, value: pl.Expr | None) -> list[pl.Expr]:
        """Reduce input values to states; for use inside `group_by().agg()`.

        Each expression gives one state column, or a struct whose fields are state columns.

        Args:
            name: prefix of the state columns.
            value: the input, of type `dtype`; of slotted aggregates the item. None counts rows, for `count` only.
        """

    @abc.abstractmethod
    def merges(self, name: str) -> list[Merge]:
        """Say how the state columns merge; together they name each state once."""

    def slots(self, name: str) -> dict[str, pl.DataType]:
        """Name the extra key columns and their types; none for plain aggregates."""
        return {}

    def added(self, name: str) -> dict[str, object]:
        """The states that PAOs of earlier releases do not have, with what stands there for what is not known."""
        return {}

    @property
    def invertible(self) -> bool:
        """Whether a merged-in PAO can be taken out again, by subtracting its states."""
        return all(merge.how == "sum" for merge in self.merges(""))


class Plain(Aggregate):
    """An aggregate whose states are all in the row of its key."""

    @abc.abstractmethod
    def finish(self, name: str) -> pl.Expr:
        """Compute the final value from the states, row by row."""

    def unfit(self, name: str) -> pl.Expr | None:
        """Tell of each row why its final value cannot be said, null if it can; None if all can, or `finish` raises."""
        return None


class Slotted(Aggregate):
    """An aggregate that keeps a row per slot: per distinct value, register or bucket."""

    @abc.abstractmethod
    def item(self, value: pl.Expr) -> pl.Expr:
        """Turn each input value into what slots and states are made from; null if it does not count."""

    @abc.abstractmethod
    def slot(self, name: str, item: pl.Expr) -> dict[str, pl.Expr]:
        """Compute the slot columns of each item."""

    @abc.abstractmethod
    def fold(self, name: str) -> pl.Expr:
        """Compute the final value of a key from its slot rows; for use inside `group_by(keys).agg()`."""

    @property
    def nothing(self) -> object:
        """The final value of a key without slot rows."""
        return None

    @property
    def limit(self) -> int | None:
        """The most slots of a key; None for any number."""
        return None
