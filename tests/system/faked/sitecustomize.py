"""The time of day of an agent that a test has started: the machine's, and the seconds that a file says.

Python imports this module at its start where `tests.system.time_of_day` has put it on the path. libfaketime does the
same for whole processes, but with several threads in one it gives the machine's own time now and then, once in 100,000
readings: a step forward that is not to be believed before it has lasted for a while begins anew each time.
"""

from __future__ import annotations

import os
import pathlib
import time
from collections.abc import Callable

_FILE = pathlib.Path(os.environ["ELF_TESTS_TIME_OF_DAY"])
_machine_ns: Callable[[], int] = time.time_ns


def _time_ns() -> int:
    return _machine_ns() + int(_FILE.read_bytes()) * 1_000_000_000


def _time() -> float:
    return _time_ns() / 1e9


time.time_ns, time.time = _time_ns, _time
