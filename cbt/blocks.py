"""Sorted rows as bytes: packed column by column, then compressed as one buffer.

The hash is not in a block: it is computed again from the keys when the block is unpacked. Nor are the words that short
texts leave empty.
"""

from __future__ import annotations

import struct
from typing import Any

import lz4.block
import msgspec
import numpy as np
import polars as pl

from elf.cbt import columns, packing, strings
from elf.cbt.columns import Columns
from elf.cbt.hashing import WIDE_WORDS
from elf.cbt.rows import Rows, State
from elf.cbt.settings import Codec
from elf.cbt.words import KeyLayout

#: rows, words a key.
_HEADER = struct.Struct("<II")
_LENGTH = struct.Struct("<Q")
_PLAIN, _LZ4 = b"\0", b"\1"
_MODES: dict[Codec, dict[str, Any]] = {
    "lz4": {"mode": "fast", "acceleration": 8},
    "lz4hc": {"mode": "high_compression", "compression": 9},
    "none": {},
}


class BlockFormat(msgspec.Struct, frozen=True):
    """How rows of one tree become bytes and back.

    Attributes:
        layout: of the keys.
        states: the type of each state column.
        codec: what the packed columns are compressed with.
    """

    layout: KeyLayout
    states: tuple[pl.DataType, ...]
    codec: Codec = "lz4"

    def pack(self, rows: Rows) -> bytes:
        """Pack at least one row. O(rows)."""
        parts: list[Any] = [_HEADER.pack(len(rows), rows.width)]
        head, text = rows.words[: self.layout.text_at], rows.words[self.layout.text_at :]
        for word in head:
            parts += packing.pack(word, relative=True)
        if text and columns.is_wide(text[0]):
            parts.append(text[0].data)
        elif text:
            sizes = self.layout.text_bytes(rows.words)
            for number, word in enumerate(text):
                parts += packing.pack_text(word, sizes, number)
        for state in rows.states:
            parts += _pack_state(state)
        return self.compressed(b"".join(parts))

    def compressed(self, data: bytes) -> bytes:
        """The block of packed columns."""
        if self.codec != "none":
            compressed: bytes = lz4.block.compress(data, **_MODES[self.codec])
            if len(compressed) < len(data):
                return _LZ4 + compressed
        return _PLAIN + data

    def body(self, data: bytes) -> memoryview:
        """The packed columns of a block."""
        body = memoryview(data)[1:]
        return memoryview(lz4.block.decompress(body)) if data[:1] == _LZ4 else body

    def unpack(self, data: bytes) -> Rows:
        """Unpack a block of this format; hash order and all. O(rows)."""
        body = self.body(data)
        count, width = _HEADER.unpack_from(body)
        at = _HEADER.size
        words: Columns = []
        for _ in range(self.layout.text_at):
            word, at = packing.unpack(body, at, count)
            words.append(word)
        texts = width - len(words)
        if texts > WIDE_WORDS:
            flat = np.frombuffer(body, dtype=np.uint64, count=count * texts, offset=at).reshape(count, texts)
            words.append(flat)
            at += flat.nbytes
        elif texts:
            sizes = self.layout.text_bytes(words)
            for number in range(texts):
                word, at = packing.unpack_text(body, at, sizes, number)
                words.append(word)
        states: list[State] = []
        for dtype in self.states:
            state, at = _unpack_state(body, at, count, dtype)
            states.append(state)
        return Rows(words, self.layout.order(words), states)


def _pack_state(state: State) -> list[Any]:
    if isinstance(state, pl.Series):
        sizes, text = strings.flat(state)
        return [*packing.pack(sizes), _LENGTH.pack(len(text)), text]
    if state.dtype == np.uint8:
        return packing.pack(state.astype(np.uint64))
    return packing.pack(state.view(np.uint64), relative=state.dtype == np.int64)


def _unpack_state(body: memoryview, at: int, count: int, dtype: pl.DataType) -> tuple[State, int]:
    values, at = packing.unpack(body, at, count)
    if dtype in (pl.String, pl.Binary):
        (length,) = _LENGTH.unpack_from(body, at)
        at += _LENGTH.size
        return strings.from_flat(body[at : at + length], values, dtype), at + length
    if dtype == pl.Boolean:
        return values.astype(np.uint8), at
    return values.view(np.float64 if dtype.is_float() else np.int64), at
