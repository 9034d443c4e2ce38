"""The shape of a job's query: one SELECT over one source, taken apart into its clauses.

Owns which clauses are allowed and what the window is; knows neither types nor functions (see `expressions`) nor how
the parts run (see `plan`). DESIGN section 4.
"""

from __future__ import annotations

import functools
from collections.abc import Collection
from typing import NamedTuple

import msgspec
from sqlglot import exp

from elf.agents.language.aggregate_facts import AGGREGATES
from elf.agents.language.dialect import parse_statement, refused
from elf.agents.language.durations import parse_duration_ms
from elf.agents.language.last_result import Last, is_last, take_last
from elf.agents.language.nested import fold_paths

#: The event time column that every source has.
TIME_COLUMN = "ts"

_CLAUSES = {"expressions", "from_", "joins", "where", "group", "having", "order", "limit"}
_CLAUSE_NAMES = {
    "group": "GROUP BY",
    "having": "HAVING",
    "joins": "JOIN",
    "distinct": "SELECT DISTINCT",
    "with_": "WITH",
    "laterals": "LATERAL VIEW",
    "windows": "WINDOW",
    "qualify": "QUALIFY",
    "offset": "OFFSET",
    "sort": "SORT BY",
    "cluster": "CLUSTER BY",
    "distribute": "DISTRIBUTE BY",
    "hint": "a hint",
    "into": "INTO",
}
#: Output columns of a query.
OUTPUTS_MAX = 200


class Window(NamedTuple):
    """A run of intervals: `size_ms` long, beginning every `slide_ms`, aligned to 1970-01-01T00:00Z."""

    size_ms: int
    slide_ms: int

    @property
    def phase_ms(self) -> int:
        """How far windows end after multiples of the slide: they begin at these, as Spark's do."""
        return self.size_ms % self.slide_ms

    def ended_by(self, at_ms: int) -> int:
        """Return the end of the last window that ends by a time."""
        return (at_ms - self.phase_ms) // self.slide_ms * self.slide_ms + self.phase_ms


class Item(msgspec.Struct, frozen=True):
    """One output column: its name and its expression."""

    name: str
    node: exp.Expr


class Query(msgspec.Struct, frozen=True):
    """A query taken apart; expressions are unchecked.

    Attributes:
        select: the whole tree.
        source: the source's name.
        qualifiers: lower-case words that may stand before a column's dot.
        items: the output columns.
        where: the row filter.
        groups: the grouping expressions as written, without the window.
        window: the window, None for a result since the job's start.
        having: the group filter.
        order: the sort keys as written.
        limit: the most rows of a result.
        last: how it joins its own last result; None if it does not.
    """

    select: exp.Select
    source: str
    qualifiers: frozenset[str]
    items: tuple[Item, ...]
    where: exp.Expr | None
    groups: tuple[exp.Expr, ...]
    window: Window | None
    having: exp.Expr | None
    order: tuple[exp.Ordered, ...]
    limit: int | None
    last: Last | None = None


def select_of(text: str) -> exp.Select:
    """Parse one SELECT.

    Raises:
        JobSpecError: the text is none.
    """
    tree = parse_statement(text)
    if isinstance(tree, exp.Select):
        return tree
    # What it begins with says more than what the parser took it for, unless it goes on after a SELECT.
    word = text.split(maxsplit=1)[0].upper()
    what = word if word.isalpha() and word != "SELECT" else tree.key.upper()
    raise refused(tree, f"a job is one SELECT statement, not {what}")


def parse_query(text: str) -> Query:
    """Take one SELECT apart.

    Raises:
        JobSpecError: the text is not one SELECT over one source, or has a clause outside the job language.
    """
    tree = select_of(text)
    check_clauses(tree, _CLAUSES, "the job language")
    source, qualifiers = _source(tree)
    fold_paths(tree, qualifiers)
    groups, window = _groups(tree)
    items = items_of(tree)
    last = take_last(tree, qualifiers, frozenset(item.name.lower() for item in items))
    if last is not None and window is None:
        hint = "GROUP BY ..., window(ts, '60 seconds', '10 seconds')"
        raise refused(last.node, "a job that reads its last result has a window, of which that is the one before", hint)
    return Query(
        select=tree,
        source=source,
        qualifiers=qualifiers,
        items=items,
        where=condition_of(tree, "where"),
        groups=groups,
        window=window,
        having=condition_of(tree, "having"),
        order=order_of(tree),
        limit=limit_of(tree),
        last=last,
    )


