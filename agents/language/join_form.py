"""The form of a join in the job language: inner or left, where columns are equal. Knows no names and no types."""

from __future__ import annotations

from typing import Literal, TypeAlias

from sqlglot import exp

from elf.agents.language.dialect import refused

How: TypeAlias = Literal["inner", "left"]
_SIDES: dict[str, How] = {"": "inner", "LEFT": "left"}


def join_form(join: exp.Expr, what: str, hint: str) -> tuple[How, tuple[exp.EQ, ...]]:
    """Return how a join joins, and the pairs of columns that are to be equal, as written.

    Args:
        join: the clause.
        what: is joined, in the plural, for messages.
        hint: how such a join is written.

    Raises:
        JobSpecError: it is another kind of join, or its condition is another one.
    """
    side = join.args.get("side") or ""
    kinds = {name: part for name, part in join.args.items() if part and name not in ("this", "on", "side")}
    if join.args.get("kind") in ("INNER", "OUTER"):
        kinds.pop("kind")
    if kinds or side not in _SIDES:
        raise refused(join, f"{what} are joined by JOIN or LEFT JOIN", hint)
    condition = join.args.get("on")
    if condition is None or isinstance(condition, exp.Boolean):
        raise refused(join, "this join has no condition", "ON a.key = b.key")
    condition = condition.unnest()
    pairs: list[exp.EQ] = []
    for part in condition.flatten() if isinstance(condition, exp.And) else [condition]:
        pair = part.unnest()
        sides = (pair.this, pair.expression) if isinstance(pair, exp.EQ) else (None,)
        if not isinstance(pair, exp.EQ) or not all(isinstance(side, exp.Column) for side in sides):
            raise refused(pair, f"{what} are joined where columns are equal", "ON a.key = b.key AND a.day = b.day")
        pairs.append(pair)
    return _SIDES[side], tuple(pairs)
