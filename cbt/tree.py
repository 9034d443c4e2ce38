"""The buffer tree's interface and its first form: a root buffer over one merged run.

Paper: section 2.1. Inserts are deferred: frames collect in the buffer and are merged into the run only when the buffer
has grown as large as the run, so each row is merged O(log n) times on average, and nobody pays for order before a
`flush` asks for it.
"""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from cbt.schema import PaoSchema

#: A buffer smaller than this is never worth merging before a flush.
BUFFER_ROWS_MIN = 65_536
#: Rows of one frame that `flush` yields; bounds what a consumer holds at a time.
FLUSH_ROWS = 262_144


class BufferTree:
    """All PAOs of one job and interval (or of any set of intervals), reduced by key."""

    def __init__(self, schema: PaoSchema) -> None:
        self.schema = schema
        self._run = schema.empty()
        self._buffer: list[pl.DataFrame] = []
        self._buffered_rows = 0

    def insert(self, frame: pl.DataFrame) -> None:
        """Add a PAO frame (columns as in the schema; keys may repeat). Amortised O(rows log n)."""
        if frame.height == 0:
            return
        self._buffer.append(frame)
        self._buffered_rows += frame.height
        if self._buffered_rows >= max(BUFFER_ROWS_MIN, self._run.height):
            self._push_down()

    def flush(self) -> Iterator[pl.DataFrame]:
        """Yield the whole group-by-aggregate as bounded frames of disjoint keys; the content is kept. O(n)."""
        self._push_down()
        yield from self._run.iter_slices(FLUSH_ROWS)

    def snapshot(self) -> pl.DataFrame:
        """Return the whole group-by-aggregate as one frame; the content is kept. O(n)."""
        self._push_down()
        return self._run

    def empty(self) -> None:
        """Discard the content: a new batch begins. O(1)."""
        self._run, self._buffer, self._buffered_rows = self.schema.empty(), [], 0

    @property
    def memory_bytes(self) -> int:
        """Bytes held by buffer and run, as Polars estimates them."""
        return int(self._run.estimated_size()) + sum(int(frame.estimated_size()) for frame in self._buffer)

    def _push_down(self) -> None:
        if self._buffer:
            self._run = self.schema.merge([self._run, *self._buffer])
            self._buffer, self._buffered_rows = [], 0
