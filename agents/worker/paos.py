"""The PAOs of one job in the order in which they are to leave, of one kind or, after a change, of several. Pure.

A job that is changed while it runs has intervals of different versions, whose PAOs may have different columns
(`elf.agents.jobs.versions`): what an agent has open, and what it brings late, may be of both.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Annotated

import msgspec
import numpy as np
import numpy.typing as npt
import polars as pl

from elf.agents.completeness.runs import RunsAfter
from elf.agents.jobs.versions import PaoKind, Versions
from elf.cbt import BLOCK_BYTES_MAX, INTERVAL, PaoDecodeError, claimed_bytes, decode, encode
from elf.cbt.frames import joined
from elf.overlay.decoding import read_msgpack

#: Blocks at a time: agents nearer to the leaves than a new version hand on what they cannot merge.
BLOCKS_MAX = 1 << 12
#: Blocks of kinds of PAOs other than the first.
Blocks = Annotated[tuple[tuple[PaoKind, bytes], ...], msgspec.Meta(max_length=BLOCKS_MAX)]
#: So many intervals are looked for one by one: a partition by Polars costs more.
FEW = 4
#: So many intervals in one frame are many.
SCATTERED = 32
#: How lz4 frames begin, so also blocks.
_BLOCK = b"\x04\x22\x4d\x18"
#: How a map of two begins, as what has tables is.
_TABLED = b"\x82"


class StoredTable(msgspec.Struct, frozen=True, array_like=True):
    """A table of PAOs of many intervals, of one kind, as a worker's row on disk tells of it.

    Attributes:
        kind: of its PAOs.
        number: names it on that disk.
        gone: runs of intervals, (after, through], whose rows in it are not open any more.
        block: its rows; empty where they lie in a row of their own.
    """

    kind: PaoKind
    number: Annotated[int, msgspec.Meta(ge=0, le=1 << 53)]
    gone: Annotated[RunsAfter, msgspec.Meta(max_length=BLOCKS_MAX)]
    block: bytes = b""


class _Open(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a worker has open: `rest`, as it is where there are no tables, and tables."""

    rest: bytes
    tables: Annotated[tuple[StoredTable, ...], msgspec.Meta(max_length=BLOCKS_MAX)]


class Paos:
    """Frames of PAOs, each of one kind; an interval's rows follow each other."""

    def __init__(self, parts: Iterable[tuple[int, pl.DataFrame]] = ()) -> None:
        self.parts = tuple(parts)
        self._blocks: Mapping[int, bytes] | None = None

    @property
    def height(self) -> int:
        """How many rows there are."""
        return sum(frame.height for _, frame in self.parts)

    @property
    def intervals(self) -> pl.Series:
        """The interval of each row."""
        intervals = [frame[INTERVAL] for _, frame in self.parts] or [pl.Series(INTERVAL, [], dtype=pl.Int64)]
        return intervals[0] if len(intervals) == 1 else pl.concat(intervals)

    def head(self, count: int) -> Paos:
        """Return the first rows."""
        return self._slice(0, count)

    def rest(self, count: int) -> Paos:
        """Return what follows the first rows."""
        return self._slice(count, self.height)

    def _slice(self, begin: int, end: int) -> Paos:
        parts, at = [], 0
        for kind, frame in self.parts:
            first, last = (min(max(edge - at, 0), frame.height) for edge in (begin, end))
            parts.append((kind, frame[first:last]))
            at += frame.height
        return Paos(parts)

    def between(self, first: int | None, last: int | None) -> Paos:
        """Return the rows of these intervals, both ends included; None: whatever is before, or behind."""
        return Paos((kind, between(frame, first, last)) for kind, frame in self.parts)

    def by_kind(self) -> dict[int, pl.DataFrame]:
        """Return the rows of each kind, in their order."""
        frames: dict[int, list[pl.DataFrame]] = {}
        for kind, frame in self.parts:
            parts = frames.setdefault(kind, [])
            # Mostly one part has rows, and need not become a column of several.
            if frame.height and parts and not parts[0].height:
                parts[0] = frame
            elif frame.height or not parts:
                parts.append(frame)
        return {kind: joined(parts) for kind, parts in frames.items()}

    @property
    def blocks(self) -> Mapping[int, bytes]:
        """Each kind that has rows, and the first kind if there is any part of it, encoded, in order. O(rows), once."""
        # A cached_property of Python 3.11 lets one thread at a time encode, whatever the object.
        if self._blocks is None:
            frames = self.by_kind().items()
            self._blocks = {kind: encode(frame) for kind, frame in frames if frame.height or kind == 0}
        return self._blocks

    def merged(self, versions: Versions) -> Paos:
        """Return them with one row for each interval and key; those of no version that is remembered are left out."""
        kinds = self.by_kind().items()
        return Paos(
            (kind, plan.schema.merge([frame])) for kind, frame in kinds if (plan := versions.plan_of(kind)) is not None
        )


