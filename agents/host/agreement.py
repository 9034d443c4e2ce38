"""What the neighbours' clocks say, and whether intervals may be closed before they were heard. Pure.

No clock is known to be right, and one that is ahead does harm: its agent speaks for intervals that have not happened.
So of what all say, ourselves included, the time in the middle counts, or of two in the middle the earlier one: a liar
among three moves nobody, and of two agents the one that is ahead is taken for wrong.

Times are told as offsets from a clock of this machine that nobody sets: they hold on when its time of day is set.
"""

from __future__ import annotations

from collections.abc import Iterable

#: An answer that took longer says too little: half of it is how wrong a reading may be, and must be less than what a
#: clock may be ahead (`elf.agents.host.clock.AHEAD_MS`).
ROUND_TRIP_MS_MAX = 3_000
#: A time before this program was written (2024) is none: the machine has no battery for its clock.
EARLIEST_MS = 1_704_067_200_000
#: Readings older than that count no more; what they said then does, for as long as nobody says anything else: clocks
#: that nobody sets drift by some ms in that time, but stand still while a machine is suspended.
FRESH_MS, KEPT_MS = 20_000, 600_000
#: How long neighbours that are known, and have never answered, are waited for before intervals are closed.
HELD_MS = 30_000
#: How many are remembered.
READINGS_MAX = 16


class Agreement:
    """What one agent knows of its neighbours' clocks; `now_ms` is its own clock that nobody sets, any origin."""

    def __init__(self) -> None:
        #: How far the time of day of a neighbour is ahead of our clock that nobody sets, and when it said so.
        self._said: dict[str, tuple[int, int]] = {}
        self._agreed: tuple[int, int] | None = None
        self._is_heard = False
        #: Since when there is anybody who might be heard.
        self._known_ms: int | None = None

    def holds(self, neighbours: bool, now_ms: int) -> bool:
        """Tell whether to close no interval yet; `neighbours`: whether any are known."""
        if self._is_heard:
            return False
        if neighbours and self._known_ms is None:
            self._known_ms = now_ms
        return self._known_ms is not None and now_ms - self._known_ms < HELD_MS

    def note(self, address: str, told_ms: int | None, asked_ms: int, now_ms: int) -> None:
        """Note what a neighbour that was asked has said just now (None: it told no time)."""
        self._is_heard = True
        if told_ms is None or told_ms < EARLIEST_MS or now_ms - asked_ms > ROUND_TRIP_MS_MAX:
            return
        self._said.pop(address, None)
        self._said[address] = (told_ms - (asked_ms + now_ms) // 2, now_ms)
        if len(self._said) > READINGS_MAX:
            del self._said[next(iter(self._said))]

    def offset_ms(self, own_ms: int, now_ms: int) -> int | None:
        """Return how far the time of day is ahead of our clock that nobody sets; None while nobody else says so.

        Args:
            own_ms: what our own time of day says.
            now_ms: now.
        """
        said = [offset_ms for offset_ms, at_ms in self._said.values() if now_ms - at_ms <= FRESH_MS]
        if said:
            self._agreed = middle([own_ms, *said]), now_ms
        if self._agreed is None or now_ms - self._agreed[1] > KEPT_MS:
            return None
        return self._agreed[0]


def middle(values: Iterable[int]) -> int:
    """Return the middle one of some values, of two the lower.

    >>> middle([5, 1, 2]), middle([120, 0])
    (2, 0)
    """
    ordered = sorted(values)
    return ordered[(len(ordered) - 1) // 2]
