"""PAOs at their keys' places in an order of keys: they hold no key, and merge column by column.

An order is a frame of one row per (keys, slots), in interval 0; new keys come behind the others and none ever moves.
PAOs that are placed in it say which of its first rows are there, and have states for these alone. Nothing is sorted
and no key is copied to merge them. Only for schemas with keys, whose states are numbers or flags.
"""

from __future__ import annotations

import dataclasses
from typing import Annotated, Any

import lz4.frame
import msgspec
import numpy as np
import numpy.typing as npt
import polars as pl

from elf.cbt.aligned import places_of
from elf.cbt.codec import COLUMNS_MAX, ROWS_MAX, WIDTHS, PaoDecodeError, array_of, decompressed, narrow
from elf.cbt.columns import Index
from elf.cbt.schema import INTERVAL, PaoSchema

VERSION = 1
#: First byte of a block of placed PAOs; other blocks begin with that of an lz4 frame.
MARK = b"P"
#: All states of a type have one code, or as integers the narrowest of several.
_CODES: dict[type[pl.DataType], tuple[str, ...]] = {
    pl.Int64: WIDTHS,
    pl.Int32: WIDTHS[:3],
    pl.Float64: ("<f8",),
    pl.Boolean: ("|u1",),
    pl.Date: WIDTHS[:3],
    pl.Datetime: WIDTHS,
}
Array = npt.NDArray[Any]


@dataclasses.dataclass(frozen=True)
class Placed:
    """PAOs of interval 0 without their keys.

    Attributes:
        order: the order's name.
        height: how many of its rows there were to choose from.
        at: which of them have a PAO, ascending; None for all.
        states: of these PAOs, as `FrameFormat.numbers` gives them or narrower integers.
    """

    order: int
    height: int
    at: Index | None
    states: list[Array]

    @property
    def count(self) -> int:
        """How many PAOs there are."""
        return self.height if self.at is None else self.at.size

    @property
    def memory_bytes(self) -> int:
        """Bytes held."""
        return sum(array.nbytes for array in self.states) + (0 if self.at is None else self.at.nbytes)


