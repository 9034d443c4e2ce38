"""Which claims a root has merged again, and what nodes remember of their children's."""

from __future__ import annotations

import itertools
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elf.overlay.contract import NEVER
from elf.overlay.effects import Audit, ChildDown, ChildUp, ParentUp, RootChanged, Send
from elf.overlay.ids import Contact
from elf.overlay.messages import Accept, Claim, Contribution, Join, Redirect, Unlink, Word
from elf.overlay.rollup import audit
from elf.overlay.rollup.audit import REMEMBERED_MS, WATCHED, Audits, contributors, is_merged
from elf.overlay.rollup.machine import Rollup
from elf.overlay.settings import OverlaySettings
from elf.overlay.tree.machine import Tree

APP = bytes(range(20))
CHILD, OTHER, PARENT = (Contact.at("10.0.0.1", port) for port in (1, 2, 3))


def word(through: int, digest: bytes = b"d" * 16) -> Word:
    return Word(NEVER, through, digest, bytes(64))


def summed(through: int, agents: str = "ab", payload: bytes = b"sum") -> Claim:
    return Claim(through - 1, through, tuple(agents), payload, tuple(word(through) for _ in agents))


def test_a_claim_is_audited_if_its_words_do_not_prove_it() -> None:
    assert is_merged(summed(2))
    assert contributors(summed(2)) == ("a", "b")
    with_idle = Claim(1, 2, ("a", "b", "c"), b"sum", (word(2), word(2, b""), word(9)))
    assert contributors(with_idle) == ("a",)
    assert not is_merged(with_idle), "the data of one is proven by its word"
    assert not is_merged(Claim(1, 2, ("a", "b"), None, (word(2, b""), word(2, b""))))
    assert not is_merged(Claim(1, 2, ("a",), b"own"))
    assert is_merged(Claim(1, 2, ("a", "old"), b"sum", (word(2), None)))
    assert contributors(Claim(1, 2, ("a", "old"), b"sum", (word(2), None))) is None


@given(st.integers(0, 1 << 32), st.sampled_from([0.005, 0.01, 0.1, 0.5, 1.0]), st.integers(0, 500))
def test_whoever_alters_every_claim_is_audited_in_time_wherever_it_begins(seed: int, share: float, begins: int) -> None:
    audits = Audits(random.Random(seed), share)
    for interval in range(begins):
        audits.chooses(APP, CHILD.id, summed(interval + 1))
    within = next(n for n in range(1, 1_000) if audits.chooses(APP, CHILD.id, summed(begins + n)))
    assert within <= max(1, 1.9 / share), "a few of 200 are left to trace it down the tree"


@given(st.integers(0, 1 << 32))
def test_about_the_share_is_audited_and_nobody_knows_which(seed: int) -> None:
    audits = Audits(random.Random(seed), 0.1)
    chosen = [audits.chooses(APP, CHILD.id, summed(n + 1)) for n in range(5_000)]
    assert 400 < sum(chosen) < 700
    after = sum(second for first, second in itertools.pairwise(chosen) if first)
    assert after > 0.02 * sum(chosen), "who was audited is not safe for a while"


def test_none_is_audited_at_0_and_each_at_100_percent() -> None:
    assert not any(Audits(random.Random(1), 0.0).chooses(APP, CHILD.id, summed(n + 1)) for n in range(999))
    assert all(Audits(random.Random(1), 1.0).chooses(APP, CHILD.id, summed(n + 1)) for n in range(99))


def test_what_was_not_audited_is_remembered_from_the_first_on() -> None:
    audits = Audits(random.Random(1), 0.01)
    assert audits.since(APP, CHILD.id) is None
    chosen = [n for n in range(5, 400) if audits.chooses(APP, CHILD.id, summed(n))]
    assert audits.since(APP, CHILD.id) == next(n for n in range(5, 400) if n not in chosen)
    assert audits.since(APP, OTHER.id) is None
    audits.passes(APP, CHILD.id, 3)
    assert audits.since(APP, CHILD.id) == 3


