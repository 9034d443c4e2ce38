"""Functions of a shop for elf's jobs: one of each kind."""

from __future__ import annotations

import math

import polars as pl

import elf


@elf.scalar(args=["STRING"], returns="STRING", strict=True)
def section(path: str) -> str | None:
    """Return the shop's section that a page belongs to: "toys" of "/shop/toys/train"; NULL for other pages."""
    parts = path.split("/")
    return parts[2] if len(parts) > 2 and parts[1] == "shop" else None


@elf.vectorised(args=["BIGINT"], returns="STRING")
def price_band(cents: pl.Series) -> pl.Series:
    """Say whether a price is "low", "middle" or "high"."""
    return cents.cut([999, 9_999], labels=["low", "middle", "high"]).cast(pl.String)


@elf.aggregate(args=["DOUBLE"], returns="DOUBLE")
class GeometricMean:
    """The geometric mean of positive numbers; math.log fails on others, so jobs leave those events out."""

    def create(self, values: list[float]) -> list[float]:
        """Add up logarithms."""
        return [math.fsum(map(math.log, values)), len(values)]

    def merge(self, left: list[float], right: list[float]) -> list[float]:
        """Add what two agents, or two intervals, have."""
        return [left[0] + right[0], left[1] + right[1]]

    def finish(self, state: list[float]) -> float:
        """Divide, once all is there."""
        return math.exp(state[0] / state[1])
