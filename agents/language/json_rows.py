"""Rows of results in what JSON has: times and days are text, and so are numbers that JSON has none for."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from elf.agents.language.instants import day_text, read_day, read_time, time_text

if TYPE_CHECKING:
    import polars as pl

#: What is text in JSON and not in a frame: SQL type of a value, or of elements -> what reads it.
READ: dict[str, Callable[[Any], Any]] = {"DOUBLE": float, "TIMESTAMP": read_time, "DATE": read_day}


def json_rows(rows: pl.DataFrame) -> list[dict[str, Any]]:
    """Return the rows of a frame as JSON has them.

    Times (UTC, without a zone) and dates are ISO-8601, numbers that JSON has none for as Spark writes them.
    """
    columns = [_json_values(column) for column in rows.get_columns()]
    return [dict(zip(rows.columns, row, strict=True)) for row in zip(*columns, strict=True)]


def each(convert: Callable[[Any], Any], value: Any) -> Any:
    """Convert a value, or each one of a list; None stays None."""
    if isinstance(value, list):
        return [each(convert, one) for one in value]
    return None if value is None else convert(value)


def _json_values(column: pl.Series) -> list[Any]:
    import polars as pl

    kind = column.dtype.inner if isinstance(column.dtype, pl.List) else column.dtype
    if isinstance(kind, pl.Datetime):
        micros = pl.Datetime("us")
        in_micros = column.cast(pl.List(micros) if isinstance(column.dtype, pl.List) else micros)
        return [each(time_text, value) for value in in_micros.to_physical().to_list()]
    if kind == pl.Date:
        return [each(day_text, value) for value in column.to_physical().to_list()]
    values = column.to_list()
    return [each(_json_number, value) for value in values] if kind.is_float() else values


def _json_number(value: float) -> float | str:
    if math.isfinite(value):
        return value
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
