"""Counts by column add up in any order, and nothing that is done with them makes a result look better than it is."""

from __future__ import annotations

from collections import Counter

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from elf.agents.completeness import tallies as module
from elf.agents.completeness.tallies import (
    COUNT_MAX,
    OTHERS,
    Counts,
    Tallies,
    added,
    bounded,
    ended,
    most,
    summed,
    tallied,
    totals,
    within,
    without,
)
from elf.agents.worker.payload import Notes, pack, unpack
from tests.agents.completeness.examples import MOST, counts, tallies, told
from tests.agents.plans import plan_of

bounds = st.integers(-2, MOST + 2)


def by_column(known: Tallies) -> Counter[str]:
    return Counter(dict(totals(known)))


@given(told)
def test_a_tally_is_what_was_told(said: list[tuple[str, int, int, int]]) -> None:
    known = tallied(said)
    assert known == tallied(reversed(said))
    assert by_column(known) == +sum((Counter({column: count}) for column, _, _, count in said), Counter())
    assert all(runs and list(runs) == sorted(runs) for runs in known.values())


@given(tallies, tallies, tallies)
def test_tallies_add_up_in_any_order(one: Tallies, two: Tallies, three: Tallies) -> None:
    assert added(one, two) == added(two, one) and added(one, {}) == one == added({}, one)
    assert added(added(one, two), three) == added(one, added(two, three))
    assert by_column(added(one, two)) == by_column(one) + by_column(two)


@given(tallies, tallies, bounds, bounds)
def test_within_bounds_is_what_touches_them(one: Tallies, two: Tallies, first: int, last: int) -> None:
    inside = within(one, first, last)
    assert within(inside, first, last) == inside
    assert within(added(one, two), first, last) == added(inside, within(two, first, last))
    assert added(ended(one, last), without(one, last)) == one
    assert all(run[1] <= last for runs in ended(one, last).values() for run in runs)


@given(tallies, bounds, bounds)
def test_what_is_bounded_counts_as_much_wherever_it_did(known: Tallies, first: int, last: int) -> None:
    few = bounded(known, 2)
    assert bounded(few, 2) == few and by_column(few) == by_column(known)
    assert all(len(runs) <= 2 for runs in few.values())
    assert by_column(within(few, first, last)) >= by_column(within(known, first, last))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "COLUMNS_MAX", 2)
        few = bounded(known, 2)
        assert len(few) <= 2 and by_column(few).total() == by_column(known).total()
        assert few.keys() <= {*known, OTHERS}
    assert bounded(known) == known


@given(counts, counts, counts)
def test_counts_are_summed_and_compared_column_by_column(one: Counts, two: Counts, three: Counts) -> None:
    for combine in (summed, most):
        assert combine([one, two]) == combine([two, one]) and combine([one, ()]) == one
        assert combine([combine([one, two]), three]) == combine([one, two, three])
    first, second = Counter(dict(one)), Counter(dict(two))
    assert dict(summed([one, two])) == first + second and dict(most([one, two])) == first | second
    assert most([one, one]) == one


@given(tallies)
def test_a_payload_brings_them(known: Tallies) -> None:
    plan = plan_of()
    payload = pack(Notes(mistyped=known), plan.schema.empty())
    assert (payload is None) == (not known)
    if payload is not None:
        assert unpack(payload, plan)[0].mistyped == known
        assert b"mistyped" in payload and b"misread" not in payload, "what says nothing is not sent"


def test_nobody_counts_more_than_records_hold() -> None:
    most_of_all = {"x": ((1, 1, COUNT_MAX),)}
    assert added(most_of_all, most_of_all) == most_of_all
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert({"mistyped": {"x": [[1, 1, COUNT_MAX + 1]]}}, Notes)
