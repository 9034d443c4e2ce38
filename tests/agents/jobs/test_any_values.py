"""Every expression of the conformance tests over values that nobody meant: none fails, whatever the data.

What an expression fails on is left out of the job, under a label, and is found by halving frames: a visitor who can
make one fail makes windows incomplete, and agents slow.
"""

from __future__ import annotations

import random
from typing import Any

import polars as pl
import pytest

from elf.agents.language.json_rows import json_rows
from elf.agents.language.types import SqlType
from tests.agents.jobs.rows import COLUMNS, frame
from tests.agents.jobs.test_spark_conformance import CASES, compiled

ROWS = 150
PHYSICAL = {SqlType.DATE: pl.Int32(), SqlType.TIMESTAMP: pl.Int64()}
BITS = {SqlType.INT: 32, SqlType.DATE: 32, SqlType.BIGINT: 64, SqlType.TIMESTAMP: 64}
DOUBLES = [float("nan"), float("inf"), -float("inf"), 1.8e308, -1.7e308, 5e-324, -0.0, 2.0**63, -(2.0**63), 0.5, 1e16]


class Rubbish:
    """Makes values of each type, most of them at the end of what the type holds."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        sane = frame()
        self.texts = [text for name in "stnwum" for text in sane[name].drop_nulls().to_list()]

    def value(self, kind: SqlType) -> Any:
        if self.random.random() < 0.1:
            return None
        if kind is SqlType.STRING:
            return self.text()
        if kind is SqlType.BOOLEAN:
            return self.random.random() < 0.5
        if kind is SqlType.DOUBLE:
            return self.random.choice([*DOUBLES, self.random.gauss(0, 100), self.random.uniform(-1e300, 1e300)])
        bits = BITS[kind]
        width = self.random.choice([3, bits // 2, bits - 1, bits - 1])
        edges = [2 ** (bits - 1) - 1, -(2 ** (bits - 1)), -1]
        return self.random.choice([*edges, *(self.random.randrange(-(2**width), 2**width) for _ in range(4))])

    def text(self) -> str:
        kind = self.random.randrange(4)
        if kind == 0:
            codes = (self.random.randrange(self.random.choice([0x80, 0x800, 0xD800])) for _ in range(10))
            return "".join(map(chr, codes))
        if kind == 1:
            return "".join(self.random.choices("0123456789+-.eE:TZ %/?#&=\\[]()", k=self.random.randrange(25)))
        if kind == 2:
            return "".join(f"%{self.random.randrange(256):02x}" for _ in range(self.random.randrange(8)))
        text = self.random.choice(self.texts)
        place = self.random.randrange(len(text) + 1)
        odd = self.random.choice(["%", "\0", "é", "\n", "9", "-", "\U0001f600", "+", ":", "\u0660", "\ufffd"])
        return text[:place] + odd + text[place + self.random.randrange(2) :]


@pytest.mark.parametrize("seed", [1, 2])
def test_no_value_makes_an_expression_fail(seed: int) -> None:
    rubbish = Rubbish(seed)
    columns = [
        pl.Series(name, [rubbish.value(kind) for _ in range(ROWS)], PHYSICAL.get(kind, kind.dtype)).cast(kind.dtype)
        for name, kind in COLUMNS.items()
    ]
    rows = pl.DataFrame([*columns, pl.Series("ts", range(ROWS)).cast(pl.Datetime("ms"))])
    failed = []
    for case in CASES:
        if case.refused is None:
            try:
                json_rows(rows.select(compiled(case.text).expr.alias("x")))
            except (Exception, pl.exceptions.PanicException) as error:
                failed.append(f"{case.text}: {type(error).__name__}: {error}")
    assert not failed
