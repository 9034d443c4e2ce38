"""Values that cannot be said: whose they are is told within bounds, and a result that lacks one is never final."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elf.agents.completeness.label import Label
from elf.agents.completeness.overflows import NONE, TOLD_MAX, Overflow, Overflows
from elf.agents.completeness.statement import joined, require_complete, stated
from elf.agents.errors import IncompleteError
from elf.agents.wire.positions import Json

FOUND = st.builds(
    Overflow,
    column=st.sampled_from(["sum(v)", "collect_set(v)"]),
    key=st.dictionaries(st.sampled_from("kmn"), st.text(max_size=3) | st.integers() | st.none(), max_size=2),
    why=st.just("the sum does not fit into 64 bits"),
)
PARTS = st.lists(FOUND, max_size=TOLD_MAX).flatmap(
    lambda first: st.integers(0, 5).map(lambda more: Overflows(tuple(first), len(first) + (more if first else 0)))
)


def said(overflows: Overflows, closed: bool = True) -> Json:
    label = Label(previous=0, through=1, expected=1)
    known = {"begun": True, "closed": closed, "awaited": False}
    return stated(label, 0, str, "exactly-once", **known, overflows=overflows)


@given(st.lists(PARTS, max_size=4))
def test_parts_are_joined_within_bounds_and_all_are_counted(parts: list[Overflows]) -> None:
    whole = Overflows.joined(parts)
    assert whole.count == sum(part.count for part in parts) and len(whole.first) <= min(TOLD_MAX, whole.count)
    assert set(map(str, whole.first)) <= {str(each) for part in parts for each in part.first}
    assert len(whole.sentences()) == len(whole.first) + (whole.count > len(whole.first))


@given(st.lists(PARTS, min_size=1, max_size=4), st.booleans())
def test_a_result_that_lacks_a_value_is_never_final(parts: list[Overflows], closed: bool) -> None:
    each = [said(part, closed) for part in parts]
    together = joined(each)
    for part, known in [*zip(parts, each, strict=True), (Overflows.joined(parts), together)]:
        assert ("overflows" in known) == (part.count > 0)
        assert (known["status"] == "final") == (closed and not part.count)
    assert together.get("overflows", {"count": 0})["count"] == sum(part.count for part in parts)


def test_whoever_wants_all_is_told_what_is_not_there() -> None:
    found = Overflow("sum(v)", {"k": "evil", "n": None}, "the sum does not fit into 64 bits")
    require_complete("shop/top", said(NONE))
    with pytest.raises(IncompleteError, match=r"sum\(v\) of k = 'evil', n = NULL is not there: the sum does not fit"):
        require_complete("shop/top", said(Overflows((found,), 1)))


def test_long_keys_are_cut() -> None:
    assert len(str(Overflow("sum(v)", {"k": "x" * 10_000}, "why"))) < 100
