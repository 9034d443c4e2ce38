"""How an agent's log is written: a record is one line, whatever a stranger put into a name, a path or an error.

A line break in a text of his would begin a line of his own, and escape sequences act on the terminal of who reads it.
What cannot be seen is written as Python writes it; the lines of a traceback stand behind a bar, so that none of them
looks like a record.
"""

from __future__ import annotations

import logging
import re

FORMAT = "%(asctime)s %(levelname)s %(name)s: %(message)s"
_BAR = "  | "
#: Control characters, line and paragraph separators, what turns the direction of writing, and halves of characters.
_UNSEEN = re.compile("[\x00-\x08\x0a-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


class LineFormatter(logging.Formatter):
    """Writes each record so that nothing in it can pass for another."""

    def __init__(self) -> None:
        super().__init__(FORMAT)

    def format(self, record: logging.LogRecord) -> str:
        """Return the record's line, and those of its traceback."""
        record.message = escaped(record.getMessage())
        record.asctime = self.formatTime(record)
        line = self.formatMessage(record)
        trace = [self.formatException(record.exc_info)] if record.exc_info else []
        trace += [self.formatStack(record.stack_info)] if record.stack_info else []
        return "\n".join([line, *(_BAR + escaped(each) for text in trace for each in text.splitlines())])


def escaped(text: str) -> str:
    """Replace what cannot be seen, or would act on a terminal, by how Python writes it."""
    return _UNSEEN.sub(lambda found: found[0].encode("unicode_escape").decode("ascii"), text)