class Outline(NamedTuple):
    """What is asked of a query again and again: the source that it reads, and its window."""

    source: str
    window: Window | None


@functools.lru_cache(maxsize=256)
def outline_of(text: str) -> Outline:
    """Return the outline of a query; of the texts that were asked for last it is known. Raises as `parse_query`."""
    query = parse_query(text)
    return Outline(query.source, query.window)


def source_node(query: Query) -> exp.Expr:
    """Return where a query names its source."""
    node: exp.Expr = query.select.args["from_"].this
    return node


def check_clauses(tree: exp.Select, known: Collection[str], where: str) -> None:
    """Refuse clauses other than those that are known; `where` says in what they are not."""
    for clause, part in tree.args.items():
        if part and clause not in known:
            name = _CLAUSE_NAMES.get(clause, clause.strip("_").upper())
            at = part[0] if isinstance(part, list) else part
            raise refused(at if isinstance(at, exp.Expr) else tree, f"{name} is not in {where}")


def columns_read(query: str | Query) -> dict[str, exp.Expr]:
    """List the raw columns a query reads, before any type is known: name as first written -> where it is read first.

    `ts`, `window` and columns of the job's last result are not listed. A name in GROUP BY, HAVING or ORDER BY that is
    also an output name counts as the output unless the column is read elsewhere, as in Spark when the source has no
    such column.
    """
    parsed = parse_query(query) if isinstance(query, str) else query
    outputs = {item.name.lower() for item in parsed.items}
    found: dict[str, exp.Expr] = {}
    inner: list[exp.Expr] = [item.node for item in parsed.items]
    if parsed.where is not None:
        inner.append(parsed.where)
    if parsed.last is not None:
        inner += [column for column, _ in parsed.last.on]
    outer = [*parsed.groups, *parsed.order]
    if parsed.having is not None:
        outer.append(parsed.having)
    seen = {TIME_COLUMN}
    for parts, hidden in ((inner, frozenset[str]()), (outer, outputs)):
        for column in (column for part in parts for column in part.find_all(exp.Column)):
            name = column.name
            if name.lower() in seen or name.lower() in hidden or is_window_field(column) or is_last(column):
                continue
            if name.lower() == "window" and not column.table and parsed.window is not None:
                continue  # the window as a whole, of which `scopes` says what is meant
            seen.add(name.lower())
            found[name] = column
    return found


def is_window_field(node: exp.Expr) -> bool:
    """Whether the node is `window.start` or `window.end`."""
    return isinstance(node, exp.Column) and node.table.lower() == "window" and node.name.lower() in ("start", "end")


def is_window_call(node: exp.Expr) -> bool:
    """Whether the node is a call of `window(...)`."""
    return isinstance(node, exp.Anonymous) and node.name.lower() == "window"


def aggregate_call(node: exp.Expr) -> exp.Expr | None:
    """The call inside a node that is an aggregate, with or without FILTER or IGNORE NULLS; None if it is none."""
    call = node.this if isinstance(node, exp.Filter) else node
    call = call.this if isinstance(call, exp.IgnoreNulls | exp.RespectNulls) else call
    return call if isinstance(call, exp.Anonymous) and is_aggregate(call.name.lower()) else None


def is_aggregate(name: str) -> bool:
    """Whether a name in lower case is one of an aggregate, of the language or installed."""
    if name in AGGREGATES or name == "window":
        return name in AGGREGATES
    # What is installed is found when a job first calls a function that is not built in.
    from elf.agents.language.installed.installed import find_aggregate

    return find_aggregate(name) is not None


def _source(tree: exp.Select) -> tuple[str, frozenset[str]]:
    origin = tree.args.get("from_")
    if origin is None:
        raise refused(tree, "the query reads no source", "add FROM with the source's name")
    table = origin.this
    if not isinstance(table, exp.Table) or not isinstance(table.this, exp.Identifier):
        raise refused(origin, "FROM takes one source by name", "or job('creator/name'), another job's results")
    extra = [part for name, part in table.args.items() if part and name not in ("this", "alias")]
    if extra:
        raise refused(table, "FROM takes one source by name", "no database, join, sample or pivot")
    alias = table.args.get("alias")
    if alias is not None and alias.args.get("columns"):
        raise refused(alias, "a source's alias has no column list")
    return table.name, frozenset({table.name.lower(), *([table.alias.lower()] if table.alias else [])})


