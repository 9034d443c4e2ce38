"""Lines of names and values, by kernels and their twin: LTSV and logfmt, and what is nearly such."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from elf.agents.sources.layouts.twin import Twin
from elf.agents.sources.native import Kernels
from elf.agents.sources.pairs.line import Style
from tests.agents.sources.format_files import sample_lines
from tests.agents.sources.native.damage import damaged
from tests.agents.sources.native.grammars import ODD
from tests.agents.sources.native.kernels import UNTOUCHED, block_of, built

NAMES = (b"ts", b"time", b"status", b"a", b"", "é".encode(), b"msg")


def apart(kernels: Kernels, style: Style, lines: list[bytes]) -> tuple[list[Any], list[Any]]:
    block, ends = block_of(lines)
    spans = [np.full((len(lines), 2), UNTOUCHED, np.int32) for _ in NAMES]
    misfits = np.full((len(lines), 2), UNTOUCHED, np.int32)
    rows, unfit = kernels.pairs(style, NAMES, block, ends, spans, misfits)
    assert rows + unfit == len(lines)
    return [each[:rows].tolist() for each in spans], misfits[:unfit].tolist()


def line_of(style: Style, rng: random.Random) -> str:
    escapes = ('\\"', "\\\\", "\\u00e9", "\\ud83e\\udd17", "\\ud83e", "\\udd17", "\\x1b", "\\", "\\/", "\t", '"', "é")
    parts = []
    for _ in range(rng.choice((1, 2, 3, 5))):
        name = rng.choice(("ts", "time", "status", "a", "b-c", "é", "@x/y", "1a", "msg", "", "a b"))
        value = rng.choice(("", "-", "200", "a b", "x=y", "C:\\d", "[26/Nov/2026:09:00:00 +0000]", "é", ODD[:9]))
        if style is Style.LTSV:
            parts.append(f"{name}{rng.choice('::::= ')}{value}")
            continue
        text = f'"{value}{"".join(rng.choices(escapes, k=rng.choice((0, 0, 1, 3))))}{rng.choice((chr(34), ""))}'
        parts.append(rng.choice((name, f"{name}={value}", f"{name}={text}", f"{name}={text}")))
    separators = ("\t",) * 9 + (" ",) if style is Style.LTSV else (" ",) * 9 + ("  ", "\t")
    return rng.choice(("", "", "", " ")) + rng.choice(separators).join(parts) + rng.choice(("", "", "", " ", "  "))


@given(st.sampled_from(Style), st.randoms(use_true_random=False))
def test_kernels_are_as_their_twin(style: Style, rng: random.Random) -> None:
    lines = [line_of(style, rng) for _ in range(30)]
    lines += [damaged([*lines, *sample_lines()], rng) for _ in range(30)] + sample_lines()
    lines += ["".join(rng.choices(ODD, k=rng.randint(0, 30))) for _ in range(10)]
    texts = [line.replace("\n", " ").encode() for line in lines]
    assert apart(built(), style, texts) == apart(Twin(), style, texts)
    # At the end of a block there is nothing behind a line.
    for text in texts[:5]:
        assert apart(built(), style, [text]) == apart(Twin(), style, [text])


@pytest.mark.parametrize("style", Style)
def test_what_kernels_cannot_work_with_is_refused(style: Style) -> None:
    block, ends = block_of([b"a:1\tb:2"] * 3)
    places = np.empty((3, 2), np.int32)
    assert built().pairs(style, (b"a",), block, ends, [places], places)[0] in (0, 3)
    wrong: list[tuple[Any, ...]] = [
        (9, (b"a",), block, ends, [places], places),
        (style, [b"a"], block, ends, [places], places),
        (style, (b"a",), block, ends, [], places),
        (style, (b"a",), block, ends, [places[:2]], places),
        (style, (b"a",), block, ends + 1, [places], places),
        (style, (b"a",), block, ends[::-1].copy(), [places], places),
        (style, (b"a",), block, ends, [places], places[:2]),
    ]
    for arguments in wrong:
        with pytest.raises(ValueError, match=r"\w"):
            built().pairs(*arguments)
    with pytest.raises(TypeError):
        built().pairs(style, (7,), block, ends, [places], places)  # type: ignore[arg-type]
