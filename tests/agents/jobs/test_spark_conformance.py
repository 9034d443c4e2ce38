"""Every expression of the job language against Spark, cell for cell: Spark is the judge."""

from __future__ import annotations

import pathlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import polars as pl
import pytest
from sqlglot import exp

from elf.agents.errors import JobSpecError
from elf.agents.jobs.definition import Definition
from elf.agents.jobs.plan import compile_job
from elf.agents.language.dialect import parse_statement
from elf.agents.language.expressions import compile_expression
from elf.agents.language.query import parse_query
from elf.agents.language.scopes import RowScope
from elf.agents.language.types import SqlType
from elf.agents.language.values import Value
from tests.agents.jobs.rows import COLUMNS, frame

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

HERE = pathlib.Path(__file__).parent
SPARK_TYPES = {kind.value: kind for kind in SqlType}


class Case(NamedTuple):
    topic: str
    text: str
    refused: str | None
    approximate: bool


def cases() -> Iterator[Case]:
    for path in sorted((HERE / "conformance").glob("*.txt")):
        for line in path.read_text().splitlines():
            if not line.strip() or line.startswith("#"):
                continue
            text, arrow, reason = line.partition(" --> ")
            approximate = text.startswith("~ ")
            yield Case(path.stem, text.removeprefix("~ "), reason if arrow else None, approximate)


CASES = list(cases())
COLUMNS_AT_ONCE = 64
#: Python has no dates before year 1 nor after 9999: compare numbers.
PLAIN = {"TIMESTAMP": "unix_micros({})", "DATE": "unix_date({})"}


def compiled(text: str) -> Value:
    scope = RowScope(parse_query("SELECT count(*) FROM rows"), COLUMNS)
    node = parse_statement(f"SELECT {text}\nFROM rows").expressions[0]
    value = compile_expression(node, scope)
    if not isinstance(value.type, SqlType):
        # What a job does with an output column of such a type.
        definition = Definition(name="x", creator="x", source="rows", query=f"SELECT {text} AS x, count(*) FROM rows")
        compile_job(definition, COLUMNS)
    return value


def test_the_table_is_large_enough() -> None:
    assert sum(case.refused is None for case in CASES) >= 1_000
    assert len({case.text for case in CASES}) == len(CASES)


@pytest.mark.parametrize("case", [case for case in CASES if case.refused], ids=lambda case: case.text)
def test_refused_with_the_reason_and_the_place(case: Case) -> None:
    with pytest.raises(JobSpecError) as caught:
        compiled(case.text)
    assert case.refused is not None and case.refused in str(caught.value)
    assert caught.value.line == 1 and caught.value.column is not None and caught.value.column >= len("SELECT ")


def test_equal_to_spark(table: DataFrame) -> None:
    rows = frame()
    answered = [case for case in CASES if case.refused is None]
    problems: list[str] = []
    ready: list[tuple[Case, Value]] = []
    for case in answered:
        try:
            ready.append((case, compiled(case.text)))
        except JobSpecError as error:
            problems.append(f"{case.text}: we refuse it: {error}")
    for start in range(0, len(ready), COLUMNS_AT_ONCE):
        problems += differences(table, rows, ready[start : start + COLUMNS_AT_ONCE])
    assert not problems, f"{len(problems)} of {len(answered)} differ:\n" + "\n".join(problems)


def differences(table: DataFrame, rows: pl.DataFrame, part: list[tuple[Case, Value]]) -> list[str]:
    """Compare what expressions are over the same rows here and in Spark; returns a sentence of each that differs."""
    ours = rows.select(_plain(value).alias(f"c{index}") for index, (_, value) in enumerate(part))
    types, problems = _spark_types(table, [case.text for case, _ in part])
    columns = {index: PLAIN.get(kind, "{}").format(part[index][0].text) for index, kind in types.items()}
    judged = table.selectExpr(*(f"{text} AS c{index}" for index, text in columns.items())).collect()
    for index in columns:
        case, value = part[index]
        if SPARK_TYPES.get(types[index]) is not value.type:
            problems.append(f"{case.text}: is {value.type.value}, in Spark {types[index]}")
            continue
        cells = ours[f"c{index}"].to_list()
        cells = cells * len(judged) if len(cells) == 1 else cells
        for row, (cell, truth) in enumerate(zip(cells, (each[f"c{index}"] for each in judged), strict=True)):
            if not _same(cell, truth, case.approximate):
                read = sorted({column.name for column in value.node.find_all(exp.Column)})
                shown = {name: rows[name][row] for name in read}
                problems.append(f"{case.text}: {cell!r}, in Spark {truth!r} for {shown}")
                break
    return problems


def _spark_types(table: DataFrame, texts: list[str]) -> tuple[dict[int, str], list[str]]:
    """What each expression's type is in Spark; one question for all unless Spark refuses one of them."""
    try:
        fields = table.selectExpr(*(f"{text} AS c{index}" for index, text in enumerate(texts))).schema
        return {index: field.dataType.simpleString().upper() for index, field in enumerate(fields)}, []
    except Exception as error:  # Spark's analysis and parse errors have no class in common.
        if len(texts) == 1:
            return {}, [f"{texts[0]}: Spark refuses it: {str(error).splitlines()[0][:150]}"]
    types: dict[int, str] = {}
    problems: list[str] = []
    for index, text in enumerate(texts):
        known, refused = _spark_types(table, [text])
        problems += refused
        if known:
            types[index] = known[0]
    return types, problems


def _plain(value: Value) -> pl.Expr:
    return value.expr.to_physical() if value.type.value in PLAIN else value.expr


def _same(ours: Any, truth: Any, approximate: bool) -> bool:
    if isinstance(ours, float) and isinstance(truth, float):
        if approximate and ours == pytest.approx(truth, rel=1e-14, abs=0, nan_ok=True):
            return True
        return repr(ours) == repr(truth)
    return type(ours) is type(truth) and bool(ours == truth)
