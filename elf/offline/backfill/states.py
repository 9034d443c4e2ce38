"""The states of a job's aggregates per interval and key, as Spark columns: what agents keep in panes, from events.

Each state is made of Spark's own aggregates, in the columns that `elf.cbt.aggregates` names; nothing of the agents'
evaluation is called. Of aggregates with slots Spark gives each distinct value with how often it came: the slot that a
value belongs to (a register, a bucket) is the sketch's to say (`elf.offline.backfill.panes`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import reduce
from operator import add
from typing import TYPE_CHECKING

import polars as pl

from elf.agents.errors import JobSpecError
from elf.agents.jobs.plan import Plan, syntax_of
from elf.agents.language.query import TIME_COLUMN
from elf.agents.language.ties import Ties
from elf.agents.language.types import SqlType
from elf.cbt import INTERVAL
from elf.cbt.aggregates import Slotted
from elf.cbt.aggregates.contract import Aggregate
from elf.cbt.aggregates.counts import Count
from elf.cbt.aggregates.extremes import Max, Min
from elf.cbt.aggregates.moments import StddevPop, StddevSamp, VarPop, VarSamp
from elf.cbt.aggregates.ordered import FirstBy, LastBy
from elf.cbt.aggregates.sums import Avg, Sum
from elf.offline.aggregates import Call, read_call
from elf.offline.expressions import to_column
from elf.offline.failing import without_failing
from elf.offline.scopes import EventScope

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

#: The column of a slotted aggregate's frame that says how often a value came, and its value's columns.
TIMES, VALUE = "times", "value"
_LIMB_BITS = 32
_TYPES = {kind.dtype: kind.ddl.lower() for kind in SqlType}


def state_frames(plan: Plan, events: DataFrame, span: tuple[int, int]) -> Iterator[tuple[str, DataFrame]]:
    """Yield what the panes of a span are made of: under "" the plain rows, under its name each slotted aggregate's.

    Args:
        plan: the compiled job, for the names and types of keys and states, and its checked tree.
        events: the source's, with the columns that the query reads.
        span: event time, half-open, in ms; whole intervals.

    Raises:
        JobSpecError: an aggregate is none that can be backfilled, or Spark refuses the query.
    """
    from pyspark.errors import AnalysisException
    from pyspark.sql import functions as F

    try:
        # Not `events.columns`: each question to the JVM, and each step of a frame, costs a pass a millisecond or more.
        scope = EventScope([TIME_COLUMN, *plan.columns])
        start, end = (F.timestamp_millis(F.lit(bound_ms)) for bound_ms in span)
        wanted = events.filter((F.col("ts") >= start) & (F.col("ts") < end))
        where, groups, found = syntax_of(plan)
        if where is not None:
            wanted = without_failing(wanted, [where], scope)
            wanted = wanted.filter(to_column(where, scope))
        wanted = without_failing(wanted, [*groups, *found.values()], scope)
        at_ms = F.unix_millis("ts")
        length, shift = F.lit(plan.numbering.length_ms), F.lit(plan.numbering.shift)
        interval = ((at_ms - F.pmod(at_ms, length)) / length).cast("bigint") + shift
        keys = [
            _typed(to_column(node, scope), dtype).alias(name)
            for node, (name, dtype) in zip(groups, plan.schema.keys, strict=True)
        ]
        by = [interval.alias(INTERVAL), *keys]
        calls, ties = {name: read_call(node, scope) for name, node in found.items()}, Ties(found.values())
        tied = {name: [to_column(tie.value, scope) for tie in ties.of(node)] for name, node in found.items()}
        plain = {
            column: state
            for name, aggregate in plan.schema.aggregates
            if not isinstance(aggregate, Slotted)
            for column, state in _states(name, aggregate, calls[name], tied[name]).items()
        }
        states = [state.alias(column) for column, state in plain.items()]
        grouped = wanted.groupBy(*by).agg(*states) if states else wanted.select(*by).distinct()
        kinds = {INTERVAL: pl.Int64(), **dict(plan.schema.keys)}
        yield "", _as_shown(grouped, kinds, list(plain))
        for name, aggregate in plan.schema.aggregates:
            if isinstance(aggregate, Slotted):
                yield name, _values(wanted, by, kinds, aggregate, calls[name])
    except AnalysisException as error:
        raise JobSpecError(f"Spark refuses the query: {str(error).strip().splitlines()[0]}") from None


def _as_shown(frame: DataFrame, kinds: Mapping[str, pl.DataType], others: Sequence[str]) -> DataFrame:
    """Put columns of some types as panes have them, before the others."""
    from pyspark.sql import functions as F

    if not any(kind.is_temporal() for kind in kinds.values()):
        return frame
    shown = [_shown(F.col(name), kind).alias(name) for name, kind in kinds.items()]
    return frame.select(*shown, *map(F.col, others))


def _values(
    events: DataFrame, by: Sequence[Column], kinds: Mapping[str, pl.DataType], aggregate: Slotted, call: Call
) -> DataFrame:
    """Count the distinct values of a slotted aggregate's input under each key; values of which a part is null go."""
    from pyspark.sql import functions as F

    values = _inputs(aggregate, call)
    columns = [f"{VALUE}{index}" for index in range(len(values))]
    rows = events.select(*by, *(call.only(value).alias(name) for value, name in zip(values, columns, strict=True)))
    grouped = rows.dropna(subset=columns).groupBy(*kinds, *columns).agg(F.count(F.lit(1)).alias(TIMES))
    return _as_shown(grouped, {**kinds, **dict(zip(columns, _dtypes(aggregate), strict=True))}, [TIMES])


