"""Somebody else's code: what it is given, and its failures, told from those of this process."""

from __future__ import annotations

import datetime
import threading
from typing import Any

import polars as pl

#: Who cannot have as much memory as this is short of it whoever asks.
_SPARE_BYTES = 16 << 20


def is_theirs(error: BaseException) -> bool:
    """Tell whether an error that somebody else's code let out is its own, whatever it is: it may raise anything.

    An interrupt is not, which Python itself raises, but in the main thread only; nor is a want of memory where there is
    none left for anybody.
    """
    if isinstance(error, KeyboardInterrupt):
        return threading.current_thread() is not threading.main_thread()
    if isinstance(error, MemoryError):
        try:
            bytearray(_SPARE_BYTES)
        except MemoryError:
            return False
    return True


def python_values(column: pl.Series) -> list[Any]:
    """Return a column's values, alone or in lists, as Python has them.

    Raises:
        OverflowError: one is a time that Python does not have, outside the years 1 to 9999; Polars would panic.
    """
    kind = column.dtype.inner if isinstance(column.dtype, pl.List) else column.dtype
    first: datetime.date
    if isinstance(kind, pl.Date):
        first, unit = datetime.date(1970, 1, 1), "days"
    elif isinstance(kind, pl.Datetime):
        first, unit = datetime.datetime(1970, 1, 1), {"ms": "milliseconds", "us": "microseconds"}[kind.time_unit]
    else:
        return column.to_list()

    def moment(value: Any) -> Any:
        if isinstance(value, list):
            return [moment(each) for each in value]
        return None if value is None else first + datetime.timedelta(**{unit: value})

    return [moment(value) for value in column.to_physical().to_list()]
