"""Who is waited for: members that hang in the tree; those that it has lost only as long as finding back takes."""

from __future__ import annotations

import random

import pytest

from elf.overlay.contract import NEVER, OverlaySettings, RollupState, RosterEntry
from elf.overlay.effects import ChildDown, ChildUp, Effect, ParentUp, Send
from elf.overlay.ids import Contact
from elf.overlay.messages import Announce, Claim, Contribution, Presence
from elf.overlay.rollup import below
from elf.overlay.rollup.ledger import ORPHANED_MS, Ledger
from elf.overlay.rollup.machine import Rollup

APP = b"a" * 20
A, B, ABOVE = (Contact.at("10.0.0.1", port) for port in (1, 2, 3))


def inner(agent: str = "m") -> Rollup:
    """Return a forwarder with two children, `A` with members x and y below it, and `B` with z."""
    rollup = Rollup(APP, agent, OverlaySettings(), random.Random(1))
    rollup.on_edge(ParentUp(ABOVE, 1), 0)
    for child, agents in ((A, "xy"), (B, "z")):
        rollup.on_edge(ChildUp(child, 1), 0)
        for name in agents:
            rollup.on_message(child, Announce(APP, name, NEVER, NEVER, True), 0)
    return rollup


def presences(effects: list[Effect]) -> list[Presence]:
    sent = [each.message for each in effects if isinstance(each, Send)]
    return [message for message in sent if isinstance(message, Presence)]


def test_a_lost_child_takes_all_below_it_along() -> None:
    rollup = inner()
    assert presences(rollup.on_edge(ChildDown(A), 5)) == [Presence(APP, ("x", "y"), False)]
    assert presences(rollup.on_edge(ChildDown(A), 5)) == [], "said once"


def test_whoever_came_back_by_another_way_is_not_lost_again() -> None:
    rollup = inner()
    rollup.on_message(B, Presence(APP, ("x",), True), 5)
    assert presences(rollup.on_message(A, Presence(APP, ("x", "y"), False), 6)) == [Presence(APP, ("y",), False)]
    assert presences(rollup.on_edge(ChildDown(A), 7)) == []
    assert presences(rollup.on_edge(ChildDown(B), 8)) == [Presence(APP, ("x", "z"), False)]


def test_a_new_parent_hears_of_all_below() -> None:
    rollup = inner()
    assert presences(rollup.on_edge(ParentUp(B, 2), 5)) == [Presence(APP, ("x", "y", "z"), True)]
    assert presences(rollup.on_message(Contact.at("10.0.0.1", 9), Presence(APP, ("x",), False), 5)) == [], "no child"


def test_what_children_name_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(below, "BELOW_MAX", 4)
    rollup = inner()
    rollup.on_message(A, Presence(APP, tuple("abc"), True), 5)
    assert presences(rollup.on_edge(ChildDown(A), 5)) == [Presence(APP, ("x", "y"), False)]


def ledger() -> Ledger:
    state = RollupState(1, {agent: RosterEntry(NEVER) for agent in "abc"})
    book = Ledger(APP, state, 1, leap_after_ms=10_000, grace_until_ms=0)
    book.add(b"A", Claim(1, 2, ("a",), b"p"))
    return book


def test_a_root_waits_for_the_lost_only_as_long_as_finding_back_takes() -> None:
    book = ledger()
    book.absent("bc", 100)
    book.absent("bc", 400)
    assert book.step(100) is None
    assert book.deadline_ms == 100 + ORPHANED_MS, "since they were lost, not since somebody said so again"
    choice = book.step(100 + ORPHANED_MS)
    assert choice is not None
    assert book.merged(b"p", ()).missing == ("b", "c")


def test_a_leap_ends_the_wait_for_who_is_silent_in_that_interval_only() -> None:
    book = ledger()
    assert book.leap(1, 100) == (1, ()), "an interval before the one that is waited for"
    assert book.step(100) is None and book.deadline_ms == 10_100
    assert book.leap(None, 200) == (2, ("b", "c"))
    assert book.step(200) is None and book.deadline_ms == 200 + ORPHANED_MS, "until inner nodes have heard of it"
    choice = book.step(200 + ORPHANED_MS)
    assert choice is not None
    assert book.leap(None, 800) == (1, ()), "a commit is under way"
    assert book.merged(b"p", ()).missing == ("b", "c")


def test_an_inner_node_sends_what_it_has_when_it_hears_of_a_leap() -> None:
    rollup = inner()
    rollup.on_message(A, Contribution(APP, 1, Claim(NEVER, 7, ("x", "y"), None)), 5)
    assert rollup.leap(6, 10)[2] == [], "not of this interval"
    sent = [each.message for each in rollup.leap(7, 11)[2] if isinstance(each, Send)]
    assert [message.claim.agents for message in sent if isinstance(message, Contribution)] == [("x", "y")]


def test_a_root_waits_on_for_whoever_is_back_or_was_never_lost() -> None:
    book = ledger()
    book.absent("bc", 100)
    book.present("b")
    assert book.step(9_000) is None
    assert book.deadline_ms == 19_000, "b, for which the wait began now"
    book.add(b"B", Claim(1, 2, ("b",), b"p"))
    assert book.step(9_001) is not None
