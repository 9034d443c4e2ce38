"""The compressed buffer tree: a whole group-by-aggregate that grows by deferred, batched inserts.

Paper: section 2.1. Keys of one width form one (a,b)-tree (`elf.cbt.nodes`). A tree may be used from several threads;
its work is done in NumPy, Polars and lz4, which let other threads run meanwhile.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator

import polars as pl

from elf.cbt import columns
from elf.cbt.blocks import BlockFormat
from elf.cbt.columns import Words
from elf.cbt.frames import joined
from elf.cbt.nodes import Inner, Leaf, Node, Nodes, frozen
from elf.cbt.pager import Pager
from elf.cbt.root import RootBuffer
from elf.cbt.rows import Ranked, Rows, reduced, sort, subtract
from elf.cbt.schema import PaoSchema
from elf.cbt.settings import TreeSettings, weight_of
from elf.cbt.waiting import Waiting

#: Rows of one frame that `flush` yields; bounds what a consumer holds at a time.
FLUSH_ROWS = 65_536
#: Rows of an inserted frame that are dealt with at a time.
SLICE_ROWS = 16_384
_DEFAULTS = TreeSettings()


class _Width:
    """The tree of the keys of one width.

    Attributes:
        nodes: operations on its nodes, whose sizes suit the width.
        root: what has been packed.
        buffer: the root's buffer.
    """

    def __init__(self, nodes: Nodes, weight: int) -> None:
        self.nodes = nodes
        self._weight = weight
        self.root: Node = Leaf()
        self.buffer = RootBuffer(nodes.settings.root_rows, nodes.format.layout.order)

    @property
    def pending_rows(self) -> int:
        """Rows in the buffer, wide ones counted several times."""
        return len(self.buffer) * self._weight

    def compact(self) -> None:
        """Push everything down and merge it."""
        if len(self.buffer):
            for rows in sort([self.buffer.rows()], self.nodes.reduce):
                self._push(rows)
            self.buffer.clear()
        self.root = self.nodes.grown(self.nodes.settled(self.root, 0))

    def make_room(self) -> None:
        """Reduce the buffer; push it down unless that more than halved it."""
        count = len(self.buffer)
        packed, distinct = self.buffer.ranked()
        if 2 * distinct <= count:
            self.buffer.replace(list(self._reduced(packed, distinct)))
            if 2 * len(self.buffer) <= count:
                return
            # Its keys only have few orders, so it would be as full the next time.
            packed, distinct = self.buffer.ranked()
        columns = self.buffer.arguments()
        siblings = None if columns is None else self.nodes.add_ranked(self.root, 0, columns, packed)
        if siblings is not None:
            self.root = self.nodes.grown(siblings)
        else:
            # Range by range, so that not all rows lie in memory twice.
            for rows in self._reduced(packed, distinct):
                self._push(rows)
        self.buffer.clear()

    def _reduced(self, packed: Words, distinct: int) -> Iterator[Rows]:
        """The buffer's rows in order, merged, range by range; it has to be left as it is meanwhile."""
        words, states = self.buffer.columns()
        return reduced(Ranked(words, packed, states, distinct), self.nodes.reduce)

    def _push(self, rows: Rows) -> None:
        if isinstance(self.root, Inner):
            siblings = self.nodes.pass_down(self.root, 0, [rows])
        else:
            siblings = self.nodes.add(self.root, 0, rows)
        self.root = self.nodes.grown(siblings)

    def reduced(self) -> list[Rows]:
        """Sort and reduce the buffer where it lies; returns a copy of its content."""
        parts = list(sort([self.buffer.rows()], self.nodes.reduce)) if len(self.buffer) else []
        self.buffer.replace(parts)
        return parts

    def empty(self) -> None:
        """Forget the rows; keep the shape they asked for."""
        self.root = self.nodes.emptied(self.root)
        self.buffer.clear()


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
        #: Small frames that were inserted last; never of a tree that may spill, which says at once what has failed.
        self._waiting = Waiting(settings.root_rows if settings.memory_bytes_max is None else 0)
        self._damage: BaseException | None = None
        self._lock = threading.Lock()

    def insert(self, frame: pl.DataFrame) -> None:
        """Add a PAO frame (columns as in the schema; keys may repeat). Amortised O(rows log n).

        What keeps a small one from being added, a later call may raise.

        Raises:
            ValueError: these are not the schema's columns; nothing was inserted.
            AggregateOverflow: an exact sum left its range.
            SpillError: a block could not be spilled, or not be read back.
        """
        self.schema.format.validate(frame)
        with self._sound():
            if not self._waiting.add(frame):
                self._admit()
                self._add(frame)

    def flush(self) -> Iterator[pl.DataFrame]:
        """Yield the whole group-by-aggregate as bounded frames of disjoint keys, ordered by width, then hash.

        The content is kept. What is yielded is the content at the moment of the call, whatever is inserted while the
        caller iterates. O(n)

        Raises:
            SpillError: a block could not be read back; while iterating, too.
        """
        return self._frames(self._streams())

    def snapshot(self) -> pl.DataFrame:
        """Return the whole group-by-aggregate as one frame, ordered as by `flush`; the content is kept. O(n)."""
        with self._sound():
            if not self._widths:
                # All there is waits: as rows of a tree it would be merged no better.
                waiting = self._waiting.take()
                merged = self.schema.merge([] if waiting is None else [waiting])
                self._waiting.add(merged)
                return merged
        return joined(list(self.flush()) or [self.schema.empty()])

    def difference(self, earlier: BufferTree) -> Iterator[pl.DataFrame]:
        """Yield what was inserted here but not in an earlier tree of the same schema, like `flush`.

        Paper: section 3.1, PAO15 - PAO5. Keys whose states are all zero then are left out. O(n + earlier)

        Raises:
            ValueError: the schemas differ, or have aggregates without inverse.
        """
        if earlier.schema != self.schema:
            raise ValueError("no difference of trees with different schemas")
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

    def compact(self) -> None:
        """Merge all that waits in buffers: the tree is as small as it gets, and a flush reads each leaf once. O(n).

        Raises:
            SpillError: as `insert` does.
        """
        with self._sound():
            self._admit()
            for width in self._widths.values():
                width.compact()

    def empty(self) -> None:
        """Discard the content: a new batch begins, in a tree of the shape that the old one needed. O(blocks)."""
        with self._lock:
            for width in self._widths.values():
                width.empty()
            self._waiting.take()
            self._damage = None

    @property
    def memory_bytes(self) -> int:
        """Bytes held in memory."""
        with self._lock:
            buffers = sum(width.buffer.memory_bytes for width in self._widths.values())
            return self._pager.memory_bytes + self._waiting.memory_bytes + buffers

    def close(self) -> None:
        """Give back memory and disk; the tree is empty then, and not to be used any more."""
        self.empty()
        with self._lock:
            self._widths.clear()
        self._pager.close()

    def _admit(self) -> None:
        """Add the frames that wait."""
        waiting = self._waiting.take()
        if waiting is not None:
            self._add(waiting)

    def _add(self, frame: pl.DataFrame) -> None:
        for part in frame.iter_slices(SLICE_ROWS):
            self._append(part)
            # Now that what the rows were made from is gone.
            while self._pending_rows() >= self.settings.root_rows:
                max(self._widths.values(), key=lambda width: width.pending_rows).make_room()

    def _append(self, frame: pl.DataFrame) -> None:
        for words, states in self.schema.format.to_columns(frame):
            own = columns.width(words)
            width = self._widths.get(own)
            if width is None:
                weight = weight_of(own)
                settings = self.settings.divided(weight)
                types = tuple(self.schema.states.values())
                form = BlockFormat(self.schema.format.layout, types, settings.codec)
                fused = self.schema.fusing(form)
                nodes = Nodes(settings, form, self.schema.reduce, self._pager, own, fused)
                width = self._widths[own] = _Width(nodes, weight)
            width.buffer.append(words, states)

    def _pending_rows(self) -> int:
        return sum(width.pending_rows for width in self._widths.values())

    def _streams(self) -> dict[int, Iterator[Rows]]:
        """The content of each width at this moment, in order."""
        with self._sound():
            self._admit()
            parts = [
                (number, width.nodes, frozen(width.root), width.reduced())
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
