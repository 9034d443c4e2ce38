"""From a definition to what runs: the map side on every agent, the PAOs in between, the result on the master.

`compile_job` builds all Polars expressions once; `reduce` and `finish` only apply them. The offline planner evaluates
the same text with Spark and shares no code with this one. DESIGN section 4.
"""

from __future__ import annotations

import functools
import hashlib
import operator
import weakref
from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

import msgspec
import polars as pl
from polars.exceptions import PolarsError
from sqlglot import exp

from elf.agents.completeness.overflows import Overflows
from elf.agents.errors import JobError, JobSpecError
from elf.agents.jobs.alike import filter_key, map_key
from elf.agents.jobs.coded import chosen
from elf.agents.jobs.definition import Definition
from elf.agents.jobs.halves import Halves, MapHalf, ResultHalf, map_half, parsed_again, result_half, understood
from elf.agents.jobs.intervals import Numbering, check_beside, interval_ms_of, retain_ms_of
from elf.agents.jobs.shapes import Shape, shape_of
from elf.agents.jobs.unfit import overflows_of
from elf.agents.language.codes import with_texts
from elf.agents.language.combination import Combining, compile_joined
from elf.agents.language.dialect import refused
from elf.agents.language.groups import schema_of
from elf.agents.language.growth import check_growth
from elf.agents.language.iteration import Iterating
from elf.agents.language.own_functions import Admits, bound
from elf.agents.language.query import TIME_COLUMN, Query, Window, parse_query
from elf.agents.language.required_text import literals_of
from elf.agents.language.scopes import WINDOW_END, WINDOW_START, RowScope
from elf.agents.language.sort_keys import sort_rows
from elf.agents.language.types import ArrayType, SqlType
from elf.cbt.aggregates import AggregateLimit, AggregateOverflow, UserPaoError
from elf.cbt.folding import Unfit, finish, nothing
from elf.cbt.schema import INTERVAL, PaoSchema
from elf.overlay.interning import interned, interned_items, interned_mapping, interned_text

#: Bounds of how long a straggler is waited for when the job does not say: an agent that lost its parent or its root is
#: back within 3 s, and people do not wait for a minute because two long intervals are one.
LEAP_MS_MIN, LEAP_MS_MAX = 5_000, 10_000


class Syntax(NamedTuple):
    """The checked tree of a query, as far as it runs on events.

    Attributes:
        where: the row filter.
        groups: the group keys, as expressions over raw events, in the order of the schema's.
        calls: the call of each aggregate of the schema, by its name.
    """

    where: exp.Expr | None
    groups: tuple[exp.Expr, ...]
    calls: Mapping[str, exp.Expr]


