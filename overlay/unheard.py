"""Who is not heard, and why: remembered for a while, and said once in a while, kind by kind. Pure.

Without it an agent with another secret, or with a wrong clock, looks like one that nobody answers. Anyone may send such
datagrams from any address, and call from many, so what is remembered and what is said is bounded; of each kind alone:
thousands of strangers without a seal hide no member whose clock is wrong.
"""

from __future__ import annotations

from dataclasses import dataclass

#: How often a thing is said of one sender, and of how many senders of a kind anything is remembered.
SAID_MS, SENDERS_MAX = 600_000, 64
#: Things of a kind that are said in such a time of all senders.
SAID_MAX = 8
#: A sender that was not heard from for so long is no news any more.
RECENT_MS = 60_000
#: Of so many of a kind it is told who they are, and of the rest how many.
TOLD_MAX = 8


@dataclass(slots=True)
class _Sender:
    """What was wrong with a sender's last datagram, when it came, and when that was said."""

    why: str
    at_ms: int
    said_ms: int | None


class Unheard:
    """Senders, by what they are called in sentences; times may jump, as clocks do that are set.

    Args:
        kinds: what may be wrong, the most telling first.
    """

    def __init__(self, *kinds: str) -> None:
        self._senders: dict[str, dict[str, _Sender]] = {kind: {} for kind in kinds}
        self._said_ms: dict[str, list[int]] = {kind: [] for kind in kinds}

    def note(self, kind: str, sender: str, why: str, now_ms: int) -> bool:
        """Take note of a sender that is not heard; returns whether that is to be said now. O(SAID_MAX)."""
        senders = self._senders[kind]
        known = senders.pop(sender, None)
        said_ms = known.said_ms if known is not None else None
        is_due = said_ms is None or abs(now_ms - said_ms) > SAID_MS
        if is_due:
            said = self._said_ms[kind] = [at_ms for at_ms in self._said_ms[kind] if abs(now_ms - at_ms) <= SAID_MS]
            is_due = len(said) < SAID_MAX
        if is_due:
            self._said_ms[kind].append(now_ms)
            said_ms = now_ms
        while len(senders) >= SENDERS_MAX:
            del senders[next(iter(senders))]
        senders[sender] = _Sender(why, now_ms, said_ms)
        return is_due

    def recent(self, now_ms: int) -> list[str]:
        """Return what is wrong with whom, in sentences, lately; of each kind the last `TOLD_MAX` senders."""
        told = []
        for kind, senders in self._senders.items():
            lately = [sender.why for sender in senders.values() if abs(now_ms - sender.at_ms) <= RECENT_MS]
            told += lately[-TOLD_MAX:]
            if len(lately) > TOLD_MAX:
                count = f"{len(lately) - TOLD_MAX}{' or more' if len(senders) == SENDERS_MAX else ''}"
                told.append(f"{count} other senders are not heard: {kind}")
        return told