class _Block(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    version: int
    order: int
    height: Annotated[int, msgspec.Meta(ge=0, le=ROWS_MAX)]
    present: bytes | None
    states: Annotated[list[tuple[str, memoryview]], msgspec.Meta(max_length=COLUMNS_MAX)]


_decoder = msgspec.msgpack.Decoder(_Block)


def is_placeable(schema: PaoSchema) -> bool:
    """Tell whether PAOs of a schema can be placed."""
    return schema.has_numbers and len(schema.addressing) > 1


def order_of(frame: pl.DataFrame, schema: PaoSchema) -> pl.DataFrame:
    """Make an order of a frame's keys; it has one row for each. O(rows)."""
    states = [np.zeros(frame.height, array.dtype) for array in schema.format.numbers(frame)]
    return schema.format.with_states(schema.at_zero(frame), states)


def place(frame: pl.DataFrame, order: pl.DataFrame, schema: PaoSchema, name: int) -> tuple[Placed, pl.DataFrame] | None:
    """Place a frame of one row per (keys, slots) in an order. O(frame + order).

    Args:
        frame: the PAOs.
        order: the keys.
        schema: of both.
        name: the order's name.

    Returns:
        The PAOs, and the order with their new keys behind the others; None where two rows would have one place, or
        might, being of several intervals.
    """
    if INTERVAL in frame.columns and frame[INTERVAL].min() != frame[INTERVAL].max():
        return None
    found = places_of(order, frame, schema.addressing[1:])
    if len(found) != frame.height:
        return None
    known = found.is_not_null()
    new = frame.filter(~known)
    places = np.empty(frame.height, np.int64)
    places[known.to_numpy()] = found.drop_nulls().to_numpy()
    places[~known.to_numpy()] = order.height + np.arange(new.height)
    if new.height:
        order = pl.concat([order, order_of(new, schema)]).rechunk()
    taken = np.zeros(order.height, bool)
    taken[places] = True
    at = np.flatnonzero(taken)
    if at.size != frame.height:
        return None
    row_of = np.empty(order.height, np.int64)
    row_of[places] = np.arange(frame.height)
    states = [array[row_of[at]] for array in schema.format.numbers(frame)]
    return Placed(name, order.height, None if at.size == order.height else at, states), order


def to_frame(placed: Placed, order: pl.DataFrame, schema: PaoSchema) -> pl.DataFrame:
    """Give PAOs their keys back. O(rows)."""
    keys = order if placed.height == order.height else order.head(placed.height)
    if placed.at is not None:
        keys = keys[placed.at]
    return schema.format.with_states(keys, [_wide(array) for array in placed.states])


class Placing:
    """Merges PAOs that are placed in one order, one after the other.

    Args:
        schema: of all of them.
        first: the first of them.
    """

    def __init__(self, schema: PaoSchema, first: Placed) -> None:
        self._combine = schema.combine
        self._order = first.order
        #: For each row of the order: whether there is a PAO, and its states.
        self._present = np.zeros(0, bool)
        self._states = [np.empty(0, _wide(array).dtype) for array in first.states]
        self.add(first)

    def add(self, placed: Placed) -> None:
        """Merge PAOs into those that came before. O(rows).

        Raises:
            AggregateOverflow: an exact sum left its range.
        """
        self._grow(placed.height)
        at: Index | slice = slice(0, placed.height) if placed.at is None else placed.at
        theirs = [_wide(array) for array in placed.states]
        there = self._present[at]
        if there.all():
            self._put(at, self._combine([mine[at] for mine in self._states], theirs))
            return
        # No aggregate has to say what merging with nothing gives.
        places = np.arange(placed.height) if placed.at is None else placed.at
        old, new = places[there], places[~there]
        if old.size:
            self._put(old, self._combine([mine[old] for mine in self._states], [array[there] for array in theirs]))
        self._put(new, [array[~there] for array in theirs])
        self._present[new] = True

    def result(self) -> Placed:
        """Return all PAOs merged. O(rows)."""
        height = self._present.size
        if self._present.all():
            return Placed(self._order, height, None, self._states)
        at = np.flatnonzero(self._present)
        return Placed(self._order, height, at, [array[at] for array in self._states])

    def _grow(self, height: int) -> None:
        more = height - self._present.size
        if more > 0:
            self._present = np.concatenate([self._present, np.zeros(more, bool)])
            self._states = [np.concatenate([array, np.zeros(more, array.dtype)]) for array in self._states]

    def _put(self, at: Index | slice, states: list[Array]) -> None:
        for mine, array in zip(self._states, states, strict=True):
            mine[at] = array


def encode_placed(placed: Placed) -> bytes:
    """Encode placed PAOs; O(rows)."""
    present = None
    if placed.at is not None:
        taken = np.zeros(placed.height, bool)
        taken[placed.at] = True
        present = np.packbits(taken).tobytes()
    states = [narrow(each.astype(np.int64)) if each.dtype.kind == "i" else _bytes(each) for each in placed.states]
    body = msgspec.msgpack.encode((VERSION, placed.order, placed.height, present, states))
    return MARK + bytes(lz4.frame.compress(body, store_size=True))


def decode_placed(data: bytes, schema: PaoSchema) -> Placed:
    """Decode what `encode_placed` made of PAOs of this schema; O(rows). Caps are those of `elf.cbt.codec`.

    Raises:
        PaoDecodeError: anything about the bytes is not as it made it.
    """
    try:
        if data[:1] != MARK:
            raise PaoDecodeError("not a block of placed PAOs")
        block = _decoder.decode(decompressed(data[1:]))
        if block.version != VERSION or len(block.states) != len(schema.states):
            raise PaoDecodeError(f"{len(block.states)} states of version {block.version} are not the job's")
        at = None if block.present is None else _present(block.present, block.height)
        rows = block.height if at is None else at.size
        pairs = zip(schema.states.values(), block.states, strict=True)
        states = [array_of(code, raw, rows, _CODES[dtype.base_type()]) for dtype, (code, raw) in pairs]
        return Placed(block.order, block.height, at, states)
    except (ValueError, TypeError, LookupError, RuntimeError, EOFError, OverflowError) as error:
        raise PaoDecodeError(f"not a block of placed PAOs: {error}") from None


def _present(bits: bytes, height: int) -> Index:
    if len(bits) != (height + 7) // 8:
        raise PaoDecodeError(f"{len(bits)} bytes tell of {height} rows which are there")
    return np.flatnonzero(np.unpackbits(np.frombuffer(bits, np.uint8), count=height))


def _bytes(array: Array) -> tuple[str, bytes]:
    return ("<f8", array.astype("<f8").tobytes()) if array.dtype.kind == "f" else ("|u1", array.tobytes())


def _wide(array: Array) -> Array:
    """States as they merge; integers are kept narrow."""
    return array.astype(np.int64, copy=False) if array.dtype.kind == "i" else array