class Plan(msgspec.Struct, frozen=True, eq=False, weakref=True):
    """A compiled job.

    Attributes:
        definition: what it was compiled from.
        source: the source it reads.
        columns: the raw columns it reads, without `ts`.
        literals: texts each of which every wanted event contains in its raw line; for skipping lines unparsed.
        numbering: of its intervals: how long they are.
        window: the window, None for a result since the job's start.
        schema: the shape of its PAOs.
        output: name and type of each output column.
        map_key: equal for plans that make the same PAOs of the same events, and name their columns alike; of intervals
            of one length.
        filter_key: equal for plans that keep the same events; None if there is no filter that others could share.
    """

    definition: Definition
    source: str
    columns: dict[str, SqlType]
    literals: tuple[str, ...]
    numbering: Numbering
    window: Window | None
    schema: PaoSchema
    output: tuple[tuple[str, SqlType | ArrayType], ...]
    map_key: bytes
    filter_key: bytes | None
    _shape: Shape
    _limit: int | None
    _halves: Halves
    #: What the master makes of other jobs' results, for its own are none; None for a job over a source.
    joined: Combining | None = None
    #: How the master joins PAOs with the job's last result; None for a job that does not read that.
    iterating: Iterating | None = None

    @property
    def interval_ms(self) -> int:
        """Length of an interval."""
        return self.numbering.length_ms

    @property
    def grouped(self) -> PaoSchema:
        """The shape of the PAOs that results are made of: the agents', or what `iterating` makes of them."""
        return self.schema if self.iterating is None else self.iterating.schema

    @property
    def leap_after_ms(self) -> int:
        """How long a result waits for agents that others are ahead of: two intervals (paper, 3.3), in bounds."""
        chosen = self.definition.options.leap_after_ms
        return chosen if chosen is not None else min(LEAP_MS_MAX, max(LEAP_MS_MIN, 2 * self.interval_ms))

    @property
    def retained(self) -> int:
        """How many intervals before the newest one with rows a job retains; without a window its one result is all."""
        if self.window is None:
            return 0
        return retain_ms_of(self.definition.options, self.window, self.iterating is not None) // self.interval_ms

    @property
    def _map(self) -> MapHalf:
        """What is computed of events; made again if it was let go."""
        made = self._halves.map
        if made is None:
            query, rows = parsed_again(self.definition, self.columns)
            mapped, _, _, _ = understood(query, rows)
            made = self._halves.map = map_half(mapped, self.numbering, rows)
        return made

    @property
    def _result(self) -> ResultHalf:
        """What is computed of PAOs; made again if it was let go."""
        made = self._halves.result
        if made is None:
            _, shown, written, _ = understood(*parsed_again(self.definition, self.columns))
            made = self._halves.result = result_half(shown, written)
        return made

    def reduce(self, events: pl.DataFrame) -> pl.DataFrame:
        """Map side: filter and derive, then reduce to one PAO row per interval and key. O(rows).

        Args:
            events: `ts` and at least `columns`, of texts or of their codes; other columns are ignored.
        """
        return self.mapped(self.wanted(events))

    def mapped(self, events: pl.DataFrame) -> pl.DataFrame:
        """Derive, and reduce to PAO rows, events that meet the filter: the second half of `reduce`."""
        # One after the other: handing expressions this cheap to Polars' threads costs more than they do.
        made = self._map
        return with_texts(self._shape.create(with_texts(events, made.texts).select_seq(made.inputs)))

    def wanted(self, events: pl.DataFrame, columns: Collection[str] = ()) -> pl.DataFrame:
        """Keep the events that meet the filter, of their columns those that are read, and `columns`."""
        conditions = self._map.conditions
        if not conditions:
            return events
        mask, others = chosen(events, conditions)
        if others:
            rest = functools.reduce(operator.and_, (each.expr for each in others))
            found = with_texts(events, {name for each in others for name in each.reads}).select_seq(rest).to_series()
            mask = found if mask is None else mask & found
        assert mask is not None
        if mask.len() != events.height:  # a constant condition
            return events if mask.item() else events.clear()
        read = (events[name] for name in dict.fromkeys((TIME_COLUMN, *self.columns, *columns)))
        return pl.DataFrame([column.filter(mask) for column in read])

    def finish(self, paos: pl.DataFrame, window: tuple[int, int] | None) -> pl.DataFrame:
        """Compute the result from PAOs merged over a window: HAVING, ORDER BY, LIMIT; see `ranked`."""
        return self._shown(self.ranked(paos, window))

    def told(self, paos: pl.DataFrame, window: tuple[int, int] | None) -> tuple[pl.DataFrame, Overflows]:
        """Compute the result as `finish` does, with NULL for values that do not fit; returns also whose these are."""
        ranked, overflows = self.ranked_and_told(paos, window)
        return self._shown(ranked), overflows

    def join(self, parts: Sequence[pl.DataFrame], limit: int | None = None) -> pl.DataFrame:
        """Compute the result from those of parts that have no key in common, as `ranked` makes them.

        Each needs only as many rows as are wanted of the result. Those of one part are sorted as they are.
        """
        if len(parts) == 1:
            return self._shown(parts[0] if limit is None else parts[0].head(limit))
        return self._shown(self._sorted(pl.concat(parts).lazy(), limit).collect())

    def ranked(self, paos: pl.DataFrame, window: tuple[int, int] | None, limit: int | None = None) -> pl.DataFrame:
        """Compute the rows of a result, and what they are ordered by, in columns `o0`, ... and `s0`, ....

        Rows that compare equal come in the order of all output columns, so equal PAOs give equal results.

        Args:
            paos: one row per key, without `interval`, as `grouped` has them.
            window: (start_ms, end_ms), half-open; None for a query without window.
            limit: most rows; those that come first.

        Raises:
            JobError: an aggregate cannot say what it should: an exact sum left its type, a set its bound.
        """
        ranked, overflows = self.ranked_and_told(paos, window, limit)
        if overflows.count:
            raise JobError("; ".join(overflows.sentences()))
        return ranked

    def ranked_and_told(
        self, paos: pl.DataFrame, window: tuple[int, int] | None, limit: int | None = None
    ) -> tuple[pl.DataFrame, Overflows]:
        """Compute rows as `ranked` does, with NULL for values that do not fit; returns also whose these are.

        Raises:
            JobError: an aggregate in Python fails.
        """
        if paos.height == 0 and not self.grouped.keys and self.window is None:
            # The state of an ungrouped query that no event has reached: one row, as in Spark.
            paos = nothing(self.grouped)
        bounds = window if window is not None else (None, None)
        span = [
            pl.lit(bound, dtype=pl.Int64).cast(pl.Datetime("ms")).cast(pl.Datetime("us")).alias(name)
            for name, bound in zip((WINDOW_START, WINDOW_END), bounds, strict=True)
        ]
        made, unfit = self._result, list[Unfit]()
        try:
            finished = finish(paos, self.grouped, unfit)
        except (AggregateOverflow, AggregateLimit) as error:
            raise JobError(str(error).replace(repr(error.column), repr(made.written[error.column]))) from None
        except UserPaoError as error:
            raise JobError(str(error)) from None
        frame = finished.lazy().with_columns(*span)
        if made.having is not None:
            frame = frame.filter(made.having)
        names, sorts = self._names
        frame = frame.with_columns(
            *(expr.alias(name) for expr, name in zip(made.results, names, strict=True)),
            *(order.expr.alias(name) for order, name in zip(made.order, sorts, strict=True)),
        )
        overflows = overflows_of(self.definition.query, self.grouped.key_names, made.written, unfit)
        return self._sorted(frame.select(*names, *sorts), limit).collect(), overflows

    @property
    def _names(self) -> tuple[list[str], list[str]]:
        """The columns of a result, and those that it is ordered by."""
        sorts = range(len(self._result.order))
        return [f"o{index}" for index in range(len(self.output))], [f"s{index}" for index in sorts]

    def _sorted(self, frame: pl.LazyFrame, limit: int | None) -> pl.LazyFrame:
        names, sorts = self._names
        frame = sort_rows(frame, self._result.order, sorts, names)
        limits = [most for most in (self._limit, limit) if most is not None]
        return frame.head(min(limits)) if limits else frame

    def _shown(self, ranked: pl.DataFrame) -> pl.DataFrame:
        """Return the columns of a result under their names for people."""
        names, _ = self._names
        # Not `select`, which is a query: most results are small.
        return pl.DataFrame([ranked[name].alias(out) for name, (out, _) in zip(names, self.output, strict=True)])


