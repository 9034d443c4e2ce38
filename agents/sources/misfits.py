"""Whether a source's lines are nearly all rejected. Pure.

A wrong format looks like a web server that nobody visits: all is read, nothing waits, and results are empty. That is
not to be told from one bad line in a thousand by a look at one chunk, so the judge looks at runs of lines.
"""

from __future__ import annotations

#: Fewer lines than this judge no source that ever had events: scanners send what no web server's log is ready for.
LINES_MIN = 20


class Misfits:
    """Judges whether a source's lines are nearly all rejected: nine of ten; until again half of them are events.

    Lines that the pre-filter skipped are taken for good ones if the source had events: nobody looked at them, but the
    format was right once. If it never had one, they tell nothing: of lines in a wrong format, too, the pre-filter skips
    those without its texts.

    Args:
        had_events: any line of the source was ever an event. If none was, the first lines are judged however few.
    """

    def __init__(self, *, had_events: bool) -> None:
        self.prevail = False
        #: Lines of the run that the last judgement was made of, and how many were rejected.
        self.judged = (0, 0)
        self._had_events = had_events
        self._lines = self._rejected = 0

    def note(self, parsed: int, rejected: int, filtered: int = 0) -> bool:
        """Take note of lines that follow those before; return whether the judgement is another now."""
        self._lines += parsed + rejected + (filtered if self._had_events or parsed else 0)
        self._rejected += rejected
        if self._lines < self._enough():
            return False
        lines, bad = self.judged = self._lines, self._rejected
        self._lines = self._rejected = 0
        self._had_events = self._had_events or bad < lines
        before = self.prevail
        if bad * 10 >= lines * 9:
            self.prevail = True
        elif bad * 2 <= lines:
            self.prevail = False
        return self.prevail != before

    def _enough(self) -> int:
        if self.prevail:
            return max(1, min(LINES_MIN, self.judged[0]))
        return LINES_MIN if self._had_events else 1
