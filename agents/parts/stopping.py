"""Stopping a job and taking it up again, all its parts: each decides for itself, the first one last.

So while part 0 is as it was, a stop or a resume that was interrupted can be asked for again. A stopped job rests until
its time is over (`agents.group.reigns`) or another one takes its name (`replaced`), then it ends for good. A result's
label is as pessimistic as that of any part, so it does not matter that parts rest from different intervals on.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from agents.changing.requests import KEEP_MS, Amend
from agents.errors import ElfError, JobConflictError, UnavailableError, UnknownJobError
from agents.masters.results import Json
from agents.parts.gathering import Ask
from agents.parts.parts import trees_of
from agents.requests import Describe, Stop
from overlay.ids import app_id, partition_id

ASK_MS = 5_000


class Stopping:
    """Speaks to all masters of a job on behalf of one agent.

    Args:
        ask: asks a master.
        amend: has a master make another version of a running job, which answers with its row of the history.
        rows: lists the jobs of all agents we know and their parts, rows as `listing.summary` makes them.
    """

    def __init__(
        self, ask: Ask, amend: Callable[[str, Amend], Awaitable[Json]], rows: Callable[[], Awaitable[list[Json]]]
    ) -> None:
        self._ask, self._amend, self._rows = ask, amend, rows

    async def stop(self, creator: str, name: str, keep_ms: int | None = None) -> Json:
        """Stop a job.

        Args:
            creator: of the job.
            name: of the job.
            keep_ms: how long it can be resumed; 0: it ends for good at once. None: a day, if that is possible.

        Returns:
            `{"creator", "name", "state", "ends_ms"}`: `stopped` and until when it can be resumed, or `ended` and None.

        Raises:
            UnknownJobError: there is no such job.
            JobError: it can only be stopped for good.
            UnavailableError: a master cannot be reached; the job is stopped in part.
        """
        key, app = f"{creator}/{name}", app_id(name, creator)
        told = {"creator": creator, "name": name}
        try:
            described, _ = await self._ask(key, Describe(app), ASK_MS)
        except UnknownJobError:
            # Parts without the first one are left of a publication or a stop that was interrupted.
            left = [trees_of(row) for row in await self._rows() if row["part"] and _key(row) == key]
            if not left:
                raise
            await self._others(key, max(left), "stop", lambda part: self._end(key, app, part))
            return {**told, "state": "ended", "ends_ms": None}
        trees = trees_of(described)
        if keep_ms is None:
            keep_ms = KEEP_MS if _can_rest(described) else 0
        if not keep_ms:
            await self._others(key, trees, "stop", lambda part: self._end(key, app, part))
            await self._ask(key, Stop(app), ASK_MS)
            return {**told, "state": "ended", "ends_ms": None}
        await self._others(key, trees, "stop", lambda part: self._rest(key, app, part, keep_ms))
        made = await self._rest(key, app, 0, keep_ms)
        return {**told, "state": "stopped", "ends_ms": made["ends_ms"]}

    async def resume(self, creator: str, name: str, expected: int | None = None) -> Json:
        """Take up a paused or stopped job again; returns the version that it has then, as its history has it.

        Args:
            creator: of the job.
            name: of the job.
            expected: the number that the newest version has to have; None: any.

        Raises:
            UnknownJobError: there is no such job, or no more.
            JobConflictError: it is neither paused nor stopped, or has another newest version than expected.
            UnavailableError: a master cannot be reached, or is no more; the job is resumed in part.
        """
        key, app = f"{creator}/{name}", app_id(name, creator)
        described, _ = await self._ask(key, Describe(app), ASK_MS)
        made = await self._others(key, trees_of(described), "resume", lambda part: self._resumed(key, app, part))
        try:
            return await self._amend(key, Amend(app, "resume", secrets.token_hex(8), expected=expected))
        except JobConflictError:
            found = [row for row in made if row is not None]
            if not found:
                raise
            return found[0]

    async def _others(
        self, key: str, trees: int, what: str, told: Callable[[int], Awaitable[Json | None]]
    ) -> Sequence[Json | None]:
        """Tell all parts but the first; raises UnavailableError unless it is done at all of them."""
        answers = await asyncio.gather(*(told(part) for part in range(1, trees)), return_exceptions=True)
        done: list[Json | None] = []
        for answer in answers:
            if isinstance(answer, ElfError):
                did = "stopped" if what == "stop" else "resumed"
                raise UnavailableError(f"{key} is {did} in part only, {what} it again: {answer}")
            if isinstance(answer, BaseException):
                raise answer
            done.append(answer)
        return done

    async def _end(self, key: str, app: bytes, part: int) -> None:
        """End a part for good; one that is not there has ended."""
        try:
            await self._ask(f"{key}#{part}", Stop(partition_id(app, part)), ASK_MS)
        except UnknownJobError:
            return

    async def _resumed(self, key: str, app: bytes, part: int) -> Json | None:
        """Resume a part; None if it runs."""
        try:
            return await self._amend(f"{key}#{part}", Amend(partition_id(app, part), "resume", secrets.token_hex(8)))
        except JobConflictError:
            return None

    async def _rest(self, key: str, app: bytes, part: int, keep_ms: int) -> Json:
        """Stop a part, for so long."""
        request = Amend(partition_id(app, part), "stop", secrets.token_hex(8), keep_ms=keep_ms)
        return await self._amend(f"{key}#{part}" if part else key, request)


def _can_rest(described: Any) -> bool:
    """Tell whether a job that was described can be stopped for a while; one of one side of a split cannot."""
    options = described.get("options")
    return not isinstance(options, dict) or options.get("availability", "exact") == "exact"


def _key(row: Json) -> str:
    return f"{row['creator']}/{row['name']}"
