"""One line taken apart by a program: the twin that defines what the kernel gives. Pure.

It takes up to 100 us a line and is used where there is no kernel, and to say of a rejected line where it stops to fit.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from elf.agents.sources.layouts.kinds import EXPECTED, Kind
from elf.agents.sources.layouts.misfit import Misfit
from elf.agents.sources.layouts.program import Op, Program, Step
from elf.agents.sources.layouts.values import Value, read_value

#: The time of a line of an access log, which no text of a client holds.
_GLUED = re.compile(rb"\[[0-9]{2}/[^\n]{3}/[0-9]{4}:")

#: Of each slot the value's text: where it begins and ends; None if it is null, or its part of the line is missing.
Spans = list[tuple[int, int] | None]


class Taken(NamedTuple):
    """A line taken apart.

    Attributes:
        spans: of each slot.
        times: of slots with times, what these are in ms.
    """

    spans: Spans
    times: dict[int, int]


def read_line(program: Program, line: bytes) -> Spans:
    """Find the values of a line; see `take_line`."""
    return take_line(program, line).spans


def take_line(program: Program, line: bytes) -> Taken:
    """Take a line apart.

    Args:
        program: of its layout.
        line: valid UTF-8, without its end.

    Raises:
        Misfit: the line does not fit.
    """
    reader = _Reader(program, line)
    try:
        reader.read(0, 0)
    except Misfit as misfit:
        misfit.step = reader.number
        raise
    return Taken(reader.spans, reader.times)


class _Reader:
    def __init__(self, program: Program, line: bytes) -> None:
        self.program = program
        self.line = line
        self.spans: Spans = [None] * len(program.slots)
        self.times: dict[int, int] = {}
        self.has_ident = False
        #: Of the step that is being taken.
        self.number = 0

    def read(self, number: int, at: int) -> None:
        """Run the steps from this one on, to the line's end."""
        while True:
            self.number = number
            step = self.program.steps[number]
            number += 1
            if step.op is Op.END:
                self._end(step, at)
                return
            if step.op is Op.LITERAL:
                if not self.line.startswith(step.text, at):
                    raise Misfit(at, step.place, repr(step.text.decode()))
                at += len(step.text)
            elif step.op is Op.PART:
                number = number if self.line.startswith(step.text, at) else step.skip
            elif step.kind is Kind.LOOSE:
                self._loose(step, number, at)
                return
            else:
                at = self._keep(step, read_value(step, self.line, at, self.has_ident))

    def _end(self, step: Step, at: int) -> None:
        if at < len(self.line) and not (self.program.is_open and self.line[at] == 32):
            raise Misfit(at, step.place, "the end of the line")

    def _keep(self, step: Step, value: Value) -> int:
        if step.kind is Kind.IDENT:
            self.has_ident = value.begin >= 0
        if step.slot >= 0:
            span, known = (value.begin, value.end), self.spans[step.slot]
            if known is not None and (value.begin < 0 or self._text(known) != self._text(span)):
                raise Misfit(value.next, step.shown, f"{self._text(known).decode(errors='replace')!r}, as before")
            if value.begin >= 0:
                self.spans[step.slot] = span
            if value.ms is not None:
                self.times[step.slot] = value.ms
        return value.next

    def _text(self, span: tuple[int, int]) -> bytes:
        return self.line[span[0] : span[1]]

    def _loose(self, step: Step, number: int, at: int) -> None:
        """Read a text whose writer escapes nothing: it ends at the rightmost quote behind which the rest fits.

        It does not reach over the time of another line that is glued to this one.
        """
        before, times, has_ident = list(self.spans), dict(self.times), self.has_ident
        glued = _GLUED.search(self.line, at)
        place = glued.start() if glued is not None else len(self.line)
        while (place := self.line.rfind(b'"', at, place)) >= at:
            self.spans = list(before)
            self.times = dict(times)
            self.has_ident = has_ident
            is_null = self.line[at:place] == b"-"
            try:
                self._keep(step, Value(-1, -1, place) if is_null else Value(at, place, place))
                self.read(number, place)
            except Misfit:
                continue
            return
        self.number = number - 1
        raise Misfit(at, step.shown, EXPECTED[step.kind])
