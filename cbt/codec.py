"""PAO frames as bytes, for the wire and the disk, safe to read from anyone.

A block is a msgpack header and per column one validity bitmap (only where there are nulls) and one value buffer; all
is compressed as one lz4 frame. Integers travel in the smallest width that holds them. A reader checks every length
against caps before it allocates, so bytes from a hostile peer cost at most `BLOCK_BYTES_MAX` of memory and raise
`PaoDecodeError`; they can neither crash the process nor produce a frame of another shape than the schema's.
"""

from __future__ import annotations

import functools
from typing import Annotated, Any

import lz4.frame
import msgspec
import numpy as np
import numpy.typing as npt
import polars as pl

from elf.cbt.schema import INTERVAL, PaoSchema
from elf.cbt.strings import flat, from_flat

VERSION = 1
#: Largest decompressed block; a snapshot of a few million keys.
BLOCK_BYTES_MAX = 256 << 20
ROWS_MAX = 16 << 20
#: A job has a few columns for each aggregate.
COLUMNS_MAX = 1 << 16
#: Shapes of frames whose block without rows is kept.
EMPTIES_MAX = 1 << 12

_NUMPY: dict[type[pl.DataType], str] = {
    pl.Int64: "<i8",
    pl.Int32: "<i4",
    pl.Float64: "<f8",
    pl.Boolean: "|u1",
    pl.Date: "<i4",
    pl.Datetime: "<i8",
}
#: Codes of integers, narrow first.
WIDTHS = ("|i1", "<i2", "<i4", "<i8")


