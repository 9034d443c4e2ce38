"""What names mean: over raw events on the map side, and over merged PAOs on the master's side."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

import msgspec
import polars as pl
from sqlglot import exp

from elf.agents.errors import did_you_mean, nearest
from elf.agents.language.aggregates import Aggregated, compile_aggregate
from elf.agents.language.canonical import canonical
from elf.agents.language.dialect import refused
from elf.agents.language.expressions import compile_expression
from elf.agents.language.own_functions import Call, OwnFunction, called
from elf.agents.language.query import TIME_COLUMN, Query, aggregate_call, is_window_call, is_window_field
from elf.agents.language.ties import Ties
from elf.agents.language.types import SqlType
from elf.agents.language.values import Value

#: Columns of the frame that results are computed from: the window's bounds.
WINDOW_START, WINDOW_END = "w_start", "w_end"


class Rows(Protocol):
    """Names over the rows that are grouped."""

    @property
    def own(self) -> Mapping[str, object]:
        """The job's own functions, by name."""
        ...

    def has(self, name: str) -> bool:
        """Whether events have such a column."""
        ...

    def resolve(self, node: exp.Expr) -> Value | None:
        """As of `expressions.Scope`."""
        ...


class RowScope:
    """Names over raw events: the source's columns, in any case, `ts`, and the job's own functions."""

    def __init__(
        self, query: Query, columns: Mapping[str, SqlType], own: Mapping[str, tuple[OwnFunction, Call]] | None = None
    ) -> None:
        #: The job's own functions, by name.
        self.own = own or {}
        self._qualifiers = query.qualifiers
        self._columns: dict[str, list[tuple[str, SqlType]]] = {}
        for name, kind in columns.items():
            if name.lower() != TIME_COLUMN:
                self._columns.setdefault(name.lower(), []).append((name, kind))
        #: Raw columns that compiled expressions read.
        self.read: dict[str, SqlType] = {}

    def has(self, name: str) -> bool:
        """Whether there is such a raw column."""
        return name.lower() == TIME_COLUMN or name.lower() in self._columns

    def raw_column(self, node: exp.Expr) -> tuple[str, SqlType] | None:
        """The name and type of the raw column a node is, None if it is anything else."""
        known = self._columns.get(node.name.lower(), []) if isinstance(node, exp.Column) else []
        return known[0] if len(known) == 1 else None

    def resolve(self, node: exp.Expr) -> Value | None:
        """Resolve columns; refuse aggregates and windows, which have no meaning for a single event."""
        if isinstance(node, exp.Column):
            return self._column(node)
        if aggregate_call(node) is not None:
            raise refused(node, "an aggregate has no meaning here", "filter groups with HAVING")
        if is_window_call(node):
            raise refused(node, "window(...) stands in GROUP BY", "select its bounds as window.start and window.end")
        if isinstance(node, exp.Anonymous) and node.name.lower() in self.own:
            return self._call(node)
        return None

    def _call(self, node: exp.Anonymous) -> Value:
        """Compile a call of one of the job's own functions."""
        from elf.agents.language.functions.registry import Call as Written

        function, call = self.own[node.name.lower()]
        if len(node.expressions) != len(function.args):
            raise refused(node, f"{node.name}() takes {len(function.args)} argument(s), not {len(node.expressions)}")
        written = Written(node.name, node, [compile_expression(argument, self) for argument in node.expressions])
        taken = [written.take(index, kind).expr for index, kind in enumerate(function.types)]
        return written.value(called(function, call, taken), SqlType.parse(function.returns))

    def _column(self, node: exp.Column) -> Value:
        if is_window_field(node):
            raise refused(node, f"window.{node.name} is not known before grouping")
        if node.table and (node.table.lower() not in self._qualifiers or node.args.get("db")):
            raise refused(node, f"{node.sql(dialect='spark')} names no column", "nested fields are not in the language")
        name = node.name
        if name.lower() == TIME_COLUMN:
            return Value(pl.col(TIME_COLUMN).cast(pl.Datetime("us")), SqlType.TIMESTAMP, node)
        known = self._columns.get(name.lower(), [])
        if len(known) == 1:
            raw, kind = known[0]
            self.read[raw] = kind
            return Value(pl.col(raw), kind, node)
        if known:
            raise refused(node, f"{name!r} could be any of {', '.join(repr(raw) for raw, _ in known)}")
        names = [TIME_COLUMN, *(raw for variants in self._columns.values() for raw, _ in variants)]
        close = did_you_mean(nearest(name, names)).lstrip("; ")
        listed = ", ".join(names[:20]) + (", ..." if len(names) > 20 else "")
        raise refused(node, f"there is no column {name!r}", close or f"columns: {listed}")