def between(frame: pl.DataFrame, first: int | None, last: int | None) -> pl.DataFrame:
    """Return a frame's rows of these intervals, both ends included: mostly itself, and looking at that is no query."""
    found = extent(frame)
    if found is None:
        return frame
    first, last = found[0] if first is None else first, found[1] if last is None else last
    if first <= found[0] and found[1] <= last:
        return frame
    return frame.filter(pl.col(INTERVAL).is_between(first, last))


def by_interval(frame: pl.DataFrame) -> list[tuple[int, pl.DataFrame]]:
    """Split a frame by interval; mostly there is only one, or there are few."""
    found = extent(frame)
    if found is None or found[0] == found[1]:
        return [] if found is None else [(found[0], frame)]
    first, last = found
    if last - first < FEW:
        masks = [(interval, frame[INTERVAL] == interval) for interval in range(first, last + 1)]
        return [(at, chosen(frame, mask)) for at, mask in masks if mask.any()]
    return [(interval, part) for (interval,), part in frame.partition_by(INTERVAL, as_dict=True).items()]


def extent(frame: pl.DataFrame) -> tuple[int, int] | None:
    """Return the first and the last interval of a frame; None of an empty one."""
    intervals = frame[INTERVAL]
    return (int(intervals.min()), int(intervals.max())) if intervals.len() else None  # type: ignore[arg-type]


def ascending(frame: pl.DataFrame) -> pl.DataFrame:
    """Put rows in the order of their intervals, those of each as they are."""
    at = frame[INTERVAL].to_numpy()
    return frame if (at[1:] >= at[:-1]).all() else frame[np.argsort(at, kind="stable")]


def chosen(frame: pl.DataFrame, mask: npt.NDArray[np.bool_] | pl.Series) -> pl.DataFrame:
    """Return some rows of a frame. Not by `filter`, which is a query: small frames take a tenth as long."""
    mask = mask if isinstance(mask, pl.Series) else pl.Series(mask)
    return pl.DataFrame([column.filter(mask) for column in frame])


def among(frame: pl.DataFrame, intervals: npt.NDArray[np.int64]) -> pl.Series:
    """Tell which rows of a frame are of some intervals."""
    return pl.Series(np.isin(frame[INTERVAL].to_numpy(), intervals))


def held(frame: pl.DataFrame, runs: RunsAfter) -> pl.Series:
    """Tell which rows of a frame are of intervals of some runs. O(rows x runs)."""
    at = frame[INTERVAL].to_numpy()
    found = np.zeros(len(at), np.bool_)
    for after, through in runs:
        found |= (at > after) & (at <= through)
    return pl.Series(found)


def is_scattered(frame: pl.DataFrame) -> bool:
    """Tell whether a frame is of so many intervals that they should not be looked at one by one."""
    found = extent(frame)
    return found is not None and found[1] - found[0] >= SCATTERED and frame[INTERVAL].n_unique() > SCATTERED


