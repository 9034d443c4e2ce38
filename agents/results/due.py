"""What a follower of a job with several masters is to be sent, and when: once all have come as far. Pure.

They are those of its parts, or of the jobs that it reads. Each tells of its own windows that closed, changed, or are
due while open. A window is sent when the one that is furthest behind has come to where another one told of it; then it
is asked of all. So each change is seen, and a closed window is sent closed.
"""

from __future__ import annotations

from collections.abc import Sequence

from elf.agents.master.announcement import Rest, Told
from elf.agents.master.results import Span
from elf.agents.master.share import least_through
from elf.agents.wire.positions import Json

#: Windows that wait for a part that is behind; of more, the oldest are only counted.
WAITING_MAX = 200
_NEVER_MS = -(2**62)
#: Who has been sent nothing yet has all windows up to here: a first question is for the latest one only.
LATEST_MS = 10**18 - 1


def reached_by(result: Json, after_ms: int) -> int:
    """Return up to where a follower has all closed windows, after this result."""
    if result["window"] is None:
        return after_ms
    is_open = result["through_ms"] is None or result["through_ms"] < result["window"]["end_ms"]
    # Before anything has closed, all that closes from now on is news.
    end_ms = result["through_ms"] or 0 if is_open else result["window"]["end_ms"]
    if after_ms == LATEST_MS:
        return int(end_ms)
    return after_ms if is_open else max(after_ms, int(end_ms))


class Due:
    """What one follower waits for.

    Args:
        editions: of each part, as the follower knows it.
        after_ms: up to where it has been sent all windows that closed.
    """

    def __init__(self, editions: Sequence[int], after_ms: int) -> None:
        self.editions = list(editions)
        self.after_ms = after_ms
        #: By part: up to where its windows that closed were told of.
        self.told_ms = [after_ms] * len(editions)
        self._throughs: list[int | None] = [None] * len(editions)
        #: Window (None: the job so far) -> event time at which it is due.
        self._waiting: dict[Span | None, int] = {}
        self._rests: dict[str, Rest] = {}

    def tell(self, part: int, told: Told) -> None:
        """Take in what is new of a part."""
        self.editions[part], self._throughs[part] = told.edition, told.through_ms
        through_ms = _NEVER_MS if told.through_ms is None else told.through_ms
        self.told_ms[part] = max(self.told_ms[part], through_ms)
        for span in told.spans:
            due_ms = through_ms if span is None else min(span.end_ms, through_ms)
            self._waiting[span] = min(self._waiting.get(span, due_ms), due_ms)
        for name, rest in told.rests.items():
            self._leave(name, rest)
        closed = sorted((span for span in self._waiting if span is not None), key=lambda span: span.end_ms)
        for span in closed[: max(0, len(closed) - WAITING_MAX)]:
            del self._waiting[span]
            self._leave("also_closed", Rest(span, 1))

    def take(self) -> list[Span | None]:
        """Return the windows that are due now, ascending; they wait no more."""
        through_ms = least_through(self._throughs)
        if through_ms is None:
            return []
        due = [span for span, due_ms in self._waiting.items() if due_ms <= through_ms]
        for span in due:
            del self._waiting[span]
        return sorted(due, key=lambda span: (0, 0) if span is None else (span.end_ms, span.start_ms))

    def take_rests(self) -> dict[str, Rest]:
        """Return the runs of windows that are not sent, by the word for them; they are told once."""
        rests = self._rests
        self._rests = {}
        return rests

    def _leave(self, name: str, rest: Rest) -> None:
        known = self._rests.get(name, rest)
        span = Span(min(known.span.start_ms, rest.span.start_ms), max(known.span.end_ms, rest.span.end_ms))
        # Parts mostly tell of the same windows; of how many in all nobody knows.
        self._rests[name] = Rest(span, max(known.count, rest.count))
