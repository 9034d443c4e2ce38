"""Who is not heard is remembered for a minute and said every ten, whatever strangers send."""

from __future__ import annotations

from elf.overlay.unheard import RECENT_MS, SAID_MAX, SAID_MS, SENDERS_MAX, TOLD_MAX, Unheard

NOW = 1_800_000_000_000
CLOCK, SECRET = "their clocks are wrong", "another secret"


def test_a_sender_is_named_once_in_a_while() -> None:
    unheard = Unheard(SECRET)
    assert unheard.note(SECRET, "a:1", "a is other", NOW)
    assert not unheard.note(SECRET, "a:1", "a is other", NOW + SAID_MS)
    assert unheard.note(SECRET, "b:1", "b is other", NOW + SAID_MS)
    assert unheard.note(SECRET, "a:1", "a is other", NOW + SAID_MS + 1)
    assert unheard.note(SECRET, "a:1", "a is other", NOW - 1), "the clock was set back"


def test_what_is_long_ago_is_no_news() -> None:
    unheard = Unheard(CLOCK, SECRET)
    unheard.note(SECRET, "a:1", "one", NOW)
    unheard.note(SECRET, "b:1", "two", NOW + 1)
    unheard.note(SECRET, "a:1", "three", NOW + 1)
    unheard.note(CLOCK, "c:1", "four", NOW + 1)
    assert unheard.recent(NOW + RECENT_MS) == ["four", "two", "three"]
    assert unheard.recent(NOW + RECENT_MS + 2) == []


def test_strangers_fill_neither_the_log_nor_memory_nor_hide_others() -> None:
    unheard = Unheard(CLOCK, SECRET)
    said = [
        unheard.note(SECRET, f"s:{number}", f"s:{number} is other", NOW + number) for number in range(9 * SENDERS_MAX)
    ]
    now_ms = NOW + 9 * SENDERS_MAX
    assert sum(said) == SAID_MAX
    assert unheard.note(CLOCK, "mate", "the clock of mate is wrong", now_ms), "a member is named all the same"
    told = unheard.recent(now_ms)
    assert told[0] == "the clock of mate is wrong"
    assert told[1:-1] == [f"s:{number} is other" for number in range(9 * SENDERS_MAX)][-TOLD_MAX:]
    assert told[-1] == f"{SENDERS_MAX - TOLD_MAX} or more other senders are not heard: {SECRET}"
    assert unheard.note(SECRET, "late:1", "late:1 is other", now_ms + SAID_MS)
