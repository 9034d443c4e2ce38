"""The parts of the roll-up one by one: claims, barrier, ledger, settlement, records."""

from __future__ import annotations

import random

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from elf.overlay.contract import NEVER, PAYLOAD_BYTES_MAX, Absence, Record, RollupState, RosterEntry, Verdict
from elf.overlay.control.records import RecordMap
from elf.overlay.messages import RECORD_BYTES_MAX, Announce, Claim, Settle, Status
from elf.overlay.rollup.barrier import Barrier
from elf.overlay.rollup.claims import OWN, Bag
from elf.overlay.rollup.ledger import Ledger
from elf.overlay.rollup.settlement import ANNOUNCE_MS, Settlement

APP = b"a" * 20
A, B, C = b"A", b"B", b"C"


def claim(since: int, through: int, agents: str, payload: bytes | None = b"p") -> Claim:
    return Claim(since, through, tuple(agents), payload)


# ---- claims


def test_a_choice_is_disjoint_and_prefers_many_agents() -> None:
    bag = Bag()
    bag.add(A, claim(0, 5, "x", b"1"))
    bag.add(B, claim(0, 5, "pxy", b"2"))
    bag.add(C, claim(0, 7, "q", b"3"))
    choice = bag.choose(5)
    assert choice.payloads == (b"2",)
    assert choice.agents() == ("p", "q", "x", "y")
    assert choice.agents(bad=[0]) == ("q",)
    assert bag.overlaps == 0, "the refused one named nobody who is not in"
    bag.add(A, claim(0, 5, "xz", b"4"))
    assert "z" not in bag.choose(5).agents()
    assert bag.overlaps == 1


def test_the_same_claim_again_replaces_the_first() -> None:
    bag = Bag()
    for payload in (b"1", b"2"):
        bag.add(A, claim(0, 5, "x", payload))
    assert bag.choose(5).payloads == (b"2",)


def test_a_claim_that_begins_after_the_last_commit_does_not_count() -> None:
    bag = Bag()
    bag.add(A, claim(3, 5, "x"))
    assert bag.choose(5, floor=2).agents() == ()
    assert bag.choose(5, floor=3).agents() == ("x",)


# ---- barrier


def test_the_barrier_waits_for_all_and_gives_up_in_time() -> None:
    #        10    11    12
    #  own    x           x      empty runs cover what lies between
    #  A            x     x
    barrier = Barrier(patience_ms=100)
    barrier.add(OWN, claim(9, 10, "o"))
    assert barrier.step({OWN, A}, 0) is None
    barrier.add(A, claim(9, 11, "a"))
    choice = barrier.step({OWN, A}, 0)
    assert choice is not None
    assert (choice.through, choice.agents()) == (10, ("a", "o"))
    assert barrier.merged(b"p", (), NEVER) == [claim(9, 10, "ao")]
    assert barrier.step({OWN, A}, 0) is None
    assert barrier.step({OWN, A}, 99) is None
    late = barrier.step({OWN, A}, 100)
    assert late is not None
    assert (late.through, late.agents()) == (11, ("a",))
    barrier.merged(b"p", (), NEVER)
    assert barrier.add(OWN, claim(10, 12, "o")) == [claim(10, 11, "o", None)], "the empty part goes up at once"


def test_late_claims_pass_and_repeated_ones_do_not() -> None:
    barrier = Barrier(patience_ms=100)
    barrier.add(OWN, claim(9, 10, "o"))
    barrier.step({OWN}, 0)
    barrier.merged(b"p", (), NEVER)
    assert barrier.add(A, claim(9, 10, "a")) == [claim(9, 10, "a")]
    assert barrier.add(B, claim(9, 10, "a")) == []
    assert [kept.agents for kept in barrier.kept] == [("o",), ("a",)]
    barrier.settle(10)
    assert barrier.kept == []


def test_a_merge_too_large_for_a_message_goes_up_in_parts() -> None:
    barrier = Barrier(patience_ms=100)
    barrier.add(OWN, claim(9, 10, "o", b"1"))
    barrier.add(A, claim(9, 10, "a", b"2"))
    barrier.add(B, claim(9, 10, "b", None))
    barrier.step({OWN, A, B}, 0)
    parts = barrier.merged(b"x" * (PAYLOAD_BYTES_MAX + 1), (), NEVER)
    assert sorted(part.agents for part in parts) == [("a",), ("b",), ("o",)]


def test_a_commit_overtakes_a_merge() -> None:
    barrier = Barrier(patience_ms=100)
    barrier.add(OWN, claim(9, 10, "o"))
    barrier.step({OWN}, 0)
    barrier.settle(10)
    assert barrier.merged(b"p", (), 10) == []


