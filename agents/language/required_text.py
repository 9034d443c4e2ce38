"""Which text every wanted line must contain: lets a source skip lines before parsing them (DESIGN section 3.2)."""

from __future__ import annotations

from sqlglot import exp

from elf.agents.language.scopes import RowScope
from elf.agents.language.types import SqlType

# Quotes, backslashes and slashes may be written escaped in JSON; other than printable ASCII may be, too.
_ESCAPABLE = frozenset("\"'\\/<>&")


def literals_of(where: exp.Expr | None, rows: RowScope) -> tuple[str, ...]:
    """The literals of conditions `column = 'literal'` that every wanted event has to meet, in text order."""
    if where is None:
        return ()
    found: dict[str, None] = {}
    for part in conjuncts(where):
        if not isinstance(part, exp.EQ):
            continue
        for column, literal in ((part.this, part.expression), (part.expression, part.this)):
            known = rows.raw_column(column)
            if known is None or known[1] is not SqlType.STRING:
                continue
            if isinstance(literal, exp.Literal) and literal.is_string and is_verbatim(literal.name):
                found[literal.name] = None
    return tuple(found)


def is_verbatim(text: str) -> bool:
    """Whether a raw line holds this text letter by letter wherever a value equals it.

    Numbers are out: a source may have read `1.50` for 1.5.
    """
    printable = text.isascii() and text.isprintable() and not _ESCAPABLE & set(text)
    if not printable or not any(char.isalpha() for char in text):
        return False
    try:
        float(text)
    except ValueError:
        return True
    return False


def conjuncts(node: exp.Expr) -> list[exp.Expr]:
    """The conditions that all have to hold for a condition to hold, in text order."""
    pending, parts = [node], []
    while pending:
        part = pending.pop()
        if isinstance(part, exp.Paren):
            pending.append(part.this)
        elif isinstance(part, exp.And):
            pending += [part.expression, part.this]
        else:
            parts.append(part)
    return parts
