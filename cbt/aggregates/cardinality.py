"""`approx_count_distinct`: HyperLogLog, a slot row per register that is not zero.

Papers: P. Flajolet et al., "HyperLogLog" (2007) for the registers; O. Ertl, "New cardinality estimation algorithms for
HyperLogLog sketches" (2017), algorithm 6, for the estimate, which needs no tables against bias and no switch between
ranges. The standard deviation of the relative error is about 1.04 / sqrt(registers), and less for few values.

The number of registers is Spark's for the same `rsd`; the hash is ours, so estimates differ from Spark's.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import polars as pl

from elf.cbt.aggregates.contract import Merge, Slotted
from elf.cbt.aggregates.grouped import convert
from elf.cbt.columns import Words
from elf.cbt.words import KeyLayout

#: Spark's default.
RSD_DEFAULT = 0.05
#: 4 and 16 index bits: fewer registers tell nothing, more cost over 65,536 rows a key.
_INDEX_BITS = (4, 16)
#: An item is a register's index and a rank below 64.
_RANKS = 64
#: Bits that the rank is taken from, at most: a double shows the length of such a number exactly.
_RANK_BITS_MAX = 52


@dataclasses.dataclass(frozen=True)
class ApproxCountDistinct(Slotted):
    """`approx_count_distinct(x, rsd)`. Slot: the register's index; state `rank`: its largest rank.

    Attributes:
        rsd: the largest relative standard deviation of the estimate.
    """

    kind: ClassVar[str] = "approx_count_distinct"
    rsd: float = RSD_DEFAULT

    def __post_init__(self) -> None:
        if not (0 < self.rsd < 1) or not _INDEX_BITS[0] <= self.index_bits <= _INDEX_BITS[1]:
            raise ValueError(f"approx_count_distinct takes an rsd from 0.0044 to 0.39, not {self.rsd}")

    @property
    def index_bits(self) -> int:
        """Registers are two to the power of this; Spark's formula."""
        return math.ceil(2 * math.log2(1.106 / self.rsd))

    @property
    def output(self) -> pl.DataType:
        """BIGINT."""
        return pl.Int64()

    @property
    def nothing(self) -> object:
        """No values."""
        return 0

    @property
    def _rank_bits(self) -> int:
        return min(_RANK_BITS_MAX, 64 - self.index_bits)

    def states(self, name: str) -> dict[str, pl.DataType]:
        """The register."""
        return {f"{name}_rank": pl.Int32()}

    def identity(self, name: str) -> dict[str, object]:
        """An untouched register."""
        return {f"{name}_rank": 0}

    def slots(self, name: str) -> dict[str, pl.DataType]:
        """The register's index."""
        return {f"{name}_slot": pl.Int32()}

    def item(self, value: pl.Expr) -> pl.Expr:
        """Hash each value to a register's index and a rank, as one number."""
        return convert(value, pl.Int32(), self._items)

    def slot(self, name: str, item: pl.Expr) -> dict[str, pl.Expr]:
        """The index."""
        return {f"{name}_slot": item // _RANKS}

    def create(self, name: str, value: pl.Expr | None) -> list[pl.Expr]:
        """The largest rank of one register's items: of equal index, the greatest item has it."""
        assert value is not None
        return [(value.max() % _RANKS).alias(f"{name}_rank")]

    def merges(self, name: str) -> list[Merge]:
        """The larger rank."""
        return [Merge((f"{name}_rank",), "max")]

    def fold(self, name: str) -> pl.Expr:
        """Estimate from how many registers there are of each rank."""
        rank = pl.col(f"{name}_rank")
        full = rank > self._rank_bits
        sums = pl.struct(
            pl.len().cast(pl.Float64).alias("used"),
            full.sum().cast(pl.Float64).alias("full"),
            pl.lit(0.5).pow(rank.filter(~full)).sum().alias("weight"),
        )
        return convert(sums, pl.Int64(), self._estimates)

    def _items(self, values: pl.Series) -> pl.Series:
        if not values.len():
            return pl.Series(values.name, [], dtype=pl.Int32)
        hashes = content_hash(values)
        index = (hashes >> np.uint64(64 - self.index_bits)).astype(np.int32)
        rest = (hashes << np.uint64(self.index_bits)) >> np.uint64(64 - self._rank_bits)
        _, length = np.frexp(rest.astype(np.float64))
        items = pl.Series(values.name, index * _RANKS + (self._rank_bits + 1 - length).astype(np.int32))
        return items.set(values.is_null(), None) if values.null_count() else items

    def _estimates(self, sums: pl.Series) -> pl.Series:
        used, full, weight = (sums.struct.field(part).to_numpy() for part in ("used", "full", "weight"))
        count = float(1 << self.index_bits)
        below = weight + count * _tau(1 - full / count) * 0.5**self._rank_bits
        with np.errstate(divide="ignore"):
            estimates = count * count / (2 * math.log(2) * (below + count * _sigma(1 - used / count)))
        return pl.Series(sums.name, np.rint(estimates)).cast(pl.Int64)


def content_hash(values: pl.Series) -> Words:
    """The hash that the buffer tree has for a key of this one value; nulls have one, too. O(values)."""
    layout = KeyLayout((("interval", pl.Int64()), ("value", values.dtype)))
    interval = pl.Series("interval", [0], dtype=pl.Int64).new_from_index(0, values.len())
    hashes = np.empty(values.len(), dtype=np.uint64)
    for rows, words in layout.encode(pl.DataFrame([interval, values.alias("value")])):
        hashes[slice(None) if rows is None else rows] = layout.partition_hash(words)
    return hashes


def _sigma(x: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Ertl's sigma: x + sum of x^(2^k) * 2^(k-1) for k = 1, 2, ...; infinite at 1."""
    total = np.where(x == 1.0, np.inf, x)
    power, factor = np.where(x == 1.0, 0.0, x), 0.5
    while power.any():
        power, factor = power * power, factor * 2
        total = total + power * factor
        power = np.where(power < 1e-300, 0.0, power)
    return total


def _tau(x: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Ertl's tau: (1 - x - sum of (1 - x^(2^-k))^2 * 2^-k for k = 1, 2, ...) / 3."""
    total, root, factor = 1 - x, x, 1.0
    for _ in range(60):
        root, factor = np.sqrt(root), factor / 2
        total = total - (1 - root) ** 2 * factor
    return total / 3