def _states(name: str, aggregate: Aggregate, call: Call, tied: Sequence[Column]) -> dict[str, Column]:
    """Return, by name, the state columns of an aggregate that keeps all it has in the row of its key.

    `tied`: what tells its rows apart, if that is more than the value.

    Raises:
        JobSpecError: it is none that Spark can compute the states of.
    """
    match aggregate:
        case Count():
            states = [_count(call)]
        case Sum() | Avg():
            states = _totals(f"{name}_hi" in aggregate.states(name), len(aggregate.states(name)), aggregate, call)
        case Min() | Max():
            states = _extremes(name, aggregate, call)
        case VarPop() | VarSamp() | StddevPop() | StddevSamp():
            states = _moments(aggregate, call)
        case FirstBy() | LastBy():
            states = _by(name, aggregate, call, tied)
        case _:
            raise JobSpecError(f"{call.name}() cannot be backfilled: its states cannot be computed by Spark")
    return dict(zip(aggregate.states(name), states, strict=True))


def _count(call: Call) -> Column:
    from pyspark.sql import functions as F

    if call.name == "count_if":
        return F.count(F.when(call.only(call.values[0].cast("boolean")), F.lit(1)))
    known = F.lit(1)
    for value in reversed(call.values):
        known = F.when(value.isNotNull(), known)
    return F.count(call.only(known))


def _totals(is_double: bool, states: int, aggregate: Aggregate, call: Call) -> list[Column]:
    """Add up: doubles to one double, small integers to one number, others to a lower limb and the rest."""
    from pyspark.sql import functions as F

    (value,) = (call.only(each) for each in _inputs(aggregate, call))
    count = F.count(value)
    if is_double:
        return [F.coalesce(F.sum(value), F.lit(0.0)), F.lit(0.0), count]
    if states == 2:
        return [F.coalesce(F.sum(value.cast("bigint")), F.lit(0)), count]
    mask = F.lit(2**_LIMB_BITS - 1)
    lower = F.coalesce(F.sum(value.bitwiseAND(mask)), F.lit(0))
    upper = F.coalesce(F.sum(F.shiftright(value, _LIMB_BITS)), F.lit(0))
    return [lower.bitwiseAND(mask), upper + F.shiftright(lower, _LIMB_BITS), count]


