"""What is wrong with a line that does not fit its layout: where it stops, and what had to be there."""

from __future__ import annotations

_SHOWN_BYTES = 40


def reason(where: str, at: int) -> str:
    """Return the reason that a line is rejected with: `format:status@83`."""
    return f"format:{where.partition(' (')[0].replace(' ', '_')}@{at}"


class Misfit(Exception):
    """A line that does not fit.

    Attributes:
        at: byte of the line at which it stops to fit.
        where: the field, or that it is a literal.
        expected: what had to be there, for people.
        step: of the program, by its number.
    """

    def __init__(self, at: int, where: str, expected: str) -> None:
        super().__init__(at, where, expected)
        self.at = at
        self.step = 0
        self.where = where
        self.expected = expected

    def shown(self, line: bytes) -> str:
        """Say it of this line, of none without quoting: `stops at byte 83, status (status): three digits, not "a"`."""
        found = line[self.at : self.at + _SHOWN_BYTES].decode(errors="replace")
        there = f", not {found!r}" if found else ", not the end of the line" if line else ""
        return f"stops at byte {self.at}, {self.where}: {self.expected}{there}"