def test_who_was_wrong_is_watched_until_it_was_right_for_a_while() -> None:
    audits = Audits(random.Random(1), 0.01)
    audits.watch(APP, CHILD.id)
    for n in range(WATCHED):
        assert audits.chooses(APP, CHILD.id, summed(n + 1))
        audits.found_right(APP, CHILD.id)
    assert not all(audits.chooses(APP, CHILD.id, summed(n + 1)) for n in range(9))


def test_what_is_remembered_is_bounded_in_time_bytes_and_children(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audit, "REMEMBERED_BYTES_MAX", 10_000)
    monkeypatch.setattr(audit, "CHILDREN_MAX", 4)
    audits = Audits(random.Random(1), 0.5)
    assert not audits.remembers_all(1 << 40), "it has not begun"
    audits.begin(0)
    audits.remember(APP, CHILD, summed(1), 1_000)
    audits.remember(APP, OTHER, summed(1, "cd"), 1_000)
    assert [child for child, _ in audits.remembered(APP, 1, 2_000)] == [OTHER, CHILD]
    assert not audits.remembered(APP, 2, 2_000) and not audits.remembered(bytes(20), 1, 2_000)
    assert not audits.remembered(APP, 1, 1_000 + REMEMBERED_MS)
    audits.remember(APP, CHILD, summed(2), 1_000 + REMEMBERED_MS)
    assert audits.remembers_all(1_000 + REMEMBERED_MS), "what is gone was old"
    for n in range(20):
        audits.remember(APP, CHILD, summed(3 + n, payload=bytes(2_000)), 12_000)
    assert audits._bytes <= 10_000
    assert not audits.remembers_all(12_000)
    assert audits.remembers_all(12_000 + REMEMBERED_MS)
    for n in range(9):
        audits.chooses(APP, bytes([n]) * 20, summed(1))
    assert len(audits._children) == 4


def node(share: float) -> tuple[Rollup, Audits]:
    audits = Audits(random.Random(1), share)
    rollup = Rollup(APP, "m", OverlaySettings(), random.Random(1), None, audits)
    rollup.on_edge(ChildUp(CHILD, 1), 0)
    return rollup, audits


def test_a_root_has_claims_audited_and_others_keep_them() -> None:
    rollup, audits = node(1.0)
    rollup.on_edge(ParentUp(PARENT, 1), 0)
    assert not [
        each for each in rollup.on_message(CHILD, Contribution(APP, 1, summed(2)), 5) if isinstance(each, Audit)
    ]
    assert audits.remembered(APP, 2, 5) == [(CHILD, summed(2))]
    rollup.on_edge(RootChanged(True), 6)
    assert audits.since(APP, CHILD.id) == 2, "what came before was not audited"
    assert Audit(CHILD, summed(3)) in rollup.on_message(CHILD, Contribution(APP, 1, summed(3)), 7)
    single = Claim(2, 3, ("a",), b"own", (word(3),))
    assert not [each for each in rollup.on_message(CHILD, Contribution(APP, 1, single), 8) if isinstance(each, Audit)]
    rollup.answer_for(summed(4), 9)
    assert rollup.below(CHILD.id) == ()


def test_who_is_shut_out_has_no_edge_with_us_any_more() -> None:
    ids = sorted((Contact.at("10.0.0.1", port) for port in range(1, 9)), key=lambda each: each.id)
    me, far = ids[0], ids[-1]
    tree = Tree(APP, me, lambda key: [], OverlaySettings(), random.Random(1), me)
    tree.join(False, me, 0)
    assert Send(far, Accept(APP, 5, None)) in tree.on_join(far, Join(APP, 5, me.address), 1)
    effects = tree.shut_out(far, 2)
    assert effects == [Send(far, Unlink(APP, 5)), ChildDown(far)]
    assert tree.on_join(far, Join(APP, 6, me.address), 3) == [Send(far, Redirect(APP, 6, None))]
    assert not tree.children
    under = Tree(APP, far, lambda key: [ids[1]], OverlaySettings(), random.Random(1), me)
    under.join(True, me, 0)
    asked = under.search.asked
    assert asked is not None
    under.on_accept(asked, Accept(APP, under.epoch), 1)
    assert under.parent is not None
    under.shut_out(asked, 2)
    assert under.parent is None
    assert under.search.asked != asked
    assert asked not in under._candidates(1 << 40)
