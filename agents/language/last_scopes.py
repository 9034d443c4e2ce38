"""What names mean over events joined with the job's last result, and over groups of these."""

from __future__ import annotations

from collections.abc import Mapping

import polars as pl
from sqlglot import exp

from elf.agents.language.aggregate_facts import BY_NAME
from elf.agents.language.aggregates import Aggregated, compile_aggregate
from elf.agents.language.canonical import canonical
from elf.agents.language.dialect import refused
from elf.agents.language.expressions import compile_expression
from elf.agents.language.last_result import LAST_RESULT, has_last, is_last
from elf.agents.language.query import Query, aggregate_call, is_window_call
from elf.agents.language.scopes import GroupScope, Key, RowScope
from elf.agents.language.types import ArrayType, SqlType
from elf.agents.language.values import Untyped, Value


def framed(name: str) -> str:
    """Return the name that a column of the last result has among joined rows."""
    return f"r.{name}"


class JoinedScope:
    """Names over joined rows: each expression over events alone is a key of the agents' PAOs, as far out as it goes.

    Args:
        events: names over events.
        kinds: column of the last result -> its type; None where that is not known yet.
    """

    def __init__(self, events: RowScope, kinds: Mapping[str, SqlType | ArrayType | None]) -> None:
        self.events = events
        self._kinds = kinds
        #: What agents group events by, by what it means, in the order of first use.
        self.keys: dict[object, Key] = {}
        #: Columns of the last result that are read.
        self.read: dict[str, SqlType] = {}

    @property
    def own(self) -> Mapping[str, object]:
        """The job's own functions, which only agents call."""
        return self.events.own

    def has(self, name: str) -> bool:
        """Whether events have such a column."""
        return self.events.has(name)

    def resolve(self, node: exp.Expr) -> Value | None:
        """Resolve columns of the last result, and whatever is made of events alone."""
        if is_last(node):
            return self._of_last(node)
        if aggregate_call(node) is not None or is_window_call(node):
            return self.events.resolve(node)
        is_own = isinstance(node, exp.Anonymous) and node.name.lower() in self.own
        if has_last(node):
            if is_own:
                hint = f"call it without columns of {LAST_RESULT}"
                raise refused(node, f"{node.name}() is the job's own, and these are called on events only", hint)
            return None
        if not is_own and node.find(exp.Column) is None:
            return None  # a constant
        value = compile_expression(node, self.events)
        if not isinstance(value.type, SqlType):
            return None
        key = self._keyed(node, value)
        return Value(pl.col(key.column), key.type, node)

    def event_key(self, node: exp.Column) -> Key:
        """Return a column of events as a key of the agents' PAOs."""
        return self._keyed(node, compile_expression(node, self.events))

    def last_column(self, node: exp.Column) -> tuple[str, SqlType]:
        """Return the name and type of a column of the last result, whose types are known, and note that it is read."""
        name, kind = next((name, kind) for name, kind in self._kinds.items() if name.lower() == node.name.lower())
        if not isinstance(kind, SqlType):
            raise refused(node, f"{LAST_RESULT} can have no column of arrays", "select what is one value")
        self.read[name] = kind
        return name, kind

    def _keyed(self, node: exp.Expr, value: Value) -> Key:
        identity = canonical(node)
        return self.keys.setdefault(identity, Key(f"k{len(self.keys)}", value, identity))

    def _of_last(self, node: exp.Expr) -> Value:
        assert isinstance(node, exp.Column)
        kinds = [kind for name, kind in self._kinds.items() if name.lower() == node.name.lower()]
        if kinds == [None]:
            return Value(pl.lit(None), Untyped.NULL, node)
        name, kind = self.last_column(node)
        return Value(pl.col(framed(name)), kind, node)


class JoinedGroups(GroupScope):
    """Names over groups of joined rows."""

    def __init__(self, query: Query, rows: JoinedScope, keys: tuple[Key, ...]) -> None:
        super().__init__(query, rows, keys)
        self._joined = rows
        #: Aggregates that read the last result, which agents cannot compute.
        self.mixed: set[str] = set()

    def _compiled(self, name: str, node: exp.Expr) -> Aggregated:
        if not has_last(node):
            return compile_aggregate(node, self._joined.events, self._ties.of(node))
        call = aggregate_call(node)
        assert call is not None
        fact = BY_NAME.get(call.name.lower())
        if fact is None or not fact.over_last or any(isinstance(each, exp.Distinct) for each in call.expressions):
            hint = "count, sum, avg, min and max are"
            raise refused(node, f"{call.name}() of {LAST_RESULT} is not in the job language", hint)
        self.mixed.add(name)
        return compile_aggregate(node, self._joined)