# ---- ledger


def ledger(committed: int = NEVER, **roster: RosterEntry) -> Ledger:
    return Ledger(APP, RollupState(committed, roster), 1, leap_after_ms=1_000, grace_until_ms=0)


def announce(agent: str, settled: int = NEVER, sealed: int = NEVER, *, fresh: bool = True) -> Announce:
    return Announce(APP, agent, settled, sealed, fresh)


def commit(book: Ledger, now_ms: int = 0) -> Settle:
    assert book.step(now_ms) is not None
    book.merged(b"p", ())
    return book.durable()[0]


def announced_ledger() -> Ledger:
    """A ledger that expects a and b, and has counted nothing."""
    book = ledger()
    for agent in "ab":
        book.on_announce(announce(agent))
    return book


def retired_ledger() -> Ledger:
    """A ledger that has counted a and b up to 10, after which b is gone for good."""
    book = announced_ledger()
    book.add(A, claim(NEVER, 10, "ab"))
    commit(book)
    book.retire("b", named=True)
    return book


def count_a_alone(book: Ledger) -> None:
    """Commit two more intervals, 10 to 12, that only a has."""
    for through in (11, 12):
        book.add(A, claim(through - 1, through, "a"))
        commit(book)


def test_a_commit_waits_for_the_roster_then_leaps() -> None:
    book = announced_ledger()
    book.add(A, claim(NEVER, 10, "a"))
    assert book.step(0) is None
    assert book.step(999) is None
    assert commit(book, 1_000) == Settle(APP, 1, NEVER, 10, ("b",))
    book.add(A, claim(10, 11, "a"))
    assert commit(book).missing == ("b",), "not waited for again"
    book.add(B, claim(NEVER, 12, "b"))
    assert book.step(1_000) is None, "it spoke of a later interval, so a is waited for"
    book.add(A, claim(11, 12, "a"))
    assert commit(book).missing == ()
    status = book.on_announce(announce("b"))
    assert status is not None
    assert status.absences == (Absence(NEVER, 11),)
    assert book.on_announce(announce("b", 11)) == Status(APP, "b", 1, 12, ())


def test_a_leapt_agent_that_keeps_pace_is_waited_for_again() -> None:
    book = announced_ledger()
    for through in (1, 2, 3):
        book.add(A, claim(through - 1 if through > 1 else NEVER, through, "a"))
    assert book.step(0) is None
    assert [commit(book, 1_000).missing for _ in range(3)] == [("b",)] * 3
    book.on_announce(announce("b", 3, 1, fresh=False))
    assert "b" not in book.awaited
    book.on_announce(announce("b", 3, 2, fresh=False))
    assert "b" in book.awaited


def test_announcements_wait_for_a_commit_under_way() -> None:
    book = ledger()
    book.on_announce(announce("a"))
    book.add(A, claim(NEVER, 10, "a"))
    book.step(0)
    book.merged(b"p", ())
    assert book.on_announce(announce("late")) is None
    settle, answers = book.durable()
    assert settle.missing == ()
    assert answers == [Status(APP, "late", 1, 10, (Absence(NEVER, 10, named=False),))]
    assert book.roster["late"] == RosterEntry(10)


def test_claims_of_committed_intervals_are_refused() -> None:
    book = ledger(10, a=RosterEntry(NEVER))
    book.add(A, claim(8, 10, "a"))
    assert book.bag.next_point() is None
    book.add(A, claim(8, 11, "a"))
    assert commit(book) == Settle(APP, 1, 10, 11, ())


def test_retired_members_are_not_expected() -> None:
    book = announced_ledger()
    book.retire("b", named=False)
    book.add(A, claim(NEVER, 10, "a"))
    assert commit(book).missing == ()


def test_a_member_that_is_gone_for_good_is_named_once_more_and_then_expected_no_longer() -> None:
    book = announced_ledger()
    book.add(A, claim(NEVER, 10, "ab"))
    assert commit(book).missing == ()
    assert book.retire("b", named=True) == 10
    assert "b" in book.roster, "until a commit says so"
    book.add(A, claim(10, 11, "a"))
    assert commit(book) == Settle(APP, 1, 10, 11, ("b",), ("b",)), "at once: nobody waits for it"
    book.add(A, claim(11, 12, "a"))
    assert commit(book) == Settle(APP, 1, 11, 12, ())
    assert "b" not in book.roster


