"""Long work outlives a master that is away for a moment: what nobody could answer is asked again for a while."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import TypeVar

from elf.agents.errors import UnavailableError

#: Another master takes a job up within seconds; agents that are started again need some more.
PATIENCE_S = 60.0
_PAUSE_S, _PAUSE_S_MAX = 0.25, 4.0

T = TypeVar("T")


def patiently(ask: Callable[[], T], given_up: threading.Event | None = None) -> T:
    """Return the answer to a question that may be asked any number of times.

    Args:
        ask: asks it.
        given_up: once it is set, the question is not asked again.

    Raises:
        UnavailableError: there was none for `PATIENCE_S`.
    """
    stop = given_up or threading.Event()
    deadline_s, pause_s = time.monotonic() + PATIENCE_S, _PAUSE_S
    while True:
        try:
            return ask()
        except UnavailableError:
            if time.monotonic() + pause_s > deadline_s or stop.wait(pause_s):
                raise
        pause_s = min(2 * pause_s, _PAUSE_S_MAX)
