"""PAO frames to rows that the buffer tree merges, and back."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt
import polars as pl

from elf.cbt.columns import Columns
from elf.cbt.rows import Rows, State
from elf.cbt.words import KeyLayout

_NARROW = (pl.Int32, pl.Date)


class FrameFormat(msgspec.Struct, frozen=True):
    """What the columns of a frame are.

    Attributes:
        layout: of the key columns.
        states: name and type of each state column; none has nulls.
    """

    layout: KeyLayout
    states: Mapping[str, pl.DataType]

    def validate(self, frame: pl.DataFrame) -> None:
        """Check what `to_rows` relies on.

        Raises:
            ValueError: the frame has other columns, or nulls among the intervals or states.
        """
        expected = {**dict(self.layout.columns), **self.states}
        if dict(frame.schema) != expected:
            raise ValueError(f"the frame's columns are {dict(frame.schema)}, the schema's {expected}")
        for name in (self.layout.columns[0][0], *self.states):
            if frame[name].null_count():
                raise ValueError(f"column {name!r} has nulls")

    def to_rows(self, frame: pl.DataFrame) -> Iterator[Rows]:
        """Turn a valid frame into rows, key width by key width. O(rows)."""
        for words, states in self.to_columns(frame):
            yield Rows(words, self.layout.order(words), states)

    def to_columns(self, frame: pl.DataFrame) -> Iterator[tuple[Columns, list[State]]]:
        """Turn a valid frame into words and states, key width by key width. O(rows)."""
        states = [_to_state(frame[name]) for name in self.states]
        for rows, words in self.layout.encode(frame):
            yield words, states if rows is None else [state[rows] for state in states]

    def to_padded_rows(self, frame: pl.DataFrame, words_max: int) -> Rows | None:
        """Turn a valid frame, which has rows, into rows of one width for all; None where that is too wide. O(rows)."""
        encoded = self.layout.encode_padded(frame, words_max)
        return encoded and Rows(*encoded, [_to_state(frame[name]) for name in self.states])

    def by_width(self, rows: Rows) -> Rows:
        """Put sorted rows of one width for all into the order of a flush: by the width of each key's own text."""
        widths = self.layout.widths(rows.words)
        return rows.take(np.argsort(widths, kind="stable")) if (widths != widths[0]).any() else rows

    def to_frame(self, rows: Rows) -> pl.DataFrame:
        """Turn rows into a frame. O(rows)."""
        keys = self.layout.decode(rows.words)
        pairs = zip(self.states.items(), rows.states, strict=True)
        named = keys | {name: _from_state(state, dtype) for (name, dtype), state in pairs}
        return pl.DataFrame([series.alias(name) for name, series in named.items()])

    def numbers(self, frame: pl.DataFrame) -> list[npt.NDArray[Any]]:
        """The states of a valid frame as arrays, where none is text or bytes."""
        states = (_to_state(frame[name]) for name in self.states)
        return [state for state in states if not isinstance(state, pl.Series)]

    def with_states(self, frame: pl.DataFrame, states: Sequence[State]) -> pl.DataFrame:
        """A frame of the same keys with other states."""
        pairs = zip(self.states.items(), states, strict=True)
        made = [_from_state(state, dtype).alias(name) for (name, dtype), state in pairs]
        return pl.DataFrame([*(frame[name] for name, _ in self.layout.columns), *made])

    def widths(self, frames: Iterable[pl.DataFrame]) -> dict[int, list[Rows]]:
        """Sort frames' rows by the width of their keys."""
        widths: dict[int, list[Rows]] = {}
        for frame in frames:
            self.validate(frame)
            for rows in self.to_rows(frame):
                widths.setdefault(rows.width, []).append(rows)
        return widths


def joined(frames: Sequence[pl.DataFrame]) -> pl.DataFrame:
    """Put frames, at least one, after the other; a single one is itself: Polars' call costs more than small frames."""
    return frames[0] if len(frames) == 1 else pl.concat(frames)


def _to_state(series: pl.Series) -> State:
    if series.dtype in (pl.String, pl.Binary):
        return series
    if series.dtype == pl.Boolean:
        return series.to_numpy().astype(np.uint8)
    # Numbers as they are: `to_physical` is a query, however little it does.
    values = (series if series.dtype.is_numeric() else series.to_physical()).to_numpy()
    return values.astype(np.float64 if series.dtype.is_float() else np.int64)


def _from_state(state: State, dtype: pl.DataType) -> pl.Series:
    if isinstance(state, pl.Series):
        return state
    if dtype == pl.Boolean:
        return pl.Series(state != 0)
    series = pl.Series(state)
    if series.dtype == dtype:
        return series
    return (series.cast(pl.Int32) if dtype in _NARROW else series).cast(dtype)
