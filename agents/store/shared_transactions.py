"""Work of many jobs that is made durable together, by one thread in one transaction.

The intervals of many jobs end at the same moment, and each has a few rows to write: a thread and a commit for each cost
more than the work. Work comes in steps: it describes a change, yields what is to be written of it, and takes the change
into memory once that is durable. Where the disk refuses, it gets the error instead, and nothing has changed.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable, Generator, Sequence

from elf.agents.failures import FAILURES
from elf.agents.store.batches import BLOCKS_MAX
from elf.agents.store.database import Database

#: Writes a change; may be called again if the transaction is undone.
Write = Callable[[sqlite3.Connection], None]
#: Yields at most once. What it holds meanwhile, a lock, say, no other work at the same time may wait for.
Steps = Generator[Write, None, None]


class _Work:
    """Some work under way, and how it ended."""

    def __init__(self, steps: Steps) -> None:
        self._steps = steps
        self.write: Write | None = None
        self.error: BaseException | None = None
        try:
            self.write = next(steps)
        except StopIteration:
            pass  # there is nothing to write
        except FAILURES as error:
            self.error = error

    def end(self, refused: BaseException | None = None) -> None:
        """Go on: what it wanted written is durable, or was refused."""
        try:
            next(self._steps) if refused is None else self._steps.throw(refused)
        except StopIteration:
            self.error = refused
        except FAILURES as error:
            self.error = error
        else:
            self._steps.close()
            self.error = RuntimeError("work that is made durable together writes only once")


def carry_out(database: Database, works: Sequence[Steps]) -> list[BaseException | None]:
    """Do some work, durably; return what each failed with, None where it did not. Called in a thread."""
    begun = [_Work(steps) for steps in works]
    writing = [(work, work.write) for work in begun if work.write is not None]
    try:
        _write(database, [write for _, write in writing])
    except FAILURES as error:
        # Of many it may be the fault of one only.
        for work, write in writing:
            _end_alone(database, work, write, error if len(writing) == 1 else None)
    else:
        for work, _ in writing:
            work.end()
    return [work.error for work in begun]


def _write(database: Database, writes: Sequence[Write]) -> None:
    if writes:
        with database.transaction() as sql:
            for write in writes:
                write(sql)


def _end_alone(database: Database, work: _Work, write: Write, refused: BaseException | None) -> None:
    if refused is None:
        try:
            _write(database, [write])
        except FAILURES as error:
            refused = error
    work.end(refused)


class Desk:
    """Carries out what is brought to it while it is at work in one go.

    Args:
        work: carries out some, in a thread: `carry_out` of a database.
    """

    def __init__(self, work: Callable[[Sequence[Steps]], Sequence[BaseException | None]]) -> None:
        self._work = work
        self._waiting: list[tuple[Steps, asyncio.Future[None]]] = []
        self._task: asyncio.Task[None] | None = None

    async def carry_out(self, steps: Steps) -> None:
        """Do some work, durably, and return; raises what it raises."""
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((steps, done))
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._run())
        await done

    async def _run(self) -> None:
        try:
            while self._waiting:
                batch = self._waiting[:BLOCKS_MAX]
                self._waiting = self._waiting[BLOCKS_MAX:]
                try:
                    errors: Sequence[BaseException | None]
                    errors = await asyncio.to_thread(self._work, [steps for steps, _ in batch])
                except Exception as error:
                    errors = [error] * len(batch)  # there are no threads any more
                for (_, done), failed in zip(batch, errors, strict=True):
                    if not done.done():
                        done.set_result(None) if failed is None else done.set_exception(failed)
        finally:
            self._task = None
