"""However labels are joined, nothing that one of them says is lacking gets lost."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from elf.agents.completeness.label import RUNS_MAX, Label, join, join_trees
from elf.agents.completeness.lacks import Lacks
from elf.agents.completeness.statement import joined, of_side, stated
from elf.agents.wire.positions import Json
from tests.agents.completeness.examples import following, labels, lacks

COUNTS = ("late", "shed", "revision", "void", "damaged", "rejected", "lines", "misread")
#: From worst to best.
STATUSES = ("open", "partial", "final_incomplete", "revised", "final")
trees = st.lists(labels(previous=3), min_size=1, max_size=5)


def said(label: Label, gaps: int = 0, *, closed: bool = True, awaited: bool = False) -> Json:
    return stated(label, gaps, str, "exactly-once", begun=True, closed=closed, awaited=awaited)


@given(following(), st.integers(0, 5))
def test_panes_are_joined_in_any_groups(panes: list[Label], cut: int) -> None:
    whole, parts = join(panes), [part for part in (panes[:cut], panes[cut:]) if part]
    assert join([join(part) for part in parts]) == whole
    assert (whole.previous, whole.through) == (panes[0].previous, panes[-1].through)
    assert set(whole.missing) == {agent for each in panes for agent in each.missing}
    assert all(getattr(whole, name) == sum(getattr(each, name) for each in panes) for name in COUNTS)
    assert dict(whole.mistyped) == sum((Counter(dict(each.mistyped)) for each in panes), Counter())


@given(trees)
def test_trees_are_joined_in_any_order_and_are_no_better_than_the_worst(parts: list[Label]) -> None:
    whole = join_trees(parts)
    assert join_trees([*reversed(parts)]) == whole and join_trees([whole]) == whole
    assert whole.expected >= len(whole.missing) and whole.through == min(each.through for each in parts)
    for each in parts:
        assert set(each.missing) <= set(whole.missing) and whole.expected >= each.expected
        assert all(getattr(whole, name) >= getattr(each, name) for name in COUNTS)
        assert Counter(dict(each.mistyped)) <= Counter(dict(whole.mistyped))


bounds = st.tuples(st.integers(4, 60), st.integers(4, 60)).map(lambda ends: (min(ends), max(ends)))


@given(st.lists(st.integers(4, 60), max_size=40), st.integers(0, 2), bounds, bounds)
def test_a_part_of_a_pane_has_changed_as_often_as_its_intervals_have(
    changes: list[int], of_all: int, window: tuple[int, int], part: tuple[int, int]
) -> None:
    label = Label(previous=3, through=60, expected=1, revision=of_all)
    for number, interval in enumerate(changes):
        before = label
        label = label.revised().changed_at(interval, interval, 1)
        changed = {run[:2] for run in {*label.changed_in} - {*before.changed_in}}
        for at in range(4, 61):  # whom nobody tells of a change, sees none
            is_told = any(first <= at <= last for first, last in changed)
            assert is_told or label.within(at, at).revision == before.within(at, at).revision
        assert len(label.changed_in) <= RUNS_MAX and label.revision == of_all + number + 1
    first, last = window
    inside = of_all + sum(first <= each <= last for each in changes)
    assert inside <= label.within(first, last).revision <= label.revision
    if len({*changes}) <= RUNS_MAX:
        assert label.within(first, last).revision == inside
    rest = label.cut(part[0] - 1, part[1])
    first, last = max(first, part[0]), min(last, part[1])
    if first <= last:
        assert rest.within(first, last).revision == label.within(first, last).revision


@given(labels(), lacks)
def test_whoever_lacks_something_is_named(label: Label, known: Lacks) -> None:
    named = label.lacking(known)
    assert set(named.missing) == known.agents | set(label.missing) and label.lacking(Lacks()) == label
    assert named.lacking(known) == named


@given(labels(), st.integers(0, 2), st.booleans(), st.booleans())
def test_only_what_is_closed_and_lacks_nothing_is_final(label: Label, gaps: int, closed: bool, awaited: bool) -> None:
    told = said(label, gaps, closed=closed, awaited=awaited)
    unfit = bool(label.misread or label.mistyped)
    lacking = bool(label.missing or label.shed or label.void or gaps or label.damaged or unfit)
    assert (told["status"] in ("final", "revised")) == (closed and not awaited and not lacking)
    assert told["gaps"] == gaps + label.damaged and told["missing"] == list(label.missing)
    assert told.get("mistyped", {}) == dict(label.mistyped)
    assert told.get("causes", []) == ["lines"] * bool(label.misread) + ["types"] * bool(label.mistyped)
    assert told.get("rejected_of", 0) == (label.lines if label.rejected else 0)
    side = of_side(told, 1, "a", 7, is_open=not closed)
    status = "partial" if closed else "open"
    assert (side["status"], side["gaps"], side["side"], side["term"]) == (status, told["gaps"] + 1, "a", 7)


@given(st.lists(labels(), min_size=1, max_size=4))
def test_what_is_said_of_several_jobs_is_no_better_than_the_worst(parts: list[Label]) -> None:
    told = [said(each) for each in parts]
    whole = joined(told)
    assert STATUSES.index(whole["status"]) == min(STATUSES.index(each["status"]) for each in told)
    for each in told:
        assert set(each["missing"]) <= set(whole["missing"]) and whole["reported"] <= each["reported"]
        assert all(whole[name] >= each[name] for name in ("late", "shed", "rejected", "gaps", "void", "revision"))
        assert Counter(each.get("mistyped", {})) <= Counter(whole.get("mistyped", {}))
        assert set(each.get("causes", ())) <= set(whole.get("causes", ()))
        assert whole.get("rejected_of", 0) >= each.get("rejected_of", 0)
    assert joined([whole, *told])["missing"] == whole["missing"]