class _Column(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """`text` only where `values` are the lengths of strings in it."""

    validity: bytes | None
    code: Annotated[str, msgspec.Meta(max_length=3)]
    values: memoryview
    text: bytes | None = None


class _Block(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """Typed down to the leaves: a reader of any msgpack makes gigabytes of objects from a block of empty lists."""

    version: int
    height: Annotated[int, msgspec.Meta(ge=0, le=ROWS_MAX)]
    names: Annotated[list[Annotated[str, msgspec.Meta(max_length=256)]], msgspec.Meta(max_length=COLUMNS_MAX)]
    columns: Annotated[list[_Column], msgspec.Meta(max_length=COLUMNS_MAX)]


_decoder = msgspec.msgpack.Decoder(_Block)


class PaoDecodeError(Exception):
    """Bytes that are not a block of the expected schema: the sender's fault."""


def encode(frame: pl.DataFrame) -> bytes:
    """Encode a frame; O(rows)."""
    if not frame.height:
        # Not by its schema, an object that takes longer to make than all else here.
        return _encode_empty(tuple(zip(frame.columns, frame.dtypes, strict=True)))
    return _encode(frame)


@functools.lru_cache(EMPTIES_MAX)
def _encode_empty(columns: tuple[tuple[str, pl.DataType], ...]) -> bytes:
    """Encode a frame without rows: most intervals of most jobs are empty, and Polars' calls cost more than rows do."""
    return _encode(pl.DataFrame(schema=dict(columns)))


def _encode(frame: pl.DataFrame) -> bytes:
    columns = [_encode_column(series) for series in frame]
    body = msgspec.msgpack.encode((VERSION, frame.height, frame.columns, columns))
    return bytes(lz4.frame.compress(body, store_size=True))


def decode(data: bytes, schema: PaoSchema) -> pl.DataFrame:
    """Decode a block of exactly this schema, or of one that lacks what releases have added to it; O(rows).

    Raises:
        PaoDecodeError: anything about the bytes is not as `encode` of such a frame makes it.
    """
    try:
        block = _decoder.decode(decompressed(data))
        if block.version != VERSION:
            raise PaoDecodeError(f"block version {block.version!r}, expected {VERSION}")
        lacking = schema.added.keys() - set(block.names)
        known = {name: dtype for name, dtype in schema.columns.items() if name not in lacking}
        if block.names != list(known) or len(block.columns) != len(block.names):
            raise PaoDecodeError(f"block columns {block.names[:20]!r} are not the job's {list(schema.columns)!r}")
        pairs = zip(known.items(), block.columns, strict=True)
        frame = pl.DataFrame([_decode_column(name, dtype, column, block.height) for (name, dtype), column in pairs])
        if lacking:
            states = [pl.lit(schema.added[name], dtype=schema.states[name]).alias(name) for name in lacking]
            frame = frame.with_columns(states).select(list(schema.columns))
        for name in (INTERVAL, *schema.states):
            if frame[name].null_count():
                raise PaoDecodeError(f"column {name!r} has nulls")
        return frame
    except PaoDecodeError:
        raise
    except (
        ValueError,
        TypeError,
        LookupError,
        RuntimeError,
        EOFError,
        OverflowError,
    ) as error:
        raise PaoDecodeError(f"not a PAO block: {error}") from None
    except pl.exceptions.PolarsError as error:
        raise PaoDecodeError(f"not a PAO block: {error}") from None


def claimed_bytes(data: bytes) -> int:
    """Return how many bytes a block says it takes once it is decompressed; `decode` holds it to that.

    Raises:
        PaoDecodeError: it does not begin as a block does.
    """
    try:
        return int(lz4.frame.get_frame_info(data)["content_size"])
    except (RuntimeError, ValueError) as error:
        raise PaoDecodeError(f"not a PAO block: {error}") from None


def decompressed(data: bytes, bytes_max: int = BLOCK_BYTES_MAX) -> bytes:
    """Return what an lz4 frame holds.

    Raises:
        PaoDecodeError: that is too much, or not all of it.
        RuntimeError, ValueError, EOFError: it is no lz4 frame.
    """
    size = int(lz4.frame.get_frame_info(data)["content_size"])
    if size > bytes_max:
        raise PaoDecodeError(f"a block of {size} bytes is over the limit of {bytes_max}")
    decompressor = lz4.frame.LZ4FrameDecompressor()
    body = bytes(decompressor.decompress(data, max_length=size))
    if not decompressor.eof or decompressor.unused_data:
        raise PaoDecodeError("the block is cut short, larger than it says or followed by other bytes")
    return body


def _encode_column(series: pl.Series) -> list[Any]:
    """Return [validity or None, *value buffers]."""
    validity = np.packbits(series.is_not_null().to_numpy()).tobytes() if series.null_count() else None
    if series.dtype in (pl.String, pl.Binary):
        filled = series if validity is None else series.fill_null(b"" if series.dtype == pl.Binary else "")
        sizes, text = flat(filled)
        return [validity, *narrow(sizes.view(np.int64)), text]
    code = _NUMPY[series.dtype.base_type()]
    # Most of Polars' calls on a column are queries, of which small frames would pay more than for their rows.
    if series.dtype == pl.Boolean:
        values = series.cast(pl.UInt8)
    else:
        values = series if series.dtype.is_numeric() else series.to_physical()
    array = (values if validity is None else values.fill_null(0)).to_numpy().astype(code)
    return [validity, *(narrow(array.astype("<i8")) if code in ("<i4", "<i8") else (code, array.tobytes()))]


def narrow(values: npt.NDArray[np.int64]) -> tuple[str, bytes]:
    """Cast integers to the smallest width that holds all of them."""
    low, high = (int(values.min()), int(values.max())) if values.size else (0, 0)
    for code in WIDTHS:
        limits = np.iinfo(code)
        if limits.min <= low and high <= limits.max:
            return code, values.astype(code).tobytes()
    raise AssertionError("every int64 fits the last width")


def _decode_column(name: str, dtype: pl.DataType, column: _Column, height: int) -> pl.Series:
    validity, code, raw, text = column.validity, column.code, column.values, column.text
    if (text is not None) != (dtype in (pl.String, pl.Binary)):
        raise PaoDecodeError(f"column {name!r} is no column of {dtype}")
    if text is not None:
        series = _decode_text(array_of(code, raw, height, WIDTHS).astype(np.int64), text, dtype)
    else:
        own = _NUMPY[dtype.base_type()]
        allowed = WIDTHS if own in ("<i4", "<i8") else (own,)
        array = array_of(code, raw, height, allowed)
        if dtype == pl.Boolean:
            series = pl.Series(array != 0)
        else:
            series = pl.Series(array.astype(own))
            series = series if dtype in (pl.Int64, pl.Int32, pl.Float64) else series.cast(dtype)
    if validity is not None:
        if len(validity) != (height + 7) // 8:
            raise PaoDecodeError(f"column {name!r}: validity of {len(validity)} bytes for {height} rows")
        valid = pl.Series(np.unpackbits(np.frombuffer(validity, np.uint8), count=height).astype(bool))
        series = series.zip_with(valid, pl.Series([None], dtype=dtype).new_from_index(0, height))
    return series.alias(name)


def array_of(code: str, raw: memoryview, height: int, allowed: tuple[str, ...]) -> npt.NDArray[Any]:
    """Return a column's values, in place; raises PaoDecodeError for other codes than those allowed, or lengths."""
    if code not in allowed:
        raise PaoDecodeError(f"value type {code!r} is not one of {allowed}")
    array = np.frombuffer(raw, dtype=code)
    if array.size != height:
        raise PaoDecodeError(f"{array.size} values for {height} rows")
    return array


def _decode_text(lengths: npt.NDArray[np.int64], text: bytes, dtype: pl.DataType) -> pl.Series:
    if (lengths.size and (lengths.min() < 0 or lengths.max() > len(text))) or int(lengths.sum()) != len(text):
        raise PaoDecodeError("string lengths do not add up to the text")
    if dtype == pl.Binary or text.isascii():
        return from_flat(memoryview(text), lengths.view(np.uint64), dtype)
    # Wherever it is cut, other text may turn out not to be UTF-8; the cast looks at every string.
    return from_flat(memoryview(text), lengths.view(np.uint64), pl.Binary()).cast(dtype)
