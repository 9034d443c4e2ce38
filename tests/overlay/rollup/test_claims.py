"""Overlapping claims: what a subtree that moved leaves behind at the nodes above both its parents."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from elf.overlay.contract import NEVER, RollupState, RosterEntry
from elf.overlay.messages import Claim
from elf.overlay.rollup.barrier import Barrier
from elf.overlay.rollup.claims import OWN, Bag, Choice
from elf.overlay.rollup.ledger import Ledger

APP = b"a" * 20
A, B, C = b"A", b"B", b"C"
EDGES = (OWN, A, B, C)


def claim(since: int, through: int, agents: str, payload: bytes | None = b"p") -> Claim:
    return Claim(since, through, tuple(agents), payload)


def bag_of(claims: list[tuple[bytes, str]]) -> Bag:
    bag = Bag()
    for edge, agents in claims:
        bag.add(edge, claim(0, 1, agents, agents.encode()))
    return bag


def ledger(agents: str, *, leap_after_ms: int = 1_000) -> Ledger:
    roster = {agent: RosterEntry(NEVER) for agent in agents}
    return Ledger(APP, RollupState(0, roster), 1, leap_after_ms=leap_after_ms, grace_until_ms=0)


def test_several_small_claims_win_over_a_large_one_that_leaves_somebody_out() -> None:
    choice = bag_of([(A, "123578"), (A, "2"), (B, "23457"), (B, "1"), (C, "8"), (C, "5"), (A, "0")]).choose(1)
    assert choice.agents() == tuple("01234578")
    assert sorted(choice.payloads) == [b"0", b"1", b"23457", b"8"]
    assert choice.refused == ()


def test_conflicts_apart_from_each_other_are_solved_each_for_itself() -> None:
    apart = [(A, "abcd"), (B, "cde"), (B, "ab"), (A, "ABCD"), (C, "CDE"), (C, "AB"), (OWN, "x")]
    assert bag_of(apart).choose(1).agents() == tuple("ABCDEabcdex")


def test_the_same_claim_over_two_edges_is_chosen_once() -> None:
    bag, same = Bag(), claim(0, 1, "ab")
    bag.add(A, same)
    bag.add(B, same)
    assert bag.choose(1).payloads == (b"p",)


@given(st.lists(st.tuples(st.sampled_from(EDGES), st.sets(st.sampled_from("abcdefgh"), min_size=1)), max_size=12))
def test_a_choice_is_disjoint_and_no_worse_than_the_largest_claims_first(drawn: list[tuple[bytes, set[str]]]) -> None:
    claims = [(edge, "".join(sorted(agents))) for edge, agents in drawn]
    bag = bag_of(claims)
    choice = bag.choose(1)
    named = [agent for owners in choice.owners for agent in owners]
    assert len(named) == len(set(named)), "nobody is counted twice"
    assert choice.payloads == tuple("".join(owners).encode() for owners in choice.owners), "and only what was said"
    greedy: set[str] = set()
    filed = list(dict.fromkeys(reversed(claims)))[::-1]
    for _, agents in sorted(filed, key=lambda entry: (-len(entry[1]), entry[0])):
        greedy |= set() if greedy & set(agents) else set(agents)
    assert len(named) >= len(greedy)
    left = {agent for _, agents in claims for agent in agents} - set(named)
    assert all(set(agents) & set(named) for _, agents in claims), "no claim that fits is left out"
    assert left == bag.spoken_for(1) - set(choice.agents())
    assert left <= {agent for refused in choice.refused for agent in refused.agents}
    assert bag_of(claims).choose(1) == choice


def test_a_root_does_not_wait_for_those_whom_only_overlaps_keep_out() -> None:
    book = ledger("abc")
    for through in (1, 2, 3):
        book.add(A, claim(through - 1, through, "ab", b"ab"))
        book.add(B, claim(through - 1, through, "bc", b"bc"))
    for _ in range(3):
        choice = book.step(0)
        assert choice is not None, "everybody has spoken: no claim can come that waiting would bring"
        assert choice.agents() == ("a", "b")
        assert book.merged(b"ab", ()).missing == ("c",), "what is not in is named, so it is revised later"
        book.durable()
    assert book.leaps == 3


def test_a_root_still_waits_for_the_silent() -> None:
    book = ledger("abcd")
    book.add(A, claim(0, 1, "ab"))
    book.add(B, claim(0, 1, "bc"))
    book.add(C, claim(1, 2, "d"))
    assert book.step(0) is None, "d has not spoken for everything since the last commit"
    book.add(C, claim(0, 1, "d", None))
    assert isinstance(book.step(0), Choice)


def test_an_inner_node_passes_on_what_overlaps_and_leaves_the_choice_to_the_root() -> None:
    barrier = Barrier(patience_ms=100)
    barrier.add(A, claim(0, 1, "ab", b"ab"))
    barrier.add(B, claim(0, 1, "bc", b"bc"))
    barrier.add(C, claim(0, 3, "cd", b"cd"))
    barrier.add(OWN, claim(0, 1, "o", b"o"))
    choice = barrier.step({OWN, A, B, C}, 0)
    assert choice is not None
    assert choice.agents() == ("a", "b", "c", "d", "o")
    passed = barrier.merged(b"abo", (), 0)
    assert passed == [claim(0, 1, "abcdo", b"abo")], "the refused one names nobody who is not in"
    barrier = Barrier(patience_ms=100)
    barrier.add(A, claim(0, 1, "abc", b"abc"))
    barrier.add(B, claim(0, 1, "cd", b"cd"))
    barrier.add(C, claim(-5, 3, "ce", b"ce"))
    barrier.step({A, B, C}, 0)
    passed = barrier.merged(b"abc", (), -2)
    assert passed == [claim(0, 1, "abc", b"abc"), claim(0, 1, "cd", b"cd"), claim(-2, 1, "ce", None)]
    assert barrier.kept == passed, "sent again to a new parent"
    assert barrier.bag.edges[C] == [claim(1, 3, "ce", b"ce")], "its data is still to come"


def test_a_root_does_not_wait_for_those_whom_only_an_excluded_agent_keeps_out() -> None:
    book = ledger("abx", leap_after_ms=1_000)
    book.add(A, claim(0, 1, "bx", b"bx"))
    book.add(OWN, claim(0, 1, "a", b"a"))
    book.exclude("x")
    choice = book.step(0)
    assert choice is not None, "b has spoken, and says nothing else of this interval"
    assert book.merged(b"a", ()).missing == ("b",), "so it brings its data again"
    book.durable()
    book.add(A, claim(1, 2, "bx", b"bx"))
    book.add(OWN, claim(1, 2, "a", b"a"))
    assert book.step(0) is not None


def test_an_inner_node_passes_on_what_does_not_merge() -> None:
    barrier = Barrier(patience_ms=100)
    barrier.add(A, claim(0, 1, "a", b"a"))
    barrier.add(B, claim(0, 1, "b", b"b"))
    barrier.add(C, claim(0, 1, "c", None))
    choice = barrier.step({A, B, C}, 0)
    assert choice is not None
    position = choice.payloads.index(b"b")
    passed = barrier.merged(b"a", (position,), NEVER)
    assert passed == [claim(0, 1, "ac", b"a"), claim(0, 1, "b", b"b")], "or the root would wait for b in vain"
    assert barrier.kept == passed


def test_to_exclude_again_counts_nothing_more() -> None:
    book = ledger("abx")
    book.add(OWN, claim(0, 1, "abx", b"x"))
    assert book.step(0) is not None
    assert book.exclude("x") == 1, "the commit on its way may hold its data"
    book.merged(b"x", ())
    book.durable()
    book.add(OWN, claim(1, 2, "ab", b"ab"))
    assert book.step(0) is not None
    assert book.exclude("x") == 1, "whoever asks again must not be told of commits that cannot hold its data"
