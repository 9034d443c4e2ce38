"""Numbers of JSON in columns of integers: exactly what is written, or null; the kernel says the same."""

from __future__ import annotations

from decimal import Context, Decimal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from elf.agents.sources.native import ObjectKernels
from elf.agents.sources.objects.casts import CastValues
from elf.agents.sources.objects.values import integer
from tests.agents.sources.native.test_objects import kernels

#: Exact for all that is generated here.
CONTEXT = Context(prec=200)
digits = st.text("0123456789", min_size=1, max_size=24) | st.sampled_from(
    ["0", "9223372036854775807", "9223372036854775808", "9007199254740993", "2147483648", "1" + "0" * 40]
)
numbers = st.builds(
    lambda sign, whole, fraction, exponent: (sign + whole + fraction + exponent).encode(),
    st.sampled_from(["", "-"]),
    digits,
    st.just("") | digits.map(".{}".format) | st.integers(0, 30).map(lambda zeros: "." + "0" * zeros + "5"),
    st.just("") | st.integers(-60, 60).map("e{}".format) | st.sampled_from(["E+0003", "e-400", "e999999999999"]),
)


def truth(text: bytes, bits: int) -> int | None:
    """Return what a number is as an integer, computed with all of its digits."""
    mantissa, _, exponent = text.decode().lower().partition("e")
    if len(exponent) > 6:
        return 0 if Decimal(mantissa) == 0 else None
    value = Decimal(mantissa).scaleb(int(exponent or 0), CONTEXT)
    whole = value == value.to_integral_value(context=CONTEXT)
    return int(value) if whole and -(1 << bits - 1) <= value < 1 << bits - 1 else None


def read(who: ObjectKernels, texts: list[bytes], bits: int) -> list[int | None]:
    """Return numbers as kernels read them."""
    block = b",".join(texts) + b" " * 64
    ends = np.cumsum([len(text) + 1 for text in texts]) - 1
    spans = np.stack([ends - [len(text) for text in texts], ends], axis=1).astype(np.int32)
    out, valid = np.empty(len(texts), np.int64), np.empty((len(texts) + 7) // 8, np.uint8)
    unfit = who.object_integers(block, spans, bits, out, valid)
    fits = np.unpackbits(valid, count=len(texts), bitorder="little")
    assert unfit == len(texts) - fits.sum()
    return [int(value) if fit else None for value, fit in zip(out, fits, strict=True)]


@given(st.lists(numbers, min_size=1, max_size=12), st.sampled_from([32, 64]))
def test_a_number_is_what_is_written_or_nothing(texts: list[bytes], bits: int) -> None:
    expected = [truth(text, bits) for text in texts]
    assert [integer(text, bits) for text in texts] == expected
    assert read(kernels(), texts, bits) == expected
    assert read(CastValues(), texts, bits) == expected


@pytest.mark.parametrize(
    "text, value",
    [
        ("9007199254740993.0", 9_007_199_254_740_993),
        ("9007199254740993.5", None),
        ("0.9999999999999999999", None),
        ("1e-400", None),
        ("-0.0", 0),
        ("-9223372036854775808.000", -(2**63)),
        ("9223372036854775808e0", None),
        ("1" + "0" * 300 + "e-300", 1),
        ("0." + "0" * 300 + "7e301", 7),
        ("2e3", 2_000),
    ],
)
def test_nothing_is_rounded_to_a_whole_number(text: str, value: int | None) -> None:
    assert integer(text.encode(), 64) == value
    assert read(kernels(), [text.encode()], 64) == [value]
