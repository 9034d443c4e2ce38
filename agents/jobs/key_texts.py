"""Keys as people write them: which value of a column's type a text stands for, and what to say of one that is none.

Pure. What is asked for is a value: 7 and 07 are the same number, 1 and 1.0, and a time with Z and one without.
"""

from __future__ import annotations

import polars as pl

from elf.agents.errors import JobError
from elf.agents.jobs.plan import Plan
from elf.agents.language.dialect import written
from elf.agents.language.instants import read_day, read_time
from elf.agents.language.query import is_window_field, parse_query
from elf.agents.language.sort_keys import by_position
from elf.agents.language.types import ArrayType, SqlType

_KINDS = {kind.dtype: kind for kind in SqlType}
_HELD = {
    SqlType.BOOLEAN: "true or false",
    SqlType.INT: "whole numbers",
    SqlType.BIGINT: "whole numbers",
    SqlType.DOUBLE: "numbers",
    SqlType.DATE: "days such as 2026-11-25",
    SqlType.TIMESTAMP: "times such as 2026-11-25T10:00:00Z",
}


def with_first_key(plan: Plan, paos: pl.DataFrame, text: str) -> pl.DataFrame:
    """Return the PAOs whose first group key is what a text says; all of a job without keys.

    Raises:
        JobError: no key can be that; the error names the key and its type.
    """
    if not plan.grouped.keys:
        return paos
    column, dtype = plan.grouped.keys[0]
    kind = _KINDS[dtype]
    value = _value(kind, text)
    if value is None:
        raise _refused(f"the first group key, {_first_group(plan)},", kind, text)
    return paos.filter(pl.col(column) == value)


def with_first_column(plan: Plan, rows: pl.DataFrame, text: str) -> pl.DataFrame:
    """Return the rows whose first column, which is the key of a job over other jobs, is what a text says.

    Raises:
        JobError: no value of it can be that; the error names the column and its type.
    """
    column, kind = plan.output[0]
    value = None if isinstance(kind, ArrayType) else _value(kind, text)
    if value is None:
        raise _refused(f"the first column, {column},", kind, text)
    return rows.filter(pl.nth(0) == value)


def _value(kind: SqlType, text: str) -> pl.Expr | None:
    """Return the value that a text stands for; None if it is none of that type."""
    match kind:
        case SqlType.STRING:
            return pl.lit(text, dtype=pl.String)
        case SqlType.BOOLEAN:
            return pl.lit(text.lower() == "true") if text.lower() in ("true", "false") else None
        case SqlType.INT | SqlType.BIGINT:
            whole = pl.Series([text]).cast(kind.dtype, strict=False).item()
            return None if whole is None else pl.lit(whole, dtype=kind.dtype)
    try:
        if kind is SqlType.DOUBLE:
            # Python takes more than others do.
            return None if "_" in text or text != text.strip() else pl.lit(float(text), dtype=kind.dtype)
        if kind is SqlType.DATE:
            return pl.lit(read_day(text), dtype=pl.Int32).cast(kind.dtype)
        return pl.lit(read_time(text), dtype=pl.Int64).cast(kind.dtype)
    except (ValueError, OverflowError):
        return None


def _refused(what: str, kind: SqlType | ArrayType, text: str) -> JobError:
    shown = text if len(text) <= 100 else f"{text[:100]}..."
    held = "lists" if isinstance(kind, ArrayType) else _HELD[kind]
    return JobError(f"{what} holds {held} ({kind.ddl}), and {shown!r} is none of these")


def _first_group(plan: Plan) -> str:
    query = parse_query(plan.definition.query)
    group = next(node for node in query.groups if not is_window_field(node))
    return written(by_position(group, query.items, "GROUP BY") or group)