#: Digest of a definition and the types of its source -> its plan, for as long as somebody has it.
_plans: weakref.WeakValueDictionary[bytes, Plan] = weakref.WeakValueDictionary()


def compile_job(definition: Definition, columns: Mapping[str, SqlType], admits: Admits | None = None) -> Plan:
    """Check a job against its source's columns and compile it.

    Args:
        definition: the job.
        columns: types of the source's columns.
        admits: decides whether the functions that it brings along may run here; None: the plan is for no events.

    Raises:
        JobSpecError: the job cannot run as written, or would not mean what it means in Spark, or may not run here.
    """
    if definition.functions:
        return _compile_anew(definition, columns, admits)
    # An agent knows a job as a worker of it, as a member of its root group and in its catalogue: one plan serves all.
    text = msgspec.msgpack.encode((definition, {name: kind.ddl for name, kind in columns.items()}))
    key = hashlib.blake2b(text, digest_size=16).digest()
    plan = _plans.get(key)
    if plan is None:
        plan = _plans[key] = _compile_anew(definition, columns, admits)
    return plan


def _compile_anew(definition: Definition, columns: Mapping[str, SqlType], admits: Admits | None) -> Plan:
    try:
        query = parse_query(definition.query)
        check_growth(query.select)
        own = bound(definition.creator, definition.name, definition.functions, admits)
        plan = _compile(definition, query, RowScope(query, columns, own))
        if definition.joined is not None:
            plan = _joining(plan, compile_joined(definition.joined))
        _try_out(plan)
        _let_go(plan)
    except RecursionError:
        raise JobSpecError("the query is nested too deeply", line=1, column=1) from None
    except PolarsError as error:
        raise JobSpecError(f"the query cannot be evaluated: {str(error).splitlines()[0]}", line=1, column=1) from None
    return plan


