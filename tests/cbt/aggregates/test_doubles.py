"""Sums of doubles against exact fractions."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from elf.cbt.aggregates import segmented
from elf.cbt.aggregates.doubles import add_pairs, add_up

doubles = st.floats(-1e290, 1e290) | st.floats(-1, 1) | st.sampled_from([5e-324, -5e-324, 2.0**-1022, 0.0, -0.0])
segments = st.lists(st.lists(doubles, min_size=1, max_size=40), min_size=1, max_size=4)


@given(segments)
@example([[5e-324] * 9, [1e290, -1e290, 5e-324]])
@example([[1e16, 1.0, -1e16], [0.1] * 10])
@example([[1.7e308, 1.0], [1e300]])
def test_nothing_is_lost_that_shows(parts: list[list[float]]) -> None:
    values = np.array([value for part in parts for value in part])
    starts = np.cumsum([0, *(len(part) for part in parts[:-1])])
    for high, low in (add_up(values, starts), segmented((values, np.zeros_like(values)), starts, add_pairs)):
        for part, one, other in zip(parts, high.tolist(), low.tolist(), strict=True):
            exact = sum(map(Fraction, part))
            size = sum(abs(Fraction(value)) for value in part)
            assert abs(Fraction(one) + Fraction(other) - exact) <= size * len(part) * Fraction(1, 2**104)
            assert one + other == one, "the pair is rounded already"


@given(segments)
def test_the_order_of_a_segment_does_not_show(parts: list[list[float]]) -> None:
    whole = np.array([value for part in parts for value in part])
    forth, back = add_up(whole, np.array([0])), add_up(whole[::-1].copy(), np.array([0]))
    assert forth[0].tolist() == back[0].tolist()


def test_many_values() -> None:
    values = np.random.default_rng(5).normal(size=1_000_000) * 10.0 ** np.random.default_rng(6).integers(
        -9, 9, 1_000_000
    )
    high, _ = add_up(values, np.array([0]))
    assert high[0] == math.fsum(values)


@pytest.mark.parametrize("values", [[math.inf, 1.0], [math.inf, -math.inf], [math.nan, 1.0], [1.7e308] * 2])
def test_specials_add_up_as_doubles_do(values: list[float]) -> None:
    high, low = add_up(np.array([*values, 1.0, 2.0]), np.array([0, len(values)]))
    assert str(high[0]) == str(sum(values))
    assert (high[1], low.tolist()) == (3.0, [0.0, 0.0])
