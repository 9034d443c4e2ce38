"""How a benchmark ends that is told to: with all that it has started, whoever tells it."""

from __future__ import annotations

import signal
import sys
from types import FrameType


def end_in_order() -> None:
    """Let SIGTERM and SIGHUP end the process like Ctrl-C: what is to be done at last (`finally`) is done.

    Python dies of them on the spot otherwise, and the agents that it has started go on. Told twice, it goes on ending.
    """

    def end(number: int, frame: FrameType | None) -> None:
        for each in (signal.SIGTERM, signal.SIGHUP):
            signal.signal(each, signal.SIG_IGN)
        sys.exit(128 + number)

    for each in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(each, end)
