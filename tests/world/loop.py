"""The World's event loop: the simulator's, with processes that can be killed and disks that take their time.

Owns what a process's end means for its tasks and callbacks, and when work meant for a thread is done. A killed process
runs nothing any more, not even what it would do at its end; its tasks are kept until the run is over.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Coroutine
from typing import Any

from elf.overlay.sim.loop import AGENT, SimLoop

#: What is left of killed processes has so long to end once the run is over.
BURIAL_S = 60.0


class Life:
    """One process: from a start to its end.

    `disk_s` draws how long its next work in a thread takes, in virtual seconds.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.tasks: list[asyncio.Task[Any]] = []

    def __repr__(self) -> str:
        return self.name

    def disk_s(self) -> float:
        """Return how long the next work in a thread takes; 0: it is done in line."""
        return 0.0


class WorldLoop(SimLoop):
    """See `SimLoop`; callbacks and tasks belong to the `Life` in whose context they were made."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self._killed: list[Life] = []
        #: Until when the one thread of an executor is at work.
        self._busy_s: dict[Any, float] = {}
        self.set_task_factory(self._make_task)  # type: ignore[arg-type]  # the stub knows no contexts

    def kill(self, life: Life) -> None:
        """End a process at once: none of its callbacks is called again."""
        self._paused[life] = deque()
        self._killed.append(life)

    async def bury(self) -> None:
        """Let what is left of killed processes end, so that nothing of it outlasts the run."""
        tasks = [task for life in self._killed for task in life.tasks if not task.done()]
        for task in tasks:
            task.cancel()
        # Whoever would have been woken is, to hear of that; what he says of it is of no interest any more.
        self.set_exception_handler(lambda loop, context: None)
        for life in self._killed:
            self._ready.extend(handle for handle in self._paused.pop(life) if isinstance(handle, asyncio.Handle))
        self._killed.clear()
        if tasks:
            done, _ = await asyncio.wait(tasks, timeout=BURIAL_S)
            for task in done:
                if not task.cancelled():
                    task.exception()

    def _make_task(self, loop: Any, work: Coroutine[Any, Any, Any], *, context: Any = None) -> asyncio.Task[Any]:
        task = asyncio.Task(work, loop=loop, context=context)
        life = (context or {AGENT: AGENT.get()}).get(AGENT)
        if isinstance(life, Life):
            life.tasks.append(task)
            if len(life.tasks) > 1_000:
                life.tasks = [each for each in life.tasks if not each.done()]
        return task

    def disk_s(self) -> float:
        """Return how long the next work in a thread takes."""
        life = AGENT.get()
        return life.disk_s() if isinstance(life, Life) else 0.0

    def run_in_executor(self, executor: Any, func: Any, *args: Any) -> Any:  # type: ignore[override]
        """Do work meant for a thread when its life's disk has come to it, before or after most of the time it takes.

        So a process may be killed between the work and the news of it, either way round. An executor that is named has
        one thread.
        """
        takes_s = self.disk_s()
        begins_s = max(self.time(), self._busy_s.get(executor, 0.0)) if executor is not None else self.time()
        if not takes_s and begins_s <= self.time():
            return super().run_in_executor(executor, func, *args)
        ends_s = begins_s + takes_s
        if executor is not None:
            self._busy_s[executor] = ends_s
        future: asyncio.Future[Any] = self.create_future()
        done: list[Any] = []

        def work() -> None:
            done.append(SimLoop.run_in_executor(self, executor, func, *args))

        def tell() -> None:
            result = done[0]
            if future.cancelled():
                result.exception()
            elif (error := result.exception()) is not None:
                future.set_exception(error)
            else:
                future.set_result(result.result())

        if self.rng.random() < 0.5:
            self.call_at(begins_s, work)
            self.call_at(ends_s, tell)
        else:
            self.call_at(ends_s, work)
            self.call_at(ends_s, tell)
        return future

    async def create_connection(self, *args: Any, **options: Any) -> Any:
        """Refuse: agents that look for why nobody answers call over TCP, and nobody is there."""
        raise ConnectionRefusedError("there is no TCP in the World")