def items_of(tree: exp.Select) -> tuple[Item, ...]:
    """Return the output columns."""
    if len(tree.expressions) > OUTPUTS_MAX:
        raise refused(tree.expressions[OUTPUTS_MAX], f"more than {OUTPUTS_MAX} output columns")
    items: list[Item] = []
    for node in tree.expressions:
        if isinstance(node, exp.Star) or (isinstance(node, exp.Column) and isinstance(node.this, exp.Star)):
            raise refused(node, "SELECT * has no meaning in a job: name the group keys and aggregates")
        value = node.this if isinstance(node, exp.Alias) else node
        name = node.alias if isinstance(node, exp.Alias) else _natural_name(value)
        if not isinstance(name, str) or not name:
            raise refused(node, "this output column needs a plain name after AS")
        if name.lower() in {item.name.lower() for item in items}:
            raise refused(node, f"two output columns are named {name!r}", "give one of them another name with AS")
        items.append(Item(name, value))
    return tuple(items)


def _natural_name(node: exp.Expr) -> str:
    return (
        node.name
        if isinstance(node, exp.Column)
        else node.sql(dialect="spark", comments=False, normalize_functions=False)
    )


def condition_of(tree: exp.Select, clause: str) -> exp.Expr | None:
    """Return the condition of WHERE or HAVING."""
    part = tree.args.get(clause)
    return part.this if part is not None else None


def _groups(tree: exp.Select) -> tuple[tuple[exp.Expr, ...], Window | None]:
    group = tree.args.get("group")
    if group is None:
        return (), None
    extra = [name for name, part in group.args.items() if part and name != "expressions"]
    if extra:
        raise refused(group, f"GROUP BY {extra[0].replace('_', ' ').upper()} is not in the job language")
    windows = [node for node in group.expressions if is_window_call(node)]
    if len(windows) > 1:
        raise refused(windows[1], "a query has at most one window")
    keys = tuple(node for node in group.expressions if not is_window_call(node))
    return keys, _window(windows[0]) if windows else None


def _window(call: exp.Expr) -> Window:
    arguments = call.expressions
    if not 2 <= len(arguments) <= 3:
        raise refused(call, "window takes the time column, a size and at most a slide", "window(ts, '5 minutes')")
    time, *lengths = arguments
    if not isinstance(time, exp.Column) or time.name.lower() != TIME_COLUMN:
        raise refused(time, f"window runs over the event time column {TIME_COLUMN}", "window(ts, '5 minutes')")
    size_ms, slide_ms = (_length_ms(lengths[0]), _length_ms(lengths[-1]))
    if slide_ms > size_ms:
        raise refused(lengths[-1], "the window's slide is longer than its size", "events in between would be lost")
    return Window(size_ms, slide_ms)


def _length_ms(node: exp.Expr) -> int:
    if not (isinstance(node, exp.Literal) and node.is_string):
        raise refused(node, "a window's size and slide are written as text", "'5 minutes'")
    try:
        return parse_duration_ms(node.name, spark=True)
    except ValueError as error:
        raise refused(node, str(error)) from None


def order_of(tree: exp.Select) -> tuple[exp.Ordered, ...]:
    """Return the sort keys as written."""
    order = tree.args.get("order")
    if order is None:
        return ()
    for node in order.expressions:
        if not isinstance(node, exp.Ordered) or node.args.get("with_fill"):
            raise refused(node, "this ORDER BY is not in the job language")
    return tuple(order.expressions)


def limit_of(tree: exp.Select) -> int | None:
    """Return the most rows of a result."""
    limit = tree.args.get("limit")
    if limit is None:
        return None
    count = limit.args.get("expression")
    extra = [name for name, part in limit.args.items() if part and name != "expression"]
    if extra or not isinstance(count, exp.Literal) or count.is_string or not count.name.isdecimal():
        raise refused(limit, "LIMIT takes a whole number")
    if int(count.name) >= 2**31:
        raise refused(limit, "LIMIT is above 2147483647")
    return int(count.name)
