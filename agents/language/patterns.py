"""LIKE and ILIKE, and what every kind of pattern has in common: it is a literal of bounded length."""

from __future__ import annotations

import re

import polars as pl

from elf.agents.language.coercion import implicit
from elf.agents.language.dialect import refused
from elf.agents.language.types import SqlType
from elf.agents.language.values import Value

#: A longer pattern is a mistake or an attack.
PATTERN_BYTES_MAX = 1024


def constant_text(value: Value, what: str) -> str | None:
    """The text of an argument that must be written as a literal; None for NULL."""
    if value.is_null:
        return None
    if not isinstance(value.constant, str):
        raise refused(value.node, f"{what} has to be written as a text literal")
    if len(value.constant.encode()) > PATTERN_BYTES_MAX:
        raise refused(value.node, f"{what} is longer than {PATTERN_BYTES_MAX} bytes")
    return value.constant


def like_expr(value: Value, pattern: Value, escape: str, *, ignore_case: bool) -> pl.Expr:
    """Evaluate LIKE or ILIKE."""
    subject = implicit(value, SqlType.STRING)
    text = constant_text(pattern, "the pattern of LIKE")
    if subject is None:
        raise refused(value.node, f"LIKE takes a STRING, not {value.type.value}")
    if text is None:
        return pl.lit(None, dtype=pl.Boolean)
    expr = subject.expr.str.to_lowercase() if ignore_case else subject.expr
    parts: list[str] = []
    at = 0
    text = text.lower() if ignore_case else text
    while at < len(text):
        char = text[at]
        if char == escape:
            at += 1
            if at == len(text) or text[at] not in ("%", "_", escape):
                raise refused(pattern.node, f"in LIKE, {escape} stands only before %, _ and itself")
            parts.append(re.escape(text[at]))
        else:
            parts.append({"%": ".*", "_": "."}.get(char) or re.escape(char))
        at += 1
    inner = [part for part in parts if part != ".*"]
    plain = all(part != "." for part in inner) and escape not in text
    if plain and ".*" not in parts:
        return expr == text
    if plain and parts.count(".*") == 1 and parts[-1] == ".*":
        return expr.str.starts_with(text[:-1])
    if plain and parts.count(".*") == 1 and parts[0] == ".*":
        return expr.str.ends_with(text[1:])
    if plain and parts.count(".*") == 2 and len(parts) > 2 and parts[0] == parts[-1] == ".*":
        return expr.str.contains(text[1:-1], literal=True)
    return expr.str.contains(rf"(?s)\A{''.join(parts)}\z")
