"""What unfinished request bodies may take of an agent's memory, all together, and for how long.

Who sends bodies and never ends them costs no more than the budget. While it is used up, the body that has said nothing
for the longest makes room; if all are on their way, the newest is to come again.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator
from typing import Final

from aiohttp import web
from aiohttp.typedefs import Handler

from elf.agents.host.allocation import give_back
from elf.agents.http.problems import RefusedError, problem

#: Bytes of all bodies that are being read or worked on.
BODIES_BYTES_MAX = 32 << 20
#: How long a body may say nothing, and how long all of it may take.
SILENT_S, WHOLE_S = 10.0, 300.0
#: Who has been silent for so long makes room for others.
_STALE_S = 1.0
#: After bodies of this size freed memory goes back to the system, so often at most: else the allocator keeps it.
_LARGE_BYTES = 1 << 20
GIVE_BACK_S = 10.0


class Body:
    """One body that is being read; holds what it takes of the budget until it is let go of."""

    def __init__(self, budget: BodyBudget) -> None:
        self._budget = budget
        #: What it takes of the budget.
        self.bytes = 0
        self._began_s = self.heard_s = _now_s()

    async def read(self, request: web.Request) -> bytes:
        """Read all of it.

        Raises:
            RefusedError: it is too large (413), silent for too long or in the way of others (408), or there is no room
                (503).
        """
        parts = list[bytes]()
        try:
            async with self._budget.reading(self, asyncio.timeout(SILENT_S)) as patience:
                async for chunk in request.content.iter_any():
                    if self.bytes + len(chunk) > request.client_max_size:
                        raise web.HTTPRequestEntityTooLarge(request.client_max_size, self.bytes + len(chunk))
                    self.take(len(chunk))
                    parts.append(chunk)
                    self.heard_s = _now_s()
                    patience.reschedule(min(self.heard_s + SILENT_S, self._began_s + WHOLE_S))
        except TimeoutError:
            response = problem(408, "slow-body", "the body did not come to its end in time; send it in smaller parts")
            response.force_close()  # or what is left of it would be taken for another request
            raise RefusedError(response) from None
        return b"".join(parts)

    def take(self, count: int) -> None:
        """Take so much more of the budget; raises RefusedError (503) if that is not there."""
        self._budget.take(self, count)
        self.bytes += count


class BodyBudget:
    """The bodies that are being read or worked on."""

    def __init__(self, bytes_max: int = BODIES_BYTES_MAX) -> None:
        self._left = self._bytes_max = bytes_max
        #: Those of which more is to come, and how long that is waited for.
        self._reading: dict[Body, asyncio.Timeout] = {}
        #: Whether so much was taken that it had better go back to the system, and when that was done last.
        self._is_swollen = False
        self._gave_back_s = -GIVE_BACK_S

    @contextlib.asynccontextmanager
    async def reading(self, body: Body, patience: asyncio.Timeout) -> AsyncGenerator[asyncio.Timeout]:
        """Read a body within some time, which ends at once if it says nothing and others need its room."""
        async with patience:
            self._reading[body] = patience
            try:
                yield patience
            finally:
                del self._reading[body]

    def end(self, body: Body) -> None:
        """Let go of a body: nobody works on it any more."""
        self._left += body.bytes
        self._is_swollen |= body.bytes >= _LARGE_BYTES
        body.bytes = 0
        if self._is_swollen and self._left == self._bytes_max and _now_s() - self._gave_back_s >= GIVE_BACK_S:
            self._is_swollen = False
            self._gave_back_s = _now_s()
            give_back()

    def take(self, body: Body, count: int) -> None:
        """Let a body have so much more; raises RefusedError if all is taken, and who is stale makes room meanwhile."""
        if count <= self._left:
            self._left -= count
            return
        others = (other for other in self._reading if other is not body)
        stale = min(others, key=lambda other: other.heard_s, default=None)
        if stale is not None and _now_s() - stale.heard_s >= _STALE_S:
            self._reading[stale].reschedule(_now_s())
        why = "too much is being sent to this agent at a time; send it again later"
        raise RefusedError(problem(503, "unavailable", why))


BUDGET: Final = web.AppKey("budget", BodyBudget)
BODY: Final = web.RequestKey("body", Body)


@web.middleware
async def hold_bodies(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Hold what a request's body takes until it is answered."""
    budget = request.app[BUDGET]
    request[BODY] = body = Body(budget)
    try:
        return await handler(request)
    finally:
        budget.end(body)


def _now_s() -> float:
    return asyncio.get_running_loop().time()
