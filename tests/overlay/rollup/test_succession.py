"""Where the successor of an agent that lost its disk begins."""

from __future__ import annotations

import pytest

from elf.overlay.contract import NEVER, Absence, RollupState, RosterEntry
from elf.overlay.rollup.succession import brought_through, counted_through


@pytest.mark.parametrize(
    ("entry", "through"),
    [
        (RosterEntry(NEVER), 9),
        (RosterEntry(3), 9),
        (RosterEntry(9), None),
        (RosterEntry(NEVER, (Absence(4, 6),)), 9),
        (RosterEntry(NEVER, (Absence(4, 6), Absence(7, 9))), 7),
        (RosterEntry(NEVER, (Absence(4, 7), Absence(7, 9, named=False))), 4),
        (RosterEntry(4, (Absence(4, 9),)), None),
        (RosterEntry(NEVER, (Absence(NEVER, 9),)), None),
        (RosterEntry(NEVER, (Absence(4, 6),), until=6), 4),
    ],
)
def test_the_gap_begins_after_the_last_interval_that_was_counted(entry: RosterEntry, through: int | None) -> None:
    assert counted_through(entry, 9) == through


def test_a_successor_begins_after_what_was_counted_of_the_lost_one_and_not_later() -> None:
    account = RosterEntry(NEVER, (Absence(4, 9),))
    rollup = RollupState(committed=9, roster={"a": account, "b": RosterEntry(9)})
    assert brought_through(rollup, "a", 9) == 4, "the rest of its intervals was never counted"
    assert brought_through(rollup, "b", 9) == NEVER
    assert brought_through(rollup, "a", 10) == 10, "a commit on its way may hold it"
    assert brought_through(rollup, "c", 7) == 7, "whoever is off the roster has what excluding said"
