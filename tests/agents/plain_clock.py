"""A clock for pumps whose time is whatever a test says, with nothing wrong about it."""

from __future__ import annotations

from collections.abc import Callable

from elf.agents.host.clock import Doubt


class PlainClock:
    """Shows the time that it is given.

    Args:
        now_ms: returns the time of day.
    """

    def __init__(self, now_ms: Callable[[], int]) -> None:
        self._now_ms = now_ms

    def __call__(self) -> int:
        return self._now_ms()

    def ahead_ms(self) -> int:
        return 0

    def advance_to(self, at_ms: int) -> None:
        assert at_ms <= self._now_ms()

    def doubt(self) -> Doubt:
        return Doubt.NONE

    def up_ms(self) -> int:
        return self._now_ms()
