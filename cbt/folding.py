"""From raw rows to PAO rows, and from merged PAO rows to final values, for all aggregates of a schema together.

A PAO frame has one plain row per (interval, keys), with null slots, and for each slotted aggregate one row per slot
that was met. Merging may have brought rows of zero counts (taken out again): they are left out of answers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import polars as pl

from cbt.aggregates import AggregateLimit, AggregateOverflow, Plain, Slotted
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
    for name, aggregate in schema.aggregates:
        value = inputs.get(name)
        if value is not None:
            values.append((aggregate.item(value) if isinstance(aggregate, Slotted) else value).alias(name))
    rows = frame.lazy().select(*by, *values)
    slotted = _slotted(schema)
    # Most frames of a log lie in one interval; grouping by one key fewer is a third faster.
    interval = _only_interval(frame) if isinstance(frame, pl.DataFrame) else None
    if interval is not None:
        by = by[1:]
    if slotted:
        rows = rows.collect().lazy()
    creates = [
        state
        for name, aggregate in schema.aggregates
        if not isinstance(aggregate, Slotted)
        for state in aggregate.create(name, None if inputs.get(name) is None else pl.col(name))
    ]
    parts = [_grouped(rows, by, creates)]
    for name, aggregate in slotted:
        items = rows.filter(pl.col(name).is_not_null())
        slots = [slot.alias(column) for column, slot in aggregate.slot(name, pl.col(name)).items()]
        parts.append(items.group_by(*by, *slots).agg(aggregate.create(name, pl.col(name))))
    collected = pl.collect_all(parts) if slotted else [parts[0].collect()]
    if interval is not None:
        collected = [part.with_columns(interval) for part in collected]
    return pl.concat(_complete(part, schema) for part in collected)


def _only_interval(frame: pl.DataFrame) -> pl.Expr | None:
    """The interval that all rows lie in, if it is one and there are rows."""
    first, last = frame[INTERVAL].min(), frame[INTERVAL].max()
    return pl.lit(first, dtype=pl.Int64).alias(INTERVAL) if first is not None and first == last else None


def _grouped(rows: pl.LazyFrame, by: list[str], creates: list[pl.Expr]) -> pl.LazyFrame:
    """Reduce by keys; without keys there is one group, without aggregates there are only keys."""
    if by:
        return rows.group_by(by).agg(creates)
    return rows.select(creates) if creates else rows.select(pl.lit(0).alias("__one")).head(1)


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
        aggregate.finish(name).alias(name) for name, aggregate in schema.aggregates if isinstance(aggregate, Plain)
    ]
    result = _evaluated(plain, [*map(pl.col, by), *finals], schema)
    for name, aggregate in slotted:
        rows = paos.filter(pl.all_horizontal(pl.col(list(aggregate.slots(name))).is_not_null()))
        result = _with_folded(result, rows, name, aggregate, by)
    return result.select(*by, *(name for name, _ in schema.aggregates))


def _evaluated(plain: pl.DataFrame, columns: Sequence[pl.Expr], schema: PaoSchema) -> pl.DataFrame:
    if not columns:
        return pl.DataFrame(height=plain.height)
    try:
        return plain.select(columns)
    except AggregateOverflow as error:
        text = str(error).partition("\n")[0]
        column = next(name for name, _ in schema.aggregates if f"'{name}'" in text)
        raise AggregateOverflow(text, column) from None


def nothing(schema: PaoSchema) -> pl.DataFrame:
    """The PAO of no rows under no keys: one plain row of identities, without `interval`."""
    columns = {column: dtype for column, dtype in schema.columns.items() if column != INTERVAL}
    row = dict.fromkeys(columns)
    for name, aggregate in schema.aggregates:
        row |= aggregate.identity(name)
    return pl.DataFrame([pl.Series(column, [row[column]], dtype=dtype) for column, dtype in columns.items()])


def _slotted(schema: PaoSchema) -> list[tuple[str, Slotted]]:
    return [(name, aggregate) for name, aggregate in schema.aggregates if isinstance(aggregate, Slotted)]


def _complete(part: pl.DataFrame, schema: PaoSchema) -> pl.DataFrame:
    """Give a frame of some aggregates' states the identities of the others, and null slots."""
    for column, dtype in part.schema.items():
        if isinstance(dtype, pl.Struct):
            part = part.unnest(column)
    if part.columns == list(schema.columns):
        return part
    absent: dict[str, object] = {}
    for name, aggregate in schema.aggregates:
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
