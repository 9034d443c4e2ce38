"""The laws of aggregates: however rows are split and merged, the answer is the aggregate of the whole."""

from __future__ import annotations

import functools
import math
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from elf.cbt import BufferTree, PaoSchema, decode, encode
from elf.cbt.aggregates import AggregateOverflow, aggregate
from elf.cbt.aggregates.contract import Aggregate
from elf.cbt.folding import nothing
from elf.cbt.schema import INTERVAL
from tests.cbt.aggregates.cases import CASES, Case, longs
from tests.cbt.aggregates.reference import Schema, answers, assert_same_rows, made, merged, negated, raw, single

#: Each example draws for several groups of keys, which share nothing: what a frame costs is paid once for all of them.
GROUPS: list[list[str | None]] = [["x", "", None], ["a", "b", "c"], ["\0", "\0\0", "ä"], ["x" * 13, "x" * 14, "x\0"]]
few = settings(max_examples=6)
every_case = pytest.mark.parametrize("case", CASES, ids=lambda case: case.label)
Rows = list[tuple[str | None, Any]]


@functools.cache
def parts_of(case: Case) -> st.SearchStrategy[list[Rows]]:
    values = st.none() | case.values
    groups = [st.lists(st.tuples(st.sampled_from(keys), values), max_size=12) for keys in GROUPS]
    rows: st.SearchStrategy[Rows] = st.tuples(*groups).map(lambda lists: [row for rows in lists for row in rows])
    return st.lists(rows, min_size=3, max_size=3)


def close(one: Any, other: Any) -> bool:
    if isinstance(one, float) and isinstance(other, float):
        if math.isnan(one) or math.isnan(other):
            return math.isnan(one) and math.isnan(other)
        return math.isclose(one, other, rel_tol=1e-9, abs_tol=1e-3) or (abs(one) > 1e308 and abs(other) > 1e308)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(close, one, other))
    return bool(one == other)


@every_case
@few
@given(st.data())
def test_laws(case: Case, data: st.DataObject) -> None:
    """Drawing rows takes longer than all laws together, so that each example is held to every one."""
    schema = single(case.aggregate)
    parts = data.draw(parts_of(case))
    frames = [made(schema, raw(part, case.aggregate.dtype)) for part in parts]
    check_finish_of_merged_parts_is_the_aggregate_of_the_whole(case, schema, parts, frames)
    check_merge_is_commutative_and_associative(case, schema, frames)
    check_merging_with_nothing_changes_nothing(case, schema, frames[0])
    check_the_kernel_merges_as_the_reference(case, schema, frames)
    if case.aggregate.invertible:
        check_what_is_merged_in_can_be_taken_out(schema, frames)
        check_the_difference_of_trees_answers_as_what_came_between(case, schema, frames)


def check_finish_of_merged_parts_is_the_aggregate_of_the_whole(
    case: Case, schema: Schema, parts: list[Rows], frames: list[pl.DataFrame]
) -> None:
    got = answers(merged(frames, schema), schema)
    whole = [row for part in parts for row in part]
    direct = answers(made(schema, raw(whole, case.aggregate.dtype)), schema)
    groups: dict[Any, list[Any]] = {}
    for key, value in whole:
        groups.setdefault(key, []).extend([] if value is None else [value])
    assert got.keys() == direct.keys() == groups.keys()
    for key, values in groups.items():
        meant = case.meaning(values)
        assert close(got[key], meant), (got[key], meant, values)
        assert close(direct[key], meant), (direct[key], meant, values)


def check_merge_is_commutative_and_associative(case: Case, schema: Schema, frames: list[pl.DataFrame]) -> None:
    a, b, c = frames
    assert_same_rows(merged([a, b], schema), merged([b, a], schema), schema)
    left = merged([merged([a, b], schema), c], schema)
    right = merged([a, merged([b, c], schema)], schema)
    if case.exact:
        assert_same_rows(left, right, schema)
    else:
        one, other = answers(left, schema), answers(right, schema)
        assert all(close(value, other[key]) for key, value in one.items())


def check_merging_with_nothing_changes_nothing(case: Case, schema: Schema, paos: pl.DataFrame) -> None:
    row = nothing(Schema((), schema.aggregates)).select(list(case.aggregate.states("a")))
    empty = paos.select(INTERVAL, "k", *schema.slots).join(row, how="cross").select(list(schema.columns))
    assert_same_rows(merged([paos, empty], schema), paos, schema)
    assert_same_rows(merged([empty, paos], schema), paos, schema)


def check_what_is_merged_in_can_be_taken_out(schema: Schema, frames: list[pl.DataFrame]) -> None:
    a, b, _ = frames
    rest = merged([merged([a, b], schema), negated(b, schema)], schema)
    meant = answers(a, schema)
    left = answers(rest, schema)
    assert all(close(left[key], value) for key, value in meant.items())


def check_the_kernel_merges_as_the_reference(case: Case, reference: Schema, frames: list[pl.DataFrame]) -> None:
    schema = PaoSchema(reference.keys, reference.aggregates)
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


def check_the_difference_of_trees_answers_as_what_came_between(
    case: Case, reference: Schema, frames: list[pl.DataFrame]
) -> None:
    schema = PaoSchema(reference.keys, reference.aggregates)
    before, between, _ = frames
    earlier, later = BufferTree(schema), BufferTree(schema)
    earlier.insert(before)
    later.insert(pl.concat([before, between]))
    got = answers(pl.concat([schema.empty(), *later.difference(earlier)]), reference)
    meant = answers(between, reference)
    # A key is left out if nothing is left of it that any aggregate counts.
    nothing_of_it = case.meaning([])
    assert all(close(got.get(key, nothing_of_it), value) for key, value in meant.items())
    assert all(close(value, nothing_of_it) for key, value in got.items() if key not in meant)
    earlier.close()
    later.close()


def test_which_can_be_taken_out() -> None:
    invertible = [case.aggregate for case in CASES if case.aggregate.invertible]
    kinds = {f"{each.kind} {each.dtype}" for each in invertible}
    assert {"count Int64", "sum Int64", "avg Int64", "count_distinct String", "top_k String"} <= kinds
    assert not {"sum Float64", "min Int64", "var_pop Float64", "first_by"} & kinds


@given(st.lists(longs, min_size=1, max_size=8))
def test_a_sum_is_right_or_an_error_in_whatever_order_it_is_merged(values: list[int]) -> None:
    schema = single(aggregate("sum"))
    parts = merged([made(schema, raw([("k", value)], pl.Int64())) for value in values], schema)
    whole = made(schema, raw([("k", value) for value in values], pl.Int64()))
    for paos in (parts, whole):
        if -(2**63) <= sum(values) < 2**63:
            assert answers(paos, schema) == {"k": sum(values)}
        else:
            with pytest.raises(AggregateOverflow, match=r"^the sum in column 'a' does not fit into 64 bits$") as caught:
                answers(paos, schema)
            assert caught.value.column == "a"


def test_names_of_all_columns_begin_with_the_aggregates() -> None:
    for case in CASES:
        each: Aggregate = case.aggregate
        columns = {**each.states("a7"), **each.slots("a7")}
        assert all(column.startswith("a7_") for column in columns)
        assert sorted(column for merge in each.merges("a7") for column in merge.states) == sorted(each.states("a7"))
        assert each.identity("a7").keys() == each.states("a7").keys()