class Key(msgspec.Struct, frozen=True):
    """A group key: its column in PAO frames, its value over raw events, and how it is recognised in other clauses."""

    column: str
    value: Value
    identity: object

    @property
    def type(self) -> SqlType:
        """The key's type."""
        assert isinstance(self.value.type, SqlType)
        return self.value.type


class GroupScope:
    """Names over merged PAOs: group keys, aggregates, the window's bounds; and output names where they are visible."""

    def __init__(self, query: Query, rows: Rows, keys: tuple[Key, ...]) -> None:
        self._query = query
        self._rows = rows
        self._keys = {key.identity: key for key in keys}
        self._outputs = {item.name.lower(): item.node for item in query.items}
        #: Identity -> name and what it was compiled to, in the order of first use.
        self.aggregates: dict[object, tuple[str, Aggregated]] = {}
        #: Name -> the call, and how the query writes it, for messages.
        self.calls: dict[str, exp.Expr] = {}
        self.written: dict[str, str] = {}
        self._ties = Ties.among(query)
        #: Whether output names hide keys (ORDER BY), only fill gaps (HAVING) or are unknown (SELECT).
        self.outputs: str = "hidden"

    def resolve(self, node: exp.Expr) -> Value | None:
        """Resolve what the group is known by; refuse raw columns, which differ inside a group."""
        is_name = isinstance(node, exp.Column) and not node.table
        if is_name and self.outputs == "first" and node.name.lower() in self._outputs:
            return self._output(node)
        key = self._keys.get(canonical(node))
        if key is not None:
            return Value(pl.col(key.column), key.type, node)
        if is_window_field(node):
            return self._window_bound(node)
        if is_window_call(node) or self._is_window(node):
            raise refused(node, "the window itself is no value", "select its bounds as window.start and window.end")
        if aggregate_call(node) is not None:
            return self._aggregate(node)
        if isinstance(node, exp.Anonymous) and node.name.lower() in self._rows.own:
            hint = "call it in WHERE, in GROUP BY or in what is aggregated"
            raise refused(node, f"{node.name}() is the job's own, and such functions are called on events only", hint)
        if isinstance(node, exp.Column):
            if is_name and self.outputs == "last" and node.name.lower() in self._outputs:
                return self._output(node)
            if self._rows.resolve(node) is not None:
                raise refused(
                    node,
                    f"{node.name!r} is neither in GROUP BY nor inside an aggregate",
                    f"add it to GROUP BY, or use min({node.name}) or max({node.name})",
                )
        return None

    def _is_window(self, node: exp.Expr) -> bool:
        """Tell whether a name stands for the window as a whole, which is a column of its own in Spark."""
        if not isinstance(node, exp.Column) or self._query.window is None:
            return False
        if node.table:
            return node.table.lower() == "window" and not self._rows.has(node.name)
        return node.name.lower() == "window"

    def _output(self, node: exp.Expr) -> Value:
        before = self.outputs
        self.outputs = "hidden"
        try:
            return compile_expression(self._outputs[node.name.lower()], self)
        finally:
            self.outputs = before

    def _window_bound(self, node: exp.Expr) -> Value:
        if self._query.window is None:
            raise refused(node, "the query has no window", "GROUP BY window(ts, '5 minutes')")
        column = WINDOW_START if node.name.lower() == "start" else WINDOW_END
        return Value(pl.col(column), SqlType.TIMESTAMP, node)

    def _aggregate(self, node: exp.Expr) -> Value:
        identity = canonical(node)
        if identity not in self.aggregates:
            name = f"a{len(self.aggregates)}"
            self.aggregates[identity] = (name, self._compiled(name, node))
            self.calls[name] = node
            self.written[name] = node.sql("spark", normalize_functions=False)
        name, compiled = self.aggregates[identity]
        return Value(pl.col(name), compiled.type, node)

    def _compiled(self, name: str, node: exp.Expr) -> Aggregated:
        """Compile an aggregate that goes by a name."""
        return compile_aggregate(node, self._rows, self._ties.of(node))
