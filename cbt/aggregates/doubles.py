"""Sums of doubles that lose nothing that shows: pairs `hi + lo` of doubles, about 106 bits.

Papers: T. J. Dekker, "A floating-point technique for extending the available precision" (1971), with Knuth's sum of two
doubles without error; S. M. Rump, T. Ogita and S. Oishi, "Accurate floating-point summation" (2008), for the
extraction of leading bits.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from elf.cbt.aggregates.contract import States
from elf.cbt.aggregates.segments import segmented

#: Bits of a double after the first.
_BITS = 52
#: The largest exponent that a power of two can have.
_EXPONENT_MAX = 1023


def add_pairs(left: States, right: States) -> States:
    """Add pairs of doubles; infinities and NaN as plain doubles do."""
    with np.errstate(invalid="ignore", over="ignore"):
        total = left[0] + right[0]
        part = total - left[0]
        lost = (left[0] - (total - part)) + (right[0] - part) + (left[1] + right[1])
        lost = np.where(np.isfinite(total) & np.isfinite(lost), lost, 0.0)
        high = total + lost
        low = np.where(np.isfinite(high), lost - (high - total), 0.0)
    return high, low


def add_up(values: npt.NDArray[Any], starts: npt.NDArray[np.int64]) -> States:
    """Add up the doubles of each segment to a pair. O(values).

    Adding a large power of two to a value and taking it away again leaves the value's leading bits. With one power per
    segment these have so few bits that their plain sum is exact; so has what is left, once more. What is left then is
    below the last bit of `lo`.
    """
    lengths = np.diff(starts, append=values.size)
    largest = np.maximum.reduceat(np.abs(values), starts)
    _, exponents = np.frexp(largest)
    # The sum of a segment's leading bits, and one bit for the rounding.
    room = int(lengths.max()).bit_length() + 1
    if not np.isfinite(largest).all() or int(exponents.max()) + room > _EXPONENT_MAX:
        return segmented((values, np.zeros_like(values)), starts, add_pairs)
    power = np.repeat(np.ldexp(1.0, exponents + room), lengths)
    leading = (power + values) - power
    rest = values - leading
    power *= 2.0 ** (room - _BITS)
    following = (power + rest) - power
    rest -= following
    high, middle, low = (np.add.reduceat(part, starts) for part in (leading, following, rest))
    return add_pairs((high, np.zeros_like(high)), (middle, low))
