"""What names mean in each clause of a query, by Spark's rules: the `resolve` of `elf.offline.expressions.to_column`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from sqlglot import exp

from elf.agents.errors import JobSpecError, did_you_mean, nearest
from elf.agents.language.installed.installed import find_function
from elf.agents.language.query import is_window_field
from elf.offline.expressions import to_column
from elf.offline.functions import function_column
from elf.offline.own import NONE, Own, own_column

if TYPE_CHECKING:
    from pyspark.sql import Column

#: The columns with a window's start and end.
Bounds = tuple["Column", ...]


class EventScope:
    """What names mean before grouping: the event's columns, and functions that are not Spark's.

    Args:
        columns: of the events.
        own: functions that the job brings along; they hide what is installed.
    """

    def __init__(self, columns: list[str], own: Own = NONE) -> None:
        self._columns = {column.lower(): column for column in columns}
        self._own = own

    def __call__(self, node: exp.Expr) -> Column | None:
        """Return the event's column for a name, None for any other node but calls of functions that are not Spark's.

        What these fail on is left out elsewhere (`elf.offline.failing`), whatever order Spark does things in.
        """
        from pyspark.sql import functions as F

        if (called := self.called(node, "null")) is not None:
            return called
        if not isinstance(node, exp.Column):
            return None
        column = self._columns.get(node.name.lower())
        if column is None:
            near = did_you_mean(nearest(node.name, self._columns.values()))
            raise JobSpecError(f"the events have no column {node.name!r}{near}")
        return F.col(_quoted(column))

    def called(self, node: exp.Expr, failing: Literal["null", "tell"]) -> Column | None:
        """Return the call of a function of the job's own, or of one that is installed; None for any other node."""
        if not isinstance(node, exp.Anonymous):
            return None
        name = node.name.lower()
        own = self._own.find(name)
        if own is None and find_function(name) is None:
            return None
        arguments = [to_column(argument, self) for argument in node.expressions]
        if own is not None:
            return own_column(self._own, own, arguments, failing)
        return function_column(name, arguments, failing)


class GroupScope:
    """What expressions mean after grouping: group keys, aggregates and the window's bounds."""

    def __init__(self, groups: list[exp.Expr], aggregates: list[exp.Expr], window: Bounds | None) -> None:
        self._known = [(key, f"__k{i}") for i, key in enumerate(groups)]
        self._known += [(node, f"__a{i}") for i, node in enumerate(aggregates)]
        self._window = window

    def find(self, node: exp.Expr) -> Column | None:
        """Return the column a whole expression stands for, or None."""
        from pyspark.sql import functions as F

        for known, name in self._known:
            if same(node, known):
                return F.col(name)
        if is_window_field(node):
            if self._window is None:
                raise JobSpecError("window.start and window.end need a window in GROUP BY")
            return self._window[node.name.lower() == "end"]
        return None

    def __call__(self, node: exp.Expr) -> Column | None:
        """Return what the node stands for; a name that stands for nothing is an error."""
        found = self.find(node)
        if found is None and isinstance(node, exp.Column):
            raise JobSpecError(f"the column {node.name!r} is neither in GROUP BY nor an output")
        return found


class OutputScope:
    """What expressions mean in HAVING and ORDER BY: those of `GroupScope`, and outputs by name.

    Where a name is both, Spark takes the group key in HAVING and the output in ORDER BY.
    """

    def __init__(self, groups: GroupScope, items: dict[str, exp.Expr], outputs_first: bool) -> None:
        self._groups = groups
        self._items = items
        self._outputs_first = outputs_first

    def __call__(self, node: exp.Expr) -> Column | None:
        """Return what the node stands for, an output's name included."""
        item = None
        if isinstance(node, exp.Column) and not node.table:
            item = self._items.get(node.name.lower())
        if item is not None and self._outputs_first:
            return to_column(item, self._groups)
        found = self._groups.find(node)
        if found is None and item is not None:
            return to_column(item, self._groups)
        return found if found is not None else self._groups(node)


def same(one: exp.Expr, other: exp.Expr) -> bool:
    """Whether two expressions are written alike, but for case, parentheses and the source's name before a dot."""
    return _plain(one) == _plain(other)


def _plain(node: exp.Expr) -> exp.Expr:
    def simplify(part: exp.Expr) -> exp.Expr:
        if isinstance(part, exp.Paren):
            return simplify(part.this)
        if isinstance(part, exp.Column) and not is_window_field(part):
            return exp.column(part.name.lower())
        if isinstance(part, exp.Anonymous):
            part.set("this", part.name.lower())
        return part

    return node.copy().transform(simplify)


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"
