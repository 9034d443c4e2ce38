"""From raw rows to PAO rows, and from merged PAO rows to final values, for all aggregates of a schema together.

A PAO frame has one plain row per (interval, keys), with null slots, and for each slotted aggregate one row per slot
that was met. Merging may have brought rows of zero counts (taken out again): they are left out of answers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import polars as pl

from elf.cbt.aggregates import AggregateLimit, AggregateOverflow, Plain, Slotted, UserPaoError
from elf.cbt.frames import joined
from elf.cbt.schema import INTERVAL, PaoSchema

#: A column of zeros, where a frame would have no columns and so no rows.
_ONE = "__one"
#: So many reasons why an aggregate cannot say values are told apart: one in Python may have one for each key.
REASONS_MAX = 10
#: Tells that a key has slots of an aggregate.
_FOUND = "__found"
#: Frames of so many rows are grouped in the order of their keys, so that small runs repeat bit by bit: it costs them
#: nothing (measured from 10 to 512 rows; half as much again from 100,000 rows on). What order means to larger ones is
#: the same, none.
IN_ORDER_ROWS_MAX = 512


def creator(schema: PaoSchema, inputs: Mapping[str, pl.Expr | None]) -> Callable[[pl.DataFrame], pl.DataFrame]:
    """Make the function that reduces raw rows to PAO rows, O(rows).

    Args:
        schema: keys and aggregates.
        inputs: for each aggregate what it reads of a frame, of its input type; None or missing for a count of rows.

    Returns:
        A function of raw rows with the columns `interval` and the schema's keys.
    """
    creates = [
        state
        for name, aggregate in schema.aggregates
        if not isinstance(aggregate, Slotted)
        for state in aggregate.create(name, inputs.get(name))
    ]

    def reduce(rows: pl.DataFrame) -> pl.DataFrame:
        first, last = rows[INTERVAL].min(), rows[INTERVAL].max()
        # Most frames of a log lie in one interval; grouping by one key fewer is a third faster.
        single = first is not None and first == last
        by = list(schema.key_names) if single else [INTERVAL, *schema.key_names]
        parts = [_grouped(rows, by, creates)]
        for name, aggregate in _slotted(schema):
            value = inputs[name]
            assert value is not None, f"{aggregate.kind} needs an input"
            items = rows.select_seq(*by, aggregate.item(value).alias(name)).filter(pl.col(name).is_not_null())
            slots = [slot.alias(column) for column, slot in aggregate.slot(name, pl.col(name)).items()]
            parts.append(_grouped(items, [*by, *slots], aggregate.create(name, pl.col(name))))
        frames = [completed(part, schema, {INTERVAL: first}) for part in parts]
        return joined(frames)

    return reduce


class Unfit(NamedTuple):
    """An aggregate that cannot say its value under some keys.

    Attributes:
        aggregate: its name.
        why: what is wrong, in words.
        keys: whose values are not said: their rows, in columns `interval`, if it is one, and the schema's keys.
        rows: how many they are.
    """

    aggregate: str
    why: str
    keys: pl.DataFrame
    rows: int


def finish(paos: pl.DataFrame, schema: PaoSchema, unfit: list[Unfit] | None = None) -> pl.DataFrame:
    """Compute final values: one row per key, with one column per aggregate. O(rows).

    A key that only slot rows are left of, as a difference of trees may leave it, has a row like any other.

    Args:
        paos: merged rows, of any columns order; with or without `interval`, which then is a key.
        schema: keys and aggregates.
        unfit: takes up what cannot be said, which then is null; None: it raises.

    Raises:
        AggregateLimit: a key has more distinct values than a bounded aggregate may hold.
        AggregateOverflow: an exact sum does not fit into its type.
        UserPaoError: a PAO in Python fails.
    """
    by = [name for name in (INTERVAL, *schema.key_names) if name in paos.columns]
    finals = [
        aggregate.finish(name).alias(name) for name, aggregate in schema.aggregates if isinstance(aggregate, Plain)
    ]
    columns = [*map(pl.col, by), *finals]
    slotted = _slotted(schema)
    if not slotted:
        return _picked(_evaluated(paos, columns, by, schema, unfit), by, schema)
    # One more key, for the queries that have none.
    paos, keys = paos.with_columns(pl.lit(0, dtype=pl.Int8).alias(_ONE)), [*by, _ONE]
    columns.append(pl.col(_ONE))
    folded = [_folded(paos, name, aggregate, keys, unfit) for name, aggregate in slotted]
    slots = [slot for name, aggregate in slotted for slot in aggregate.slots(name)]
    result = _evaluated(paos.filter(pl.all_horizontal(pl.col(slots).is_null())), columns, by, schema, unfit)
    lost = pl.concat([part.select(keys) for part in folded]).unique().join(result, keys, "anti", nulls_equal=True)
    if lost.height:
        plain = nothing(schema).select(column for name, each in schema.aggregates for column in each.states(name))
        result = pl.concat([result, _evaluated(lost.join(plain, how="cross"), columns, by, schema, unfit)])
    for (name, aggregate), part in zip(slotted, folded, strict=True):
        found = part.with_columns(pl.lit(True).alias(_FOUND))
        joined = result.join(found, keys, "left", nulls_equal=True)
        empty = pl.lit(pl.Series(name, [aggregate.nothing], dtype=aggregate.output)).first()
        # Not of a key whose value is not said: it is in `part`, and null.
        absent = pl.col(_FOUND).is_null()
        value = pl.when(absent).then(empty).otherwise(pl.col(name).cast(aggregate.output))
        result = joined.with_columns(value.alias(name)).drop(_FOUND)
    return _picked(result, by, schema)


def _picked(result: pl.DataFrame, by: Sequence[str], schema: PaoSchema) -> pl.DataFrame:
    return pl.DataFrame([result[name] for name in (*by, *(name for name, _ in schema.aggregates))])


def _evaluated(
    plain: pl.DataFrame, columns: Sequence[pl.Expr], by: Sequence[str], schema: PaoSchema, unfit: list[Unfit] | None
) -> pl.DataFrame:
    try:
        # One after the other: most results are so small that what they cost is calls.
        return plain.select_seq(columns)
    except (AggregateOverflow, UserPaoError) as error:
        fitting = plain if unfit is None else _fitting(plain, by, schema, unfit)
        if fitting is plain and isinstance(error, AggregateOverflow):
            text = str(error).partition("\n")[0]
            column = next(name for name, _ in schema.aggregates if f"'{name}'" in text)
            raise AggregateOverflow(text, column) from None
        if fitting is plain:
            raise
    return fitting.select_seq(columns)


def _fitting(plain: pl.DataFrame, by: Sequence[str], schema: PaoSchema, unfit: list[Unfit]) -> pl.DataFrame:
    """Take out of plain rows the states of what cannot be said; the same rows if that is nothing."""
    for name, aggregate in schema.aggregates:
        unsaid = aggregate.unfit(name) if isinstance(aggregate, Plain) else None
        why = None if unsaid is None else plain.select_seq(unsaid).to_series()
        if why is None or why.null_count() == why.len():
            continue
        told = why.drop_nulls().unique().sort()
        for reason in told.head(REASONS_MAX):
            unfit.append(Unfit(name, reason, plain.filter(why == reason).select(by), int((why == reason).sum())))
        if told.len() > REASONS_MAX:
            rest = why.is_in(told.tail(-REASONS_MAX).implode())
            unfit.append(Unfit(name, "it fails", plain.filter(rest).select(by), int(rest.sum())))
        types, identity = aggregate.states(name), aggregate.identity(name)
        plain = plain.with_columns(
            pl.when(why.is_not_null()).then(pl.lit(identity[state], dtype)).otherwise(pl.col(state)).alias(state)
            for state, dtype in types.items()
        )
    return plain


def nothing(schema: PaoSchema) -> pl.DataFrame:
    """The PAO of no rows under no keys: one plain row of identities, without `interval`."""
    columns = {column: dtype for column, dtype in schema.columns.items() if column != INTERVAL}
    row = dict.fromkeys(columns)
    for name, aggregate in schema.aggregates:
        row |= aggregate.identity(name)
    return pl.DataFrame([pl.Series(column, [row[column]], dtype=dtype) for column, dtype in columns.items()])


def _slotted(schema: PaoSchema) -> list[tuple[str, Slotted]]:
    return [(name, aggregate) for name, aggregate in schema.aggregates if isinstance(aggregate, Slotted)]


def _grouped(rows: pl.DataFrame, by: Sequence[str | pl.Expr], creates: Sequence[pl.Expr]) -> pl.DataFrame:
    if by:
        in_order = rows.height <= IN_ORDER_ROWS_MAX
        return rows.lazy().group_by(by, maintain_order=in_order).agg(creates).collect()
    return rows.select_seq(creates) if creates else pl.DataFrame({_ONE: [0]})


def completed(part: pl.DataFrame, schema: PaoSchema, constants: Mapping[str, object]) -> pl.DataFrame:
    """Give a frame of some aggregates' states the identities of the others, null slots and constant keys."""
    present: dict[str, pl.Series] = {}
    for column in part.get_columns():
        for each in column.struct.unnest().get_columns() if isinstance(column.dtype, pl.Struct) else [column]:
            present[each.name] = each
    absent = dict(constants)
    for name, aggregate in schema.aggregates:
        absent |= dict.fromkeys(aggregate.slots(name)) | aggregate.identity(name)
    # Built from columns: a query in Polars takes longer than many a frame.
    return pl.DataFrame(
        present[name] if name in present else pl.Series(name, [absent[name]], dtype).new_from_index(0, part.height)
        for name, dtype in schema.columns.items()
    )


def _folded(
    paos: pl.DataFrame, name: str, aggregate: Slotted, keys: Sequence[str], unfit: list[Unfit] | None
) -> pl.DataFrame:
    """Compute a slotted aggregate's final value of each key that has slots."""
    counts = [column for column, value in aggregate.identity(name).items() if value == 0]
    ours = [pl.col(slot).is_not_null() for slot in aggregate.slots(name)]
    rows = paos.filter(*ours, pl.any_horizontal(pl.col(counts) != 0))
    if aggregate.limit is not None and rows.height > aggregate.limit:
        crowded = rows.group_by(keys).len().filter(pl.col("len") > aggregate.limit).select(keys)
        if crowded.height and unfit is None:
            raise AggregateLimit(name, aggregate.limit)
        if crowded.height and unfit is not None:
            why = f"it has more than {aggregate.limit} distinct values"
            unfit.append(Unfit(name, why, crowded, crowded.height))
            fitting = rows.join(crowded, keys, "anti", nulls_equal=True)
            folded = fitting.group_by(keys).agg(aggregate.fold(name).alias(name))
            return pl.concat([folded, crowded.with_columns(pl.lit(None, folded.schema[name]).alias(name))])
    return rows.group_by(keys).agg(aggregate.fold(name).alias(name))
