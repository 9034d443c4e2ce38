"""The kernels' work in Python, a line at a time: it defines theirs.

Up to 100 us a line, which takes the kernels a few tenths of one. Where there are none,
`elf.agents.sources.layouts.shaped` does it for the usual lines of many layouts.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from elf.agents.sources.layouts import typed
from elf.agents.sources.layouts.kinds import Kind
from elf.agents.sources.layouts.layout import Field
from elf.agents.sources.layouts.line import Taken, take_line
from elf.agents.sources.layouts.misfit import Misfit
from elf.agents.sources.layouts.program import HEADER, STEP, TIME_OUTPUT, Op, Program, Step
from elf.agents.sources.native import Bitmap, Ends, Misfits, Spans
from elf.agents.sources.native.filled import fill_numbers
from elf.agents.sources.pairs.line import Style, read_pairs
from elf.agents.sources.times.notations import NO_TIME, Notation


class Twin:
    """See `elf.agents.sources.native.Kernels`, which this is one of."""

    def take_apart(
        self,
        programs: Sequence[bytes],
        block: bytes,
        ends: Ends,
        spans: Sequence[Spans],
        times: npt.NDArray[np.int64],
        layouts: npt.NDArray[np.uint8],
        misfits: Misfits,
        /,
    ) -> tuple[int, int]:
        """Take lines apart."""
        compiled = [decoded(program) for program in programs]
        rows = unfit = begin = 0
        for number, end in enumerate(ends.tolist()):
            line, worst = block[begin:end], (-1, -1, -1)
            for layout, (program, outputs) in enumerate(compiled):
                try:
                    found = take_line(program, line)
                except Misfit as misfit:
                    worst = max(worst, (misfit.at, -layout, misfit.step))
                    continue
                _write(outputs, found, begin, rows, spans, times)
                layouts[rows] = layout
                rows += 1
                break
            else:
                misfits[unfit] = number, -worst[1], worst[2], worst[0]
                unfit += 1
            begin = end + 1
        return rows, unfit

    def pairs(
        self, style: int, names: tuple[bytes, ...], block: bytes, ends: Ends, spans: Sequence[Spans], misfits: Spans, /
    ) -> tuple[int, int]:
        """Take lines of names and values apart."""
        rows = unfit = begin = 0
        for number, end in enumerate(ends.tolist()):
            try:
                found = {pair.name: pair for pair in read_pairs(Style(style), block[begin:end])}
            except Misfit as misfit:
                misfits[unfit] = number, misfit.at
                unfit += 1
            else:
                for name, out in zip(names, spans, strict=True):
                    pair = found.get(name)
                    _put(out, rows, begin, None if pair is None or pair.begin < 0 else (pair.begin, pair.end))
                rows += 1
            begin = end + 1
        return rows, unfit

    def integers(self, block: bytes, spans: Spans, out: npt.NDArray[np.int64], valid: Bitmap, /) -> int:
        """Read integers."""
        return fill_numbers(block, spans, typed.integer, out, valid)

    def decimals(
        self, block: bytes, spans: Spans, is_duration: bool, out: npt.NDArray[np.float64], valid: Bitmap, /
    ) -> int:
        """Read numbers or durations."""
        return fill_numbers(block, spans, typed.seconds if is_duration else typed.decimal, out, valid)

    def requests(self, block: bytes, spans: Spans, method: Spans, uri: Spans, protocol: Spans, /) -> None:
        """Take requests apart."""
        for row, (begin, end) in enumerate(spans.tolist()):
            found = typed.request(block[begin:end]) if begin >= 0 else None
            for out, span in zip((method, uri, protocol), found or (None, None, None), strict=True):
                _put(out, row, begin, span)

    def uris(self, block: bytes, spans: Spans, path: Spans, query: Spans, host: Spans | None, /) -> None:
        """Take addresses apart."""
        for row, (begin, end) in enumerate(spans.tolist()):
            parts: tuple[typed.Span, typed.Span, typed.Span] = (None, None, None)
            if begin >= 0:
                parts = typed.uri(block[begin:end], absolute=host is not None)
            for out, span in zip((path, query, host), parts, strict=True):
                if out is not None:
                    _put(out, row, begin, span)

    def gather(self, block: bytes, spans: Spans, offsets: npt.NDArray[np.int64], valid: Bitmap, /) -> tuple[bytes, int]:
        """Copy texts."""
        has = spans[:, 0] >= 0
        offsets[0] = 0
        np.cumsum(np.where(has, spans[:, 1] - spans[:, 0], 0), out=offsets[1:])
        valid[:] = np.packbits(has, bitorder="little")
        texts = [block[begin:end] for begin, end in spans[has].tolist()]
        return b"".join(texts), len(has) - len(texts)


def decoded(program: bytes) -> tuple[Program, list[int]]:
    """Decode what `encoded` made; fields have no names, and the outputs of the slots come beside them."""
    count, slots, is_open = HEADER.unpack_from(program)
    at = HEADER.size
    outputs = list(struct.unpack_from(f"<{slots}h", program, at))
    at += 2 * slots

    def text() -> bytes:
        nonlocal at
        (length,) = struct.unpack_from("<H", program, at)
        at += 2 + length
        return program[at - length : at]

    steps = []
    for _ in range(count):
        op, kind, slot, skip, flags, notations, bitmap = STEP.unpack_from(program, at)
        at += STEP.size
        stops = int.from_bytes(bitmap, "little")
        steps.append(
            Step(
                op=Op(op),
                text=text(),
                skip=skip,
                kind=Kind(kind),
                slot=slot,
                stops=bytes(byte for byte in range(256) if stops >> byte & 1),
                after=text(),
                quoted=bool(flags & 1),
                pads=bool(flags & 2),
                cell=bool(flags & 4),
                may_lack=bool(flags & 8),
                notations=tuple(Notation("", text().decode(), "") for _ in range(notations)),
            )
        )
    fields = tuple(Field("", Kind.REST) for _ in range(slots))
    return Program(tuple(steps), fields, bool(is_open)), outputs


def _write(
    outputs: Sequence[int],
    found: Taken,
    begin: int,
    row: int,
    spans: Sequence[Spans],
    times: npt.NDArray[np.int64],
) -> None:
    """Write the values of a line that fits."""
    for out in spans:
        out[row] = -1
    times[row] = NO_TIME
    for slot, span in enumerate(found.spans):
        if span is not None and outputs[slot] == TIME_OUTPUT:
            times[row] = found.times[slot]
        elif span is not None and outputs[slot] >= 0:
            spans[outputs[slot]][row] = span[0] + begin, span[1] + begin


def _put(out: Spans, row: int, begin: int, span: typed.Span) -> None:
    out[row] = (-1, -1) if span is None else (begin + span[0], begin + span[1])
