"""What a function of one's own is: `elf.scalar`, `elf.vectorised` and `elf.aggregate` make one. Pure.

A package declares such objects under the entry point `elf.functions`; jobs call them by the entry point's name. What a
function means is all here, null rule and type of the answer included, so agents and Spark, which call the very same
object, mean the same. docs/FUNCTIONS.md is for those who write them.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Sequence
from typing import Any

import msgspec
import numpy as np
import polars as pl

from elf.agents.language.types import SqlType
from elf.cbt.aggregates.user import UserPao

#: More arguments than any function needs.
ARGS_MAX = 32


class Scalar(msgspec.Struct, frozen=True):
    """A function of one row's values; calling it gives a value of its type, None for NULL.

    Attributes:
        function: what was decorated.
        args: the types of its arguments.
        returns: the type of its answer.
        strict: NULL if any argument is, without a call; else it is called with None.
    """

    function: Callable[..., Any]
    args: tuple[SqlType, ...]
    returns: SqlType
    strict: bool

    def __call__(self, *values: Any) -> Any:
        """Call it for one row.

        Raises:
            TypeError: the answer is not of the declared type.
            Exception: whatever the function raises.
        """
        if self.strict and any(value is None for value in values):
            return None
        return conform(self.function(*values), self.returns)


class Vectorised(msgspec.Struct, frozen=True):
    """A function of columns, row by row; attributes as of `Scalar`, but it takes and returns Polars Series."""

    function: Callable[..., pl.Series]
    args: tuple[SqlType, ...]
    returns: SqlType
    strict: bool

    def __call__(self, *columns: pl.Series) -> pl.Series:
        """Call it for the rows of columns of equal length, at least one.

        Raises:
            TypeError: the answer is no column of the declared type and of this length.
            Exception: whatever the function raises.
        """
        if not self.strict:
            return self._answer(columns)
        known = (
            ~pl.DataFrame([column.is_null().alias(str(i)) for i, column in enumerate(columns)])
            .select(pl.any_horizontal(pl.all()))
            .to_series()
        )
        if known.all():
            return self._answer(columns)
        answer = pl.Series([None], dtype=self.returns.dtype).new_from_index(0, known.len())
        return (
            answer.scatter(known.arg_true(), self._answer([c.filter(known) for c in columns]))
            if known.any()
            else answer
        )

    def _answer(self, columns: Sequence[pl.Series]) -> pl.Series:
        answer = self.function(*columns)
        if not isinstance(answer, pl.Series):
            raise TypeError(f"it returned {type(answer).__name__}, not a Polars Series")
        if answer.len() != columns[0].len():
            raise TypeError(f"it returned {answer.len()} rows for {columns[0].len()}")
        if not _is_near(answer.dtype, self.returns):
            raise TypeError(f"it returned a column of {answer.dtype}, not of {self.returns.value}")
        if isinstance(answer.dtype, pl.Datetime) and answer.dtype.time_zone is not None:
            answer = answer.dt.convert_time_zone("UTC").dt.replace_time_zone(None)
        return answer.cast(self.returns.dtype)


class Aggregate(msgspec.Struct, frozen=True, eq=False):
    """An aggregate in Python: a PAO of `elf.cbt.aggregates.user`, with the SQL types of what it takes and answers.

    Attributes:
        pao: an instance of the decorated class.
        args: the type of its one argument.
        returns: the type of its answer.
    """

    pao: Any
    args: tuple[SqlType, ...]
    returns: SqlType

    # Two instances of one class are the same aggregate.
    def __eq__(self, other: object) -> bool:
        return isinstance(other, Aggregate) and self._identity == other._identity

    def __hash__(self) -> int:
        return hash(self._identity)

    @property
    def _identity(self) -> object:
        return type(self.pao), self.args, self.returns

    @property
    def output(self) -> pl.DataType:
        """The type of its answer."""
        return self.returns.dtype

    def create(self, values: list[Any]) -> Any:
        """Reduce values to a state."""
        return self.pao.create(values)

    def merge(self, left: Any, right: Any) -> Any:
        """Merge two states."""
        return self.pao.merge(left, right)

    def finish(self, state: Any) -> Any:
        """Compute the answer; raises TypeError if it is not of the declared type."""
        return conform(self.pao.finish(state), self.returns)


Declared = Scalar | Vectorised | Aggregate
Typed = SqlType | str


def scalar(*, args: Sequence[Typed], returns: Typed, strict: bool = False) -> Callable[[Callable[..., Any]], Scalar]:
    """Declare a Python function of one row's values as a function of the job language.

    Args:
        args: SQL types of the arguments, at least one: "STRING", "BIGINT", ...
        returns: SQL type of the answer; None is NULL.
        strict: rows with a NULL among the arguments give NULL without a call; else the function is called with None,
            as Spark calls Python functions.

    Raises:
        ValueError: a type is none of the job language's, or there are no arguments.
    """
    takes, gives = _types(args), SqlType.parse(returns) if isinstance(returns, str) else returns
    return lambda function: Scalar(function, takes, gives, strict)


def vectorised(
    *, args: Sequence[Typed], returns: Typed, strict: bool = False
) -> Callable[[Callable[..., pl.Series]], Vectorised]:
    """Declare a function of Polars Series as a function of the job language; arguments as of `scalar`.

    Each row of the answer must depend on that row alone: frames are cut anywhere.
    """
    takes, gives = _types(args), SqlType.parse(returns) if isinstance(returns, str) else returns
    return lambda function: Vectorised(function, takes, gives, strict)


def aggregate(*, args: Sequence[Typed], returns: Typed) -> Callable[[type[Any]], Aggregate]:
    """Declare a class with `create(values)`, `merge(left, right)` and `finish(state)` as an aggregate of jobs.

    The class is made without arguments; `elf.cbt.aggregates.user.UserPao` says what the methods must keep to.

    Args:
        args: the SQL type of its one argument.
        returns: SQL type of the answer.

    Raises:
        ValueError: a type is none of the job language's, there is not one argument, or a method is missing.
    """
    takes, gives = _types(args), SqlType.parse(returns) if isinstance(returns, str) else returns
    if len(takes) != 1:
        raise ValueError(f"an aggregate takes one argument, not {len(takes)}")

    def declare(pao: type[Any]) -> Aggregate:
        missing = [name for name in ("create", "merge", "finish") if not callable(getattr(pao, name, None))]
        if missing:
            raise ValueError(f"{pao.__name__} has no method {' and no method '.join(missing)}")
        return Aggregate(pao(), takes, gives)

    return declare


def conform(value: Any, kind: SqlType) -> Any:
    """Return a value as one of an SQL type: None, or of the one Python type that stands for it.

    A whole number is taken for a DOUBLE; a time with a time zone is taken to UTC, one without is UTC.

    Raises:
        TypeError: it is none.
    """
    if isinstance(value, np.generic):
        value = value.item()
    if value is None:
        return None
    found: Any = None
    match kind:
        case SqlType.BOOLEAN if isinstance(value, bool):
            found = value
        case SqlType.INT | SqlType.BIGINT if isinstance(value, int) and not isinstance(value, bool):
            bound = 2**31 if kind is SqlType.INT else 2**63
            found = int(value) if -bound <= value < bound else None
        case SqlType.DOUBLE if isinstance(value, int | float) and not isinstance(value, bool):
            found = float(value)
        case SqlType.STRING if isinstance(value, str):
            value.encode()  # half a pair of surrogates is no text
            found = str(value)
        case SqlType.DATE if isinstance(value, datetime.date) and not isinstance(value, datetime.datetime):
            found = value
        case SqlType.TIMESTAMP if isinstance(value, datetime.datetime):
            moved = value if value.tzinfo is None else value.astimezone(datetime.UTC)
            found = moved.replace(tzinfo=None, fold=0)
    if found is None:
        shown = repr(value)
        raise TypeError(f"it returned {shown if len(shown) <= 60 else shown[:57] + '...'}, which is no {kind.value}")
    return found


def _is_near(dtype: pl.DataType, kind: SqlType) -> bool:
    """Whether a column's values can be those of a type, though its width or unit is another."""
    if dtype.is_integer() and kind is not SqlType.BOOLEAN:
        return kind in (SqlType.INT, SqlType.BIGINT, SqlType.DOUBLE)
    if isinstance(dtype, pl.Datetime):
        return kind is SqlType.TIMESTAMP
    return dtype in (kind.dtype, pl.Null) or (dtype.is_float() and kind is SqlType.DOUBLE)


def _types(args: Sequence[Typed]) -> tuple[SqlType, ...]:
    if isinstance(args, str) or not 1 <= len(args) <= ARGS_MAX:
        raise ValueError(f'args is a list of 1 to {ARGS_MAX} SQL types, such as ["STRING", "BIGINT"]')
    return tuple(SqlType.parse(each) if isinstance(each, str) else each for each in args)


__all__ = ["Aggregate", "Declared", "Scalar", "UserPao", "Vectorised", "aggregate", "conform", "scalar", "vectorised"]
