"""Texts of formats that have nothing else, as values of a column's type. Pure; over whole columns.

As for JSON, a number fits an integer column if it is whole, however it is written; with a point or an exponent it is a
double. No text at all, and `-`, are null in columns of other types than STRING. What does not fit is null, too, and is
told apart.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import polars as pl

from elf.agents.language.types import SqlType
from elf.agents.sources import event_time

_NUMBER = r"^[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?$"
_INTEGER = r"^[+-]?[0-9]+$"
_DATE = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}$"
_BIGINT = 2.0**63
_NOTHING = ("", "-")


class Typed(NamedTuple):
    """A column of values.

    Attributes:
        column: of the type.
        unfit: which rows have a value that does not fit; these are null.
    """

    column: pl.Series
    unfit: npt.NDArray[np.bool_]


def of_type(texts: pl.Series, kind: SqlType) -> Typed:
    """Turn texts into values of a type; O(texts)."""
    if kind is SqlType.STRING:
        return Typed(texts, np.zeros(texts.len(), np.bool_))
    column = _all_numbers(texts, kind)
    if column is not None:
        return Typed(column, np.zeros(texts.len(), np.bool_))
    column = _READ[kind](texts)
    unfit = column.is_null() & texts.is_not_null()
    if unfit.any():
        unfit &= ~texts.is_in(_NOTHING)
    if kind in (SqlType.INT, SqlType.BIGINT):
        column = column.cast(kind.dtype, strict=False)
        unfit |= column.is_null() & texts.is_not_null() & ~texts.is_in(_NOTHING)
    return Typed(column, unfit.fill_null(False).to_numpy())


def type_of(texts: pl.Series) -> SqlType | None:
    """Return the type that all of some texts have; None if there is none among them.

    A number with zeros in front is a text: it is the name of something.
    """
    texts = texts.drop_nulls()
    texts = texts.filter(~texts.is_in(_NOTHING))
    if not texts.len():
        return None
    if texts.str.to_lowercase().is_in(("true", "false")).all():
        return SqlType.BOOLEAN
    if not texts.str.contains(_NUMBER).all() or texts.str.contains(r"^[+-]?0[0-9]").any():
        return SqlType.STRING
    if texts.str.contains(_INTEGER).all() and _integers(texts).null_count() == 0:
        return SqlType.BIGINT
    return SqlType.DOUBLE if _doubles(texts).null_count() == 0 else SqlType.STRING


def _all_numbers(texts: pl.Series, kind: SqlType) -> pl.Series | None:
    """Return texts as numbers of a type if all of them are such: nearly always, and fast; else None."""
    if kind not in (SqlType.INT, SqlType.BIGINT, SqlType.DOUBLE):
        return None
    column = texts.cast(kind.dtype, strict=False)
    if column.null_count() != texts.null_count():
        return None
    is_finite = kind is not SqlType.DOUBLE or np.isfinite(column.to_numpy()).sum() == column.len() - column.null_count()
    return column if is_finite else None


def _integers(texts: pl.Series) -> pl.Series:
    column = texts.cast(pl.Int64, strict=False)
    left = column.is_null() & texts.is_not_null()
    if not left.any():
        return column
    rest = texts.filter(left)
    whole = rest.str.contains(_INTEGER)
    integers = rest.str.strip_prefix("+").cast(pl.Int64, strict=False).set(~whole, None)
    numbers = _doubles(rest)
    fits = ~whole & (numbers.floor() == numbers) & (numbers >= -_BIGINT) & (numbers < _BIGINT)
    exact = numbers.set(~fits.fill_null(False), None).cast(pl.Int64, strict=False)
    return column.scatter(left.arg_true(), integers.zip_with(whole, exact))


def _doubles(texts: pl.Series) -> pl.Series:
    column = texts.cast(pl.Float64, strict=False)
    odd = ~column.is_finite() | column.is_null()
    if not odd.any():
        return column
    rest = texts.filter(odd.fill_null(True))
    numbers = rest.str.strip_prefix("+").cast(pl.Float64, strict=False)
    is_number = rest.str.contains(_NUMBER) & numbers.is_finite()
    return column.scatter(odd.fill_null(True).arg_true(), numbers.set(~is_number.fill_null(False), None))


def _booleans(texts: pl.Series) -> pl.Series:
    lower = texts.str.to_lowercase()
    return (lower == "true").set(~lower.is_in(("true", "false")), None)


def dates(texts: pl.Series) -> pl.Series:
    """Read dates; what is none is null."""
    exact = texts.str.contains(_DATE) & ~texts.str.starts_with("0000")
    return texts.set(~exact, None).str.to_date("%Y-%m-%d", strict=False)


def timestamps(name: str, values: Sequence[object]) -> pl.Series:
    """Make a column of the times that texts and numbers are; what is none is null."""
    times, valid = event_time.from_values(values, unit=1_000_000)
    return pl.Series(name, times).set(pl.Series(~valid), None).cast(SqlType.TIMESTAMP.dtype)


def _timestamps(texts: pl.Series) -> pl.Series:
    return timestamps(texts.name, texts.to_list())


_READ = {
    SqlType.BOOLEAN: _booleans,
    SqlType.INT: _integers,
    SqlType.BIGINT: _integers,
    SqlType.DOUBLE: _doubles,
    SqlType.DATE: dates,
    SqlType.TIMESTAMP: _timestamps,
}
