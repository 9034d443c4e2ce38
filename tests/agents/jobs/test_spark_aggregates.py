"""Every aggregate of the job language against Spark, over the same rows in pieces, by several keys."""

from __future__ import annotations

import math
import pathlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import polars as pl
import pytest

from elf.agents.errors import JobSpecError
from elf.agents.jobs.definition import Definition
from elf.agents.jobs.plan import compile_job
from tests.agents.jobs.rows import COLUMNS, frame

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

#: The relative tolerances of the prefixes.
TOLERANCES = {"~~": 0.25, "~": 1e-7, "": 1e-12}


class Case(NamedTuple):
    text: str
    spark: str
    refused: str | None
    tolerance: float


def cases() -> Iterator[Case]:
    for path in sorted((pathlib.Path(__file__).parent / "conformance" / "aggregates").glob("*.txt")):
        for line in path.read_text().splitlines():
            if not line.strip() or line.startswith("#"):
                continue
            text, _, reason = line.partition(" --> ")
            mark = text[: len(text) - len(text.lstrip("~"))]
            text, _, spark = text.lstrip("~ ").partition(" ==> ")
            yield Case(text, spark or text, reason or None, TOLERANCES[mark])


CASES = list(cases())
ACCEPTED = [case for case in CASES if case.refused is None]
KEYS = ["", "f", "s", "i % 3, g"]


def ours(query: str) -> pl.DataFrame:
    plan = compile_job(Definition(name="x", creator="x", source="rows", query=query), COLUMNS)
    events = frame().sample(fraction=1.0, shuffle=True, seed=11)
    paos = plan.schema.merge([plan.reduce(piece) for piece in events.iter_slices(13)])
    return plan.finish(plan.schema.merge_window([paos]), None)


def theirs(table: DataFrame, texts: list[str], by: list[str]) -> list[tuple[Any, ...]]:
    from pyspark.sql import functions as F

    result = table.groupBy(*map(F.expr, by)).agg(*(F.expr(text).alias(f"c{i}") for i, text in enumerate(texts)))
    plain = {"timestamp": "unix_micros({})", "date": "unix_date({})"}
    kinds = [(field.name, field.dataType.simpleString()) for field in result.schema][len(by) :]
    keys = [F.col(result.columns[i]).cast("string") for i in range(len(by))]
    cells = [F.expr(plain.get(kind, "{}").format(name)) for name, kind in kinds]
    return [tuple(row) for row in result.select(*keys, *cells).collect()]


@pytest.mark.parametrize("by", KEYS)
def test_as_spark(table: DataFrame, by: str) -> None:
    keys = by.split(", ") if by else []
    select = ", ".join([*(f"CAST({key} AS STRING) AS k{i}" for i, key in enumerate(keys))])
    items = ", ".join(f"{case.text} AS c{i}" for i, case in enumerate(ACCEPTED))
    query = f"SELECT {select + ', ' if select else ''}{items} FROM rows"
    got = ours(query + (f" GROUP BY {by}" if by else ""))
    got = got.with_columns(pl.col(name).to_physical() for name, kind in got.schema.items() if kind.is_temporal())
    meant = theirs(table, [case.spark for case in ACCEPTED], keys)
    width = len(keys)
    mine = {row[:width]: row[width:] for row in got.rows()}
    assert mine.keys() == {row[:width] for row in meant}
    wrong = [
        (case.text, row[:width], cell, other)
        for row in meant
        for case, cell, other in zip(ACCEPTED, mine[row[:width]], row[width:], strict=True)
        if not same(cell, other, case.tolerance)
    ]
    assert not wrong


def test_types_are_spark_s(table: DataFrame) -> None:
    from pyspark.sql import functions as F

    items = ", ".join(f"{case.text} AS c{i}" for i, case in enumerate(ACCEPTED))
    plan = compile_job(Definition(name="x", creator="x", source="rows", query=f"SELECT {items} FROM rows"), COLUMNS)
    result = table.agg(*(F.expr(case.spark).alias(f"c{i}") for i, case in enumerate(ACCEPTED)))
    types = [field.dataType.simpleString().upper() for field in result.schema]
    assert [(case.text, kind.ddl) for case, (_, kind) in zip(ACCEPTED, plan.output, strict=True)] == [
        (case.text, kind) for case, kind in zip(ACCEPTED, types, strict=True)
    ]


@pytest.mark.parametrize("case", [case for case in CASES if case.refused], ids=lambda case: case.text)
def test_refused(case: Case) -> None:
    assert case.refused is not None
    with pytest.raises(JobSpecError) as caught:
        ours(f"SELECT {case.text} FROM rows")
    assert case.refused in str(caught.value)


def same(cell: Any, other: Any, tolerance: float) -> bool:
    if isinstance(cell, float | int) and isinstance(other, float | int) and not isinstance(cell, bool):
        if math.isnan(cell) or math.isnan(other):
            return math.isnan(cell) and math.isnan(other)
        exact = isinstance(cell, int) and tolerance < 0.1
        return cell == other if exact else math.isclose(cell, other, rel_tol=tolerance, abs_tol=1e-9)
    return bool(cell == other) and type(cell) is type(other)
