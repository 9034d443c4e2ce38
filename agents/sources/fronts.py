"""Event time at the front of JSON lines, read from the raw bytes of a whole chunk at once.

Most loggers write the time first and in one shape: `{"ts":"2026-01-01T00:00:00.000Z",`. What this shape is, the first
line of a chunk shows; where another line has it too, byte by byte, its time need not become a Python text first.

This proves the front only. The rest of the line is the decoder's, which sees the field there under another name (the
last letter of its name is overwritten in a copy) and refuses lines in which the field comes once more.
"""

from __future__ import annotations

import re
import string
from collections.abc import Collection

import msgspec
import numpy as np
import numpy.typing as npt

from agents.sources import event_time

#: Names whose bytes in a line are their letters: nothing in them can be, or need be, escaped.
_PLAIN = re.compile(r"[A-Za-z0-9_@.-]+")
_WORD_BYTES = 8


class Fronts(msgspec.Struct, frozen=True):
    """The fronts of a chunk's lines.

    Attributes:
        times: event time of each line, `event_time.NONE` where its front has another shape or holds no time.
        letter_at: where the last letter of the field's name is, counted from the beginning of a line.
    """

    times: npt.NDArray[np.int64]
    letter_at: int


class FrontReader:
    """Reads the fronts of lines that begin with a certain field.

    Args:
        field: name of the field.
        others: names the field must not be mistaken for when its last letter is overwritten by `letter`.
    """

    def __init__(self, field: str, others: Collection[str]) -> None:
        taken = {field, *others}
        letters = [ord(letter) for letter in string.ascii_letters if field[:-1] + letter not in taken]
        self.letter = letters[0] if letters else 0
        self._shape: re.Pattern[bytes] | None = None
        if letters and _PLAIN.fullmatch(field):
            name = re.escape(field).encode()
            self._shape = re.compile(rb'(\{[ \t]*"%s)"[ \t]*:[ \t]*"([^"\\\n]{19,35})"' % name)

    def read(self, data: bytes, begins: npt.NDArray[np.int64]) -> Fronts | None:
        """Read the fronts of clean lines; None where the first line does not begin with the field and a text.

        Args:
            data: clean lines.
            begins: where each line begins.
        """
        shape = self._shape.match(data) if self._shape else None
        if shape is None:
            return None
        start, end = shape.span(2)
        # A line too near the end to have this front is compared from further left: the front would then have to end
        # with the newline that ends the data, but it ends with a quote.
        begins = np.minimum(begins, len(data) - shape.end())
        texts = _slices(data, begins + start, end + 1 - start)
        times = event_time.fixed(texts)
        times[~_same(data, begins, data[:start]) | (texts[:, -1] != ord('"'))] = event_time.NONE
        return Fronts(times, shape.end(1) - 1)


def _slices(data: bytes, begins: npt.NDArray[np.int64], length: int) -> npt.NDArray[np.uint8]:
    """Copy the bytes from each place on into a matrix."""
    windows = np.ndarray(len(data) - length + 1, f"V{length}", data, 0, (1,))
    return windows[begins].view(np.uint8).reshape(len(begins), length)


def _same(data: bytes, begins: npt.NDArray[np.int64], text: bytes) -> npt.NDArray[np.bool_]:
    """Tell at which places this text stands, and at least eight bytes after it; eight bytes at a time."""
    words = np.ndarray(len(data) - _WORD_BYTES + 1, "<u8", data, 0, (1,))
    same = np.ones(len(begins), dtype=np.bool_)
    for place in range(0, len(text), _WORD_BYTES):
        part = text[place : place + _WORD_BYTES]
        mask = np.uint64((1 << 8 * len(part)) - 1)
        same &= (words[begins + place] & mask) == np.uint64(int.from_bytes(part, "little"))
    return same
