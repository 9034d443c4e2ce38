"""Standard output of the `elf` command: a disk that is full there is told, a reader that has left is not."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager


class OutputError(Exception):
    """What was to be printed could not be written, through no fault of elf's; the text says why."""


class Output(io.TextIOWrapper):
    """Standard output whose errors say that they are its own; that the reader has left stays a BrokenPipeError."""

    def write(self, text: str) -> int:
        """Write text."""
        with _named():
            return super().write(text)

    def flush(self) -> None:
        """Write what is buffered."""
        with _named():
            super().flush()


@contextmanager
def _named() -> Iterator[None]:
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        raise OutputError(f"the output could not be written: {error.strerror}") from None


def guard_output() -> None:
    """Put an `Output` in place of `sys.stdout`; a terminal that cannot show a character is shown its number."""
    if sys.stdout is None:
        # Closed by whoever started the command: nobody wants to read it.
        sys.stdout = os.fdopen(os.open(os.devnull, os.O_WRONLY), "w", encoding="utf-8")
    now = sys.stdout
    if isinstance(now, io.TextIOWrapper):
        buffered, encoding = now.line_buffering, now.encoding
        sys.stdout = Output(now.detach(), encoding, "backslashreplace", None, buffered, now.write_through)


def finish_output() -> None:
    """Write what is still buffered, while it can still be said that this fails; raises OutputError."""
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        discard_output()


def discard_output() -> None:
    """Point standard output elsewhere, so that Python's last flush is quiet."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
