"""The kernels' work on objects in Python, a line at a time: it defines theirs.

Some 40 us a line, which takes the kernels a third of one. Where there are none, `elf.agents.sources.objects.shaped`
does it for most lines.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from elf.agents.sources import event_time
from elf.agents.sources.native import DISTINCT_MAX, Bitmap, Ends, Spans, Unfit
from elf.agents.sources.native.filled import fill_numbers
from elf.agents.sources.objects import values
from elf.agents.sources.objects.line import NoObjectError, read_line
from elf.agents.sources.objects.program import decoded
from elf.agents.sources.times.notations import NO_TIME


class ObjectTwin:
    """See `elf.agents.sources.native.ObjectKernels`, which this is one of."""

    def read_objects(
        self,
        program: bytes,
        block: bytes,
        begin: int,
        ends: Ends,
        spans: Sequence[Spans],
        escaped: npt.NDArray[np.uint8],
        misfits: Unfit,
        /,
    ) -> tuple[int, int]:
        """Read lines."""
        wanted = decoded(program)
        found: list[list[tuple[int, int]]] = [[] for _ in spans]
        has_escapes, unfit = [False] * len(spans), 0
        for number, end in enumerate(ends.tolist()):
            try:
                values = read_line(wanted, block[begin:end])
            except NoObjectError as error:
                misfits[unfit] = number, error.why, error.at
                unfit += 1
            else:
                for output, value in enumerate(values):
                    found[output].append((-1, -1) if value is None else (begin + value.begin, begin + value.end))
                    has_escapes[output] |= value is not None and value.has_escapes
            begin = end + 1
        rows = len(ends) - unfit
        for out, places in zip(spans, found, strict=True):
            out[:rows] = np.array(places, np.int32).reshape(rows, 2)
        escaped[:] = has_escapes
        return rows, unfit

    def object_integers(
        self, block: bytes, spans: Spans, bits: int, out: npt.NDArray[np.int64], valid: Bitmap, /
    ) -> int:
        """Read integers."""
        return fill_numbers(block, spans, lambda text: values.integer(text, bits), out, valid)

    def object_decimals(self, block: bytes, spans: Spans, out: npt.NDArray[np.float64], valid: Bitmap, /) -> int:
        """Read doubles."""
        return fill_numbers(block, spans, values.decimal, out, valid)

    def object_booleans(self, block: bytes, spans: Spans, out: Bitmap, valid: Bitmap, /) -> int:
        """Read booleans."""
        flags = np.zeros(len(spans), np.bool_)
        unfit = fill_numbers(block, spans, values.boolean, flags, valid)
        out[:] = np.packbits(flags, bitorder="little")
        return unfit

    def object_times(self, block: bytes, spans: Spans, out: npt.NDArray[np.int64], /) -> int:
        """Read event times."""
        texts = [block[begin:end] if begin >= 0 else b"null" for begin, end in spans.tolist()]
        out[:] = event_time.of_events([values.scalar(text) for text in texts])
        return int(((spans[:, 0] >= 0) & (out[: len(spans)] == NO_TIME)).sum())

    def object_texts(
        self, block: bytes, spans: Spans, escaped: bool, offsets: npt.NDArray[np.int64], valid: Bitmap, /
    ) -> tuple[bytes, int]:
        """Copy texts."""
        has = spans[:, 0] >= 0
        texts = [values.string(block[begin:end]) if begin >= 0 else b"" for begin, end in spans.tolist()]
        offsets[0] = 0
        np.cumsum([len(text) for text in texts], out=offsets[1:])
        valid[:] = np.packbits(has, bitorder="little")
        return b"".join(texts), len(has) - int(has.sum())

    def object_codes(
        self, block: bytes, spans: Spans, codes: npt.NDArray[np.uint32], firsts: Spans, valid: Bitmap, /
    ) -> tuple[int, int]:
        """Tell which values are the same."""
        has, known = spans[:, 0] >= 0, dict[bytes, int]()
        valid[:] = np.packbits(has, bitorder="little")
        codes[: len(spans)] = 0
        for row in np.flatnonzero(has).tolist():
            begin, end = spans[row].tolist()
            text = block[begin:end]
            if text not in known:
                if len(known) == DISTINCT_MAX:
                    return -1, 0
                firsts[len(known)] = begin, end
            codes[row] = known.setdefault(text, len(known))
        return len(known), len(has) - int(has.sum())
