"""Who is waited for: members that hang in the tree; those that it has lost only as long as finding back takes."""

from __future__ import annotations

import random

import pytest

from elf.overlay.contract import NEVER, OverlaySettings, RollupState, RosterEntry
from elf.overlay.effects import ChildDown, ChildUp, Effect, ParentUp, Send
from elf.overlay.ids import Contact
from elf.overlay.messages import Announce, Claim, Contribution, Presence, Settle, Status
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


def waits(rollup: Rollup, through: int, now_ms: int) -> bool:
    """Let two of three members bring an interval; tell whether their forwarder waits for the third, ours."""
    effects = []
    for child, names in ((A, "xy"), (B, "z")):
        effects += rollup.on_message(
            child, Contribution(APP, 1, Claim(through - 1, through, tuple(names), None)), now_ms
        )
    return not any(isinstance(each, Send) and isinstance(each.message, Contribution) for each in effects)


def test_who_was_given_up_is_waited_for_once_its_time_has_come() -> None:
    """It is a little later than all others: nothing that it seals is not settled before, so it would never speak."""
    rollup = inner("m")
    rollup.enrol(0)
    rollup.on_message(ABOVE, Status(APP, "m", 7, 4, ()), 0)
    assert waits(rollup, 5, 1_000)
    patience_ms = rollup.barrier.patience_ms
    assert [each for each in rollup.on_tick(1_000 + patience_ms) if isinstance(each, Send)], "it is given up"
    settle(rollup, 5, 1_000 + patience_ms)
    assert not waits(rollup, 6, 20_000), "and is not waited for"
    settle(rollup, 6, 20_000)
    taken, effects = rollup.seal(6, None, 20_300)
    said = [each.message for each in effects if isinstance(each, Send)]
    assert not taken and [message.sealed for message in said if isinstance(message, Announce)] == [6]
    assert waits(rollup, 7, 30_000), "it may be in this one"


def settle(rollup: Rollup, through: int, now_ms: int) -> None:
    rollup.on_message(ABOVE, Settle(APP, 7, through - 1, through, ("m",), ()), now_ms)
    rollup.on_notified(through, now_ms)


def test_a_forwarder_waits_again_for_a_child_that_says_so() -> None:
    rollup = inner("m")
    rollup.on_message(ABOVE, Settle(APP, 7, NEVER, 4, (), ()), 0)
    rollup.on_message(ABOVE, Settle(APP, 7, 4, 5, (), ()), 0)
    rollup.barrier.patience_ms = 100
    for through, now_ms in ((6, 1_000), (7, 2_000)):
        effects = rollup.on_message(A, Contribution(APP, 1, Claim(through - 1, through, ("x", "y"), None)), now_ms)
        effects += rollup.on_tick(now_ms + 100)
        assert [each for each in effects if isinstance(each, Send) and isinstance(each.message, Contribution)]
    rollup.on_message(B, Announce(APP, "z", 5, 3, False), 2_500)
    assert not held(rollup, 8), "two behind is no news"
    rollup.on_message(B, Announce(APP, "z", 5, 4, False), 2_500)
    assert held(rollup, 9)


def held(rollup: Rollup, through: int) -> bool:
    effects = rollup.on_message(A, Contribution(APP, 1, Claim(through - 1, through, ("x", "y"), None)), through * 1_000)
    return not [each for each in effects if isinstance(each, Send)]


def test_a_root_waits_again_for_who_says_so() -> None:
    book = ledger()
    assert book.step(0) is None
    assert book.step(10_000) is not None
    book.merged(b"p", ())
    book.durable()
    book.add(b"A", Claim(2, 3, ("a",), b"p"))
    assert book.step(10_001) is not None, "b and c have not spoken"
    book.merged(b"p", ())
    book.durable()
    book.on_announce(Announce(APP, "b", 3, 2, False))
    book.add(b"A", Claim(3, 4, ("a",), b"p"))
    assert book.step(10_002) is None and book.awaited == {"a", "b"}
