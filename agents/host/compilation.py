"""Texts of strangers are read and compiled beside the event loop, one at a time.

A text may take seconds, and then be refused. On the loop it would keep the agent from answering its neighbours, who
would take it for dead; several at once would take its turns at the interpreter.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeVar

from elf.agents.errors import UnavailableError

T = TypeVar("T")

#: Texts that wait for their turn; more are refused, to be sent again.
WAITING_MAX = 64
_RETRY_S = 2


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
                return await asyncio.to_thread(work)
        finally:
            self._waiting -= 1
