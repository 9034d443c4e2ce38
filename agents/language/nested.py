"""Values in objects: `a.b`, `a['b.c']`, `a[0]` and `get_json_object(a, '$.b')` become columns that are named by a path.

All four read a value where it lies in a line, so they are one thing from here on: a column as the source calls it
(`elf.agents.language.paths`), here and on Spark, whose archive has a column of that name. Owns no types.
"""

from __future__ import annotations

import re
from collections.abc import Collection

from sqlglot import exp

from elf.agents.language.dialect import place_of, refused, written
from elf.agents.language.paths import INDEX_END, Step, column_of

_READ = "get_json_object"
_ONE = (
    "a path reads one value: write the number of an item, as in a[0], or read the whole array, which is its JSON text"
)
_NEXT = re.compile(
    r"\.(?P<plain>[^.\[\]*]+)|\['(?P<quoted>[^'*]+)'\]|\[(?P<index>[0-9]{1,9})\]|(?P<all>\[\*\]|\.\*)", re.S
)


def fold_paths(tree: exp.Select, qualifiers: Collection[str]) -> None:
    """Replace every path of a query by its column; an output without a name keeps that of its last step.

    Args:
        tree: the query.
        qualifiers: lower-case words that may stand before a column's dot.

    Raises:
        JobSpecError: it reads several values, or says no place in an object.
    """
    joined = {join.this.alias_or_name.lower() for join in tree.args.get("joins") or []}
    for node in list(tree.find_all(exp.Column, exp.Dot, exp.Bracket, exp.Anonymous)):
        if isinstance(node.parent, exp.Dot | exp.Bracket) and node.arg_key == "this":
            continue  # of a longer path
        steps = _steps(node, qualifiers, joined)
        if len(steps) < 2:
            continue
        column = exp.column(exp.to_identifier(column_of(steps), quoted=True))
        column.meta["place"] = place_of(node)
        is_output = node.parent is tree and node.arg_key == "expressions"
        name = str(steps[-1]) if isinstance(steps[-1], str) else written(node)
        node.replace(exp.alias_(column, exp.to_identifier(name, quoted=True)) if is_output else column)


def _steps(node: exp.Expr, qualifiers: Collection[str], joined: Collection[str]) -> list[Step]:
    """Return the steps of a path; fewer than two: it is none."""
    if isinstance(node, exp.Column):
        parts = [part.name for part in node.parts]
        if isinstance(node.this, exp.Star) or (len(parts) > 1 and parts[0].lower() in joined):
            return []
        if len(parts) == 2 and parts[0].lower() == "window" and parts[1].lower() in ("start", "end"):
            return []
        return list(parts[1:] if len(parts) > 1 and parts[0].lower() in qualifiers else parts)
    if isinstance(node, exp.Dot):
        before = _steps(node.this, qualifiers, joined)
        return [*before, node.expression.name] if before and isinstance(node.expression, exp.Identifier) else []
    if isinstance(node, exp.Bracket):
        before = _steps(node.this, qualifiers, joined)
        if not before:
            raise refused(node, "only a column has items", "a[0], a['b']")
        return [*before, _item(node)]
    if isinstance(node, exp.Anonymous) and node.name.lower() == _READ:
        return _call_steps(node, qualifiers, joined)
    return []


def _item(node: exp.Bracket) -> Step:
    """Return the step in brackets."""
    item = node.expressions[0] if len(node.expressions) == 1 else None
    if isinstance(item, exp.Star):
        raise refused(node, "a[*] is not in the language", _ONE)
    if isinstance(item, exp.Literal):
        if item.is_string and item.name:
            return str(item.name)
        if item.name.isdecimal() and int(item.name) < INDEX_END:
            return int(item.name)
    raise refused(node, "brackets take the number of an item, or a name in quotes", "a[0], a['b']")


def _call_steps(node: exp.Anonymous, qualifiers: Collection[str], joined: Collection[str]) -> list[Step]:
    """Return the steps of `get_json_object(column, '$.path')`."""
    arguments = node.expressions
    hint = f"{_READ}(a, '$.b.c')"
    if len(arguments) != 2 or not isinstance(arguments[1], exp.Literal) or not arguments[1].is_string:
        raise refused(node, f"{_READ} takes a column and a path in quotes", hint)
    steps = _steps(arguments[0], qualifiers, joined)
    text = arguments[1].name
    if not steps or not text.startswith("$") or text == "$":
        raise refused(node, f"{_READ} takes a column and a path that begins with $", hint)
    at = 1
    while at < len(text):
        found = _NEXT.match(text, at)
        if found is None:
            raise refused(arguments[1], f"{text!r} is no path", hint)
        if found["all"]:
            raise refused(arguments[1], f"{found['all']} is not in the language", _ONE)
        steps.append(int(found["index"]) if found["index"] else found["plain"] or found["quoted"])
        at = found.end()
    return steps
