"""The column types of the job language: Spark's names, Polars' representation."""

from __future__ import annotations

import enum

import msgspec
import polars as pl


class SqlType(enum.Enum):
    """A column type, named as Spark names it."""

    BOOLEAN = "BOOLEAN"
    INT = "INT"
    BIGINT = "BIGINT"
    DOUBLE = "DOUBLE"
    STRING = "STRING"
    DATE = "DATE"
    TIMESTAMP = "TIMESTAMP"

    @property
    def dtype(self) -> pl.DataType:
        """The Polars type that holds it; TIMESTAMP is naive UTC in microseconds, as in Spark."""
        return _DTYPES[self]

    @property
    def ddl(self) -> str:
        """The name as written in a Spark DDL string and in `[columns]`."""
        return self.value

    @classmethod
    def parse(cls, name: str) -> SqlType:
        """Read a type name in any case, with Spark's synonyms.

        Raises:
            ValueError: the name is none of ours; the text lists those that are.
        """
        word = name.strip().upper()
        try:
            return cls(_SYNONYMS.get(word, word))
        except ValueError:
            raise ValueError(f"unknown column type {name!r}; use one of {', '.join(t.value for t in cls)}") from None


_DTYPES: dict[SqlType, pl.DataType] = {
    SqlType.BOOLEAN: pl.Boolean(),
    SqlType.INT: pl.Int32(),
    SqlType.BIGINT: pl.Int64(),
    SqlType.DOUBLE: pl.Float64(),
    SqlType.STRING: pl.String(),
    SqlType.DATE: pl.Date(),
    SqlType.TIMESTAMP: pl.Datetime("us"),
}
_SYNONYMS = {
    "INTEGER": "INT",
    "LONG": "BIGINT",
    "BOOL": "BOOLEAN",
    "FLOAT": "DOUBLE",
    "TEXT": "STRING",
    "VARCHAR": "STRING",
}


class ArrayType(msgspec.Struct, frozen=True):
    """An array of one type; only aggregates give one, and only the result takes it.

    Attributes:
        element: the type of its elements, none of which is NULL.
    """

    element: SqlType

    @property
    def dtype(self) -> pl.DataType:
        """The Polars type that holds it."""
        return pl.List(self.element.dtype)

    @property
    def ddl(self) -> str:
        """The name as written in a Spark DDL string."""
        return f"ARRAY<{self.element.ddl}>"

    @property
    def value(self) -> str:
        """The name in messages."""
        return self.ddl


def parse_type(name: str) -> SqlType | ArrayType:
    """Read the type of an output column as `ddl` writes it; raises ValueError."""
    word = name.strip().upper()
    if word.startswith("ARRAY<") and word.endswith(">"):
        return ArrayType(SqlType.parse(word[len("ARRAY<") : -1]))
    return SqlType.parse(word)
