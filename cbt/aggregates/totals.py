"""Totals that are exact, or as good as: what `sum` and `avg` are made from.

Which total suits depends on the input. Integers up to 32 bits add up in one Int64. Larger ones add up in limbs of 32
bits, each in its own Int64: two thousand million PAOs fit before any limb overflows, so a sum that is too large for
its type is found where it is read, and neither stops agents nor depends on the order of merging. Doubles add up as an
unevaluated pair of doubles. All int64 states are checked when they merge, nevertheless (`check_sums`).
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterable
from decimal import Decimal
from typing import Protocol

import numpy as np
import numpy.typing as npt
import polars as pl

from elf.cbt.aggregates.contract import AggregateOverflow, Merge
from elf.cbt.aggregates.doubles import add_pairs, add_up
from elf.cbt.aggregates.grouped import convert, reduce_groups

_LIMB = 2**32
#: Below this, no sum of two int64 halves can have left the range on the way.
_SAFE = 2**62
_DIGITS_MAX = 38


def check_sums(values: npt.NDArray[np.int64], starts: npt.NDArray[np.int64], column: str) -> None:
    """Refuse a segmented sum of int64 that would wrap; call it before `np.add.reduceat(values, starts)`.

    Two passes over the values in the common case.

    Args:
        values: the column, not empty.
        starts: first row of each segment, as `reduceat` takes them.
        column: its name, for the error.

    Raises:
        AggregateOverflow: a segment's sum does not fit into 64 bits.
    """
    largest = max(int(values.max()), -int(values.min()))
    if largest * values.size < _SAFE:
        return
    longest = int(np.diff(starts, append=values.size).max())
    if largest * longest < _SAFE:
        return
    high = np.add.reduceat(values >> 32, starts)
    low = np.add.reduceat(values & (_LIMB - 1), starts)
    top = high + (low >> 32)
    if bool((top < -(2**31)).any() or (top >= 2**31).any()):
        raise AggregateOverflow.of(column)


class Total(Protocol):
    """A sum as state columns; each method as in `Plain`."""

    def states(self, name: str) -> dict[str, pl.DataType]:
        """Name the state columns; identity is 0 in all of them."""

    def create(self, name: str, value: pl.Expr) -> list[pl.Expr]:
        """Add up a group's values that are not null."""

    def merges(self, name: str) -> list[Merge]:
        """Say how the states merge."""

    def value(self, name: str) -> pl.Expr:
        """The total in the type that sums of the input have."""

    def unfit(self, name: str) -> pl.Expr | None:
        """Why a total cannot be said in this type, null if it can; None if all can, or `value` raises."""

    def mean(self, name: str, count: pl.Expr) -> pl.Expr:
        """The total divided by a count that is not 0."""


@dataclasses.dataclass(frozen=True)
class IntegerTotal:
    """One Int64, for inputs of at most 32 bits: thousands of millions of the largest fit."""

    def states(self, name: str) -> dict[str, pl.DataType]:
        """State `sum`."""
        return {f"{name}_sum": pl.Int64()}

    def create(self, name: str, value: pl.Expr) -> list[pl.Expr]:
        """Add up."""
        return [value.cast(pl.Int64).sum().alias(f"{name}_sum")]

    def merges(self, name: str) -> list[Merge]:
        """Add up, checked by the caller (`check_sums`)."""
        return [Merge((f"{name}_sum",), "sum")]

    def value(self, name: str) -> pl.Expr:
        """The sum, BIGINT."""
        return pl.col(f"{name}_sum")

    def unfit(self, name: str) -> None:
        """Never."""

    def mean(self, name: str, count: pl.Expr) -> pl.Expr:
        """A double."""
        return pl.col(f"{name}_sum").cast(pl.Float64) / count


