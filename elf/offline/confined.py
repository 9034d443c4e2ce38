"""Functions that a job brings along, in Spark's Python workers: in the very process that agents run them in.

A worker runs no source itself: it starts the confined process (`elf.agents.extensions.signed.process`) when it first
needs it, and asks it row by row. The process ends with its worker, by the kernel's hand. Times cross as the process
knows them: TIMESTAMP in microseconds, DATE in days. What it says is held to its types, as agents do. Spark's workers
load this module each time anew, so it imports little.

A function's answer depends on its arguments alone, which is what is verified, so the answers for the last few thousand
arguments are remembered: each event is asked about several times.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Literal

from elf.agents.extensions.signed.allowance import BURST_S, EVENT_S
from elf.agents.extensions.signed.answers import typed
from elf.agents.extensions.signed.process import GaveUpError, Process
from elf.agents.language.own_functions import OwnFunction
from elf.agents.language.types import SqlType
from elf.offline.session import OfflineError

#: Answers that a worker remembers, and how long they and their arguments may be: some 30 MB at most.
KNOWN_MAX, KNOWN_CHARS_MAX = 16_384, 1_024
#: Processes of a worker, of 15 MB: versions of a job come one after another, and jobs that are joined together.
PROCESSES_MAX = 4


class OwnCall:
    """What Spark's workers call for one row; the sources travel in it as text.

    Args:
        job: `creator/name`.
        functions: what its process is to run; whoever makes this has admitted them.
        index: of the one that is called.
        failing: what becomes of a failure: NULL, or the answer tells just whether there is one.
    """

    def __init__(
        self, job: str, functions: tuple[OwnFunction, ...], index: int, failing: Literal["null", "tell"]
    ) -> None:
        self._job = job
        self._functions = functions
        self._index = index
        self._failing = failing

    def __call__(self, *values: Any) -> Any:
        """Ask this worker's process."""
        try:
            answer, fails = _running_of(self._functions).ask(self._index, values)
        except GaveUpError as error:
            _close(self._functions)
            raise OfflineError(f"job {self._job} cannot be verified: on Spark {error}") from None
        if self._failing == "tell":
            return fails
        return None if fails else answer


class _Running:
    """Functions in their process, in one of Spark's workers."""

    def __init__(self, functions: tuple[OwnFunction, ...]) -> None:
        self._returns = [SqlType.parse(each.returns) for each in functions]
        self._known: dict[str, tuple[Any, bool]] = {}
        self._process = Process(functions)
        self._process.begin(BURST_S)

    def ask(self, index: int, values: Sequence[Any]) -> tuple[Any, bool]:
        """Return a function's answer for one row, and whether it fails on it.

        Raises:
            GaveUpError: it took too long or too much, or did what it may not.
        """
        # As text, in which -0.0 is not 0.0, nor 1 true.
        question = json.dumps([index, values])
        found = self._known.get(question)
        if found is not None:
            return found
        # Agents grant as much to a function that has not used any of it up.
        answers, failed, _ = self._process.call(index, [[value] for value in values], BURST_S + EVENT_S)
        column = typed(answers, self._returns[index])
        found = column.to_physical().item(), failed > 0
        if len(question) <= KNOWN_CHARS_MAX >= len(str(found[0])):
            if len(self._known) >= KNOWN_MAX:
                self._known.clear()
            self._known[question] = found
        return found

    def close(self) -> None:
        """End the process."""
        self._process.close()


#: Of this process, one of Spark's workers; the one begun last at the end.
_running: dict[tuple[OwnFunction, ...], _Running] = {}


def _running_of(functions: tuple[OwnFunction, ...]) -> _Running:
    running = _running.get(functions)
    if running is None:
        while len(_running) >= PROCESSES_MAX:
            _close(next(iter(_running)))
        running = _running[functions] = _Running(functions)
    return running


def _close(functions: tuple[OwnFunction, ...]) -> None:
    running = _running.pop(functions, None)
    if running is not None:
        running.close()
