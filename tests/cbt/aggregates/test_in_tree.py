"""Several aggregates in the real tree, side by side; each by itself is held to its laws in `test_laws`."""

from __future__ import annotations

from typing import Any

import polars as pl
from hypothesis import given
from hypothesis import strategies as st

from elf.cbt import BufferTree, PaoSchema
from tests.cbt.aggregates.cases import CASES
from tests.cbt.aggregates.reference import answers, made, raw
from tests.cbt.aggregates.test_laws import few, parts_of


@few
@given(st.data())
def test_all_aggregates_of_a_type_side_by_side(data: st.DataObject) -> None:
    chosen = [case for case in CASES if case.aggregate.dtype == pl.String()]
    rows: list[list[tuple[Any, Any]]] = data.draw(parts_of(chosen[0]))
    schema = PaoSchema((("k", pl.String()),), tuple((f"a{i}", case.aggregate) for i, case in enumerate(chosen)))
    frames = [made(schema, raw(part, pl.String())) for part in rows]
    tree = BufferTree(schema)
    for frame in frames:
        tree.insert(frame)
    snapshot = tree.snapshot()
    for i, case in enumerate(chosen):
        got = answers(snapshot, schema, f"a{i}")
        groups: dict[Any, list[Any]] = {}
        for key, value in (row for part in rows for row in part):
            groups.setdefault(key, []).extend([] if value is None else [value])
        assert got == {key: case.meaning(values) for key, values in groups.items()}
    tree.close()
