"""Listening to several masters at once, of a job's parts or of the jobs that it reads, on behalf of one follower."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from typing import NamedTuple

import msgspec
from msgspec.structs import replace

from elf.agents.errors import UnavailableError
from elf.agents.master.announcement import Told, rests_told
from elf.agents.master.results import Span
from elf.agents.results.due import Due, reached_by
from elf.agents.results.gatherer import Answered
from elf.agents.wire.positions import Json, Positioned
from elf.agents.wire.records import JobRecord
from elf.agents.wire.shares import Watch

#: How long a master may hold a follower's request; shorter than the usual idle timeouts on the way.
FOLLOW_MS = 10_000
#: Pause before a follower asks again for a master that cannot be reached.
RETRY_S = 1.0


class Voice(NamedTuple):
    """A master that is listened to.

    Attributes:
        app: the part that it is the master of.
        publication: of the job, the one that is listened to.
        ask: asks it, for so many ms; UnavailableError is waited out, other errors end the follower.
        leads: a later publication is heard of here; the others follow.
        window: (size_ms, slide_ms) of the windows to be told of; None: those of the job itself.
        closes: it only says when windows close, and nothing of what is in them.
    """

    app: bytes
    publication: str
    ask: Callable[[Watch, int], Awaitable[Answered]]
    leads: bool
    window: tuple[int, int] | None = None
    closes: bool = False

    async def hear(self, edition: int, after_ms: int, wait_ms: int) -> Told:
        """Ask for news, which may take so long; UnavailableError also where the answer is none."""
        value, _ = await self.ask(Watch(self.app, edition, after_ms, wait_ms, self.window), wait_ms + 5_000)
        try:
            told = msgspec.convert(value, Told)
        except msgspec.ValidationError as error:
            raise UnavailableError(f"another agent sent what is no news of a job: {error}") from None
        if not self.closes:
            return told
        spans = [span for span in told.spans if span is None or span.end_ms > after_ms]
        rests = {word: rest for word, rest in told.rests.items() if word == "also_closed"}
        return replace(told, spans=spans, rests=rests)


class Listening:
    """Asks each voice for its news again and again, and for the windows that are due of all.

    Args:
        voices: who is listened to.
        due: what the follower waits for, of as many.
        gathered: makes the result of a window that is due; None if it is retained no more.
    """

    def __init__(
        self, voices: Sequence[Voice], due: Due, gathered: Callable[[Span | None], Awaitable[Json | None]]
    ) -> None:
        self._voices = voices
        self._due = due
        self._gathered = gathered
        #: The voice that has told of a later publication, and this, once there is one: all begins anew then.
        self.anew: tuple[int, JobRecord] | None = None
        self._news = asyncio.Event()
        self._tasks = [asyncio.get_running_loop().create_task(self._poll(number)) for number in range(len(voices))]

    async def close(self) -> None:
        """Ask no more."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def results(self) -> AsyncGenerator[Positioned, None]:
        """Yield what is due until there is a later publication."""
        due = self._due
        known = tuple(due.editions)
        while self.anew is None:
            await self._news.wait()
            self._news.clear()
            for task in self._tasks:
                if task.done():
                    task.result()
            told, spans = tuple(due.editions), due.take()
            for number, span in enumerate(spans, 1):
                result = await self._asked(span)
                if result is None:
                    continue
                due.after_ms = reached_by(result, due.after_ms)
                result |= rests_told(due.take_rests())
                # Of several results, all come again to a follower that goes on in their midst.
                known = told if number == len(spans) else known
                yield result, (known, due.after_ms)

    async def _asked(self, span: Span | None) -> Json | None:
        """Ask all for a window, until they answer; None if it is retained no more."""
        while self.anew is None:
            try:
                return await self._gathered(span)
            except UnavailableError:
                await asyncio.sleep(RETRY_S)
        return None

    async def _poll(self, number: int) -> None:
        """Ask one voice for its news again and again."""
        due, voice = self._due, self._voices[number]
        try:
            while self.anew is None:
                try:
                    told = await voice.hear(due.editions[number], due.told_ms[number], FOLLOW_MS)
                except UnavailableError:
                    # Also of a part whose job is being stopped: part 0 is the last to end.
                    await asyncio.sleep(RETRY_S)
                    continue
                if told.job.publication == voice.publication:
                    due.tell(number, told)
                elif voice.leads:
                    self.anew = number, told.job
                else:
                    await asyncio.sleep(RETRY_S)
                    continue
                self._news.set()
        finally:
            self._news.set()