def test_a_retired_member_that_comes_back_learns_what_was_counted() -> None:
    book = retired_ledger()
    count_a_alone(book)
    book = Ledger(APP, book_state(book), 2, leap_after_ms=1_000, grace_until_ms=0)
    status = book.on_announce(announce("b", 5))
    assert status is not None
    assert status.absences == (Absence(10, 11), Absence(11, 12, named=False)), "6 to 10 were counted"
    assert "b" in book.roster
    assert "b" not in book.retired
    book.add(A, claim(12, 13, "a"))
    assert book.step(0) is None, "it is waited for"


@pytest.mark.parametrize("during", [False, True], ids=["between commits", "during one"])
def test_the_successor_of_a_retired_member_learns_that_later_commits_lack_it(during: bool) -> None:
    book = retired_ledger()
    count_a_alone(book)
    book.add(A, claim(12, 13, "a"))
    if during:
        book.step(0)
        book.merged(b"p", ())
    assert book.exclude("b", "c") == 11
    if during:
        book.durable()
    status = book.on_announce(announce("c", NEVER))
    assert status is not None
    settled = Settlement("c", NEVER)
    verdicts = settled.on_status(status)
    assert verdicts, "nothing of c was ever counted"
    assert all(verdict.missing for verdict in verdicts)
    assert verdicts[-1].through == (13 if during else 12)


def test_what_a_retired_member_had_sent_before_still_counts() -> None:
    book = retired_ledger()
    book.add(A, claim(10, 11, "ab"))
    assert commit(book) == Settle(APP, 1, 10, 11, (), ("b",))
    book.add(A, claim(11, 12, "ab"))
    assert commit(book) == Settle(APP, 1, 11, 12, (), ("b",))
    assert "b" not in book.roster, "what was on its way does not bring it back"
    status = book.on_announce(announce("b", 10))
    assert status is not None
    assert status.absences == ()


def test_a_member_retired_during_a_commit_leaves_with_it_or_with_the_next() -> None:
    book = announced_ledger()
    book.add(A, claim(NEVER, 10, "ab"))
    book.step(0)
    assert book.retire("b", named=True) == NEVER, "nothing is decided yet"
    assert book.merged(b"p", ()).state.roster.keys() == {"a"}
    book.durable()
    book.on_announce(announce("b", 10))
    book.add(A, claim(10, 11, "ab"))
    book.step(0)
    book.merged(b"p", ())
    assert book.retire("b", named=True) == 11
    book.durable()
    book.add(A, claim(11, 12, "a"))
    assert commit(book).retired == ("b",)


def stored(state: RollupState) -> RollupState:
    return msgspec.msgpack.decode(msgspec.msgpack.encode(state), type=RollupState)


def book_state(book: Ledger) -> RollupState:
    return stored(RollupState(book.committed, book.roster, book.retired))


def test_state_survives_its_bytes() -> None:
    state = RollupState(7, {"a": RosterEntry(3, (Absence(4, 5),))}, {"b": RosterEntry(1, (), until=6)})
    assert stored(state) == state


def test_an_excluded_agent_is_neither_expected_nor_counted_again() -> None:
    state = RollupState(3, {"x": RosterEntry(NEVER), "y": RosterEntry(NEVER)})
    ledger = Ledger(APP, state, 1, leap_after_ms=1_000, grace_until_ms=0)
    ledger.add(A, claim(3, 4, "x"))
    assert ledger.exclude("x") == 3
    ledger.add(A, claim(3, 4, "x"))
    ledger.add(B, claim(3, 4, "y"))
    choice = ledger.step(0)
    assert choice is not None
    assert choice.agents() == ("y",)
    assert ledger.exclude("y") == 4, "what is on its way to a commit may hold its data"
    assert ledger.merged(b"p", ()).missing == ()


def test_a_successor_is_named_by_commits_made_before_it_announces_itself() -> None:
    state = RollupState(3, {"x": RosterEntry(NEVER), "y": RosterEntry(NEVER)})
    ledger = Ledger(APP, state, 1, leap_after_ms=1_000, grace_until_ms=0)
    ledger.add(B, claim(3, 4, "y"))
    assert ledger.step(0) is None, "x is awaited"
    assert ledger.exclude("x", "z") == 3
    ledger.step(0)
    assert ledger.step(1_000) is not None
    assert ledger.merged(b"p", ()).missing == ("z",)
    assert ledger.exclude("y", "w") == 4
    ledger.durable()
    ledger.add(B, claim(4, 5, "v"))
    ledger.step(2_000)
    assert ledger.step(3_000) is not None
    assert ledger.merged(b"p", ()).missing == ("w", "z")
    ledger.durable()
    status = ledger.on_announce(announce("z"))
    assert status is not None
    assert [(run.after, run.through, run.named) for run in status.absences] == [(NEVER, 3, False), (3, 5, True)]


