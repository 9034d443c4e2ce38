"""The laws of lacks: what is merged in any order says the same, and nothing makes a result look better than it is."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elf.agents.completeness import lacks as module
from elf.agents.completeness.lacks import ARCHIVED, GAPS_MAX, RUNS_MAX, Cause, Lack, Lacks
from elf.agents.completeness.runs import RunsAfter, union
from elf.overlay.contract import NEVER
from tests.agents.completeness.examples import AGENTS, MOST, lacks, runs, some

Point = tuple[str, Cause, int]
bounds = st.integers(-2, MOST + 2)


def points(known: Lacks) -> set[Point]:
    """Return each interval that each agent lacks, and why."""
    return {
        (each.agent, each.cause, at)
        for each in known
        if each.agent is not None
        for at in range(each.first, each.last + 1)
    }


@given(some)
def test_lacks_are_what_was_told(told: list[Lack]) -> None:
    known = Lacks.of(told)
    gaps = Counter((each.first, each.last) for each in told if each.agent is None)
    wanted = {(lack.agent, lack.cause, at) for lack in told if lack.agent for at in range(lack.first, lack.last + 1)}
    assert points(known) == wanted and Counter(known.gaps) == gaps
    assert bool(known) == bool(told) and Lacks.of(known) == known == Lacks.of(reversed(told))
    assert known.agents == {each.agent for each in told if each.agent is not None}


@given(lacks, lacks, lacks)
def test_a_union_is_associative_and_commutative_and_nothing_is_its_unit(one: Lacks, two: Lacks, three: Lacks) -> None:
    assert (one | two) | three == one | (two | three)
    assert one | two == two | one
    assert one | Lacks() == one == Lacks() | one
    assert points(one | two) == points(one) | points(two)


@given(lacks)
def test_whoever_is_named_twice_is_named_once_and_gaps_are_counted(known: Lacks) -> None:
    twice = known | known
    assert twice.named == known.named and points(twice) == points(known)
    assert Counter(twice.gaps) == Counter(known.gaps) + Counter(known.gaps)


@given(lacks, lacks)
def test_what_has_come_is_lacking_no_more_and_nothing_else(known: Lacks, come: Lacks) -> None:
    left = known - come
    assert points(left) == points(known) - points(come) and left.gaps == known.gaps
    assert (left | come).named == (known | come).named
    assert known - Lacks() == known


@given(lacks, lacks, bounds, bounds)
def test_within_bounds_is_what_touches_them(known: Lacks, other: Lacks, first: int, last: int) -> None:
    inside = known.within(first, last)
    assert points(inside) == {point for point in points(known) if first <= point[2] <= last}
    assert list(inside.gaps) == [gap for gap in known.gaps if gap[0] <= last and first <= gap[1]]
    assert inside.within(first, last) == inside
    assert (known | other).within(first, last) == inside | other.within(first, last)


@given(lacks, lacks, bounds, bounds, bounds)
def test_whoever_asks_of_what_is_retained_notices_no_expiry(
    known: Lacks, other: Lacks, oldest: int, first: int, last: int
) -> None:
    left = known.within(oldest + 1)
    begin = max(first, oldest + 1)
    assert left.within(begin, last) == known.within(begin, last)
    assert all(each.last > oldest for each in left) and left.within(oldest + 1) == left
    assert (known | other).within(oldest + 1) == left | other.within(oldest + 1)
    assert known.within(NEVER) == known


@given(lacks, bounds, bounds)
def test_what_is_bounded_names_whom_it_named_wherever_it_did(known: Lacks, first: int, last: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "RUNS_MAX", 2)
        patch.setattr(module, "GAPS_MAX", 2)
        few = known.bounded()
        assert points(few) >= points(known) and few.bounded() == few
        assert len(few.gaps) <= 2 and all(len(runs) <= 2 for agents in few.named.values() for runs in agents.values())
        assert few.within(first, last).agents >= known.within(first, last).agents
        assert bool(few.within(first, last).gaps) >= bool(known.within(first, last).gaps)
    assert known.bounded() == known


@given(lacks, st.sets(st.sampled_from(AGENTS)), st.sets(st.sampled_from(Cause)))
def test_parts_are_of_whom_and_why_they_are_asked_for(known: Lacks, agents: set[str], causes: set[Cause]) -> None:
    assert points(known.by(agents)) == {point for point in points(known) if point[0] in agents}
    assert known.by(agents).gaps == known.gaps
    assert points(known.only(*causes)) == {point for point in points(known) if point[1] in causes}
    others = known.only(*set(Cause) - causes)
    assert known.only(*causes) | others | Lacks(gaps=known.gaps) == known


@given(lacks, st.lists(runs.map(lambda run: (run[0] - 1, run[1]))).map(lambda told: union(tuple(told))))
def test_archives_fill_in_only_what_was_read(known: Lacks, filled: RunsAfter) -> None:
    inside = {at for after, through in filled for at in range(after + 1, through + 1)}
    lost = {point for point in points(known) if point[1] not in ARCHIVED or point[2] not in inside}
    assert points(known.filled(filled)) == lost and known.filled(filled).gaps == known.gaps


def test_runs_of_an_agent_that_touch_are_one_and_bounds_are_generous() -> None:
    told = [Lack("a", 5, 7, Cause.MISSED), Lack("a", 8, 9, Cause.MISSED), Lack("a", 1, 2, Cause.CRASH)]
    assert Lacks.of(told).named == {Cause.MISSED: {"a": ((4, 9),)}, Cause.CRASH: {"a": ((0, 2),)}}
    many = Lacks.of(Lack("a", 2 * each, 2 * each, Cause.MISSED) for each in range(RUNS_MAX + 3)).bounded()
    assert many.runs(Cause.MISSED, "a")[:2] == ((-1, 6), (7, 8)) and len(many.named[Cause.MISSED]["a"]) == RUNS_MAX
    gaps = Lacks.of(Lack(None, each, each + 1, Cause.GAP) for each in range(3 * GAPS_MAX)).bounded().gaps
    assert len(gaps) == GAPS_MAX and gaps[0] == (0, 2 * GAPS_MAX + 1)
