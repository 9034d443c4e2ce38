"""What the kernels make of texts is what their twin makes of them."""

from __future__ import annotations

import math
import random
import struct
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from elf.agents.sources.layouts.kinds import Kind
from elf.agents.sources.layouts.layout import Field
from elf.agents.sources.layouts.misfit import Misfit
from elf.agents.sources.layouts.program import Op, Step
from elf.agents.sources.layouts.twin import Twin
from elf.agents.sources.layouts.values import read_value
from elf.agents.sources.native import Kernels, Spans
from tests.agents.sources.native.grammars import ODD, value_of
from tests.agents.sources.native.kernels import built

RANDOM = st.integers(0, 2**64 - 1).map(random.Random)
#: Where doubles are rounded, and where they end.
HARD = (
    *("0.1", "1e22", "1e23", "9007199254740993", "9007199254740992", "9007199254740991.5", "-0", "-0.0", "+.5", "5."),
    *("1e400", "-1e400", "1e-400", "4.9e-324", "2.4e-324", "2.5e-324", "2.2250738585072011e-308", "1e308", "1.8e308"),
    *("123456789012345678901234567890", "0." + "0" * 400 + "1", "1" + "0" * 309, "0e99999999999", "1e-99999999999"),
    *("0" * 500 + "1.5", "8.5e00000000000022", "7.2057594037927933e16", "0.000000000000000000000000000001e22"),
)
INTEGERS = ("-", "0", "-0", "+7", "9223372036854775807", "9223372036854775808", "-9223372036854775808", "0" * 40 + "9")
INTEGERS = (*INTEGERS, "-9223372036854775809", "18446744073709551616", "9" * 20, "9" * 5_000, "-" + "0" * 5_000)


def is_of(kind: Kind, text: str) -> bool:
    """Tell whether a text is a value of a kind, and not null."""
    step = Step(Op.FIELD, kind=kind, stops=b"\n")
    try:
        found = read_value(step, text.encode(), 0, False)
    except Misfit:
        return False
    return found.begin == 0 and found.end == len(text.encode())


def placed(texts: Sequence[str | None], rng: random.Random) -> tuple[bytes, Spans]:
    """Put texts into a block, some of them null, the last one at its end."""
    parts, places, at = [], [], 0
    for text in texts:
        if text is None:
            places.append((-1, -1))
            continue
        between = rng.choice((" ", "", "xy")).encode()
        at += len(between)
        places.append((at, at + len(text.encode())))
        at += len(text.encode())
        parts += [between, text.encode()]
    return b"".join(parts), np.array(places, np.int32).reshape(-1, 2)


