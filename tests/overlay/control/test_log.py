from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elf.overlay.contract import ORIGIN, LogEntry, Mark
from elf.overlay.control import log as control_log
from elf.overlay.control.log import ControlLog


def run_of(*terms: int, after: Mark = ORIGIN) -> list[LogEntry]:
    """Return entries of these terms, one after the other."""
    return [LogEntry(Mark(term, after.position + 1 + i), b"%d.%d" % (term, i)) for i, term in enumerate(terms)]


def histories() -> st.SearchStrategy[tuple[list[LogEntry], list[LogEntry]]]:
    """Two logs with a common beginning; then one root went on in old terms, the other in a new one."""

    def build(common: int, old: int, new: int) -> tuple[list[LogEntry], list[LogEntry]]:
        shared = run_of(*[1] * common)
        last = shared[-1].mark if shared else ORIGIN
        return shared + run_of(*[2] * old, after=last), shared + run_of(*[3] * new, after=last)

    return st.builds(build, st.integers(0, 6), st.integers(0, 6), st.integers(1, 6))


@given(histories(), st.data())
def test_taking_over_a_run_makes_two_logs_agree(
    pair: tuple[list[LogEntry], list[LogEntry]], data: st.DataObject
) -> None:
    older, newer = pair
    ours, theirs = ControlLog(entries=older), ControlLog(entries=newer)
    after, run = theirs.above(ours.last)
    assert run, "a later term is above everything before"
    cuts = sorted(data.draw(st.lists(st.integers(0, len(run)), max_size=3)))
    for first, last in zip([0, *cuts], [*cuts, len(run)], strict=True):
        before = run[first - 1].mark if first else after
        assert ours.take_over(before, run[first:last]) == (last > first)
    assert ours.entries == newer
    assert not ours.take_over(after, run)
    for entry in newer:
        assert entry.mark in ours
    for entry in older:
        assert (entry.mark in ours) == (entry in newer)


@given(st.lists(st.integers(0, 12), max_size=40), st.integers(0, 40))
def test_the_log_is_a_run_within_its_limits(sizes: list[int], asked: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(control_log, "CONTROL_ENTRIES_MAX", 8)
        patch.setattr(control_log, "CONTROL_LOG_BYTES_MAX", 30)
        log = ControlLog()
        for position, size in enumerate(sizes, 1):
            log.append(LogEntry(Mark(1, position), bytes(size)))
        assert len(log.entries) <= 8
        assert log.last == (Mark(1, len(sizes)) if sizes else ORIGIN)
        assert bool(log.entries) == bool(sizes)
        assert sum(len(entry.body) for entry in log.entries) <= 30
        positions = [entry.mark.position for entry in log.entries]
        assert positions == list(range(log.floor.position + 1, log.last.position + 1))
        after, run = log.above(Mark(1, asked))
        assert run == [entry for entry in log.entries if entry.mark.position > asked]
        assert log.next_above(Mark(1, asked)) == (after, run[0] if run else None)
        assert not run or run[0].mark.position == after.position + 1


def test_a_run_that_does_not_join_ours_takes_its_place() -> None:
    log = ControlLog(entries=run_of(1, 1))
    assert log.take_over(Mark(1, 7), run_of(1, after=Mark(1, 7)))
    assert (log.floor, log.last) == (Mark(1, 7), Mark(1, 8))
    assert Mark(1, 2) not in log
    assert ORIGIN not in log
    assert not log.take_over(ORIGIN, [])
