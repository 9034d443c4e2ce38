"""Columns of codes in the place of texts: what is done with a text that comes again and again is done once. Pure.

They are Polars' categoricals. To filter, stack and store such a column touches no text; what computes with texts has
them from `with_texts`, which looks them up. Codes of different makers are never compared: where two such columns meet,
both become texts.
"""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Collection, Sequence

import numpy as np
import polars as pl

_numbers = itertools.count(1)


class Codes:
    """The texts that codes stand for; those of no other maker are equal to its."""

    def __init__(self) -> None:
        categories = pl.Categories(f"elf-{next(_numbers)}")
        self._dtype = pl.Categorical(categories)
        # Polars forgets codes that no column has.
        self._held = pl.Series([], dtype=self._dtype)
        #: By code.
        self.texts = pl.Series([], dtype=pl.String)
        _makers[categories.name()] = self

    def of(self, texts: pl.Series) -> pl.Series:
        """Return a column of texts as one of codes; new texts get the next ones. O(rows)."""
        coded = texts.cast(self._dtype)
        has = coded.is_not_null()
        codes, rows = np.unique(coded.to_physical().filter(has).to_numpy(), return_index=True)
        new = rows[codes >= self.texts.len()]
        if len(new):
            self.texts = pl.concat([self.texts, texts.filter(has)[new]], rechunk=True)
            if codes[-1] != self.texts.len() - 1:
                raise RuntimeError(f"{self.texts.len()} texts have codes up to {codes[-1]}")
        return coded


#: Who makes codes, by the name of the categories.
_makers: weakref.WeakValueDictionary[str, Codes] = weakref.WeakValueDictionary()


def is_coded(column: pl.Series) -> bool:
    """Tell whether a column is one of codes."""
    return isinstance(column.dtype, pl.Categorical)


def text_of(column: pl.Series) -> pl.Series:
    """Return a column of codes as one of texts."""
    texts = _texts(column)
    return column.cast(pl.String) if texts is None else texts[column.to_physical()].alias(column.name)


def with_texts(events: pl.DataFrame, names: Collection[str] | None = None) -> pl.DataFrame:
    """Return a frame with texts in the place of codes, in some columns, or in all."""
    coded = [text_of(column) for column in events if is_coded(column) and (names is None or column.name in names)]
    return events.with_columns(coded) if coded else events


def looked_up(column: pl.Series, expr: pl.Expr) -> pl.Series:
    """Return what an expression of a column of codes, and of nothing else, says: found once for each text, and null."""
    texts = _texts(column)
    if texts is None:
        return text_of(column).to_frame().select_seq(expr).to_series()
    every = pl.concat([texts, pl.Series([None], dtype=pl.String)]).alias(column.name)
    found = every.to_frame().select_seq(expr).to_series()
    return found[column.to_physical().fill_null(texts.len())]


def alike(frames: Sequence[pl.DataFrame]) -> list[pl.DataFrame]:
    """Return frames in which each column is of codes of one maker in all that have it, or else of texts."""
    kinds: dict[str, set[pl.DataType]] = {}
    for frame in frames:
        for name, dtype in frame.schema.items():
            kinds.setdefault(name, set()).add(dtype)
    mixed = {name for name, of in kinds.items() if len(of) > 1}
    return [with_texts(frame, mixed) for frame in frames] if mixed else list(frames)


def _texts(column: pl.Series) -> pl.Series | None:
    """Return the texts of a column's codes; None if their maker is gone."""
    assert isinstance(column.dtype, pl.Categorical)
    maker = _makers.get(column.dtype.categories.name())
    return None if maker is None else maker.texts