def test_a_commit_on_its_way_names_the_lost_agent_and_not_its_successor() -> None:
    state = RollupState(3, {"x": RosterEntry(NEVER), "y": RosterEntry(NEVER)})
    ledger = Ledger(APP, state, 1, leap_after_ms=1_000, grace_until_ms=0)
    ledger.add(B, claim(3, 4, "y"))
    ledger.step(0)
    assert ledger.step(1_000) is not None, "without x"
    assert ledger.exclude("x", "z") == 4
    assert ledger.merged(b"p", ()).missing == ("x",), "for z leaves out what x may be in"
    ledger.durable()
    assert set(ledger.roster) == {"y", "z"}
    status = ledger.on_announce(announce("z"))
    assert status is not None
    assert [(run.after, run.through, run.named) for run in status.absences] == [(NEVER, 4, False)]


def test_an_excluded_agent_that_was_retired_left_nothing_in_later_commits() -> None:
    state = RollupState(9, {"y": RosterEntry(NEVER)}, {"x": RosterEntry(NEVER, (), until=5)})
    ledger = Ledger(APP, state, 1, leap_after_ms=1_000, grace_until_ms=0)
    assert ledger.exclude("x") == 5
    assert ledger.exclude("z") == 9, "nothing is known of it: its logs may have been counted up to here"
    assert ledger.exclude("x") == 5, "asked for again"


# ---- settlement


def test_verdicts_apply_in_order_and_only_of_the_greeting_term() -> None:
    member = Settlement("x")
    assert member.announce_due(0)
    assert not member.announce_due(ANNOUNCE_MS - 1)
    assert member.announce_due(ANNOUNCE_MS)
    assert member.on_settle(Settle(APP, 1, NEVER, 5, ()), 0) == [], "not greeted yet"
    absences = (Absence(3, 5), Absence(7, 9))
    verdicts = member.on_status(Status(APP, "x", 1, 12, absences))
    assert [(v.previous, v.through, v.missing) for v in verdicts] == [
        (NEVER, 3, False),
        (3, 5, True),
        (5, 7, False),
        (7, 9, True),
        (9, 12, False),
    ]
    assert member.on_settle(Settle(APP, 1, 12, 13, ("x",)), 0) == [Verdict(12, 13, True)]
    assert member.on_settle(Settle(APP, 1, 12, 13, ()), 0) == []
    assert member.on_settle(Settle(APP, 2, 13, 14, ()), 0) == [], "another term: ask first"
    assert not member.is_current
    assert member.announce_due(0)
    member.on_status(Status(APP, "x", 2, 13, ()))
    assert member.on_settle(Settle(APP, 2, 14, 15, ()), 0) == [], "a gap: ask first"
    assert not member.is_current


def test_absences_are_acknowledged_only_when_durable() -> None:
    member = Settlement("x")
    member.on_status(Status(APP, "x", 1, 5, (Absence(3, 5),)))
    assert not member.on_durable(3)
    assert member.on_durable(5)
    assert not member.on_durable(5)


def test_a_heartbeat_reveals_a_missed_verdict() -> None:
    member = Settlement("x")
    member.on_status(Status(APP, "x", 1, 5, ()))
    member.on_hint(1, 5, 0)
    assert member.is_current
    member.on_hint(1, 6, 0)
    assert not member.is_current


# ---- records

records = st.builds(Record, st.sampled_from(["a", "b", "c"]), st.integers(0, 3), st.binary(max_size=2))


@given(st.lists(records), st.integers(0, 1 << 16))
def test_records_end_up_equal_in_any_order_and_after_any_exchange(written: list[Record], seed: int) -> None:
    one, two, half = RecordMap(), RecordMap(), RecordMap()
    for record in written:
        one.apply(record)
    shuffled = list(written)
    random.Random(seed).shuffle(shuffled)
    for record in shuffled:
        two.apply(record)
    assert one.all() == two.all()
    for record in shuffled[: len(shuffled) // 2]:
        half.apply(record)
    for record in one.newer_than(half.marks()):
        assert half.apply(record)
    assert half.all() == one.all()
    assert one.newer_than(half.marks()) == ()


@pytest.mark.parametrize("body_bytes", [RECORD_BYTES_MAX + 1])
def test_records_over_a_limit_are_refused_and_counted(body_bytes: int) -> None:
    held = RecordMap()
    assert not held.apply(Record("k", 1, bytes(body_bytes)))
    assert held.refused == 1
