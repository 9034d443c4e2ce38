"""Regular expressions for log layouts, and their columnar use.

Polars' expressions run in linear time whatever the line holds, so no line can stall an agent.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import polars as pl

from elf.agents.language.types import SqlType
from elf.agents.sources.log_format import TIME_EPOCH, TIME_LOCAL, Field, Token

_TIME_LOCAL = r"[0-9]{2}/[A-Za-z]{3}/[0-9]{4}:[0-9]{2}:[0-9]{2}:[0-9]{2} [+-][0-9]{4}"
_INTEGER = r"-|[0-9]+"
_DECIMAL = r"-|[0-9]+(?:\.[0-9]+)?"


class Patterns:
    """Three ways to match a line of one layout, each with one group a field.

    Attributes:
        exact: every line of the layout; a text field is as short as the rest of the line allows.
        strict: only lines whose text fields end where the next literal's first character is first met.
        front: a line that was cut off; fields that are missing are null.
    """

    def __init__(self, tokens: Sequence[Token]) -> None:
        quoted = False
        exact, strict = [], []
        for index, token in enumerate(tokens):
            if isinstance(token, str):
                exact.append(re.escape(token))
                strict.append(re.escape(token))
                quoted ^= token.count('"') % 2 == 1
            else:
                after = tokens[index + 1] if index + 1 < len(tokens) else ""
                exact.append(f"({_exact(token, quoted)})")
                strict.append(f"({_strict(token, quoted, str(after)[:1])})")
        self.exact = f"^{''.join(exact)}$"
        self.strict = f"^{''.join(strict)}$"
        self.front = "^" + "(?:".join(strict) + ")?" * (len(strict) - 1)


def extract(texts: pl.Series, strict: str, exact: str) -> pl.DataFrame:
    """Match texts, those that do not match the strict pattern also with the exact one; one column a group."""
    fields = texts.str.extract_groups(strict).struct.unnest()
    if strict != exact and fields.to_series(0).has_nulls():
        # Which groups are null says nothing where groups are optional; in these two patterns none is.
        others = pl.select(pl.when(fields.to_series(0).is_null()).then(texts)).to_series()
        rest = others.str.extract_groups(exact).struct.unnest()
        fields = pl.DataFrame([a.zip_with(a.is_not_null(), b) for a, b in zip(fields, rest, strict=True)])
    return fields


def _exact(field: Field, quoted: bool) -> str:
    return _fixed(field) or (r'(?:[^"\\]|\\.)*?' if quoted else ".*?")


def _strict(field: Field, quoted: bool, after: str) -> str:
    if fixed := _fixed(field):
        return fixed
    if quoted and after == '"':
        return r'[^"\\]*(?:\\.[^"\\]*)*'
    if not after:
        return ".*"
    return rf'[^"\\{re.escape(after)}]*' if quoted else f"[^{re.escape(after)}]*"


def _fixed(field: Field) -> str | None:
    """Write what a field of a narrow type holds."""
    if field.column == TIME_LOCAL:
        return _TIME_LOCAL
    if field.kind in (SqlType.INT, SqlType.BIGINT):
        return _INTEGER
    return _DECIMAL if field.kind is SqlType.DOUBLE or field.column == TIME_EPOCH else None