def check_blocks(blocks: Sequence[tuple[int, bytes]]) -> None:
    """Refuse blocks that together take more memory than a single one may, before any is decompressed.

    Raises:
        PaoDecodeError: they do, or there are too many, or one is no block.
    """
    if len(blocks) > BLOCKS_MAX:
        raise PaoDecodeError(f"{len(blocks)} blocks are more than go together ({BLOCKS_MAX})")
    if len(blocks) > 1 and (size := sum(claimed_bytes(block) for _, block in blocks)) > BLOCK_BYTES_MAX:
        raise PaoDecodeError(f"{len(blocks)} blocks of {size} bytes are over the limit of {BLOCK_BYTES_MAX}")


def decoded(blocks: Sequence[tuple[int, bytes]], versions: Versions) -> Paos:
    """Decode blocks, each of one kind; those of no version that is remembered are left out.

    Raises:
        PaoDecodeError: one is not what that kind is, or together they are too large.
    """
    check_blocks(blocks)
    plans = ((kind, block, versions.plan_of(kind)) for kind, block in blocks)
    return Paos((kind, decode(block, plan.schema)) for kind, block, plan in plans if plan is not None)


def encode_open(paos: Paos, versions: Versions, tables: Sequence[StoredTable] = ()) -> bytes:
    """Encode what a worker has open, for its own disk: as one block where all of it is of the first kind.

    `tables` are told of beside that.
    """
    if tables:
        return msgspec.msgpack.encode(_Open(encode_open(paos, versions), tuple(tables)))
    kinds = {kind for kind, frame in paos.parts if frame.height}
    first = versions.plan_of(0)
    if first is not None and kinds <= {0}:
        return paos.blocks.get(0) or encode(first.schema.empty())
    return msgspec.msgpack.encode([(kind, block) for kind, block in paos.blocks.items() if kind in kinds])


def decode_open(data: bytes, versions: Versions) -> Paos:
    """Decode what `encode_open` made, with the rows of all tables; raises PaoDecodeError on anything else."""
    if (found := _tabled(data)) is not None:
        if found.rest[:1] == _TABLED:
            raise PaoDecodeError("tables beside tables are not what a worker has open")
        rest = decode_open(found.rest, versions)
        rows = decoded([(each.kind, each.block) for each in found.tables], versions).parts
        known = [each for each in found.tables if versions.plan_of(each.kind) is not None]
        left = [(kind, _without(frame, each.gone)) for (kind, frame), each in zip(rows, known, strict=True)]
        return Paos([*rest.parts, *left])
    if data[:4] == _BLOCK:
        return decoded([(0, data)], versions)
    try:
        return decoded(read_msgpack(data, Blocks), versions)
    except msgspec.DecodeError as error:
        raise PaoDecodeError(f"not what a worker has open: {error}") from None


def with_tables(data: bytes, read: Callable[[int], bytes]) -> bytes:
    """Put the rows of tables into what `encode_open` has made; `read` returns a table's, by number."""
    found = _tabled(data)
    if found is None:
        return data
    tables = tuple(msgspec.structs.replace(each, block=read(each.number)) for each in found.tables)
    return msgspec.msgpack.encode(msgspec.structs.replace(found, tables=tables))


def has_tables(data: bytes) -> bool:
    """Tell whether there are tables beside what `encode_open` has made."""
    return _tabled(data) is not None


def _tabled(data: bytes) -> _Open | None:
    if data[:1] != _TABLED:
        return None
    try:
        return read_msgpack(data, _Open)
    except msgspec.DecodeError as error:
        raise PaoDecodeError(f"not what a worker has open: {error}") from None


def _without(frame: pl.DataFrame, gone: RunsAfter) -> pl.DataFrame:
    return chosen(frame, ~held(frame, gone))
