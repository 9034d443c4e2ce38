"""Stopping a job, all its parts.

For a while, like any change of it: the first part decides, the others follow (`adopting`). A stopped job rests until
its time is over (`elf.agents.group.leadership`) or another one takes its name (`replaced`), then it ends for good. For
good at once, each part by itself and the first one last: while that is as it was, a stop that was interrupted can be
asked for again.
"""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from elf.agents.errors import ElfError, NotCreatorError, UnavailableError, UnknownJobError
from elf.agents.jobs.orders import Order
from elf.agents.jobs.parts import Part
from elf.agents.results.gatherer import Ask, all_of
from elf.agents.wire.changes import KEEP_MS, Amend
from elf.agents.wire.parts import parts_left, parts_told
from elf.agents.wire.positions import Json
from elf.agents.wire.questions import Describe, Stop

ASK_MS = 5_000


class Stopping:
    """Speaks to all masters of a job on behalf of one agent.

    Args:
        ask: asks a master.
        amend: has a master make another version of a running job, which answers with its row of the history.
        rows: lists the jobs of all agents we know and their parts, rows as `listing.summary` makes them.
        rng: draws what tells one stop from the next.
    """

    def __init__(
        self,
        ask: Ask,
        amend: Callable[[str, Amend], Awaitable[Json]],
        rows: Callable[[], Awaitable[list[Json]]],
        rng: random.Random,
    ) -> None:
        self._ask = ask
        self._amend = amend
        self._rows = rows
        self._rng = rng

    async def stop(self, creator: str, name: str, keep_ms: int | None = None, order: Order | None = None) -> Json:
        """Stop a job.

        Args:
            creator: of the job.
            name: of the job.
            keep_ms: how long it can be resumed; 0: it ends for good at once. None: a day, if that is possible.
            order: of the job's creator, if it has one.

        Returns:
            `{"creator", "name", "state", "ends_ms"}`: `stopped` and until when it can be resumed, or `ended` and None.

        Raises:
            UnknownJobError: there is no such job.
            NotCreatorError: the order is none of its creator's.
            JobError: it can only be stopped for good.
            UnavailableError: a master cannot be reached; a job that was to end has ended in part.
        """
        first = Part(creator, name)
        told = {"creator": creator, "name": name}
        try:
            described, _ = await self._ask(first.key, Describe(first.app), ASK_MS)
        except UnknownJobError:
            # Parts without the first one are left of a publication or a stop that was interrupted.
            left = parts_left(first, await self._rows())
            if not left:
                raise
            await self._end_others(left, order)
            return {**told, "state": "ended", "ends_ms": None}
        others = parts_told(first, described)[1:]
        if keep_ms is None:
            keep_ms = KEEP_MS if _can_rest(described) else 0
        if not keep_ms:
            await self._end_others(others, order)
            await self._ask(first.key, Stop(first.app, order), ASK_MS)
            return {**told, "state": "ended", "ends_ms": None}
        token = self._rng.randbytes(8).hex()
        request = Amend(first.app, "stop", token, keep_ms=keep_ms, order=order)
        made = await self._amend(first.key, request)
        return {**told, "state": "stopped", "ends_ms": made["ends_ms"]}

    async def _end_others(self, others: Sequence[Part], order: Order | None) -> None:
        """End all parts but the first; raises UnavailableError unless all of them do."""
        try:
            await all_of([self._end(part, order) for part in others])
        except NotCreatorError:
            raise
        except ElfError as error:
            raise UnavailableError(f"{others[0].job} is stopped in part only, stop it again: {error}") from None

    async def _end(self, part: Part, order: Order | None) -> None:
        """End a part for good; one that is not there has ended."""
        try:
            await self._ask(part.key, Stop(part.app, order), ASK_MS)
        except UnknownJobError:
            return


def _can_rest(described: Any) -> bool:
    """Tell whether a job that was described can be stopped for a while; one of one side of a split cannot."""
    options = described.get("options")
    return not isinstance(options, dict) or options.get("availability", "exact") == "exact"
