"""What values were that do not fit their column's type: their texts, in a column of its own beside that one. Pure.

A frame has such a column only where a value did not fit; it is null in all other rows. Jobs never read it: it is for
the archive, so that `elf verify` can ask Spark what it makes of the text.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import polars as pl

from elf.agents.language.codes import alike

#: Behind a column's name. No path reads like that (`elf.agents.language.paths`), and no configuration may declare it.
_SUFFIX = "[raw]"

#: Returns the texts of some rows.
Texts = Callable[[npt.NDArray[np.intp]], pl.Series]


class UnfitValues(NamedTuple):
    """The values of a column that do not fit its type.

    Attributes:
        rows: where they are.
        texts: what they are; None where nothing of the kind could be cast to the type.
    """

    rows: npt.NDArray[np.intp]
    texts: pl.Series | None


def raw_name(column: str) -> str:
    """Return the name of the column with the texts of what does not fit a column."""
    return column + _SUFFIX


def typed_name(column: str) -> str:
    """Return the name of the column that a column of texts belongs to; of any other its own."""
    return column.removesuffix(_SUFFIX)


def is_raw(column: str) -> bool:
    """Tell whether a column is one of such texts."""
    return column.endswith(_SUFFIX)


def raw_column(column: str, rows: int, unfit: UnfitValues) -> pl.Series:
    """Make the column of the texts."""
    nulls = pl.Series(raw_name(column), [None], dtype=pl.String).new_from_index(0, rows)
    return nulls if unfit.texts is None else nulls.scatter(unfit.rows, unfit.texts)


def stacked(frames: list[pl.DataFrame]) -> pl.DataFrame:
    """Put frames together that differ only in which columns of such texts they have, and in the codes of others."""
    is_one = len({tuple(frame.columns) for frame in frames}) == 1
    return pl.concat(alike(frames), how="vertical" if is_one else "diagonal", rechunk=True)
