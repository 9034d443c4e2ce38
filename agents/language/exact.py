"""Arithmetic that has to be right to the last bit.

With a scalar operand Polars takes shortcuts: it multiplies by the reciprocal instead of dividing, and takes a square
root for a power of 0.5. Both differ from IEEE division and from Java. Here the scalar becomes a column first.
"""

from __future__ import annotations

import polars as pl


def divide(above: pl.Expr, below: pl.Expr) -> pl.Expr:
    """IEEE division of two DOUBLEs."""
    return above / _spread(below, above)


def add(left: pl.Expr, right: pl.Expr) -> pl.Expr:
    """IEEE addition: -0.0 + 0.0 is 0.0, which Polars skips for a constant."""
    return _spread(left, right) + _spread(right, left)


def subtract(left: pl.Expr, right: pl.Expr) -> pl.Expr:
    """IEEE subtraction: 0.0 - 0.0 is 0.0, where Polars negates for a constant."""
    return _spread(left, right) - _spread(right, left)


def power(base: pl.Expr, exponent: pl.Expr) -> pl.Expr:
    """The C library's pow of two DOUBLEs."""
    return base.pow(_spread(exponent, base))


def _spread(value: pl.Expr, column: pl.Expr) -> pl.Expr:
    """The value as a full column if it is a constant and `column` is not; NULL where `column` is."""
    if value.meta.root_names() or not column.meta.root_names():
        return value
    # Polars sees through constants in `when` and `repeat`, but this has to be computed; NaN equals NaN in Polars.
    return (column != column).cast(pl.Float64) + value
