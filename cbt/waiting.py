"""Small frames on their way into a buffer tree: turned into rows together, for each turn costs what a thousand rows do.

A job with few keys inserts a small frame with every chunk of a log that is read.
"""

from __future__ import annotations

import polars as pl

#: Rows that wait at most; so many cost several times what their turn does.
_ROWS_MAX = 4_096


class Waiting:
    """Frames of one schema.

    Args:
        rows_max: they have fewer rows than that, together.
    """

    def __init__(self, rows_max: int) -> None:
        self._rows_max = min(rows_max, _ROWS_MAX)
        self._frames: list[pl.DataFrame] = []
        self._rows = 0

    def __len__(self) -> int:
        return self._rows

    @property
    def memory_bytes(self) -> int:
        """Bytes held."""
        return sum(int(frame.estimated_size()) for frame in self._frames)

    def add(self, frame: pl.DataFrame) -> bool:
        """Let a frame wait; returns False where there is no room for it."""
        if self._rows + frame.height >= self._rows_max:
            return False
        if frame.height:
            # Frames of one schema may have its columns in any order, and are put together by place.
            names = self._frames[0].columns if self._frames else frame.columns
            self._frames.append(pl.DataFrame([_own(frame[name]) for name in names]))
            self._rows += frame.height
        return True

    def take(self) -> pl.DataFrame | None:
        """Return all rows that wait, which do so no longer."""
        if not self._frames:
            return None
        frames = self._frames
        self._frames = []
        self._rows = 0
        return pl.concat(frames, rechunk=True)


def _own(column: pl.Series) -> pl.Series:
    """Return a column that does not hold the text of the large one that it was taken from."""
    return column + "" if column.dtype == pl.String else column
