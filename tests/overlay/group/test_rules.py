"""Each rule of a root group taken away in turn: a group under faults must show it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from elf.overlay.group.followers import Followers
from tests.overlay.group.test_machine import play
from tests.overlay.group.world import Member

Patch = pytest.MonkeyPatch


def without_a_majority(patch: Patch) -> None:
    """A leader decides what it alone has: a deposed root commits (M3)."""
    patch.setattr(Followers, "decided", lambda self, own, seats: own)


def without_votes_on_disk(patch: Patch) -> None:
    """A member forgets in a crash what it promised, and what it acknowledged."""

    def crash(self: Member) -> None:
        original(self)
        if self.disk is not None:
            self.disk.term, self.disk.vote, self.disk.entries = 0, "", []

    original = Member.crash
    patch.setattr(Member, "crash", crash)


#: The rules, and a seed that has shown each; others are tried when that one does not any more.
NEEDED = [(without_a_majority, 2), (without_votes_on_disk, 2)]


@pytest.mark.parametrize(("remove", "shown"), NEEDED, ids=lambda given: getattr(given, "__name__", ""))
def test_a_rule_that_is_missing_is_missed(remove: Callable[[Patch], None], shown: int, monkeypatch: Patch) -> None:
    remove(monkeypatch)
    for seed in (shown, *range(60)):
        try:
            play(seed)
        except AssertionError:
            return
    raise AssertionError("60 seeds without a rule and nothing was seen")


@pytest.mark.parametrize("shown", sorted({shown for _, shown in NEEDED}))
def test_with_all_rules_nothing_is_seen(shown: int) -> None:
    play(shown)
