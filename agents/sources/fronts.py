"""Event time at the front of JSON lines, read from the raw bytes of many lines at once.

Most loggers write the time first and in one shape: `{"ts":"2026-01-01T00:00:00.000Z",`. What this shape is, the first
line of a chunk shows; where all lines of a block have it, byte by byte, no time need become a Python text first.

This proves the front only. The rest of the line is the decoder's, which sees the field there under another name (the
last letter of its name is overwritten in a copy) and refuses lines in which the field comes once more.
"""

from __future__ import annotations

import itertools
import re
import string
from collections.abc import Collection, Sequence

import msgspec
import numpy as np
import numpy.typing as npt

from elf.agents.sources import event_time

#: Names whose bytes in a line are their letters: nothing in them can be, or need be, escaped.
_PLAIN = re.compile(r"[A-Za-z0-9_@.-]+")
_WORD_BYTES = 8

Bytes = npt.NDArray[np.uint8]


class Shape(msgspec.Struct, frozen=True):
    """What the front of a line looks like.

    Attributes:
        before: its bytes before the time.
        end: where the quote behind the time is, counted from the beginning of the line.
        letter_at: where the last letter of the field's name is, counted likewise.
        letter: what this letter is overwritten with.
    """

    before: bytes
    end: int
    letter_at: int
    letter: int

    def fronts(self, lines: Bytes, begins: npt.NDArray[np.int64]) -> Bytes | None:
        """Copy the fronts of lines into a matrix, up to the quote behind the time; None if one has another shape.

        Args:
            lines: whole lines.
            begins: where each line begins.
        """
        length = self.end + 1
        if int(begins[-1]) + length > len(lines):
            return None
        windows = np.ndarray(len(lines) - self.end, f"V{length}", lines, 0, (1,))
        fronts = windows[begins].view(np.uint8).reshape(len(begins), length)
        return fronts if (fronts[:, -1] == ord('"')).all() and _all_begin_with(fronts, self.before) else None

    def times(self, fronts: Sequence[Bytes]) -> list[npt.NDArray[np.int64]]:
        """Read the event times in fronts; `NO_TIME` where there is none."""
        if not fronts:
            return []
        # Faster over all at once than for each.
        times = event_time.fixed(np.concatenate(fronts)[:, len(self.before) :])
        return np.split(times, list(itertools.accumulate(map(len, fronts[:-1]))))

    def hide(self, lines: Bytes, begins: npt.NDArray[np.int64]) -> None:
        """Overwrite the last letter of the field's name in each of these lines."""
        lines[begins + self.letter_at] = self.letter


class FrontReader:
    """Reads the fronts of lines that begin with a certain field.

    Args:
        field: name of the field.
        others: names the field must not be mistaken for when its last letter is overwritten.
    """

    def __init__(self, field: str, others: Collection[str]) -> None:
        taken = {field, *others}
        letters = [ord(letter) for letter in string.ascii_letters if field[:-1] + letter not in taken]
        self._letter = letters[0] if letters else 0
        self._shape: re.Pattern[bytes] | None = None
        if letters and _PLAIN.fullmatch(field):
            name = re.escape(field).encode()
            self._shape = re.compile(rb'(\{[ \t]*"%s)"[ \t]*:[ \t]*"([^"\\\n]{19,35})"' % name)

    def shape(self, data: bytes) -> Shape | None:
        """Return the shape of the first line's front; None where it does not begin with the field and a text."""
        found = self._shape.match(data) if self._shape else None
        if found is None:
            return None
        return Shape(found.string[: found.start(2)], found.end(2), found.end(1) - 1, self._letter)


def _all_begin_with(rows: Bytes, text: bytes) -> bool:
    """Tell whether all rows of a matrix begin with a text, behind which it has eight more columns."""
    for place in range(0, len(text), _WORD_BYTES):
        part = text[place : place + _WORD_BYTES]
        words = rows[:, place : place + _WORD_BYTES].view("<u8")[:, 0]
        mask = np.uint64((1 << 8 * len(part)) - 1)
        if ((words & mask) != np.uint64(int.from_bytes(part, "little"))).any():
            return False
    return True
