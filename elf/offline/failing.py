"""Events that functions in Python fail on: agents leave them out of the job, and so does Spark."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import reduce
from typing import TYPE_CHECKING

from sqlglot import exp

from elf.agents.language.installed.installed import find_aggregate
from elf.agents.language.query import aggregate_call
from elf.offline.aggregates import read_call
from elf.offline.functions import aggregate_fails
from elf.offline.scopes import EventScope

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


def without_failing(events: DataFrame, nodes: Iterable[exp.Expr], scope: EventScope) -> DataFrame:
    """Leave out the events on which a call in these expressions fails, also one whose answer would not be used."""
    failures = list(_failures(nodes, scope))
    # In one condition: Spark then hands each row to one of its Python workers once.
    return events.filter(~reduce(lambda one, other: one | other, failures)) if failures else events


def _failures(nodes: Iterable[exp.Expr], scope: EventScope) -> Iterator[Column]:
    seen: list[exp.Expr] = []
    for node in (part for tree in nodes for part in tree.walk()):
        if any(node == other for other in seen):
            continue
        call = aggregate_call(node)
        if call is not None and find_aggregate(call.name.lower()) is not None and not _is_wrapped(node):
            seen.append(node)
            read = read_call(node, scope)
            yield aggregate_fails(read.name, read.only(read.values[0]))
        elif (fails := scope.called(node, "tell")) is not None:
            seen.append(node)
            yield fails


def _is_wrapped(node: exp.Expr) -> bool:
    """Tell whether the call's FILTER, which is met first, is around this node."""
    return isinstance(node.parent, exp.Filter) and node.arg_key == "this"
