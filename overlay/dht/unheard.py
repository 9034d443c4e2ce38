"""Whose datagrams cannot be taken, and why: remembered for a while, and said once in a while. Pure.

Without it an agent with another secret, or with a wrong clock, looks like one that nobody answers. Anyone may send such
datagrams from any address, so both what is remembered and what is said is bounded.
"""

from __future__ import annotations

from dataclasses import dataclass

#: How often a thing is said of one sender, and of how many senders anything is remembered.
SAID_MS, SENDERS_MAX = 600_000, 256
#: Things said in such a time of all senders.
SAID_MAX = 32
#: A sender that was not heard from for so long is no news any more.
RECENT_MS = 60_000


@dataclass(slots=True)
class _Sender:
    """What was wrong with a sender's last datagram, when it came, and when that was said."""

    why: str
    at_ms: int
    said_ms: int | None


class Unheard:
    """Senders, by what they are called in sentences; times may jump, as clocks do that are set."""

    def __init__(self) -> None:
        self._senders: dict[str, _Sender] = {}
        self._said_ms: list[int] = []

    def note(self, sender: str, why: str, now_ms: int) -> bool:
        """Take note of a datagram that was not taken; returns whether that is to be said now. O(SAID_MAX)."""
        known = self._senders.pop(sender, None)
        said_ms = known.said_ms if known is not None else None
        is_due = said_ms is None or abs(now_ms - said_ms) > SAID_MS
        if is_due:
            self._said_ms = [at_ms for at_ms in self._said_ms if abs(now_ms - at_ms) <= SAID_MS]
            is_due = len(self._said_ms) < SAID_MAX
        if is_due:
            self._said_ms.append(now_ms)
            said_ms = now_ms
        while len(self._senders) >= SENDERS_MAX:
            del self._senders[next(iter(self._senders))]
        self._senders[sender] = _Sender(why, now_ms, said_ms)
        return is_due

    def recent(self, now_ms: int) -> dict[str, str]:
        """Return who was not heard lately, and why, in the order of the last datagrams."""
        return {name: sender.why for name, sender in self._senders.items() if abs(now_ms - sender.at_ms) <= RECENT_MS}
