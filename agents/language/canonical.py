"""What tells expressions that mean the same from others. Pure."""

from __future__ import annotations

from sqlglot import exp

from elf.agents.language.last_result import LAST_RESULT, is_last
from elf.agents.language.query import is_window_field


def canonical(node: exp.Expr) -> object:
    """A value equal for expressions that mean the same: names in one case, no parentheses, no qualifiers."""
    if isinstance(node, exp.Paren):
        return canonical(node.this)
    if isinstance(node, exp.Column):
        of = "window" if is_window_field(node) else LAST_RESULT if is_last(node) else ""
        return ("column", of, node.name.lower())
    parts: list[object] = [type(node).__name__]
    for name, part in sorted(node.args.items()):
        if part is None or part is False or name in ("_type", "safe", "typed"):
            continue
        if isinstance(node, exp.Anonymous) and name == "this":
            parts.append(str(node.name).lower())
        elif isinstance(part, list):
            parts.append(tuple(canonical(each) if isinstance(each, exp.Expr) else each for each in part))
        else:
            parts.append((name, canonical(part) if isinstance(part, exp.Expr) else part))
    return tuple(parts)
