"""Lines that those behind them need to be understood: headers, which say what columns there are. Pure.

A log is read in chunks, is left and taken up again, and may be rotated meanwhile. What its lines need of those before
them is a function of the file's text alone, so it can be read from the file again wherever somebody begins.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

#: More than files have bytes.
_FAR = 1 << 56


class Carried(NamedTuple):
    """A line that those behind it need.

    Attributes:
        at: where in its file it begins, in bytes of text; below 0: it was truncated away.
        line: the line, with its newline.
    """

    at: int
    line: bytes


class Carrier(Protocol):
    """Knows which lines of a format those behind them need.

    Attributes:
        goes_on: what has begun in a file may end in the one that its log goes on in.
    """

    @property
    def goes_on(self) -> bool:
        """See above."""

    def behind(self, carried: Sequence[Carried], text: bytes, at: int) -> tuple[Carried, ...]:
        """Return what lines behind a text need.

        Args:
            carried: what the text itself needs, of the lines before it in its file.
            text: whole lines.
            at: where the text begins in its file.
        """

    def waiting(self, carried: Sequence[Carried]) -> Sequence[Carried]:
        """Return those that are no lines yet, and will be part of one behind them; they come behind the others."""


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
        """Return the lines that still wait for others, behind the last chunk, and what these need; none: none wait."""
        is_left = self._carrier is not None and self._carrier.waiting(self._carried)
        return lines_of(self._carried) if is_left else ()


def lined_up(files: Sequence[Sequence[Carried]]) -> tuple[Carried, ...]:
    """Return the lines of files that follow each other as those of one, which begins with the last one's first byte."""
    last = len(files) - 1
    return tuple(each._replace(at=each.at - (last - file) * _FAR) for file, own in enumerate(files) for each in own)


def taken_apart(carried: Sequence[Carried], count: int) -> list[tuple[Carried, ...]]:
    """Return the lines of each of so many files, of some that were lined up."""
    files: list[list[Carried]] = [[] for _ in range(count)]
    for each in carried:
        behind = (_FAR // 2 - each.at) // _FAR
        files[count - 1 - behind].append(each._replace(at=each.at + behind * _FAR))
    return [tuple(own) for own in files]


def lasting(carrier: Carrier, carried: Sequence[Carried]) -> tuple[Carried, ...]:
    """Return the lines that others need, and that wait for none: a header."""
    return tuple(carried[: len(carried) - len(carrier.waiting(carried))])


def lines_of(carried: Sequence[Carried]) -> tuple[bytes, ...]:
    """Return the lines alone."""
    return tuple(each.line for each in carried)
