"""Columns of 64-bit words, of which those with one and the same value take no memory and no time.

Keys often share a word: the interval, the length of keys of fixed length, a common prefix. Such a column is an array
of stride 0, which reads like any other.

Text of more than `WIDE_WORDS` words lies in one column of shape (rows, words): such keys are so long that going
through them row by row costs less than going through as many columns.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

Words = npt.NDArray[np.uint64]
Index = npt.NDArray[np.int64]
#: A key's words, column by column; each of shape (rows,), but that of wide text.
Columns = list[Words]


def constant(value: int | np.uint64, rows: int) -> Words:
    """A column of so many times the same value."""
    return np.ndarray((rows,), np.uint64, np.array(value, dtype=np.uint64).data, strides=(0,))


def is_constant(column: Words) -> bool:
    """Whether the column is known to have one value; it may have one without being known to."""
    return column.strides == (0,)


def is_wide(column: Words) -> bool:
    """Whether the column has several words a row."""
    return column.ndim > 1


def width(columns: Sequence[Words]) -> int:
    """Words of a row."""
    return sum(column.shape[1] if is_wide(column) else 1 for column in columns)


def simplified(column: Words) -> Words:
    """The column, as a constant if it is one. O(rows)."""
    if column.size and not is_constant(column) and column[0] == column[-1] and (column == column[0]).all():
        return constant(column[0], column.size)
    return column


def take(column: Words, rows: Index) -> Words:
    """The values at these rows."""
    return constant(column[0], rows.size) if is_constant(column) and column.size else column.take(rows, axis=0)


def join(parts: Sequence[Words]) -> Words:
    """The columns one after the other."""
    if len(parts) == 1:
        return parts[0]
    if all(is_constant(part) and part.size for part in parts) and len({int(part[0]) for part in parts}) == 1:
        return constant(parts[0][0], sum(part.size for part in parts))
    return np.concatenate(parts)


def equal(columns: Columns, left: Index, right: Index) -> npt.NDArray[np.bool_]:
    """Whether the keys at the rows `left` are those at `right`, place by place."""
    same = np.ones(left.size, dtype=bool)
    for column in columns:
        if not is_constant(column):
            equals = column.take(left, axis=0) == column.take(right, axis=0)
            same &= equals.all(axis=1) if is_wide(column) else equals
    return same


def sortable(column: Words) -> Words:
    """A word a row, equal where the column's words are."""
    if not is_wide(column):
        return column
    numbers: dict[bytes, int] = {}
    return np.array([numbers.setdefault(row.tobytes(), len(numbers)) for row in column], dtype=np.uint64)
