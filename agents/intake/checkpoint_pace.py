"""How often a source's progress is made durable: syncing costs, and so does reading again what was not synced. Pure."""

from __future__ import annotations

#: A checkpoint waits until this many times the last one's duration has passed, so syncing costs at most 5 %.
SPACING = 20
#: ... but no longer than this many times the usual pause: one slow sync must not hold results up for minutes.
PAUSES_MAX = 5


class CheckpointPace:
    """Tells when the next checkpoint may be, and when it must; times in ms.

    Args:
        usual_ms: longest time between checkpoints while events flow.
        now_ms: the time of day, as of which there is nothing to make durable.
    """

    def __init__(self, usual_ms: int, now_ms: int) -> None:
        #: May be set.
        self.usual_ms = usual_ms
        self._last_ms = now_ms
        self._cost_ms = 0

    def may(self, now_ms: int) -> bool:
        """Tell whether the next one may be made, if it is worth it."""
        # The clock may have been set back.
        self._last_ms = min(self._last_ms, now_ms)
        return now_ms - self._last_ms >= min(SPACING * self._cost_ms, PAUSES_MAX * self.usual_ms)

    def is_due(self, now_ms: int) -> bool:
        """Tell whether it is time for the next one whatever there is."""
        return now_ms - self._last_ms >= self.usual_ms

    def made(self, now_ms: int) -> None:
        """Note that one is durable."""
        self._last_ms = now_ms

    def cost(self, took_ms: int) -> None:
        """Note what it took, with all that came after it."""
        self._cost_ms = took_ms
