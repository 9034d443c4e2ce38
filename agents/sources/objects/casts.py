"""Values of objects in columns of a type, all of a column at once: the usual ones by casts, the others by the twin."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import polars as pl

from elf.agents.sources import event_time
from elf.agents.sources.columns import copied, filled
from elf.agents.sources.lines import rows as rows_of
from elf.agents.sources.native import Bitmap, Spans
from elf.agents.sources.objects.twin import ObjectTwin
from elf.agents.sources.objects.values import unescaped
from elf.agents.sources.times.notations import NO_TIME

_QUOTE, _BACKSLASH = ord('"'), ord("\\")
#: What Polars reads as the twin does.
_INTEGER = r"^-?[0-9]{1,18}$"
_DECIMAL = r"^-?[0-9]{1,17}(?:\.[0-9]{1,17})?(?:[eE][+-]?[0-9]{1,2})?$"

Flags = npt.NDArray[np.bool_]


class CastValues(ObjectTwin):
    """The part of `elf.agents.sources.native.ObjectKernels` that is about values."""

    def object_integers(
        self, block: bytes, spans: Spans, bits: int, out: npt.NDArray[np.int64], valid: Bitmap, /
    ) -> int:
        """Read integers."""
        twin = super().object_integers

        def rest(spans: Spans, out: npt.NDArray[np.int64], valid: Bitmap) -> int:
            return twin(block, spans, bits, out, valid)

        return filled(block, spans, (pl.Int64(), _INTEGER), rest, out, valid, bits)

    def object_decimals(self, block: bytes, spans: Spans, out: npt.NDArray[np.float64], valid: Bitmap, /) -> int:
        """Read doubles."""
        twin = super().object_decimals

        def rest(spans: Spans, out: npt.NDArray[np.float64], valid: Bitmap) -> int:
            return twin(block, spans, out, valid)

        return filled(block, spans, (pl.Float64(), _DECIMAL), rest, out, valid)

    def object_times(self, block: bytes, spans: Spans, out: npt.NDArray[np.int64], /) -> int:
        """Read event times."""
        inner, is_text = _unquoted(block, spans)
        chosen = np.flatnonzero(is_text)
        texts = _texts(block, inner[chosen])
        is_plain = ~texts.str.contains("\\", literal=True).to_numpy()
        times = event_time.iso(texts.to_list())
        out[chosen] = times
        left = np.count_nonzero(times[is_plain] == NO_TIME)
        others = np.setdiff1d(np.arange(len(spans)), chosen[is_plain], assume_unique=True)
        if len(others):
            found = np.empty(len(others), np.int64)
            left += super().object_times(block, spans[others], found)
            out[others] = found
        return int(left)

    def object_texts(
        self, block: bytes, spans: Spans, escaped: bool, offsets: npt.NDArray[np.int64], valid: Bitmap, /
    ) -> tuple[bytes, int]:
        """Copy texts."""
        inner, is_text = _unquoted(block, spans)
        has = spans[:, 0] >= 0
        valid[:] = np.packbits(has, bitorder="little")
        texts, offsets[:] = copied(block, inner)
        if escaped:
            marks = np.flatnonzero(np.frombuffer(texts, np.uint8) == _BACKSLASH)
            rows = np.unique(np.searchsorted(offsets, marks, side="right") - 1)
            texts = _unescaped(texts, offsets, rows[is_text[rows]])
        return texts, len(has) - int(has.sum())

    def object_codes(
        self, block: bytes, spans: Spans, codes: npt.NDArray[np.uint32], firsts: Spans, valid: Bitmap, /
    ) -> tuple[int, int]:
        """Tell that there are too many values: to copy each is no more work than to look it up."""
        return -1, 0


def _unquoted(block: bytes, spans: Spans) -> tuple[Spans, Flags]:
    """Return what is between the quotes of texts, and values that are none as they are; and which are texts.

    No value is empty.
    """
    data = np.frombuffer(block, np.uint8)
    has = spans[:, 0] >= 0
    is_text = has & (data[np.where(has, spans[:, 0], 0)] == _QUOTE) if len(data) else has
    inner = np.where(has[:, None], spans, 0)
    inner[is_text] += np.array([1, -1], np.int32)
    return inner, is_text


def _texts(block: bytes, spans: Spans) -> pl.Series:
    """Return texts as a column."""
    return rows_of(*copied(block, spans))


def _unescaped(texts: bytes, offsets: npt.NDArray[np.int64], rows: npt.NDArray[np.intp]) -> bytes:
    """Return texts without the escapes that those of some rows have; `offsets` changes with them."""
    lengths, parts, at = np.diff(offsets), list[bytes](), 0
    for row in rows.tolist():
        begin, end = int(offsets[row]), int(offsets[row + 1])
        value = unescaped(texts[begin:end])
        parts += [texts[at:begin], value]
        lengths[row], at = len(value), end
    np.cumsum(lengths, out=offsets[1:])
    return b"".join([*parts, texts[at:]])
