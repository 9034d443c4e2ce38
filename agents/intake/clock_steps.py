"""That this machine's clock was set back: which time it lives through again, for labels."""

from __future__ import annotations

import logging

log = logging.getLogger(__name__)
#: Corrections of the clock that events are late by anyway, and how far ahead one is noted at a time that lasts.
_MS_MIN, _NOTED_MS = 500, 60_000


class SetBack:
    """What a source notes of it; `now_ms` is a time of day that never goes back.

    Args:
        source: its name.
        now_ms: the time now.
    """

    def __init__(self, source: str, now_ms: int) -> None:
        self._source = source
        self._looked_ms = now_ms
        #: Up to here it is noted; None while the clock is right.
        self._until_ms: int | None = None

    @property
    def lasts(self) -> bool:
        """Whether the clock is behind still."""
        return self._until_ms is not None

    def forget(self) -> None:
        """Note it anew if it lasts: somebody does not know of it yet."""
        self._until_ms = None

    def note(self, ahead_ms: int, now_ms: int) -> tuple[int, int] | None:
        """Look at the clock, and return the time that is lived through again as far as it was not returned before.

        Its intervals are closed, its events to come.

        Args:
            ahead_ms: how far `now_ms` is ahead of the machine's clock.
            now_ms: the time now.
        """
        looked_ms = self._looked_ms
        self._looked_ms = now_ms
        if ahead_ms < _MS_MIN:
            self._until_ms = None
            return None
        until_ms = self._until_ms
        if until_ms is not None and now_ms < until_ms:
            return None
        if until_ms is None:
            log.warning(
                "source %s: the clock of this machine was set back by %d s; until it is there again, its events are "
                "late, and all windows say that something may be missing",
                self._source,
                ahead_ms // 1000,
            )
        self._until_ms = now_ms + _NOTED_MS
        # It was set back since the last look, and goes at half its pace since.
        since_ms = now_ms - ahead_ms - 2 * (now_ms - looked_ms) if until_ms is None else until_ms
        return since_ms, self._until_ms
