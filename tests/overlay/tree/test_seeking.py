from __future__ import annotations

import random

from elf.overlay.ids import Contact
from elf.overlay.tree.seeking import BACKOFF_MS_MAX, BACKOFF_MS_MIN, STRIKE_MS, Search

ROOT, PEER = Contact.at("10.0.0.1", 1), Contact.at("10.0.0.1", 2)
NOW = 1_000_000


def test_a_contact_that_failed_is_passed_over_for_a_while() -> None:
    search = Search(random.Random(1))
    search.strike(PEER, ROOT, NOW)
    assert PEER.id in search.struck(NOW + STRIKE_MS - 1)
    assert PEER.id not in search.struck(NOW + STRIKE_MS)
    search.strike(PEER, ROOT, NOW)
    search.forgive(PEER)
    assert search.struck(NOW) == {}


def test_the_recorded_root_is_asked_again_after_a_pause_that_grows() -> None:
    search = Search(random.Random(1))
    pauses = []
    for _ in range(200):
        search.strike(ROOT, ROOT, NOW)
        pauses.append(search.struck(NOW)[ROOT.id] - NOW)
    assert all(BACKOFF_MS_MIN <= pause <= BACKOFF_MS_MAX for pause in pauses)
    assert pauses[0] <= 2 * BACKOFF_MS_MIN
    assert max(pauses) > BACKOFF_MS_MAX // 2
    search.end()
    search.strike(ROOT, ROOT, NOW)
    assert search.struck(NOW)[ROOT.id] - NOW <= 2 * BACKOFF_MS_MIN


def test_deadlines_are_those_of_what_is_under_way() -> None:
    search = Search(random.Random(1))
    assert search.deadlines() == []
    search.retry_ms = NOW
    search.ask(PEER, NOW + 5)
    assert search.deadlines() == [NOW + 5]
    search.asked = None
    search.lookup_until_ms = NOW + 7
    assert search.deadlines() == [NOW + 7]
    search.hints = [PEER]
    search.end()
    assert search.deadlines() == []
    assert search.hints == []
