"""The compressed buffer tree: a whole group-by-aggregate that grows by deferred, batched inserts.

Paper: section 2.1. Keys of one width form one (a,b)-tree (`cbt.nodes`). A tree may be used from several threads; its
work is done in NumPy, Polars and lz4, which let other threads run meanwhile.
"""

from __future__ import annotations

import contextlib
import dataclasses
import threading
from collections.abc import Iterator

import polars as pl

from cbt.blocks import BlockFormat
from cbt.checks import TreeStatistics, check_node, statistics_of
from cbt.nodes import Leaf, Node, Nodes, frozen
from cbt.pager import Pager
from cbt.rows import Rows, sort, subtract
from cbt.schema import PaoSchema
from cbt.settings import TreeSettings

#: Rows of one frame that `flush` yields; bounds what a consumer holds at a time.
FLUSH_ROWS = 65_536
_DEFAULTS = TreeSettings()


@dataclasses.dataclass(slots=True)
class _Width:
    """The tree of the keys of one width.

    Attributes:
        nodes: operations on its nodes, whose sizes suit the width.
        root: what has been packed.
        pending: the root's buffer, uncompressed.
        rows: how many rows are pending.
    """

    nodes: Nodes
    root: Node = dataclasses.field(default_factory=Leaf)
    pending: list[Rows] = dataclasses.field(default_factory=list)
    rows: int = 0

    def reduce_pending(self) -> list[Rows]:
        """Sort and reduce the root's buffer where it lies."""
        if self.pending:
            self.pending = list(sort(self.pending, self.nodes.reduce))
            self.rows = sum(len(rows) for rows in self.pending)
        return list(self.pending)

    def push(self) -> None:
        """Pack the root's buffer and hand it down."""
        pending, self.pending, self.rows = self.pending, [], 0
        for rows in pending:
            self.root = self.nodes.grown(self.nodes.add(self.root, 0, rows))


class BufferTree:
    """All PAOs of one job and interval (or of any set of intervals), reduced by key.

    Whatever interrupts an insert, such as a `SpillError`, may leave rows behind on the way down. From then on the tree
    raises it again whatever it is asked, until it is emptied: it never answers with less than it was given.

    Args:
        schema: of the frames it takes and yields.
        settings: sizes of its parts, and its bound.
    """

    def __init__(self, schema: PaoSchema, settings: TreeSettings = _DEFAULTS) -> None:
        self.schema = schema
        self.settings = settings
        self._pager = Pager(settings)
        self._widths: dict[int, _Width] = {}
        self._damage: BaseException | None = None
        self._lock = threading.Lock()

    def insert(self, frame: pl.DataFrame) -> None:
        """Add a PAO frame (columns as in the schema; keys may repeat). Amortised O(rows log n).

        Raises:
            ValueError: these are not the schema's columns; nothing was inserted.
            AggregateOverflow: an exact sum left its range.
            SpillError: a block could not be spilled, or not be read back.
        """
        self.schema.format.validate(frame)
        with self._sound():
            for part in frame.iter_slices(self.settings.root_rows):
                for rows in self.schema.format.to_rows(part):
                    self._add(rows)

    def flush(self) -> Iterator[pl.DataFrame]:
        """Yield the whole group-by-aggregate as bounded frames of disjoint keys, ordered by width, then hash.

        The content is kept. What is yielded is the content at the moment of the call, whatever is inserted while the
        caller iterates. O(n)

        Raises:
            SpillError: a block could not be read back; while iterating, too.
        """
        return self._frames(self._streams())

    def snapshot(self) -> pl.DataFrame:
        """Return the whole group-by-aggregate as one frame; the content is kept. O(n)."""
        return pl.concat([self.schema.empty(), *self.flush()])

    def difference(self, earlier: BufferTree) -> Iterator[pl.DataFrame]:
        """Yield what was inserted here but not in an earlier tree of the same schema, like `flush`.

        Paper: section 3.1, PAO15 - PAO5. Keys whose states are all zero then are left out. O(n + earlier)

        Raises:
            ValueError: the schema has aggregates without inverse.
        """
        if not self.schema.invertible:
            kinds = sorted({aggregate.kind for _, aggregate in self.schema.aggregates if not aggregate.invertible})
            raise ValueError(f"no difference without an inverse: {', '.join(kinds) or 'there are no aggregates'}")
        mine, theirs = self._streams(), earlier._streams()
        nothing: Iterator[Rows] = iter(())
        return self._frames(
            {
                width: subtract(mine.get(width, nothing), theirs.get(width, nothing), self.schema.reduce)
                for width in mine.keys() | theirs.keys()
            }
        )

    def empty(self) -> None:
        """Discard the content: a new batch begins, in a tree of the shape that the old one needed. O(blocks)."""
        with self._lock:
            for width in self._widths.values():
                width.root, width.pending, width.rows = width.nodes.emptied(width.root), [], 0
            self._damage = None

    def statistics(self) -> TreeStatistics:
        """Return counts and sizes. O(blocks)."""
        with self._lock:
            roots = [width.root for width in self._widths.values()]
            pending = [rows for width in self._widths.values() for rows in width.pending]
            return statistics_of(roots, pending, self._pager)

    def check(self) -> None:
        """Check every invariant of the tree. O(n).

        Raises:
            AssertionError: one does not hold, which is a defect here.
            SpillError: a block could not be read back.
        """
        with self._sound():
            for width in self._widths.values():
                check_node(width.root, width.nodes)

    @property
    def memory_bytes(self) -> int:
        """Bytes held in memory."""
        with self._lock:
            pending = sum(rows.memory_bytes for width in self._widths.values() for rows in width.pending)
            return self._pager.memory_bytes + pending

    def close(self) -> None:
        """Give back memory and disk; the tree is empty then, and not to be used any more."""
        self.empty()
        with self._lock:
            self._widths.clear()
        self._pager.close()

    def _add(self, rows: Rows) -> None:
        width = self._widths.get(rows.width)
        if width is None:
            settings = self.settings.for_width(rows.width)
            layout, states = self.schema.format.layout, tuple(self.schema.states.values())
            nodes = Nodes(settings, BlockFormat(layout, states, settings.codec), self.schema.reduce, self._pager)
            width = self._widths[rows.width] = _Width(nodes)
        width.pending.append(rows)
        width.rows += len(rows)
        most = width.nodes.settings.root_rows
        if width.rows >= most:
            width.reduce_pending()
            # What reduces well stays: the next rows will be reduced with it.
            if width.rows * 2 > most:
                width.push()

    def _streams(self) -> dict[int, Iterator[Rows]]:
        """The content of each width at this moment, in order."""
        with self._sound():
            parts = [
                (number, width.nodes, frozen(width.root), width.reduce_pending())
                for number, width in sorted(self._widths.items())
            ]
        return {number: nodes.walk(root, pending) for number, nodes, root, pending in parts}

    def _frames(self, streams: dict[int, Iterator[Rows]]) -> Iterator[pl.DataFrame]:
        for _, stream in sorted(streams.items()):
            for rows in stream:
                for at in range(0, len(rows), FLUSH_ROWS):
                    yield self.schema.format.to_frame(rows.slice(at, min(at + FLUSH_ROWS, len(rows))))

    @contextlib.contextmanager
    def _sound(self) -> Iterator[None]:
        """Hold the lock over work that must not be half done."""
        with self._lock:
            if self._damage is not None:
                raise self._damage.with_traceback(None)
            try:
                yield
            except BaseException as error:
                self._damage = error
                raise