def _extremes(name: str, aggregate: Min | Max, call: Call) -> list[Column]:
    from pyspark.sql import functions as F

    (value,) = (call.only(each) for each in _inputs(aggregate, call))
    found = F.max(value) if aggregate.largest else F.min(value)
    nothing = list(aggregate.identity(name).values())[1]
    return [found.isNotNull(), F.coalesce(_shown(found, aggregate.dtype), F.lit(nothing))]


def _moments(aggregate: Aggregate, call: Call) -> list[Column]:
    from pyspark.sql import functions as F

    (value,) = (call.only(each) for each in _inputs(aggregate, call))
    count, zero = F.count(value), F.lit(0.0)
    return [count, F.coalesce(F.avg(value), zero), F.coalesce(F.var_pop(value) * count, zero)]


def _by(name: str, aggregate: FirstBy | LastBy, call: Call, tied: Sequence[Column]) -> list[Column]:
    """The least or greatest row of an order key and values; a null value comes before all others."""
    from pyspark.sql import functions as F

    assert isinstance(aggregate.dtype, pl.Struct)
    by_dtype, *dtypes = _dtypes(aggregate)
    fields = [field.name for field in aggregate.dtype.fields][1:]
    own = fields.index("value")
    values = [_typed(value, dtype) for value, dtype in zip(tied or call.values[:1], dtypes, strict=True)]
    by_time = call.name.startswith(("first", "last"))
    if call.name == "any_value":
        by = reduce(add, (value.isNull().cast("int") for value in values))
    else:
        by = _typed(F.col("ts") if by_time else call.values[1], by_dtype)
    row = F.struct(by.alias("by"), *(value.alias(field) for field, value in zip(fields, values, strict=True)))
    skips = call.skips_nulls or (by_time and len(call.parts) == 2 and bool(call.parts[1].this))
    needed = values[own] if skips or call.name == "any_value" else by
    row = call.only(F.when(needed.isNotNull(), row))
    found = F.max(row) if aggregate.last else F.min(row)
    nothing = list(aggregate.identity(name).values())
    states = [found.isNotNull(), F.coalesce(_shown(found["by"], by_dtype), F.lit(nothing[1]))]
    for at, (field, dtype) in enumerate(zip(fields, dtypes, strict=True)):
        states.append(found[field].isNotNull())
        states.append(F.coalesce(_shown(found[field], dtype), F.lit(nothing[3 + 2 * at])))
    return states


def _inputs(aggregate: Aggregate, call: Call) -> list[Column]:
    """What an aggregate reads of an event, in the types that it takes."""
    return [_typed(value, dtype) for value, dtype in zip(call.values, _dtypes(aggregate), strict=False)]


def _dtypes(aggregate: Aggregate) -> list[pl.DataType]:
    """The types of an aggregate's inputs; moments take any number as a double."""
    if isinstance(aggregate.dtype, pl.Struct):
        types = (field.dtype for field in aggregate.dtype.fields)
        return [kind() if isinstance(kind, type) else kind for kind in types]
    return [aggregate.dtype]


def _typed(value: Column, dtype: pl.DataType) -> Column:
    """A value in a type of the job language; of equal doubles the same bits."""
    from pyspark.sql import functions as F

    value = value.cast(_TYPES[dtype])
    return F.when(value == 0.0, F.lit(0.0)).otherwise(value) if dtype.is_float() else value


def _shown(value: Column, dtype: pl.DataType) -> Column:
    """A value as panes have it: times as microseconds, dates as days."""
    from pyspark.sql import functions as F

    if isinstance(dtype, pl.Datetime):
        return F.unix_micros(value)
    return F.unix_date(value) if isinstance(dtype, pl.Date) else value
