"""What is kept of a control log: all that a root is told to retain, and the mark alone elsewhere."""

from elf.overlay.contract import ORIGIN, ControlEntry, ControlState, LogEntry, Mark
from tests.sweep.runtime import handled


def test_a_root_keeps_entries_above_the_floor_and_others_the_mark_only() -> None:
    one, two, three = (Mark(1, position) for position in (1, 2, 3))
    state = ControlState()
    for mark in (one, two):
        state = handled(state, ControlEntry(mark, b"x", retain_above=ORIGIN))
    assert state == ControlState(two, ORIGIN, (LogEntry(one, b"x"), LogEntry(two, b"x")))
    kept = handled(state, ControlEntry(three, b"y", retain_above=one))
    assert kept == ControlState(three, one, (LogEntry(two, b"x"), LogEntry(three, b"y")))
    assert handled(kept, ControlEntry(Mark(2, 4), b"z", skipped=True)) == ControlState(Mark(2, 4), Mark(2, 4))
