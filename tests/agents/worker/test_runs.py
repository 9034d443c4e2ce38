"""Runs of intervals: what is in them by either way of writing, and what is forgotten of too many."""

from elf.agents.worker.runs import DROPPED_MAX, LOST_MAX, in_runs_after, in_runs_from, with_dropped, with_loss

RUNS = ((2, 4), (6, 7))


def test_the_first_number_is_in_runs_that_begin_from_it_and_not_in_those_that_come_after_it() -> None:
    assert [each for each in range(10) if in_runs_from(RUNS, each)] == [2, 3, 4, 6, 7]
    assert [each for each in range(10) if in_runs_after(RUNS, each)] == [3, 4, 7]
    assert not in_runs_from((), 0) and not in_runs_after((), 0)


def test_a_dropped_run_continues_the_last_one_and_the_oldest_are_forgotten() -> None:
    assert with_dropped(((2, 4),), (4, 6)) == ((2, 6),)
    assert with_dropped(((2, 4),), (5, 6)) == ((2, 4), (5, 6))
    many = tuple((3 * each, 3 * each + 1) for each in range(DROPPED_MAX))
    assert with_dropped(many, (9_000, 9_001)) == (*many[1:], (9_000, 9_001))


def test_of_too_many_losses_the_last_spans_two() -> None:
    many = tuple((3 * each, 3 * each + 1) for each in range(LOST_MAX))
    assert with_loss(many[:-1], many[-1]) == many
    assert with_loss(many, (9_000, 9_001)) == (*many[:-1], (many[-1][0], 9_001))
