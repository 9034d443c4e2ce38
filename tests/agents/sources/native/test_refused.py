"""What kernels cannot work with is refused, whatever it is."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

from elf.agents.sources.layouts.kinds import Kind
from elf.agents.sources.layouts.layout import Field, Layout
from elf.agents.sources.layouts.notation import read_layout
from elf.agents.sources.layouts.program import STEP, compiled, encoded
from tests.agents.sources.native.kernels import all_outputs, apart, block_of, built, same_apart

TEXT = '{a:ip} [{ts:time:clf|iso}] {?*{b:int} ?}"{c:loose}" {a:ip} {d:numbers}'
PROGRAM = encoded(compiled(read_layout(TEXT)), {"a": 0, "b": 1, "d": 2})
LINE = b'192.0.2.1 [26/Nov/2026:09:00:00 +0000] *5 "x" 192.0.2.1 1, 2'
BLOCK, ENDS = block_of([LINE] * 3)
SPANS = [np.empty((3, 2), np.int32) for _ in range(3)]
TIMES, LAYOUTS, MISFITS = np.empty(3, np.int64), np.empty(3, np.uint8), np.empty((3, 4), np.int32)
FITTING = ([PROGRAM], BLOCK, ENDS, SPANS, TIMES, LAYOUTS, MISFITS)
PLACES, BITS = np.array([[0, 1]], np.int32), np.empty(1, np.uint8)
UNALIGNED = np.zeros(25, np.uint8)[1:].view(np.int64)
FROZEN = np.empty(3, np.int64)
FROZEN.flags.writeable = False


def test_what_fits_is_not_refused() -> None:
    assert built().take_apart(*FITTING) == (3, 0)


@pytest.mark.parametrize(
    ("place", "argument"),
    [
        (0, []),
        (0, [b""]),
        (0, [PROGRAM[:-1]]),
        (0, [PROGRAM + b"\0"]),
        (0, [PROGRAM] * 300),
        (1, BLOCK[:-1]),
        (1, BLOCK.replace(b"\n", b" ")),
        (2, ENDS[::-1].copy()),
        (2, ENDS - 1),
        (2, ENDS + 1),
        (2, np.array([-1, 5, 9], np.int64)),
        (2, np.array([2**62] * 3, np.int64)),
        (2, ENDS.astype(np.int32)),
        (2, UNALIGNED),
        (3, SPANS[:2]),
        (3, [np.empty((2, 2), np.int32)] * 3),
        (3, [np.empty((3, 3), np.int32)] * 3),
        (3, [np.empty(6, np.int32)] * 3),
        (3, [np.empty((3, 2), np.int64)] * 3),
        (3, [np.empty((3, 4), np.int32)[:, ::2]] * 3),
        (3, SPANS * 200),
        (4, np.empty(2, np.int64)),
        (4, UNALIGNED),
        (4, FROZEN),
        (5, np.empty(2, np.uint8)),
        (6, np.empty((2, 4), np.int32)),
        (6, np.empty((3, 3), np.int32)),
    ],
)
def test_arguments_that_do_not_fit_together(place: int, argument: Any) -> None:
    arguments: list[Any] = list(FITTING)
    arguments[place] = argument
    with pytest.raises((ValueError, BufferError), match=r"\w"):
        built().take_apart(*arguments)


@pytest.mark.parametrize("place", range(7))
def test_arguments_of_other_types(place: int) -> None:
    arguments: list[Any] = list(FITTING)
    arguments[place] = 7
    with pytest.raises(TypeError):
        built().take_apart(*arguments)
    arguments[place] = [7]
    with pytest.raises(TypeError):
        built().take_apart(*arguments)


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("integers", (b"1", np.array([[0, 2]], np.int32), np.empty(1, np.int64), BITS)),
        ("integers", (b"1", np.array([[1, 0]], np.int32), np.empty(1, np.int64), BITS)),
        ("integers", (b"1", PLACES, np.empty(0, np.int64), BITS)),
        ("integers", (b"1", PLACES, np.empty(1, np.int64), np.empty(2, np.uint8))),
        ("integers", (b"1", PLACES, np.empty(1, np.int64), np.empty(0, np.uint8))),
        ("integers", (b"1", PLACES.astype(np.int64), np.empty(1, np.int64), BITS)),
        ("decimals", (b"1", np.array([[0, 2]], np.int32), False, np.empty(1), BITS)),
        ("decimals", (b"1", PLACES, False, np.empty(0), BITS)),
        ("requests", (b"1", PLACES, np.empty((0, 2), np.int32), PLACES.copy(), PLACES.copy())),
        ("requests", (b"", PLACES, PLACES.copy(), PLACES.copy(), PLACES.copy())),
        ("uris", (b"", PLACES, PLACES.copy(), PLACES.copy(), None)),
        ("uris", (b"1", PLACES, PLACES.copy(), PLACES.copy(), np.empty((0, 2), np.int32))),
        ("gather", (b"", PLACES, np.empty(2, np.int64), BITS)),
        ("gather", (b"1", PLACES, np.empty(1, np.int64), BITS)),
        ("gather", (b"1", PLACES, np.empty(2, np.int64), np.empty(0, np.uint8))),
    ],
)
def test_texts_that_are_not_in_their_block(name: str, arguments: tuple[Any, ...]) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        getattr(built(), name)(*arguments)


def test_damaged_programs_are_refused_or_run() -> None:
    """Those that are not refused do what the twin makes of them."""
    rng = random.Random(3)
    refused = 0
    for _ in range(2_000):
        program = bytearray(PROGRAM)
        for _ in range(rng.choice((1, 1, 2, 5))):
            at = rng.randrange(len(program))
            program[at] = rng.choice((0, 1, 2, 255, program[at] ^ 1 << rng.randrange(8), rng.randrange(256)))
        if rng.random() < 0.2:
            program = program[: rng.randrange(len(program))]
        try:
            apart(built(), [bytes(program)], 3, [LINE])
        except ValueError:
            refused += 1
            continue
        try:
            same_apart([bytes(program)], 3, [LINE, LINE.replace(b"*5 ", b""), b"", LINE[:40]])
        except UnicodeDecodeError:
            # A literal of a time's notation that is no text; kernels compare bytes.
            continue
    assert 500 < refused < 1_900


@pytest.mark.parametrize("kind", [Kind.INT, Kind.WORD, Kind.LOOSE])
def test_a_time_is_of_a_field_with_times(kind: Kind) -> None:
    with pytest.raises(ValueError, match="not a program"):
        apart(built(), *all_outputs([compiled(Layout((Field("ts", kind),)))]), [b"5"])


def test_a_part_leads_on() -> None:
    """Or its line would have no end."""
    program = compiled(read_layout("{a:word} {?*{b:int} ?}{c:word}"))
    for skip in (0, 1, 2, 99):
        steps = tuple(step._replace(skip=skip) if step.skip else step for step in program.steps)
        with pytest.raises(ValueError, match="not a program"):
            apart(built(), *all_outputs([program._replace(steps=steps)]), [b"x y"])
    assert STEP.size == 40
