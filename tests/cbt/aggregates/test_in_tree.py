"""Every aggregate in the real tree: the kernel merges as the reference does, and blocks carry all state columns."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from elf.cbt import BufferTree, PaoSchema, decode, encode
from tests.cbt.aggregates.cases import CASES, Case
from tests.cbt.aggregates.reference import answers, assert_same_rows, made, merged, raw, single
from tests.cbt.aggregates.test_laws import close, few, parts_of


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.label)
@few
@given(st.data())
def test_the_kernel_merges_as_the_reference(case: Case, data: st.DataObject) -> None:
    reference = single(case.aggregate)
    schema = PaoSchema(reference.keys, reference.aggregates)
    frames = [made(reference, raw(part, case.aggregate.dtype)) for part in data.draw(parts_of(case))]
    tree = BufferTree(schema)
    for frame in frames:
        tree.insert(decode(encode(frame), schema))
    meant = merged(frames, reference)
    for got in (tree.snapshot(), schema.merge(frames)):
        if case.exact:
            assert_same_rows(got, meant, reference)
        else:
            one, other = answers(got, reference), answers(meant, reference)
            assert all(close(value, other[key]) for key, value in one.items())
    tree.close()


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


@pytest.mark.parametrize("case", [case for case in CASES if case.aggregate.invertible], ids=lambda case: case.label)
@few
@given(st.data())
def test_the_difference_of_trees_answers_as_what_came_between(case: Case, data: st.DataObject) -> None:
    reference = single(case.aggregate)
    schema = PaoSchema(reference.keys, reference.aggregates)
    before, between, _ = (made(reference, raw(part, case.aggregate.dtype)) for part in data.draw(parts_of(case)))
    earlier, later = BufferTree(schema), BufferTree(schema)
    earlier.insert(before)
    later.insert(pl.concat([before, between]))
    got = answers(pl.concat([schema.empty(), *later.difference(earlier)]), reference)
    meant = answers(between, reference)
    # A key is left out if nothing is left of it that any aggregate counts.
    nothing = case.meaning([])
    assert all(close(got.get(key, nothing), value) for key, value in meant.items())
    assert all(close(value, nothing) for key, value in got.items() if key not in meant)
    earlier.close()
    later.close()
