"""How far a cell may be from Spark's when some of its events, nobody knows which, may be lacking.

What is sure to be counted gives one bound, everything the other: a count, a maximum or the number of distinct values
only rises with each event, a minimum only falls, a sum does one of both if its terms have one sign. An average, a
percentile or any chosen value lies between the least and the greatest value. Of other aggregates, and of expressions
over several, nothing is said: their differences stay unexplained unless Spark finds the very same value.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import Any, Literal

from sqlglot import exp

from elf.agents.language.aggregate_facts import BY_NAME, Moves
from elf.agents.language.query import aggregate_call
from elf.offline.verify.compare import cell_identity, read_cell
from elf.offline.verify.report import Difference
from elf.offline.verify.rows import OfflineRows, Row, RowsPlan
from elf.offline.verify.tolerance import Tolerance

_COUNT = exp.Anonymous(this="count", expressions=[exp.Star()])


@dataclasses.dataclass(frozen=True)
class Rule:
    """How an output column moves; `at`: its aggregate in `Bounds.aggregates`, its least and greatest value follow."""

    how: Literal["rising", "falling", "signed", "between"]
    at: int
    repeated: bool


class Bounds:
    """Which aggregates of a query have bounds, and what has to be computed for them."""

    def __init__(self, plan: RowsPlan) -> None:
        self.aggregates: list[exp.Expr] = [_COUNT]
        self.rules: dict[str, Rule] = {}
        for item in plan.query.items:
            call = aggregate_call(item.node)
            if call is None or not call.expressions:
                continue
            fact = BY_NAME.get(call.name.lower())
            moves, at = Moves.FREELY if fact is None else fact.moves, len(self.aggregates)
            repeated = fact is not None and fact.repeats
            if moves is Moves.UP:
                self._add(item.name, Rule("rising", at, repeated), item.node)
            elif moves is Moves.DOWN:
                self._add(item.name, Rule("falling", at, repeated), item.node)
            elif moves in (Moves.BY_SIGN, Moves.BETWEEN):
                argument = call.expressions[0]
                if isinstance(argument, exp.IgnoreNulls):
                    argument = argument.this
                least, most = (_instead(item.node, each, argument) for each in ("min", "max"))
                how: Literal["signed", "between"] = "signed" if moves is Moves.BY_SIGN else "between"
                self._add(item.name, Rule(how, at, repeated), item.node, least, most)

    def _add(self, name: str, rule: Rule, *aggregates: exp.Expr) -> None:
        self.rules[name] = rule
        self.aggregates += aggregates


class Limits:
    """What may have been published, given what Spark computes with and without the events that may be lacking.

    Args:
        bounds: the query's.
        full: (start, *group keys) -> values of its aggregates, over all events.
        least: the same over the events that are surely counted.
        repeats: whether events may have been counted more than once.
    """

    def __init__(self, bounds: Bounds, full: Mapping[Row, Row], least: Mapping[Row, Row], repeats: bool) -> None:
        self._bounds = bounds
        self._repeats = repeats
        self._full = {cell_identity(key): row for key, row in full.items()}
        self._least = {cell_identity(key): row for key, row in least.items()}

    def allow(self, difference: Difference, start_ms: int, rows: OfflineRows, cut: bool) -> bool:
        """Whether lacking events can account for a difference.

        Args:
            difference: from Spark's rows over all events.
            start_ms: its window's start.
            rows: Spark's rows.
            cut: whether HAVING or LIMIT decide which rows are shown.
        """
        nameless = not rows.keys and not rows.single
        if nameless or len(difference.key) != len(rows.keys) or difference.kind in ("order", "columns"):
            return False
        names, types = rows.names, dict(zip(rows.names, rows.types, strict=True))
        key = tuple(read_cell(difference.key[names[i]], types[names[i]]) for i in rows.keys)
        full = self._full.get(cell_identity((start_ms, *key)))
        least = self._least.get(cell_identity((start_ms, *key)))
        if full is None:
            return False
        if difference.kind == "missing_online":
            touched = least is None or least != full or self._repeats
            return touched and (cut or least is None)
        near = dict(zip(names, rows.near or [Tolerance()] * len(names), strict=True))
        if difference.kind == "cell":
            column = difference.column
            value = read_cell(difference.online, types[column])
            return self._within(column, value, full, least, near[column])
        shown = [name for i, name in enumerate(names) if i not in rows.keys]
        return cut and all(
            self._within(name, read_cell(difference.online.get(name), types[name]), full, least, near[name])
            for name in shown
        )

    def _within(self, column: str, value: Any, full: Row, least: Row | None, near: Tolerance) -> bool:
        rule = self._bounds.rules.get(column)
        if rule is None:
            return False
        everything, sure = full[rule.at], None if least is None else least[rule.at]
        if value is None or everything is None:
            return value is None and sure is None
        how: str = rule.how
        if how == "between":
            return _between(full[rule.at + 1], value, full[rule.at + 2], near)
        if how == "signed":
            lowest, highest = full[rule.at + 1], full[rule.at + 2]
            how = "rising" if lowest >= 0 else "falling" if highest <= 0 else "unknown"
            sure = 0 if sure is None else sure
        low, high = (sure, everything) if how == "rising" else (everything, sure)
        if self._repeats and rule.repeated:
            low, high = (low, math.inf) if how == "rising" else (-math.inf, high)
        return how != "unknown" and _between(low, value, high, near)


def _between(low: Any, value: Any, high: Any, near: Tolerance) -> bool:
    """Whether a value is neither below `low` nor above `high`, or near enough; None is no bound."""
    try:
        above = low is None or low <= value or near.close(low, value)
        return bool(above and (high is None or value <= high or near.close(high, value)))
    except TypeError:
        return False


def _instead(node: exp.Expr, name: str, argument: exp.Expr) -> exp.Expr:
    """Return a call of another aggregate with one argument, under the same FILTER."""
    call = exp.Anonymous(this=name, expressions=[argument.copy()])
    return exp.Filter(this=call, expression=node.expression.copy()) if isinstance(node, exp.Filter) else call
