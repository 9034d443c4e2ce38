"""Who is not heard is remembered for a minute and said every ten, whatever strangers send."""

from __future__ import annotations

from elf.overlay.dht.unheard import RECENT_MS, SAID_MAX, SAID_MS, SENDERS_MAX, Unheard

NOW = 1_800_000_000_000


def test_a_sender_is_named_once_in_a_while() -> None:
    unheard = Unheard()
    assert unheard.note("a:1", "another secret", NOW)
    assert not unheard.note("a:1", "another secret", NOW + SAID_MS)
    assert unheard.note("b:1", "another secret", NOW + SAID_MS)
    assert unheard.note("a:1", "another secret", NOW + SAID_MS + 1)
    assert unheard.note("a:1", "another secret", NOW - 1), "the clock was set back"


def test_what_is_long_ago_is_no_news() -> None:
    unheard = Unheard()
    unheard.note("a:1", "one", NOW)
    unheard.note("b:1", "two", NOW + 1)
    unheard.note("a:1", "three", NOW + 1)
    assert unheard.recent(NOW + RECENT_MS) == {"b:1": "two", "a:1": "three"}
    assert unheard.recent(NOW + RECENT_MS + 2) == {}


def test_strangers_fill_neither_the_log_nor_memory() -> None:
    unheard = Unheard()
    said = [unheard.note(f"s:{number}", "another secret", NOW + number) for number in range(4 * SENDERS_MAX)]
    assert sum(said) == SAID_MAX
    assert len(unheard.recent(NOW + 4 * SENDERS_MAX)) == SENDERS_MAX
    assert unheard.note("late:1", "another secret", NOW + 4 * SENDERS_MAX + SAID_MS)