def same_numbers(texts: Sequence[str | None], rng: random.Random, read: Callable[..., int], dtype: Any) -> None:
    """`read` is given kernels, a block and spans, and writes numbers and which of them there are."""
    block, spans = placed(texts, rng)
    results = []
    for kernels in (built(), Twin()):
        out, valid = np.full(len(texts), 77, dtype), np.full((len(texts) + 7) // 8, 255, np.uint8)
        unfit = read(kernels, block, spans, out, valid)
        # Bit for bit: -0.0 is another double than 0.0.
        results.append(
            (unfit, [struct.pack("<d" if dtype is np.float64 else "<q", each) for each in out], valid.tolist())
        )
    assert results[0] == results[1], texts


def integers(kernels: Kernels, block: bytes, spans: Spans, out: npt.NDArray[Any], valid: npt.NDArray[Any]) -> int:
    return kernels.integers(block, spans, out, valid)


def numbers(kernels: Kernels, block: bytes, spans: Spans, out: npt.NDArray[Any], valid: npt.NDArray[Any]) -> int:
    return kernels.decimals(block, spans, False, out, valid)


def durations(kernels: Kernels, block: bytes, spans: Spans, out: npt.NDArray[Any], valid: npt.NDArray[Any]) -> int:
    return kernels.decimals(block, spans, True, out, valid)


READERS: list[tuple[Kind, Callable[..., int], Any]] = [
    (Kind.BYTES, integers, np.int64),
    (Kind.NUMBER, numbers, np.float64),
    (Kind.DURATION, durations, np.float64),
]


@pytest.mark.parametrize(("kind", "read", "dtype"), READERS)
def test_numbers_of_all_sorts(kind: Kind, read: Callable[..., int], dtype: Any) -> None:
    rng = random.Random(kind.name)
    known = [text for text in (*HARD, *INTEGERS) if is_of(kind, text)]
    assert len(known) > 10
    same_numbers([*known, None, *known[::-1]], rng, read, dtype)
    drawn = [value_of(Field("", kind), rng) for _ in range(6_000)]
    same_numbers([text if is_of(kind, text) else None for text in drawn], rng, read, dtype)
    for count in range(20):
        same_numbers([rng.choice((None, *known)) for _ in range(count)], rng, read, dtype)


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1, max_size=20), st.integers(0, 20))
def test_doubles_come_back(values: list[float], digits: int) -> None:
    texts = [
        f(value)
        for value in values
        for f in (repr, lambda each: f"{each:.{digits}f}", lambda each: f"{each:.{digits}e}")
    ]
    texts = [text for text in texts if math.isfinite(float(text))]
    block, spans = placed(texts, random.Random(0))
    out, valid = np.empty(len(texts)), np.empty((len(texts) + 7) // 8, np.uint8)
    assert built().decimals(block, spans, False, out, valid) == 0
    assert [each.hex() for each in out.tolist()] == [float(text).hex() for text in texts]


@pytest.mark.parametrize(
    ("read", "text"),
    [
        *((integers, text) for text in ("", "+", "1.5", "1e3", "x", "--1", "1 ", "1_0", "٣")),
        *((numbers, text) for text in ("", "-", ".", "1e", "e5", "nan", "inf", "0x1", "1_0", " 1", "1.5ms", "1e5.5")),
        *((durations, text) for text in ("", "ms", "1.ms", ".5s", "1e3s", "1 s", "1d", "5sx", "-")),
    ],
)
def test_what_is_no_number_is_refused(read: Callable[..., int], text: str) -> None:
    block, spans = placed([text], random.Random(0))
    dtype = np.int64 if read is integers else np.float64
    with pytest.raises(ValueError, match="none of its kind"):
        read(built(), block, spans, np.empty(1, dtype), np.empty(1, np.uint8))


def same_parts(texts: Sequence[str | None], rng: random.Random, count: int, name: str) -> None:
    """Kernels take texts apart into so many parts as their twin does."""
    block, spans = placed(texts, rng)
    results = []
    for kernels in (built(), Twin()):
        parts = [np.full((len(texts), 2), 77, np.int32) for _ in range(count)]
        getattr(kernels, name)(block, spans, *parts, *([None] if count == 2 else []))
        results.append([part.tolist() for part in parts])
    assert results[0] == results[1], texts


@pytest.mark.parametrize(
    ("kind", "name", "count"), [(Kind.REQUEST, "requests", 3), (Kind.URI, "uris", 2), (Kind.URI, "uris", 3)]
)
def test_requests_and_addresses(kind: Kind, name: str, count: int) -> None:
    rng = random.Random(f"{name} {count}")
    drawn = [value_of(Field("", kind), rng) for _ in range(6_000)]
    same_parts([text if rng.random() < 0.9 else None for text in drawn], rng, count, name)


@given(RANDOM, st.sampled_from([("requests", 3), ("uris", 2), ("uris", 3)]))
def test_parts_of_any_text(rng: random.Random, how: tuple[str, int]) -> None:
    """The last text is at the block's end."""
    name, count = how
    pieces = ("GET", " ", "HTTP/1.1", "http://", "a.example", ":443", "?", "/", "192.0.2.1", "[::1]", "-", *ODD)
    texts = ["".join(rng.choice(pieces) for _ in range(rng.randint(0, 9))) for _ in range(20)]
    same_parts(texts, rng, count, name)


@given(st.lists(st.none() | st.text(max_size=40), max_size=40), st.integers(0, 9))
def test_texts_are_gathered(texts: list[str | None], seed: int) -> None:
    block, spans = placed(texts, random.Random(seed))
    results = []
    for kernels in (built(), Twin()):
        offsets, valid = np.full(len(texts) + 1, 77, np.int64), np.full((len(texts) + 7) // 8, 255, np.uint8)
        data, nulls = kernels.gather(block, spans, offsets, valid)
        results.append((data, nulls, offsets.tolist(), valid.tolist()))
    assert results[0] == results[1]
    assert results[0][0] == b"".join(text.encode() for text in texts if text is not None)
