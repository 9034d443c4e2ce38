"""A mapping with ordered keys, against a dictionary that is sorted each time."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from elf.agents.master.panes.ordered import Ordered

KEYS = st.integers(-5, 20)


@given(
    st.dictionaries(KEYS, st.integers()),
    st.lists(st.tuples(st.dictionaries(KEYS, st.integers()), st.lists(KEYS)), max_size=3),
)
def test_many_come_and_go_as_one_by_one(begin: dict[int, int], changes: list[tuple[dict[int, int], list[int]]]) -> None:
    model, ordered = dict(begin), Ordered(begin)
    for changed, gone in changes:
        model |= changed
        for key in gone:
            model.pop(key, None)
        ordered.replace(changed, gone)
        assert dict(ordered) == model and list(ordered) == sorted(model)


@given(st.dictionaries(KEYS, st.integers()), st.lists(st.tuples(KEYS, st.none() | st.integers())), KEYS, KEYS)
def test_it_is_a_dictionary_in_order(
    begin: dict[int, int], changes: list[tuple[int, int | None]], minimum: int, maximum: int
) -> None:
    model, ordered = dict(begin), Ordered(begin)
    for key, value in changes:
        if value is None:
            assert ordered.pop(key, "none") == model.pop(key, "none")
        else:
            ordered[key] = model[key] = value
    assert dict(ordered) == model and len(ordered) == len(model)
    assert list(ordered) == sorted(model) and list(reversed(ordered)) == sorted(model, reverse=True)
    assert list(ordered.values()) == [model[key] for key in sorted(model)]
    assert (minimum in ordered, ordered.get(minimum)) == (minimum in model, model.get(minimum))
    inside = [key for key in sorted(model) if minimum <= key <= maximum]
    assert list(ordered.irange(minimum, maximum)) == inside
    assert list(ordered.irange(minimum, maximum, reverse=True)) == inside[::-1]
    assert list(ordered.irange(maximum=maximum)) == [key for key in sorted(model) if key <= maximum]
    if model:
        assert (ordered.first(), ordered.last()) == (min(model), max(model))
