"""Adding to totals and taking them out of each other says the same as merging rows, and keeps rows in their places."""

from __future__ import annotations

import math
from collections import Counter

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from elf.cbt import aligned
from elf.cbt.aggregates import AggregateOverflow, aggregate
from elf.cbt.schema import INTERVAL, PaoSchema

SCHEMA = PaoSchema(
    keys=(("text", pl.String()), ("number", pl.Float64())),
    aggregates=(("a0", aggregate("count")), ("a1", aggregate("sum", pl.Int32()))),
)
KEYS = SCHEMA.addressing
Key = tuple[str | None, float | None]


def pao(rows: list[tuple[Key, int]]) -> pl.DataFrame:
    columns = {
        INTERVAL: [0] * len(rows),
        "text": [key[0] for key, _ in rows],
        "number": [key[1] for key, _ in rows],
    }
    states = {name: [value if "sum" in name else 1 for _, value in rows] for name in SCHEMA.states}
    return pl.DataFrame(columns | states, schema=SCHEMA.columns)


def content(frame: pl.DataFrame) -> dict[Key, tuple[int, ...]]:
    rows = frame.select("text", "number", *SCHEMA.states).rows()
    named = {(row[0], "NaN" if row[1] is not None and math.isnan(row[1]) else row[1]): row[2:] for row in rows}
    assert len(named) == len(rows), "one row per key"
    return named


def truth(rows: list[tuple[Key, int]]) -> dict[Key, tuple[int, ...]]:
    found: dict[Key, Counter[str]] = {}
    for (text, number), value in rows:
        key = text, "NaN" if number is not None and math.isnan(number) else number
        for name in SCHEMA.states:
            found.setdefault(key, Counter())[name] += value if "sum" in name else 1
    return {key: tuple(sums[name] for name in SCHEMA.states) for key, sums in found.items()}


keys = st.tuples(st.sampled_from([None, "", "a", "b" * 13, "c" * 40]), st.sampled_from([None, 0.0, -1.5, math.nan]))
parts = st.lists(st.lists(st.tuples(keys, st.integers(-3, 3)), max_size=6), min_size=1, max_size=8)


@given(parts)
def test_every_total_leads_all_later_ones_and_their_difference_is_what_came_between(
    script: list[list[tuple[Key, int]]],
) -> None:
    totals = [SCHEMA.empty()]
    for rows in script:
        totals.append(SCHEMA.add_to_total(totals[-1], [pao(rows)]))
        assert totals[-1].schema == SCHEMA.empty().schema
    for first, earlier in enumerate(totals):
        for last in range(first, len(totals)):
            assert aligned.leads(earlier, totals[last], KEYS)
            between = [row for rows in script[first:last] for row in rows]
            found = SCHEMA.difference(totals[last], earlier)
            assert content(found) == truth(between) and INTERVAL not in found.columns
            extra = [(("more", None), 1), *between[:1]]
            plus = SCHEMA.difference(totals[last], earlier, [pao(extra[:1]), pao(extra[1:])])
            assert content(plus) == truth([*between, *extra])


@given(parts, st.lists(st.tuples(keys, st.integers(-3, 3)), max_size=6))
def test_totals_that_late_rows_are_added_to_go_on_leading_each_other(
    script: list[list[tuple[Key, int]]], late: list[tuple[Key, int]]
) -> None:
    totals = [SCHEMA.empty()]
    for rows in script:
        totals.append(SCHEMA.add_to_total(totals[-1], [pao(rows)]))
    newest = SCHEMA.add_to_total(totals[-1], [pao(late)])
    amended = [SCHEMA.add_to_total(total, [pao(late)], newest) for total in totals[:-1]] + [newest]
    for number, total in enumerate(amended):
        assert aligned.leads(total, newest, KEYS)
        before = [row for rows in script[number:] for row in rows]
        assert content(SCHEMA.difference(newest, total)) == truth(before)


@given(parts, parts)
def test_totals_of_other_orders_are_subtracted_all_the_same(
    earlier: list[list[tuple[Key, int]]], later: list[list[tuple[Key, int]]]
) -> None:
    first = SCHEMA.merge([pao(rows) for rows in earlier])
    both = SCHEMA.merge([pao(rows) for rows in (*earlier, *later)])
    assert content(SCHEMA.difference(both, first)) == truth([row for rows in later for row in rows])


def test_a_sum_beyond_64_bits_is_refused() -> None:
    one = pao([(("a", None), 1)])
    large = one.with_columns(pl.lit(2**63 - 1, pl.Int64).alias("a1_sum"))
    with pytest.raises(AggregateOverflow, match="a1_sum"):
        SCHEMA.add_to_total(large, [one])
    small = one.with_columns(pl.lit(-2, pl.Int64).alias("a1_sum"))
    with pytest.raises(AggregateOverflow, match="a1_sum"):
        SCHEMA.difference(large, small)


def test_a_query_without_keys_has_a_total_of_one_row() -> None:
    schema = PaoSchema(keys=(), aggregates=(("a0", aggregate("count")),))
    one = pl.DataFrame({INTERVAL: [7], "a0_n": [2]})
    total = schema.add_to_total(schema.empty(), [one])
    later = schema.add_to_total(total, [one, one])
    assert later.rows() == [(0, 6)] and schema.difference(later, total).rows() == [(4,)]


def test_the_total_that_is_added_to_stays_as_it_was() -> None:
    base = pao([(("a", None), 1)])
    rows = SCHEMA.add_to_total(base, [pao([(("a", None), 5)])])
    assert content(base) == {("a", None): (1, 1, 1)} and content(rows) == {("a", None): (2, 6, 2)}
