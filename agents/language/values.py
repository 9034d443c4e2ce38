"""What an expression compiles to: a Polars expression together with its SQL type."""

from __future__ import annotations

import enum
from decimal import Decimal

import msgspec
import polars as pl
from sqlglot import exp

from elf.agents.language.types import ArrayType, SqlType


class Untyped(enum.Enum):
    """Types only literals can have; a column or a result never does."""

    NULL = "NULL"
    DECIMAL = "DECIMAL"


Type = SqlType | ArrayType | Untyped
Constant = str | int | float | bool | Decimal


class Value(msgspec.Struct, frozen=True):
    """A compiled expression.

    Attributes:
        expr: evaluates it over a frame; its Polars type is `type.dtype`.
        type: its SQL type.
        node: where it was written, for error messages.
        constant: its value if it is written as a literal. NULL is told by `type`, not by this.
    """

    expr: pl.Expr
    type: Type
    node: exp.Expr
    constant: Constant | None = None

    @property
    def is_null(self) -> bool:
        """Whether this is the literal NULL."""
        return self.type is Untyped.NULL


NUMERIC = (SqlType.INT, SqlType.BIGINT, SqlType.DOUBLE)
INTEGRAL = (SqlType.INT, SqlType.BIGINT)
