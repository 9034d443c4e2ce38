"""How many rows, or how many values that are not null."""

from __future__ import annotations

from typing import ClassVar

import polars as pl

from elf.cbt.aggregates.contract import Merge, Plain


class Count(Plain):
    """`count(*)` and `count(x)`: state `n`."""

    kind: ClassVar[str] = "count"

    @property
    def output(self) -> pl.DataType:
        """BIGINT."""
        return pl.Int64()

    def states(self, name: str) -> dict[str, pl.DataType]:
        """One number."""
        return {f"{name}_n": pl.Int64()}

    def identity(self, name: str) -> dict[str, object]:
        """Zero."""
        return {f"{name}_n": 0}

    def create(self, name: str, value: pl.Expr | None) -> list[pl.Expr]:
        """Count rows without input, else values that are not null."""
        counted = pl.len() if value is None else value.count()
        return [counted.cast(pl.Int64).alias(f"{name}_n")]

    def merges(self, name: str) -> list[Merge]:
        """Add up."""
        return [Merge((f"{name}_n",), "sum")]

    def finish(self, name: str) -> pl.Expr:
        """The number itself, never null."""
        return pl.col(f"{name}_n")
