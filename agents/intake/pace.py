"""How soon a source is looked at again: idle files seldom, busy ones when lines have gathered. Pure.

A few lines cost nearly what thousands do: each job filters, maps and inserts whatever there is. So lines that keep
coming one by one are left to gather, or a busy log would take a core. But only at the end of all files is it the time
of day that closes intervals, so a log that gets a line now and then is looked at once more at once.

All agents look at idle files at the same moments, those at which intervals end among them: what they seal for a job
reaches its master together, and masters decide on many jobs at a time. At moments of its own each of these messages
would wake an agent for itself.
"""

from __future__ import annotations

from typing import NamedTuple

#: Pause between looks at files that had nothing new, soon enough for windows of seconds, and once they had nothing new
#: for so many looks: a look costs an idle agent more than anything else. A push wakes the loop at once.
POLL_S, POLL_IDLE_S, IDLE_LOOKS = 0.1, 0.25, 10
#: Looks come so long after full multiples of these pauses: a timer may be early.
AFTER_S = 0.002
#: Lines are left to gather this many times as long as reading the last ones took, within bounds.
REST_SHARE, REST_S_MAX = 4, 0.5
#: For so long after lines were still coming it is not asked again whether there are more at once.
BUSY_S = 1.0


class Pause(NamedTuple):
    """How long not to look, 0 for not at all, and whether news end it."""

    seconds: float
    ends_with_news: bool = False


class Pace:
    """One source's; times in seconds of a clock that never steps back."""

    def __init__(self) -> None:
        #: Looks in a row that found nothing.
        self._looks = 0
        #: The last look was to see whether what came before it was all.
        self._looks_again = False
        self._busy_until_s: float | None = None

    def after(self, *, progressed: bool, is_behind: bool, begun_s: float, now_s: float, day_s: float) -> Pause:
        """Return the pause after a look.

        Args:
            progressed: it found lines.
            is_behind: there are more, for sure.
            begun_s: when it began.
            now_s: when what it found had been dealt with.
            day_s: the time of day then.
        """
        again = self._looks_again
        self._looks_again = False
        if not progressed:
            self._looks += 1
            every_s = POLL_S if self._looks < IDLE_LOOKS else POLL_IDLE_S
            return Pause(every_s - (day_s - AFTER_S) % every_s, ends_with_news=True)
        self._looks = 0
        if is_behind:
            return Pause(0)
        if again:
            self._busy_until_s = begun_s + BUSY_S
        elif self._busy_until_s is None or begun_s >= self._busy_until_s:
            self._looks_again = True
            return Pause(0)
        return Pause(min(REST_S_MAX, max(POLL_S, REST_SHARE * (now_s - begun_s))))