@dataclasses.dataclass(frozen=True)
class LimbTotal:
    """Limbs of 32 bits, the lowest first, all but the last without sign; of the unscaled value of decimals.

    Attributes:
        count: how many limbs hold one input value.
        scale: digits after the point; None for integers.
    """

    count: int
    scale: int | None = None

    def states(self, name: str) -> dict[str, pl.DataType]:
        """States `sum0`, `sum1`, ..."""
        return {f"{name}_sum{i}": pl.Int64() for i in range(self.count)}

    def create(self, name: str, value: pl.Expr) -> list[pl.Expr]:
        """Add up and carry, so that limbs stay small however many rows there are."""
        if self.scale is None:
            # 128 bits hold the sum of any frame.
            sums = _limbs_of(value.cast(pl.Int128).sum(), self.count)
        else:
            limbs = [limb.sum() for limb in _limbs_of(value.to_physical().cast(pl.Int128), self.count)]
            sums, carry = [], pl.lit(0, dtype=pl.Int64)
            for limb in limbs[:-1]:
                sums.append((limb + carry) % _LIMB)
                carry = (limb + carry) // _LIMB
            sums.append(limbs[-1] + carry)
        return [limb.alias(column) for limb, column in zip(sums, self.states(name), strict=True)]

    def merges(self, name: str) -> list[Merge]:
        """Add up limb by limb."""
        return [Merge((column,), "sum") for column in self.states(name)]

    def value(self, name: str) -> pl.Expr:
        """The sum: BIGINT, or DECIMAL(38, scale)."""
        if self.scale is not None:
            return self._decimals(name, self.scale, pl.lit(1, dtype=pl.Int64))

        def joined(states: pl.Series) -> pl.Series:
            # Under when-then, Polars shows null where the condition is false.
            low, high = (states.struct.field(column).fill_null(0).to_numpy() for column in self.states(name))
            top = high + (low >> 32)
            if bool((top < -(2**31)).any() or (top >= 2**31).any()):
                raise AggregateOverflow.of(name)
            return pl.Series(states.name, top * _LIMB + (low & (_LIMB - 1)))

        return convert(pl.struct(*self.states(name)), pl.Int64(), joined)

    def unfit(self, name: str) -> pl.Expr | None:
        """Of integers, what is to be said if the upper limb and what the lower one carries leave 32 bits."""
        if self.scale is not None:
            return None
        low, high = map(pl.col, self.states(name))
        fits = (high + low // _LIMB).is_between(-(2**31), 2**31 - 1)
        return pl.when(~fits).then(pl.lit("the sum does not fit into 64 bits"))

    def mean(self, name: str, count: pl.Expr) -> pl.Expr:
        """A double; of decimals a DECIMAL with four more digits, half away from zero, as in Spark."""
        if self.scale is not None:
            return self._decimals(name, min(self.scale + 4, _DIGITS_MAX), count)
        limbs = [pl.col(column).cast(pl.Float64) for column in self.states(name)]
        total = limbs[-1]
        for limb in reversed(limbs[:-1]):
            total = total * float(_LIMB) + limb
        return total / count

    def _decimals(self, name: str, scale: int, count: pl.Expr) -> pl.Expr:
        """The sum divided by a count, rounded to so many digits."""
        columns = list(self.states(name))
        dtype = pl.Decimal(_DIGITS_MAX, scale)
        shift = 10 ** (scale - (self.scale or 0))

        def quotients(states: pl.Series) -> pl.Series:
            # Under when-then, Polars shows null where the condition is false.
            frame = states.struct.unnest().fill_null(0)
            limbs = zip(*(frame[column].to_list() for column in columns), strict=True)
            pairs = zip(limbs, frame["count"].to_list(), strict=True)
            whole = (_rounded(_joined(each) * shift, n) for each, n in pairs)
            return pl.Series([_decimal(value, scale, name) for value in whole], dtype=dtype)

        return convert(pl.struct(*columns, count.alias("count")), dtype, quotients)


@dataclasses.dataclass(frozen=True)
class FloatTotal:
    """A double and what it lacks, `hi + lo`: about 106 bits, so the error does not grow with the number of values.

    Merging is commutative to the bit; associative up to the last bits of lo.
    """

    def states(self, name: str) -> dict[str, pl.DataType]:
        """States `hi` and `lo`."""
        return {f"{name}_hi": pl.Float64(), f"{name}_lo": pl.Float64()}

    def create(self, name: str, value: pl.Expr) -> list[pl.Expr]:
        """Add up in pairs of doubles from the first addition on."""
        total = reduce_groups(value.cast(pl.Float64), self.states(name), (0.0, 0.0), add_up)
        return [total.alias(f"{name}_total")]

    def merges(self, name: str) -> list[Merge]:
        """Add pairs."""
        return [Merge((f"{name}_hi", f"{name}_lo"), add_pairs)]

    def value(self, name: str) -> pl.Expr:
        """The sum, rounded once."""
        return pl.col(f"{name}_hi") + pl.col(f"{name}_lo")

    def unfit(self, name: str) -> None:
        """Never: a sum that is too large is infinite."""

    def mean(self, name: str, count: pl.Expr) -> pl.Expr:
        """A double."""
        return self.value(name) / count


def _limbs_of(whole: pl.Expr, count: int) -> list[pl.Expr]:
    """Split Int128s into limbs, of which the last keeps the sign."""
    base = pl.lit(_LIMB, dtype=pl.Int128)
    limbs = []
    for _ in range(count - 1):
        limbs.append((whole % base).cast(pl.Int64))
        whole = whole // base
    return [*limbs, whole.cast(pl.Int64)]


def _joined(limbs: Iterable[int]) -> int:
    return sum(limb << 32 * i for i, limb in zip(itertools.count(), limbs, strict=False))


def _rounded(value: int, count: int) -> int:
    """Divide, half away from zero; 0 for nothing, which the caller shows as NULL."""
    if count == 0:
        return 0
    size, rest = divmod(abs(value), count)
    size += 2 * rest >= count
    return size if value >= 0 else -size


def _decimal(unscaled: int, scale: int, column: str) -> Decimal:
    if abs(unscaled) >= 10**_DIGITS_MAX:
        raise AggregateOverflow.of(column, f"{_DIGITS_MAX} digits")
    digits = tuple(int(digit) for digit in str(abs(unscaled)))
    return Decimal((int(unscaled < 0), digits, -scale))
