"""Objects read by columns, where there are no kernels: lines of a shape together, by regular expressions and casts.

What this finds is what the twin finds, which does the rest: lines of no shape that is met again. Some 5 us a line, for
which the twin takes 50.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import polars as pl

from elf.agents.sources.columns import is_text, runs
from elf.agents.sources.lines import rows as rows_of
from elf.agents.sources.native import Ends, Spans, Unfit
from elf.agents.sources.objects.casts import CastValues
from elf.agents.sources.objects.program import Program, decoded
from elf.agents.sources.objects.shapes import Shape, shape_of

#: Shapes that are looked for in a block of lines, and those that are remembered of one program.
_SHAPES_MAX = 8

Flags = npt.NDArray[np.bool_]


class ShapedObjects(CastValues):
    """See `elf.agents.sources.native.ObjectKernels`, which this is one of. Threads may share it.

    Args:
        lines_min: so many lines are worth a regular expression.
    """

    def __init__(self, lines_min: int = 16) -> None:
        self._lines_min = lines_min
        #: Of each program the shapes that were met last; whoever changes it puts another tuple there.
        self._shapes: dict[bytes, tuple[Shape, ...]] = {}

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
        count = len(ends)
        if count < self._lines_min or not is_text(block):
            return super().read_objects(program, block, begin, ends, spans, escaped, misfits)
        wanted, bounds = decoded(program), np.append(begin, ends + 1)
        lines = rows_of(block, bounds.astype(np.int64))
        found = [np.full((count, 2), -1, np.int64) for _ in spans]
        escaped[:] = 0
        left = self._match(program, wanted, block, lines, bounds, found, escaped)
        is_misfit = np.zeros(count, np.bool_)
        unfit = 0
        for first, last in runs(left):
            own = [np.empty((last - first, 2), np.int32) for _ in spans]
            has, odd = np.empty(len(spans), np.uint8), np.empty((last - first, 3), np.int32)
            rows, bad = super().read_objects(program, block, int(bounds[first]), ends[first:last], own, has, odd)
            odd[:bad, 0] += first
            misfits[unfit : unfit + bad] = odd[:bad]
            is_misfit[odd[:bad, 0]] = True
            fitting = np.flatnonzero(~is_misfit[first:last]) + first
            for places, part in zip(found, own, strict=True):
                places[fitting] = part[:rows]
            escaped |= has
            unfit += bad
        for out, places in zip(spans, found, strict=True):
            out[: count - unfit] = places[~is_misfit]
        return count - unfit, unfit

    def _match(
        self,
        program: bytes,
        wanted: Program,
        block: bytes,
        lines: pl.Series,
        bounds: npt.NDArray[np.int64],
        found: Sequence[npt.NDArray[np.int64]],
        escaped: npt.NDArray[np.uint8],
    ) -> npt.NDArray[np.intp]:
        """Read the lines of known shapes, and of new ones; returns which lines are left."""
        left = np.arange(lines.len())
        known = list(self._shapes.get(program, ()))
        for shape in tuple(known):
            left = _read(shape, wanted, lines, left, bounds, found, escaped)
        for turn in range(_SHAPES_MAX):
            if len(left) < self._lines_min:
                break
            number = int(left[len(left) * turn // _SHAPES_MAX])
            fresh = shape_of(wanted, block[bounds[number] : bounds[number + 1] - 1])
            if fresh is None:
                continue
            before = len(left)
            left = _read(fresh, wanted, lines, left, bounds, found, escaped)
            if before - len(left) >= self._lines_min:
                known.insert(0, fresh)
        self._shapes[program] = tuple(known[:_SHAPES_MAX])
        return left


def _read(
    shape: Shape,
    wanted: Program,
    lines: pl.Series,
    left: npt.NDArray[np.intp],
    bounds: npt.NDArray[np.int64],
    found: Sequence[npt.NDArray[np.int64]],
    escaped: npt.NDArray[np.uint8],
) -> npt.NDArray[np.intp]:
    """Read those of the lines that are left which have a shape; returns the others."""
    if not len(left):
        return left
    chosen, groups = _groups(shape, lines if len(left) == lines.len() else lines.gather(left), left)
    if not len(chosen) or not groups:
        return left
    lengths = np.stack([group.str.len_bytes().to_numpy().astype(np.int64) for group in groups], axis=1)
    places = np.cumsum(np.concatenate([bounds[chosen][:, None], lengths], axis=1), axis=1)
    nulls = ["null", '""', '"-"'] if wanted.skips_blanks else ["null"]
    slots = dict[int, npt.NDArray[np.int64]]()
    escapes = dict[int, Flags]()
    for slot, (first, last) in enumerate(shape.slots):
        if first < 0:
            continue
        span = places[:, [first, last]]
        if shape.scalars[slot]:
            text = groups[first]
            span[text.is_in(nulls).to_numpy()] = -1
            escapes[slot] = (text.str.starts_with('"') & text.str.contains("\\", literal=True)).to_numpy()
        slots[slot] = span
    for output, (first, second) in enumerate(wanted.outputs):
        # A member of the very name comes first, unless it is not there.
        slot = first if first in slots else second
        if slot in slots:
            found[output][chosen] = slots[slot]
            escaped[output] |= slot in escapes and bool((escapes[slot] & (slots[slot][:, 0] >= 0)).any())
    return np.setdiff1d(left, chosen, assume_unique=True)


def _groups(
    shape: Shape, lines: pl.Series, numbers: npt.NDArray[np.intp]
) -> tuple[npt.NDArray[np.intp], list[pl.Series]]:
    """Return the numbers of the lines that have a shape, and their groups."""
    found, rest = list[pl.Series](), lines
    for pattern in shape.patterns:
        groups = rest.str.extract_groups(pattern).struct.unnest().get_columns()
        # Of the last part nothing may be wanted.
        has = groups[0].is_not_null() if groups else rest.str.contains(pattern)
        if not has.all():
            numbers = numbers[has.to_numpy()]
            found, groups = ([each.filter(has) for each in some] for some in (found, groups))
        found += groups
        if pattern is not shape.patterns[-1]:
            rest = found.pop()
        if not len(numbers):
            break
    return numbers, found
