"""Every snapshot that is made for a side is in hand, waiting, owed or counted: one of these, and once."""

from collections import Counter

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from elf.agents.results.split.handed import HandedOver
from elf.overlay.contract import NEVER, Verdict


def names(payload: bytes | None) -> list[bytes]:
    """Return the snapshots in a payload: here merging is joining their names."""
    return [] if payload is None else payload.split(b",")


def intervals(runs: list[tuple[int, int]]) -> list[int]:
    """Return the intervals of runs (after, through]; there is none before 0."""
    return [each for after, through in runs for each in range(max(after, -1) + 1, through + 1)]


class Handing(RuleBasedStateMachine):
    """An agent hands over one snapshot after another, while verdicts come whenever they like."""

    def __init__(self) -> None:
        super().__init__()
        self.handed_over = HandedOver()
        self.sealed = self.judged = -1
        self.made: list[bytes] = []
        self.counted: list[bytes] = []
        self.in_hand: tuple[int, bytes | None] | None = None
        #: Runs of intervals that went without us, and those that are told to be made up for.
        self.runs: list[tuple[int, int]] = []
        self.told: list[tuple[int, int]] = []

    @precondition(lambda self: self.in_hand is None)
    @rule(ahead=st.integers(1, 3), empty=st.booleans())
    def take(self, ahead: int, empty: bool) -> None:
        self.sealed += ahead
        payload = None if empty else b"%d" % self.sealed
        self.made += names(payload)
        taken = self.handed_over.take(self.sealed, payload)
        assert (taken is None) == (self.sealed <= self.judged)
        if taken is not None:
            parts, runs = taken
            self.told += runs
            self.in_hand = self.sealed, b",".join(parts) if parts else None

    @precondition(lambda self: self.in_hand is not None)
    @rule(taken=st.booleans())
    def hand_over(self, taken: bool) -> None:
        assert self.in_hand is not None
        self.handed_over.handed(*self.in_hand, taken=taken)
        self.in_hand = None

    @rule(ahead=st.integers(1, 4), missing=st.booleans(), named=st.booleans())
    def settle(self, ahead: int, missing: bool, named: bool) -> None:
        before, self.judged = self.judged, self.judged + ahead
        if not missing:
            self.counted += [
                name
                for through, payload in self.handed_over.waiting
                for name in names(payload)
                if through <= self.judged
            ]
        if missing and named:
            self.runs.append((before, self.judged))
        self.handed_over.settle(Verdict(NEVER if before < 0 else before, self.judged, missing, named))

    @invariant()
    def nothing_is_lost_and_nothing_twice(self) -> None:
        held = [payload for _, payload in self.handed_over.waiting] + list(self.handed_over.owed)
        held += [self.in_hand[1]] if self.in_hand is not None else []
        found = Counter(name for payload in held for name in names(payload)) + Counter(self.counted)
        assert found == Counter(self.made)

    @invariant()
    def what_waits_has_no_verdict(self) -> None:
        assert all(through > self.judged for through, _ in self.handed_over.waiting)

    @invariant()
    def each_run_is_made_up_for_once(self) -> None:
        assert intervals([*self.told, *self.handed_over.runs]) == intervals(self.runs)


TestHanding = Handing.TestCase
