"""Lines that those behind them need to be understood: headers, which say what columns there are. Pure.

A log is read in chunks, is left and taken up again, and may be rotated meanwhile. What its lines need of those before
them is a function of the file's text alone, so it can be read from the file again wherever somebody begins.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol


class Carried(NamedTuple):
    """A line that those behind it need.

    Attributes:
        at: where in its file it begins, in bytes of text.
        line: the line, with its newline.
    """

    at: int
    line: bytes


class Carrier(Protocol):
    """Knows which lines of a format those behind them need.

    Attributes:
        is_owed: lines that are carried are none yet, and will be part of one behind them.
    """

    is_owed: bool

    def behind(self, carried: Sequence[Carried], text: bytes, at: int) -> tuple[Carried, ...]:
        """Return what lines behind a text need.

        Args:
            carried: what the text itself needs, of the lines before it in its file.
            text: whole lines.
            at: where the text begins in its file.
        """


class Carrying:
    """Follows a text through chunks of whole lines.

    Args:
        carrier: the format's; None: no line needs another.
        lines: what the first chunk needs of lines before it.
    """

    def __init__(self, carrier: Carrier | None, lines: Sequence[bytes] = ()) -> None:
        self._carrier = carrier
        self._carried = tuple(Carried(0, line) for line in lines)
        self._at = 0

    def before(self, chunk: bytes) -> tuple[bytes, ...]:
        """Return the lines that the next chunk needs."""
        lines = lines_of(self._carried)
        if self._carrier is not None:
            self._carried = self._carrier.behind(self._carried, chunk, self._at)
            self._at += len(chunk)
        return lines

    def left(self) -> tuple[bytes, ...]:
        """Return the lines that still wait for others, behind the last chunk."""
        return lines_of(self._carried) if self._carrier is not None and self._carrier.is_owed else ()


def lines_of(carried: Sequence[Carried]) -> tuple[bytes, ...]:
    """Return the lines alone."""
    return tuple(each.line for each in carried)
