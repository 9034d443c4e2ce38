"""Which blocks are made, kept and used: every interval of a window once, in few pieces, whatever panes there are."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import accumulate, pairwise

from hypothesis import given
from hypothesis import strategies as st
from sortedcontainers import SortedList

from elf.agents.master.panes import merged
from elf.agents.master.panes.merged import ROWS_MIN, STEPS_MAX, Merged, bounds_of, is_worth, name_of
from elf.overlay.contract import NEVER

#: Ends of panes' runs: a first one, and how much later each next one is.
ends_of_panes = st.builds(
    lambda first, steps: list(accumulate(steps, initial=first)),
    st.integers(-40, 40),
    st.lists(st.sampled_from([1, 1, 1, 2, 3, 17]), max_size=40),
)


def blocks_over(ends: list[int]) -> tuple[Merged, SortedList[int]]:
    known = SortedList(ends)

    def between(first: int, last: int) -> Iterator[int]:
        return iter(known.irange(first, last))

    return Merged([], [], between), known


def make_all(blocks: Merged) -> set[int]:
    made: set[int] = set()
    while names := blocks.steps(NEVER, ()):
        sizes = [bounds_of(name)[1] - bounds_of(name)[0] for name in names]
        assert len(names) <= STEPS_MAX and sizes == sorted(sizes), "larger ones are made of smaller ones"
        for name in names:
            blocks.add(name, worth=True)
        made.update(names)
    return made


def singles_of(ends: list[int]) -> list[int]:
    """The blocks of the panes of one interval; the first holds whatever came before its end."""
    return [name_of(0, end) for before, end in pairwise(ends) if before == end - 1]


def wanted(ends: list[int]) -> set[int]:
    """All blocks from the first to the last pane that hold the end of one and what comes after it."""
    found = set()
    for level in range(1, 12):
        for index in range(-100, 1000):
            first, last = bounds_of(name_of(level, index))
            if ends[0] <= first and last <= ends[-1] and any(first <= end < last for end in ends):
                found.add(name_of(level, index))
            if last > ends[-1]:
                break
    return found


@given(ends_of_panes)
def test_the_blocks_made_are_those_that_several_panes_lie_in(ends: list[int]) -> None:
    at_once, _ = blocks_over(ends)
    at_once.want_around(ends, ends[0] - 1, ends[-1])
    bit_by_bit, known = blocks_over(ends[:1])
    for end in ends[1:]:
        before = known[-1]
        known.add(end)
        bit_by_bit.want_around([before], ends[0] - 1, end)
    assert make_all(at_once) == make_all(bit_by_bit) == wanted(ends)


@given(ends_of_panes, st.booleans(), st.data())
def test_a_window_is_made_of_all_its_intervals_each_once(ends: list[int], singles: bool, data: st.DataObject) -> None:
    blocks, _ = blocks_over(ends)
    blocks.want_around(ends, ends[0] - 1, ends[-1])
    if singles:
        blocks.want(singles_of(ends))
    made = sorted(make_all(blocks))
    dropped = set(data.draw(st.lists(st.sampled_from(made), max_size=8))) if made else set()
    blocks.drop(dropped)
    first = data.draw(st.integers(ends[0] - 3, ends[-1] + 3))
    last = data.draw(st.integers(first, ends[-1] + 5))
    pieces = blocks.cover(first, last)
    assert pieces[0].first == first and pieces[-1].last == last
    for before, after in pairwise(pieces):
        assert before.last + 1 == after.first
        assert before.block is not None or after.block is not None, "what panes hold is read in one go"
    for piece in pieces:
        assert piece.block is None or (piece.block not in dropped and bounds_of(piece.block) == piece[1:])


@given(st.integers(-300, 300), st.integers(1, 400), st.data())
def test_a_window_of_n_panes_takes_at_most_two_pieces_a_level(first: int, panes: int, data: st.DataObject) -> None:
    ends = list(range(first, first + panes))
    blocks, _ = blocks_over(ends)
    blocks.want_around(ends, ends[0] - 1, ends[-1])
    made = make_all(blocks)
    assert len(made) < panes, "fewer blocks than panes"
    begin = data.draw(st.integers(first, first + panes - 1))
    end = data.draw(st.integers(begin, first + panes - 1))
    # One more on either side of interval zero, which no block holds both sides of.
    assert len(blocks.cover(begin, end)) <= 2 * (end - begin + 1).bit_length() + 2


@given(st.integers(-300, 300), st.integers(1, 400), st.data())
def test_where_panes_of_an_interval_have_blocks_of_their_own_no_pane_is_in_a_window(
    first: int, panes: int, data: st.DataObject
) -> None:
    ends = list(range(first, first + panes))
    blocks, _ = blocks_over(ends)
    blocks.want_around(ends, ends[0] - 1, ends[-1])
    blocks.want(name_of(0, end) for end in ends)
    make_all(blocks)
    begin = data.draw(st.integers(first, first + panes - 1))
    end = data.draw(st.integers(begin, first + panes - 1))
    pieces = blocks.cover(begin, end)
    assert all(piece.block is not None for piece in pieces)
    assert len(pieces) <= 2 * (end - begin + 1).bit_length() + 2


def test_blocks_of_single_panes_are_made_first_where_they_can_be() -> None:
    blocks, _ = blocks_over([0, 1, 2, 3])
    assert blocks.last_single() is None
    blocks.want_around([0, 1, 2, 3], -1, 3)
    blocks.want([name_of(0, 1), name_of(0, 2)])
    assert blocks.steps(NEVER, (), 1) == [name_of(1, 0), name_of(1, 1), name_of(2, 0)]
    assert blocks.steps(NEVER, [(2, 2)]) == [name_of(0, 1), name_of(1, 0)]
    blocks.add(name_of(0, 2), worth=False)
    blocks.add(name_of(0, 1), worth=True)
    assert blocks.last_single() == 2
    blocks.want([name_of(0, 1), name_of(0, 2)])
    assert blocks.steps(NEVER, ()) == [name_of(1, 0), name_of(1, 1), name_of(2, 0)], "what is known is not made again"
    assert [piece.block for piece in blocks.cover(1, 2)] == [name_of(0, 1), None]


@given(ends_of_panes, st.integers(-45, 200))
def test_blocks_that_hold_an_interval_or_are_too_old_are_found(ends: list[int], interval: int) -> None:
    blocks, _ = blocks_over(ends)
    blocks.want_around(ends, ends[0] - 1, ends[-1])
    made = make_all(blocks)
    assert set(blocks.within(interval, interval)) == {n for n in made if bounds_of(n)[0] <= interval <= bounds_of(n)[1]}
    old = {n for n in made if bounds_of(n)[0] <= interval}
    assert set(blocks.until(interval)) == old
    blocks.drop(made)
    young = {n for n in blocks.steps(interval, ()) if n in old}
    assert not young and not blocks.cover(ends[0], ends[0])[0].block


def test_a_block_that_holds_late_rows_of_this_commit_waits() -> None:
    blocks, _ = blocks_over([0, 1, 2, 3])
    blocks.want_around([0, 1, 2, 3], -1, 3)
    assert blocks.steps(NEVER, [(1, 1)]) == [name_of(1, 1)], "not 0 and 1, nor 0 to 3"
    assert [piece.block for piece in blocks.cover(0, 3, [name_of(2, 0)])] == [name_of(2, 0)], "one that is just made"
    blocks.forgo(name_of(1, 0))
    blocks.add(name_of(1, 1), worth=False)
    assert blocks.steps(NEVER, ()) == [name_of(2, 0)]
    assert [piece.block for piece in blocks.cover(2, 3)] == [None], "declined: its panes are read"
    assert blocks.within(3, 3) == [name_of(1, 1)]


def test_blocks_far_from_the_beginning_of_time_have_names_that_fit_a_database() -> None:
    for interval in (-(2**41), 2**47):
        name = name_of(1, interval >> 1)
        assert -(2**63) <= name < 2**63 and bounds_of(name)[0] <= interval <= bounds_of(name)[1]


def test_a_block_of_nearly_as_many_rows_as_its_parts_is_not_worth_it() -> None:
    assert is_worth(10_000, 20_000) and not is_worth(19_000, 20_000)
    assert is_worth(ROWS_MIN, ROWS_MIN), "few rows are worth it for the reads they save"
    assert merged.ROWS_SHARE_MAX < 1
