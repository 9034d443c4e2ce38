"""Operators and functions of one value of every type, and of two of half of all pairs, on rows at the types' edges.

Spark is the judge: what we take has to be of Spark's type and the same in every cell; what we do not take
is refused in one sentence.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from elf.agents.errors import JobSpecError
from elf.agents.language.dialect import parse_statement
from elf.agents.language.expressions import compile_expression
from elf.agents.language.query import parse_query
from elf.agents.language.scopes import RowScope
from elf.agents.language.types import SqlType
from elf.agents.language.values import Value
from tests.agents.jobs.hostile import COLUMNS, columns, frame
from tests.agents.jobs.test_spark_conformance import COLUMNS_AT_ONCE, Case, differences

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

#: Of one value.
ONE = [
    *(f"CAST({{0}} AS {kind.value})" for kind in SqlType), "-{0}", "NOT {0}", "abs({0})", "ceil({0})", "floor({0})",
    "round({0})", "round({0}, 2)", "sign({0})", "sqrt({0})", "isnan({0})", "{0} IS TRUE", "length({0})", "upper({0})",
    "lower(upper({0}))", "trim({0})", "reverse({0})", "left({0}, 3)", "{0} LIKE '%1%'", "{0} RLIKE '^[-+]?[0-9]'",
    "split_part({0}, '.', 1)", "lpad({0}, 5, '0')", "try_url_decode({0})", "year({0})", "dayofweek({0})",
    "weekofyear({0})", "hour({0})", "date_trunc('week', {0})", "trunc({0}, 'quarter')", "last_day({0})", "to_date({0})",
    "to_timestamp({0})", "unix_timestamp({0})", "unix_millis({0})", "date_format({0}, 'y-MM-dd EEE HH:mm:ss.SSS')",
    "date_add({0}, 1)", "from_unixtime({0})", "timestamp_seconds({0})", "{0} = 0", "{0} < 1.5", "{0} IN (1, NULL)",
    "{0} = '5'", "{0} <=> NULL", "{0} > '2024-02-29'", "CASE WHEN {0} THEN 1 ELSE 2 END",
]  # fmt: skip
#: Of two.
TWO = [
    *(f"{{0}} {sign} {{1}}" for sign in ("=", "<", "<=>", "+", "-", "*", "/", "%", "DIV", "||", "AND")),
    "coalesce({0}, {1})", "if(boolean1, {0}, {1})", "nullif({0}, {1})", "greatest({0}, {1})", "least({0}, {1})",
    "{0} IN ({1}, {0})", "{0} BETWEEN {1} AND {0}", "concat_ws('-', {0}, {1})", "substr({0}, {1})", "right({0}, {1})",
    "datediff({0}, {1})", "instr({0}, {1})", "contains({0}, {1})",
]  # fmt: skip
#: Spark fails as a whole where counts of seconds are beyond 64 bits, and wraps them to texts of another time.
_NOT_OF_ALL = {"timestamp_seconds": "BIGINT", "from_unixtime": "BIGINT"}


def texts() -> Iterator[str]:
    for form, kind in itertools.product(ONE, SqlType):
        if _NOT_OF_ALL.get(form.partition("(")[0]) != kind.value:
            yield form.format(f"{kind.value.lower()}1")
    pairs = list(itertools.product(TWO, SqlType, SqlType))
    for form, one, other in random.Random(7).sample(pairs, len(pairs) // 2):
        yield form.format(f"{one.value.lower()}1", f"{other.value.lower()}2")


def taken() -> list[tuple[Case, Value]]:
    scope = RowScope(parse_query("SELECT count(*) FROM rows"), COLUMNS)
    found = []
    for text in texts():
        try:
            value = compile_expression(parse_statement(f"SELECT {text}\nFROM rows").expressions[0], scope)
        except JobSpecError as error:
            assert "\n" not in str(error) and str(error).startswith("1:"), text
            continue
        found.append((Case("pairs", text, None, approximate=False), value))
    return found


@pytest.fixture(scope="module")
def edges(spark: SparkSession) -> DataFrame:
    plain = {SqlType.DATE: ("INT", "date_from_unix_date({})"), SqlType.TIMESTAMP: ("BIGINT", "timestamp_micros({})")}
    kinds = {name: plain.get(kind, (kind.ddl, "{}")) for name, kind in COLUMNS.items()}
    made = columns()
    rows = spark.createDataFrame(
        list(zip(*made.values(), strict=True)), ", ".join(f"{name} {kind}" for name, (kind, _) in kinds.items())
    )
    return rows.selectExpr(*(f"{form.format(name)} AS {name}" for name, (_, form) in kinds.items())).coalesce(1).cache()


def test_what_is_taken_of_any_types_is_spark_s(edges: DataFrame) -> None:
    ready, rows, problems = taken(), frame(), []
    for start in range(0, len(ready), COLUMNS_AT_ONCE):
        problems += differences(edges, rows, ready[start : start + COLUMNS_AT_ONCE])
    assert not problems, f"{len(problems)} of {len(ready)} differ:\n" + "\n".join(problems)
    assert len(ready) > 300
