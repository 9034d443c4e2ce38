"""The joined labels of any run of intervals say what the labels of its panes say, whatever was changed meanwhile."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from elf.agents.completeness.label import Label, join
from elf.agents.master.panes import labels as module
from elf.agents.master.panes.labels import Labels

lengths = st.lists(st.integers(1, 9), min_size=1, max_size=60)
facts = st.tuples(st.integers(0, 3), st.sets(st.sampled_from("abc")), st.integers(0, 2))


def made(previous: int, through: int, fact: tuple[int, set[str], int]) -> Label:
    void = through - previous if fact[0] == 3 else 0
    return Label(previous, through, 3, tuple(sorted(fact[1])), fact[0], 0, fact[2], void=void)


@given(lengths, st.lists(facts, min_size=60, max_size=60), st.integers(-40, 40), st.data())
def test_any_run_is_joined_as_if_label_by_label(
    runs: list[int], told: list[tuple[int, set[str], int]], first: int, data: st.DataObject
) -> None:
    module_blocks = module.BLOCKS
    module.BLOCKS = (16, 4)
    try:
        known: dict[int, Label] = {}
        through = first
        for length, fact in zip(runs, told, strict=False):
            known[through + length] = made(through, through + length, fact)
            through += length
        labels = Labels(known)
        for _ in range(3):
            begin = data.draw(st.integers(first - 5, through + 5))
            end = data.draw(st.integers(begin, through + 10))
            inside = [label for label in known.values() if label.through >= begin and label.previous < end]
            found = labels.joined(begin, end)
            clipped = [label.within(begin, end) for label in inside]
            assert (join(found) if found else None) == (join(clipped) if clipped else None)
            voided = sum(min(each.through, end) - max(each.previous, begin - 1) for each in inside if each.void)
            assert sum(label.void for label in found) == voided
            assert [known[key] for key in labels.holding(begin, end)] == inside
            changed = data.draw(st.sets(st.sampled_from(sorted(known)), max_size=3))
            gone = data.draw(st.sets(st.sampled_from(sorted(known)), max_size=2)) if len(known) > 9 else set[int]()
            known |= {key: known[key].revised() for key in changed}
            labels.replace({key: known[key] for key in changed - gone}, gone)
            known = {key: label for key, label in known.items() if key not in gone}
            assert (len(labels), labels.oldest(), labels.newest()) == (len(known), min(known), max(known))
    finally:
        module.BLOCKS = module_blocks
