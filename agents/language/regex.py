"""RLIKE, and what regexp_extract and regexp_replace need: Java's patterns and replacements in Polars'."""

from __future__ import annotations

import polars as pl
from polars.exceptions import PolarsError

from elf.agents.language.coercion import implicit
from elf.agents.language.dialect import refused
from elf.agents.language.patterns import constant_text
from elf.agents.language.regex_translation import Pattern, translate
from elf.agents.language.types import SqlType
from elf.agents.language.values import Value


def rlike_expr(value: Value, pattern: Value) -> pl.Expr:
    """Evaluate RLIKE: whether the pattern matches anywhere."""
    subject = implicit(value, SqlType.STRING)
    if subject is None:
        raise refused(value.node, f"RLIKE takes a STRING, not {value.type.value}")
    compiled = compile_pattern(pattern)
    if compiled is None:
        return pl.lit(None, dtype=pl.Boolean)
    return subject.expr.str.contains(compiled.rust)


def compile_pattern(pattern: Value) -> Pattern | None:
    """Translate a pattern literal and try it; None for NULL.

    Raises:
        JobSpecError: it is no literal, too long, invalid, or would mean something else than in Java.
    """
    text = constant_text(pattern, "a regular expression")
    if text is None:
        return None
    made = translate(text, pattern.node)
    try:
        pl.select(pl.lit("").str.contains(made.rust))
    except PolarsError as error:
        why = str(error).strip().splitlines()[-1].removeprefix("error: ")
        raise refused(pattern.node, f"invalid regular expression: {why}") from None
    return made


def translate_replacement(value: Value, groups: int) -> str | None:
    r"""Translate Java's `$1` and `\x` in a replacement to Rust's; None for NULL."""
    text = constant_text(value, "the replacement")
    if text is None:
        return None
    parts: list[str] = []
    at = 0
    while at < len(text):
        char = text[at]
        at += 1
        if char == "\\":
            if at == len(text):
                raise refused(value.node, "the replacement ends in a backslash")
            parts.append(_plain_replacement(text[at]))
            at += 1
        elif char == "$":
            start = at
            while at < len(text) and text[at] in "0123456789" and (at == start or int(text[start : at + 1]) <= groups):
                at += 1
            if at == start or int(text[start:at]) > groups:
                raise refused(value.node, f"the replacement names a group the pattern does not have ({groups} groups)")
            parts.append(f"${{{int(text[start:at])}}}")
        else:
            parts.append(_plain_replacement(char))
    return "".join(parts)


def _plain_replacement(char: str) -> str:
    return "$$" if char == "$" else char
