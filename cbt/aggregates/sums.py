"""`sum` and `avg`: a total and how many values it is of."""

from __future__ import annotations

import dataclasses
from typing import ClassVar

import polars as pl

from elf.cbt.aggregates.contract import Merge, Plain
from elf.cbt.aggregates.totals import FloatTotal, IntegerTotal, LimbTotal, Total

#: Integers of at most 32 bits.
_SMALL = (pl.Boolean, pl.Int8, pl.Int16, pl.Int32, pl.UInt8, pl.UInt16, pl.UInt32)


@dataclasses.dataclass(frozen=True)
class _Totalled(Plain):
    """States of the total, and `n`, the number of values that are not null."""

    def _total(self) -> Total:
        if isinstance(self.dtype, pl.Decimal):
            return LimbTotal(_limbs(self.dtype.precision), self.dtype.scale)
        if self.dtype.is_float():
            return FloatTotal()
        return IntegerTotal() if isinstance(self.dtype, _SMALL) else LimbTotal(2)

    def states(self, name: str) -> dict[str, pl.DataType]:
        """The total's and `n`."""
        return {**self._total().states(name), f"{name}_n": pl.Int64()}

    def identity(self, name: str) -> dict[str, object]:
        """Zeros."""
        return {column: 0.0 if dtype.is_float() else 0 for column, dtype in self.states(name).items()}

    def create(self, name: str, value: pl.Expr | None) -> list[pl.Expr]:
        """Add up and count what is not null."""
        if value is None:
            raise ValueError(f"{self.kind} needs an input column")
        return [*self._total().create(name, value), value.count().cast(pl.Int64).alias(f"{name}_n")]

    def merges(self, name: str) -> list[Merge]:
        """The total's, and add up."""
        return [*self._total().merges(name), Merge((f"{name}_n",), "sum")]


@dataclasses.dataclass(frozen=True)
class Sum(_Totalled):
    """`sum(x)`: integers exact in BIGINT, decimals exact in DECIMAL(38, scale), doubles compensated."""

    kind: ClassVar[str] = "sum"

    @property
    def output(self) -> pl.DataType:
        """BIGINT, DOUBLE or the widest DECIMAL of the input's scale."""
        if isinstance(self.dtype, pl.Decimal):
            return pl.Decimal(38, self.dtype.scale)
        return pl.Float64() if self.dtype.is_float() else pl.Int64()

    def finish(self, name: str) -> pl.Expr:
        """NULL where nothing was added.

        Raises:
            AggregateOverflow: when evaluated, if an exact sum does not fit into `output`.
        """
        return pl.when(pl.col(f"{name}_n") > 0).then(self._total().value(name))

    def unfit(self, name: str) -> pl.Expr | None:
        """Of integers, a sum that leaves BIGINT."""
        return self._total().unfit(name)


@dataclasses.dataclass(frozen=True)
class Avg(_Totalled):
    """`avg(x)`: of integers and decimals from the exact total, of doubles from the compensated one."""

    kind: ClassVar[str] = "avg"

    @property
    def output(self) -> pl.DataType:
        """DOUBLE; of decimals a DECIMAL with four more digits."""
        if isinstance(self.dtype, pl.Decimal):
            return pl.Decimal(38, min(self.dtype.scale + 4, 38))
        return pl.Float64()

    def finish(self, name: str) -> pl.Expr:
        """NULL where nothing was added."""
        count = pl.col(f"{name}_n")
        return pl.when(count > 0).then(self._total().mean(name, count))


def _limbs(precision: int | None) -> int:
    """Limbs of 32 bits that hold any unscaled value of so many digits and its sign."""
    largest: int = 10 ** (precision or 38)
    return -(-(largest.bit_length() + 1) // 32)
