"""How often a source's progress is made durable while nothing is sealed. Pure.

A checkpoint costs each job that has changed: what waits is mapped, what is open is read out and encoded. Then it is
synced. Not to make it costs, too: what is not durable is read again after a crash.
"""

from __future__ import annotations

#: A checkpoint that nothing sealed waits for comes no sooner than this many times the last one's duration after it: so
#: they take at most 5 % of the time, ...
SPACING = 20
#: ... but no later than this many times the usual pause: after one slow sync not minutes are to be read again.
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
        """Tell whether the next one may be made though nothing is sealed, if it is worth it."""
        # The clock may have been set back.
        self._last_ms = min(self._last_ms, now_ms)
        return now_ms - self._last_ms >= min(SPACING * self._cost_ms, PAUSES_MAX * self.usual_ms)

    def is_due(self, now_ms: int) -> bool:
        """Tell whether it is time for the next one whatever there is."""
        return now_ms - self._last_ms >= self.usual_ms

    def made(self, now_ms: int) -> None:
        """Note that one is durable, or that nothing is there that would have to be."""
        self._last_ms = now_ms

    def cost(self, took_ms: int) -> None:
        """Note what it took, with all that came before and after it: mapping, sealing, reading out, writing."""
        self._cost_ms = took_ms