def _compile(definition: Definition, query: Query, rows: RowScope) -> Plan:
    mapped, shown, written, iterating = understood(query, rows)
    options = definition.options
    if options.trees > 1 and not mapped.keys:
        hint = "leave trees out, or group by a column"
        raise refused(query.select, f"trees = {options.trees} spreads keys over trees, and here are none", hint)
    if not mapped.keys and not mapped.aggregates and query.window is None:
        raise refused(query.select, "a job aggregates: it needs GROUP BY or an aggregate", "count(*)")
    check_beside(definition, query)
    numbering = Numbering(interval_ms_of(definition, query.window), definition.shift)
    reading = frozenset(name for name, made in mapped.aggregates if made.input is not None)
    shape = shape_of(schema_of(query, mapped.keys, mapped.aggregates), reading)
    return Plan(
        definition=definition,
        source=interned_text(query.source),
        columns=interned_mapping(rows.read),
        literals=literals_of(mapped.where, rows),
        numbering=interned(numbering),
        window=interned(query.window),
        schema=shape.schema,
        output=interned_items((item.name, kind) for item, (_, kind) in zip(query.items, shown.results, strict=True)),
        map_key=interned(map_key(mapped.where, mapped.groups, mapped.calls, rows.read, definition.functions)),
        filter_key=interned(filter_key(mapped.where, _read_by(mapped.where, rows), definition.functions)),
        _shape=shape,
        _limit=query.limit,
        _halves=Halves(map_half(mapped, numbering, rows), result_half(shown, written)),
        iterating=iterating,
    )


def syntax_of(plan: Plan) -> Syntax:
    """Return the syntax tree of a plan; few ask for it, and it takes as much memory as all the rest of a plan."""
    mapped, _, _, _ = understood(*parsed_again(plan.definition, plan.columns))
    return Syntax(mapped.where, mapped.groups, mapped.calls)


def _read_by(node: exp.Expr | None, rows: RowScope) -> Mapping[str, SqlType]:
    """Return those columns that are read which an expression reads."""
    names = {column.name.lower() for column in node.find_all(exp.Column)} if node is not None else set()
    return {name: kind for name, kind in rows.read.items() if name.lower() in names}


def _joining(clock: Plan, joined: Combining) -> Plan:
    """Return the plan of a job over other jobs: no rows of its own, of the types of those that it makes of theirs."""
    nothing = tuple(pl.lit(None, dtype=kind.dtype) for _, kind in joined.output)
    halves = Halves(clock._map, clock._result._replace(results=nothing))
    return msgspec.structs.replace(clock, output=joined.output, _halves=halves, joined=joined)


def _let_go(plan: Plan) -> None:
    """Let go of what is computed until somebody needs it, if the query is all that it is made of."""
    if not plan.definition.functions and plan.joined is None and plan.iterating is None:
        plan._halves.map = plan._halves.result = None


def _try_out(plan: Plan) -> None:
    """Run the plan over no events, so that what Polars cannot evaluate is refused at publish."""
    schema = {TIME_COLUMN: pl.Datetime("ms"), **{name: kind.dtype for name, kind in plan.columns.items()}}
    paos = plan.reduce(pl.DataFrame(schema=schema))
    paos = paos.drop(INTERVAL)
    if plan.iterating is not None:
        last = pl.DataFrame(schema={name: kind.dtype for name, kind in plan.output})
        paos = plan.iterating.regroup(paos, last)
    result = plan.finish(paos, (0, 1) if plan.window is not None else None)
    expected = {name: kind.dtype for name, kind in plan.output}
    assert dict(result.schema) == expected, f"planned {expected}, got {dict(result.schema)}"
