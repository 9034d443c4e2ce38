"""Following a job: its results as they come, from one master or, of a job with several trees, from all of them."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator

import msgspec

from agents.errors import JobError, StoppedError, UnavailableError, UnknownJobError
from agents.http.service import Position, Positioned
from agents.masters.results import Json, Span
from agents.parts.due import Due
from agents.parts.gathering import Ask, Gathering, parted_job
from agents.parts.requests import Watch
from agents.parts.shares import Shared, Told
from agents.requests import Follow, JobRecord

#: How long a master may hold a follower's request; shorter than the usual idle timeouts on the way.
FOLLOW_MS = 10_000
#: A follower's first question is for the latest window only.
_LATEST = 10**18 - 1
#: Pause before a follower asks again for a master that cannot be reached.
RETRY_S = 1.0


class Following:
    """Follows jobs for one agent.

    Args:
        ask: asks a master.
        gathering: gathers the results of jobs with several trees.
    """

    def __init__(self, ask: Ask, gathering: Gathering) -> None:
        self._ask, self._gathering = ask, gathering

    async def results(self, app: bytes, key: str, position: Position | None) -> AsyncGenerator[Positioned, None]:
        """Yield results and where to go on after each, until the job is stopped, which is an error.

        Args:
            app: the job.
            key: the job as people write it.
            position: where an earlier follower stopped; one of another number of trees says nothing.
        """
        job, asked = self._gathering.known(app), False
        while True:
            found = self._one(app, key, position, asked) if job is None else self._parts(job, key, position, asked)
            job = None
            async with contextlib.aclosing(found) as results:
                async for each in results:
                    if isinstance(each, JobRecord):
                        job = each if each.definition.options.trees > 1 else None
                    else:
                        asked = True
                        yield each
            position = None

    async def _one(
        self, app: bytes, key: str, position: Position | None, asked: bool
    ) -> AsyncGenerator[Positioned | JobRecord, None]:
        """Ask a job's master again and again for what is newer; ends with the job's record if it has several trees.

        Of one answer with several results, those that changed come again to a follower that goes on in their midst.
        Results of one side only do not move the position: what they were of comes again from the job's own master.
        """
        edition, after_ms = -1, _LATEST
        side: tuple[str, int, int] | None = None
        if position is not None and isinstance(position[0], int):
            edition, after_ms = position[0], position[1]
        while True:
            try:
                follow = Follow(app, edition, after_ms, FOLLOW_MS, side)
                value, hops = await self._ask(key, follow, FOLLOW_MS + 5_000)
            except UnavailableError:
                if not asked:
                    raise
                await asyncio.sleep(RETRY_S)
                continue
            job = parted_job(value)
            if job is not None:
                yield job
                return
            asked = True
            results = value["results"]
            if "side" in value:
                if after_ms == _LATEST:
                    edition, after_ms = value["base"]
                side = value["side"], value["edition"], _reached(value, side, after_ms)
                for result in results:
                    yield {**result, "hops": hops}, (edition, after_ms)
                continue
            side = None
            for number, result in enumerate(results, 1):
                after_ms = _after(result, after_ms)
                if number == len(results):
                    edition = value["edition"]
                yield {**result, "hops": hops}, (edition, after_ms)
            edition = value["edition"]

    async def _parts(
        self, job: JobRecord, key: str, position: Position | None, asked: bool
    ) -> AsyncGenerator[Positioned | JobRecord, None]:
        """Follow all parts of a publication; ends with the record of a later one."""
        trees = job.definition.options.trees
        if position is not None and isinstance(position[0], tuple) and len(position[0]) == trees:
            due = Due(position[0], position[1])
        else:
            result, shares = await self._first(job, asked)
            job, editions = shares[0].job, tuple(each.edition for each in shares)
            due = Due(editions, _after(result, _LATEST))
            yield result, (editions, due.after_ms)
        parts = _Parts(self._gathering, job, key, due)
        try:
            async with contextlib.aclosing(parts.results()) as gathered:
                async for each in gathered:
                    yield each
        finally:
            await parts.close()
        if parts.anew is not None:
            yield parts.anew

    async def _first(self, job: JobRecord, asked: bool) -> tuple[Json, list[Shared]]:
        while True:
            try:
                return await self._gathering.result(job, "latest")
            except UnavailableError:
                if not asked:
                    raise
            await asyncio.sleep(RETRY_S)


class _Parts:
    """Follows the parts of one publication: each is asked for its news, and what is due is asked of all.

    Args:
        gathering: asks.
        job: its part 0.
        key: the job as people write it.
        due: what the follower waits for.
    """

    def __init__(self, gathering: Gathering, job: JobRecord, key: str, due: Due) -> None:
        self._gathering, self._job, self._key, self._due = gathering, job, key, due
        #: A later publication, once there is one: it has to be followed instead.
        self.anew: JobRecord | None = None
        self._news = asyncio.Event()
        parts = range(len(due.editions))
        self._tasks = [asyncio.get_running_loop().create_task(self._poll(part)) for part in parts]

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
                result = await self._gathered(span)
                if result is None:
                    continue
                due.after_ms = _after(result, due.after_ms)
                for name, rest in due.take_rests().items():
                    run = rest.span
                    result[name] = {"start_ms": run.start_ms, "end_ms": run.end_ms, "windows": rest.count}
                # Of several results, all come again to a follower that goes on in their midst.
                known = told if number == len(spans) else known
                yield result, (known, due.after_ms)

    async def _gathered(self, span: Span | None) -> Json | None:
        """Ask all parts for a window, until they answer; None if it is retained no more."""
        while self.anew is None:
            try:
                return (await self._gathering.result(self._job, span or "latest"))[0]
            except (UnknownJobError, StoppedError):
                raise
            except JobError:
                return None
            except UnavailableError:
                await asyncio.sleep(RETRY_S)
        return None

    async def _poll(self, part: int) -> None:
        """Ask one part for its news again and again."""
        due, app = self._due, self._job.definition.app_of(part)
        try:
            while self.anew is None:
                watch = Watch(app, due.editions[part], due.told_ms[part], FOLLOW_MS)
                try:
                    value, _ = await self._gathering.ask_part(self._job, part, watch, FOLLOW_MS + 5_000)
                    told = msgspec.convert(value, Told)
                except (UnavailableError, msgspec.ValidationError):
                    # Also of a part whose job is being stopped: part 0 is the last to end.
                    await asyncio.sleep(RETRY_S)
                    continue
                if told.job.publication != self._job.publication:
                    if part:
                        await asyncio.sleep(RETRY_S)
                        continue
                    self.anew = told.job
                else:
                    due.tell(part, told)
                self._news.set()
        finally:
            self._news.set()


def _reached(value: Json, side: tuple[str, int, int] | None, after_ms: int) -> int:
    """Return up to where a follower has all windows that a side has closed, after this answer of its."""
    if side is not None and side[0] == value["side"]:
        after_ms = side[2]
    for result in value["results"]:
        after_ms = _after(result, after_ms)
    return after_ms


def _after(result: Json, after_ms: int) -> int:
    """Return up to where a follower has all closed windows, after this result."""
    if result["window"] is None:
        return after_ms
    is_open = result["through_ms"] is None or result["through_ms"] < result["window"]["end_ms"]
    # Before anything has closed, all that closes from now on is news.
    end_ms = result["through_ms"] or 0 if is_open else result["window"]["end_ms"]
    if after_ms == _LATEST:
        return int(end_ms)
    return after_ms if is_open else max(after_ms, int(end_ms))
