"""Functions that take a Java regular expression."""

from __future__ import annotations

import polars as pl

from elf.agents.language.functions.registry import Call, special
from elf.agents.language.regex import compile_pattern, rlike_expr, translate_replacement
from elf.agents.language.regex_translation import END_HINT, hint_in
from elf.agents.language.types import SqlType
from elf.agents.language.values import Value

STRING = SqlType.STRING
_SOFT_END = r"$ also matches before a last line break, which would be part of this"
_REPEATS = "what is repeated in the pattern can match nothing, and Java repeats that in a way of its own"
_REPEATS_HINT = "what is repeated has to match a character at least: (a+)* for (a*)*"


@special("rlike", "regexp", "regexp_like", least=2)
def regexp_like(call: Call) -> Value:
    """RLIKE as a function."""
    return call.value(rlike_expr(call.arguments[0], call.arguments[1]), SqlType.BOOLEAN)


@special("regexp_extract", least=2, most=3)
def regexp_extract(call: Call) -> Value:
    """A group of the first match; empty without a match."""
    text, pattern = call.take(0, STRING).expr, compile_pattern(call.arguments[1])
    group = call.constant_int(2, "the group's number") if len(call.arguments) == 3 else 1
    if pattern is None or group is None:
        return call.value(pl.lit(None, dtype=pl.String), STRING)
    if not 0 <= group <= pattern.groups:
        raise call.refused(f"the pattern has {pattern.groups} group(s), not {group}", "group 0 is the whole match")
    if group in pattern.soft:
        raise call.refused(_SOFT_END, f"{hint_in(call.arguments[1].node, END_HINT)}, or extract a group before it")
    if pattern.repeats_nothing:
        raise call.refused(_REPEATS, _REPEATS_HINT)
    found = text.str.extract(pattern.rust, group).fill_null("")
    return call.value(pl.when(text.is_not_null()).then(found), STRING)


@special("regexp_replace", least=3)
def regexp_replace(call: Call) -> Value:
    """Every match replaced; `$1` stands for the first group."""
    text, pattern = call.take(0, STRING).expr, compile_pattern(call.arguments[1])
    by = None if pattern is None else translate_replacement(call.arguments[2], pattern.groups)
    if pattern is None or by is None:
        return call.value(pl.lit(None, dtype=pl.String), STRING)
    if pattern.soft:
        raise call.refused(_SOFT_END, hint_in(call.arguments[1].node, END_HINT))
    if pattern.repeats_nothing:
        raise call.refused(_REPEATS, _REPEATS_HINT)
    if pattern.matches_empty:
        raise call.refused("a pattern that can match nothing is replaced differently by Java and here", "use + for *")
    # Polars would take a pattern without special characters, and then the replacement too, letter by letter.
    return call.value(text.str.replace_all(f"(?:{pattern.rust})", by), STRING)
