"""From raw rows to PAO rows, and from merged PAO rows to final values, for all aggregates of a schema together.

A PAO frame has one plain row per (interval, keys), with null slots, and for each slotted aggregate one row per slot
that was met. Merging may have brought rows of zero counts (taken out again): they are left out of answers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import cast

import polars as pl

from cbt.aggregates import AggregateLimit, AggregateOverflow, Plain, Slotted
from cbt.aggregates.contract import Aggregate
from cbt.schema import INTERVAL, PaoSchema


def create(frame: pl.DataFrame | pl.LazyFrame, schema: PaoSchema, inputs: Mapping[str, pl.Expr | None]) -> pl.DataFrame:
    """Reduce raw rows to PAO rows. O(rows).

    Args:
        frame: raw rows, with the columns `interval` and the schema's keys.
        schema: keys and aggregates; of slotted aggregates all rows of a key count together.
        inputs: for each aggregate what it reads, of its input type; None or missing for a count of rows.
    """
    by = [INTERVAL, *schema.key_names]
    values = []
    for name, aggregate in _aggregates(schema):
        value = inputs.get(name)
        if value is not None:
            values.append((aggregate.item(value) if isinstance(aggregate, Slotted) else value).alias(name))
    rows = frame.lazy().select(*by, *values)
    slotted = _slotted(schema)
    if slotted:
        rows = rows.collect().lazy()
    creates = [
        state
        for name, aggregate in _aggregates(schema)
        if not isinstance(aggregate, Slotted)
        for state in aggregate.create(name, None if inputs.get(name) is None else pl.col(name))
    ]
    parts = [rows.group_by(by).agg(creates)]
    for name, aggregate in slotted:
        items = rows.filter(pl.col(name).is_not_null())
        slots = [slot.alias(column) for column, slot in aggregate.slot(name, pl.col(name)).items()]
        parts.append(items.group_by(*by, *slots).agg(aggregate.create(name, pl.col(name))))
    return pl.concat(_complete(part, schema) for part in pl.collect_all(parts))


def finish(paos: pl.DataFrame, schema: PaoSchema) -> pl.DataFrame:
    """Compute final values: one row per plain row, with its keys and one column per aggregate. O(rows).

    Args:
        paos: merged rows, of any columns order; with or without `interval`, which then is a key.
        schema: keys and aggregates.

    Raises:
        AggregateLimit: a key has more distinct values than a bounded aggregate may hold.
        AggregateOverflow: an exact sum does not fit into its type.
    """
    by = [name for name in (INTERVAL, *schema.key_names) if name in paos.columns]
    slotted = _slotted(schema)
    slots = [slot for name, aggregate in slotted for slot in aggregate.slots(name)]
    plain = paos.filter(pl.all_horizontal(pl.col(slots).is_null())) if slots else paos
    finals = [
        aggregate.finish(name).alias(name) for name, aggregate in _aggregates(schema) if isinstance(aggregate, Plain)
    ]
    result = _evaluated(plain, [*map(pl.col, by), *finals], schema)
    for name, aggregate in slotted:
        rows = paos.filter(pl.all_horizontal(pl.col(list(aggregate.slots(name))).is_not_null()))
        result = _with_folded(result, rows, name, aggregate, by)
    return result.select(*by, *(name for name, _ in _aggregates(schema)))


def _evaluated(plain: pl.DataFrame, columns: Sequence[pl.Expr], schema: PaoSchema) -> pl.DataFrame:
    if not columns:
        return pl.DataFrame(height=plain.height)
    try:
        return plain.select(columns)
    except AggregateOverflow as error:
        text = str(error).partition("\n")[0]
        column = next(name for name, _ in _aggregates(schema) if f"'{name}'" in text)
        raise AggregateOverflow(text, column) from None


def nothing(schema: PaoSchema) -> pl.DataFrame:
    """The PAO of no rows under no keys: one plain row of identities, without `interval`."""
    columns = {column: dtype for column, dtype in schema.columns.items() if column != INTERVAL}
    row = dict.fromkeys(columns)
    for name, aggregate in _aggregates(schema):
        row |= aggregate.identity(name)
    return pl.DataFrame([pl.Series(column, [row[column]], dtype=dtype) for column, dtype in columns.items()])


def _aggregates(schema: PaoSchema) -> tuple[tuple[str, Aggregate], ...]:
    # The schema's type still says the aggregates of before.
    return cast(tuple[tuple[str, Aggregate], ...], schema.aggregates)


def _slotted(schema: PaoSchema) -> list[tuple[str, Slotted]]:
    return [(name, aggregate) for name, aggregate in _aggregates(schema) if isinstance(aggregate, Slotted)]


def _complete(part: pl.DataFrame, schema: PaoSchema) -> pl.DataFrame:
    """Give a frame of some aggregates' states the identities of the others, and null slots."""
    for column, dtype in part.schema.items():
        if isinstance(dtype, pl.Struct):
            part = part.unnest(column)
    absent: dict[str, object] = {}
    for name, aggregate in _aggregates(schema):
        absent |= dict.fromkeys(aggregate.slots(name)) | aggregate.identity(name)
    return part.select(
        column if column in part.columns else pl.lit(absent[column], dtype=dtype).alias(column)
        for column, dtype in schema.columns.items()
    )


def _check_limit(name: str, aggregate: Slotted, rows: pl.DataFrame, by: Sequence[str]) -> None:
    if aggregate.limit is not None and rows.height > aggregate.limit:
        most = rows.group_by(by).len()["len"].max() if by else rows.height
        if most > aggregate.limit:  # type: ignore[operator]
            raise AggregateLimit(name, aggregate.limit)


def _with_folded(
    result: pl.DataFrame, rows: pl.DataFrame, name: str, aggregate: Slotted, by: Sequence[str]
) -> pl.DataFrame:
    """Add a slotted aggregate's final values to the rows of their keys."""
    counts = [column for column, value in aggregate.identity(name).items() if value == 0]
    rows = rows.filter(pl.any_horizontal(pl.col(counts) != 0))
    _check_limit(name, aggregate, rows, by)
    # A key for the queries that have none.
    one = pl.lit(0, dtype=pl.Int8).alias("__one")
    keys = [*by, "__one"]
    folded = rows.with_columns(one).group_by(keys).agg(aggregate.fold(name).alias(name))
    joined = result.with_columns(one).join(folded, on=keys, how="left", nulls_equal=True).drop("__one")
    empty = pl.Series(name, [aggregate.nothing], dtype=aggregate.output)
    return joined.with_columns(pl.col(name).cast(aggregate.output).fill_null(pl.lit(empty).first()))
