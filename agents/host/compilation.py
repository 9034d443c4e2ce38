"""Texts of strangers are read and compiled beside the event loop, one at a time.

A text may take seconds, and then be refused. On the loop it would keep the agent from answering its neighbours, who
would take it for dead; several at once would take its turns at the interpreter. Of these it takes one for each step
of each answer, so while a text is compiled they are short.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
import threading
from collections.abc import Callable, Iterator
from typing import TypeVar

from elf.agents.errors import UnavailableError

T = TypeVar("T")

#: Texts that wait for their turn; more are refused, to be sent again.
WAITING_MAX = 64
_RETRY_S = 2
#: How long whoever compiles may keep the interpreter from others; Python's own 5 ms make 50 of a small answer.
TURN_S = 0.000_5


class _Turns:
    """Short turns at the interpreter, while anybody in this process needs them."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._count = 0
        self._before_s = 0.0

    @contextlib.contextmanager
    def short(self) -> Iterator[None]:
        with self._lock:
            if self._count == 0:
                self._before_s = sys.getswitchinterval()
                sys.setswitchinterval(min(TURN_S, self._before_s))
            self._count += 1
        try:
            yield
        finally:
            with self._lock:
                self._count -= 1
                if self._count == 0:
                    sys.setswitchinterval(self._before_s)


_turns = _Turns()


class Compilation:
    """Where an agent has its texts compiled."""

    def __init__(self) -> None:
        self._turn = asyncio.Lock()
        self._waiting = 0

    async def do(self, work: Callable[[], T]) -> T:
        """Do some work in a thread when its turn has come; returns, or raises, what it does.

        Raises:
            UnavailableError: too many wait.
        """
        if self._waiting >= WAITING_MAX:
            why = f"{WAITING_MAX} queries wait here to be compiled; send it again later, or to another agent"
            raise UnavailableError(why, retry_after_s=_RETRY_S)
        self._waiting += 1
        try:
            async with self._turn:
                with _turns.short():
                    return await asyncio.to_thread(work)
        finally:
            self._waiting -= 1
