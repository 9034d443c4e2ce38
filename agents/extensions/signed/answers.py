"""What functions answer, held to the types that they declare: another program may say anything."""

from __future__ import annotations

from typing import Any

import polars as pl

from elf.agents.extensions.signed.process import GaveUpError
from elf.agents.language.types import SqlType

#: Times that Python has, in microseconds since 1970, and its days.
_MICROSECONDS = (-62_135_596_800_000_000, 253_402_300_799_999_999)
_DAYS = (-719_162, 2_932_896)


def typed(answers: list[Any], kind: SqlType) -> pl.Series:
    """Return answers as a column of a type.

    Raises:
        GaveUpError: they are none of that type, so the answer is none of our program's.
    """
    try:
        if kind in (SqlType.DATE, SqlType.TIMESTAMP):
            least, most = _DAYS if kind is SqlType.DATE else _MICROSECONDS
            whole = pl.Series("", answers, pl.Int64, strict=True)
            if whole.is_between(least, most).not_().any():
                raise ValueError("a time that Python does not have")
            return whole.cast(pl.Int32).cast(pl.Date) if kind is SqlType.DATE else whole.cast(pl.Datetime("us"))
        return pl.Series("", answers, kind.dtype, strict=True)
    except (TypeError, ValueError, OverflowError, pl.exceptions.PolarsError, pl.exceptions.PanicException):
        raise GaveUpError("its functions answer with what is not of their types") from None
