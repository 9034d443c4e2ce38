"""Running one application at one place: a thread of its own, a bounded queue, and an end that harms nobody else.

Callbacks run off the event loop, one at a time, in the order in which things happened. What a callback asks for is done
before the next one is called. An application that fails is called no more. One that hangs is given up: its thread
cannot be ended from outside, and stays until it ends by itself, or the agent does.
"""

from __future__ import annotations

import asyncio
import logging
import queue
import threading
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from concurrent.futures import Future
from typing import Any

from elf.agents.applications.instance import Instance
from elf.agents.errors import UnavailableError
from elf.agents.extensions.application_contract import (
    ApplicationError,
    Asked,
    Effect,
    Heard,
    Input,
    Reply,
    Rung,
    Started,
)

log = logging.getLogger(__name__)
#: Inputs that wait for the application; messages have 240 KiB at most, so some 15 MiB.
QUEUE_MAX = 64
#: After so long a callback is said to be slow, and after so long the application is given up.
SLOW_S, STUCK_S = 5.0, 60.0

Perform = Callable[["Runner", Sequence[Effect]], Awaitable[None]]


class Runner:
    """One application at one place, running.

    Args:
        instance: the application.
        what: it is, for the log.
        perform: does what its callbacks ask for, but for timers and replies.
        now_ms: wall clock.
    """

    def __init__(self, instance: Instance, what: str, perform: Perform, now_ms: Callable[[], int]) -> None:
        self.instance = instance
        self.what = what
        #: Why it is called no more; None while it runs.
        self.why: str | None = None
        #: Callbacks that have returned, inputs and effects that were lost, callbacks that took long.
        self.handled = self.lost = self.slow = 0
        self._perform = perform
        self._now_ms = now_ms
        self._queue: asyncio.Queue[tuple[Input, asyncio.Future[Reply] | None]] = asyncio.Queue(QUEUE_MAX)
        self._hand = _Hand(what)
        self._missed = False
        self._timer: asyncio.TimerHandle | None = None
        self._asked: set[asyncio.Future[Reply]] = set()
        self._work: set[asyncio.Task[None]] = set()
        self._queue.put_nowait((Started(), None))
        self.spawn(self._run())

    async def stop(self) -> None:
        """Call back no more."""
        self._end("it was stopped")
        await asyncio.gather(*self._work, return_exceptions=True)

    def spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Do something until it is done, or the application ends."""
        task = asyncio.get_running_loop().create_task(work)
        self._work.add(task)
        task.add_done_callback(self._done)
        return task

    def hear(self, body: bytes | None) -> None:
        """Take a multicast, or (None) that some were missed; without room for it, it is missed."""
        if self.why is not None:
            return
        inputs = [Heard(None)] if self._missed or body is None else []
        inputs += [] if body is None else [Heard(body)]
        if self._queue.qsize() + len(inputs) > QUEUE_MAX:
            self._missed = True
            self.lost += 1
            return
        self._missed = False
        for each in inputs:
            self._queue.put_nowait((each, None))

    async def put(self, event: Input, wait_s: float | None = None) -> bool:
        """Hand an input over, waiting for room; False if there is none in time, or the application has ended."""
        try:
            async with asyncio.timeout(wait_s):
                if self.why is None:
                    await self._queue.put((event, None))
        except TimeoutError:
            self.lost += 1
            return False
        return self.why is None

    async def ask(self, asked: Asked) -> Reply:
        """Have a query answered; raises UnavailableError if too many wait, ApplicationError if the application ends."""
        if self.why is not None:
            raise ApplicationError(self.why)
        reply: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()
        try:
            self._queue.put_nowait((asked, reply))
        except asyncio.QueueFull:
            raise UnavailableError(f"{self.what} has {QUEUE_MAX} things to do first; ask again later") from None
        self._asked.add(reply)
        try:
            return await reply
        finally:
            self._asked.discard(reply)

    def set_timer(self, in_ms: int) -> None:
        """Ring once, after so long."""
        if self._timer is not None:
            self._timer.cancel()
        self._timer = asyncio.get_running_loop().call_later(in_ms / 1000, lambda: self.spawn(self._ring()))

    async def _ring(self) -> None:
        await self.put(Rung())

    async def _run(self) -> None:
        while True:
            event, reply = await self._queue.get()
            if reply is not None and reply.done():
                continue  # nobody waits for the answer any more
            try:
                effects = await self._call(event)
            except ApplicationError as error:
                log.error("%s is stopped: %s", self.what, error, exc_info=error.__cause__)
                self._end(str(error))
                return
            self.handled += 1
            for effect in effects:
                if isinstance(effect, Reply) and reply is not None and not reply.done():
                    reply.set_result(effect)
            await self._perform(self, effects)

    async def _call(self, event: Input) -> list[Effect]:
        """Let the thread call back, and say so if that takes long."""
        called = asyncio.wrap_future(self._hand.call(lambda: self.instance.handle(event, self._now_ms())))
        done, _ = await asyncio.wait([called], timeout=SLOW_S)
        if not done:
            self.slow += 1
            log.warning("%s: %s has not returned for %d s", self.what, self.instance.callback, SLOW_S)
            done, _ = await asyncio.wait([called], timeout=STUCK_S - SLOW_S)
        if not done:
            raise ApplicationError(f"{self.instance.callback} has not returned for {STUCK_S:.0f} s")
        return called.result()

    def _end(self, why: str) -> None:
        if self.why is not None:
            return
        self.why = why
        if self._timer is not None:
            self._timer.cancel()
        self._hand.close()
        for reply in self._asked:
            if not reply.done():
                reply.set_exception(ApplicationError(why))
        while not self._queue.empty():  # whoever waits for room goes on
            self._queue.get_nowait()
        current = asyncio.current_task()
        for task in self._work:
            if task is not current:
                task.cancel()

    def _done(self, task: asyncio.Task[None]) -> None:
        self._work.discard(task)
        if not task.cancelled() and task.exception() is not None:
            log.error("%s: what it asked for failed", self.what, exc_info=task.exception())
            self._end("a failure of the agent's own; see its log")


class _Hand:
    """A thread that does one thing after the other. It holds up nobody who ends."""

    def __init__(self, name: str) -> None:
        self._work: queue.SimpleQueue[tuple[Callable[[], list[Effect]], Future[list[Effect]]] | None] = (
            queue.SimpleQueue()
        )
        threading.Thread(target=self._run, name=name, daemon=True).start()

    def call(self, work: Callable[[], list[Effect]]) -> Future[list[Effect]]:
        """Do something in the thread."""
        future: Future[list[Effect]] = Future()
        self._work.put((work, future))
        return future

    def close(self) -> None:
        """End the thread after what it is doing."""
        self._work.put(None)

    def _run(self) -> None:
        while (item := self._work.get()) is not None:
            work, future = item
            if not future.set_running_or_notify_cancel():
                continue
            try:
                future.set_result(work())
            except BaseException as error:
                future.set_exception(error)
