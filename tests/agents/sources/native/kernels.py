"""Kernels and their twin at the same work, for tests that hold the one to the other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

import elf.agents.sources.native
from elf.agents.sources.layouts.program import Program, encoded
from elf.agents.sources.layouts.twin import Twin
from elf.agents.sources.native import Ends, Kernels

#: What arrays hold before something is written there.
UNTOUCHED = -7


class Apart(NamedTuple):
    """What lines taken apart are."""

    spans: list[list[list[int]]]
    times: list[int]
    layouts: list[int]
    misfits: list[list[int]]


def built() -> Kernels:
    """The kernels, which `scripts/setup --test` has seen to."""
    kernels = elf.agents.sources.native.built()
    assert kernels is not None, "the kernels have not been built"
    return kernels


def all_outputs(programs: Sequence[Program]) -> tuple[list[bytes], int]:
    """Encode programs whose every column is wanted; also return how many outputs they have."""
    columns = dict.fromkeys(field.column for program in programs for field in program.slots)
    outputs = {column: number for number, column in enumerate(columns)}
    return [encoded(program, outputs) for program in programs], len(outputs)


def block_of(lines: Sequence[bytes]) -> tuple[bytes, Ends]:
    """Return lines as a block, and where each ends."""
    ends = np.cumsum(np.array([len(line) + 1 for line in lines], np.int64)) - 1
    return b"".join(line + b"\n" for line in lines), ends


def apart(kernels: Kernels, programs: Sequence[bytes], outputs: int, lines: Sequence[bytes]) -> Apart:
    """Take lines apart."""
    block, ends = block_of(lines)
    spans = [np.full((len(lines), 2), UNTOUCHED, np.int32) for _ in range(outputs)]
    times, layouts = np.full(len(lines), UNTOUCHED, np.int64), np.full(len(lines), 99, np.uint8)
    misfits = np.full((len(lines), 4), UNTOUCHED, np.int32)
    rows, unfit = kernels.take_apart(programs, block, ends, spans, times, layouts, misfits)
    assert rows + unfit == len(lines)
    return Apart(
        [each[:rows].tolist() for each in spans],
        times[:rows].tolist(),
        layouts[:rows].tolist(),
        misfits[:unfit].tolist(),
    )


def same_apart(programs: Sequence[bytes], outputs: int, lines: Sequence[bytes]) -> Apart:
    """Take lines apart by the kernels and by their twin, which have to agree."""
    found, expected = apart(built(), programs, outputs, lines), apart(Twin(), programs, outputs, lines)
    if found != expected:
        # One line says more than many.
        for line in lines:
            alone = apart(built(), programs, outputs, [line])
            assert alone == apart(Twin(), programs, outputs, [line]), line
    assert found == expected, lines
    return found
