"""Finding a job's master from any agent, whichever of the two candidate keys it was placed by, and asking it.

An agent that knows the job asks its master straight away. Any other asks toward both candidate keys at once: the first
who knows names the master, and the master itself answers on the spot, so two keys cost no more time than one, and one
candidate that is down costs nothing. The next question goes toward the key that won, and toward the other one only if
that brings nothing soon. A newcomer nearer to the key than the master ends such a way and has not heard of the job, and
so may a way that ends early while tables are thin; the agents nearest to both keys are asked then, of which some keep
copies of the master. Last come the agents we know, asked for the jobs they know. Who takes part in results of one side
(`elf.agents.results.split`) asks its provisional master first; others ask for one when nothing else is left. Paper:
§2.3 (a query is routed to the key of the job).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import msgspec

from elf.agents.errors import ElfError, UnavailableError, UnknownJobError
from elf.agents.group.masters import Masters
from elf.agents.master.stops import why_ended
from elf.agents.wire.application_messages import Ask
from elf.agents.wire.catalogue import Catalogue
from elf.agents.wire.changes import Amend, Leap
from elf.agents.wire.positions import Json
from elf.agents.wire.questions import Describe, Follow, Locate, Located, Query, Retire, Stop
from elf.agents.wire.records import JobRecord, contact_at
from elf.agents.wire.replies import value_of
from elf.agents.wire.request import encode
from elf.agents.wire.shares import Adopt, AskShare, LoadIntervals, Watch
from elf.overlay.errors import NotFoundError, OverlayError
from elf.overlay.ids import Contact
from elf.overlay.node import OverlayNode
from elf.overlay.placement import SALTS, candidate_key

#: What may change something.
_ONCE = Stop | Retire | LoadIntervals | Amend | Adopt | Leap | Ask
JobRequest = Describe | Query | Follow | AskShare | Watch | _ONCE
#: What is left for later ways when an earlier one took all the time.
LEFT_MS_MIN = 1_000
#: The key that led to a job's master before is given this long before the other one is tried too.
HEDGE_S = 0.25
#: Agents nearest to each key that are asked whether they know a job: a root group, and as many newcomers or more.
NEAR = 12
#: Jobs of which we remember the key.
SALTS_MAX = 4_096

Found = tuple[Any, list[str]]


class Locator:
    """Asks masters on behalf of one agent.

    Args:
        node: the overlay.
        catalogue: the jobs known here.
        masters: the jobs mastered here.
        jobs: lists the jobs of all agents we know, rows as `listing.summary` makes them, and this one if it is over.
        side: the provisional master of a job, if one is known here.
        sides: those that all agents we know know of.
    """

    def __init__(
        self,
        node: OverlayNode,
        catalogue: Catalogue,
        masters: Masters,
        jobs: Callable[[bytes], Awaitable[Sequence[Json]]],
        side: Callable[[bytes], Contact | None],
        sides: Callable[[bytes], Awaitable[Sequence[Contact]]],
    ) -> None:
        self._node = node
        self._catalogue = catalogue
        self._masters = masters
        self._jobs = jobs
        self._side = side
        self._sides = sides
        #: Job -> salt of the key that led to its master last time; oldest first. Only a hint.
        self._salts: dict[bytes, int] = {}

    async def ask(self, key: str, request: JobRequest, timeout_ms: int) -> Found:
        """Ask a job's master; return its answer and the agents that the question went through.

        Args:
            key: the job as people write it, for messages.
            request: the question; those that are `_ONCE` reach the master once, the others may twice.
            timeout_ms: for each way that is tried; a later one gets what is left, and a second at least.

        Raises:
            UnknownJobError: nobody knows the job.
            UnavailableError: it has no master now, or its master, or whoever may know it, cannot be reached.
            ElfError: what the master answered.
        """
        search = _Search(self._node, request, timeout_ms)
        reads = isinstance(request, Describe | Query | Follow)
        side = self._side(request.app) if reads else None
        if side is not None and (found := await search.straight(side, [])) is not None:
            return found
        known = self._known(request.app)
        if known is not None and (found := await search.straight(known, [])) is not None:
            return found
        if (found := await search.toward_keys(self._salts.pop(request.app, None))) is not None:
            assert search.salt is not None
            self._salts[request.app] = search.salt
            while len(self._salts) > SALTS_MAX:
                del self._salts[next(iter(self._salts))]
            return found
        if (found := await search.near_keys()) is not None:
            return found
        rows = await self._jobs(request.app)
        over = next((row for row in rows if row.get("state") == "ended"), None)
        jobs = [row for row in rows if row is not over]
        master = next((row["master"] for row in jobs if row["app_id"] == request.app.hex()), None)
        if master is not None and (found := await search.straight(contact_at(master), [])) is not None:
            return found
        job = self._catalogue.job(request.app)
        may_be_split = master is not None if job is None else job.definition.options.availability == "partial"
        if reads and may_be_split:
            for root in await self._sides(request.app):
                if (found := await search.straight(root, [])) is not None:
                    return found
        if search.trouble is not None:
            raise UnavailableError(f"the master of {key} does not answer: {search.trouble}")
        if master is None and over is None and search.named is not None:
            master = search.named.address
        if master is not None:
            raise UnavailableError(f"{key} has no master at the moment; {master} was the last that is known of")
        ended = "" if over is None else why_ended(over["ends_ms"])
        raise UnknownJobError(key, {f"{row['creator']}/{row['name']}": None for row in jobs}, ended)

    def _known(self, app: bytes) -> Contact | None:
        if app in self._masters:
            return self._node.contact
        job = self._catalogue.job(app)
        return None if job is None or job.stopped else job.master


class _Search:
    """One question on its way: the time left, the masters tried, the first trouble met, the salt that led to one."""

    def __init__(self, node: OverlayNode, request: JobRequest, timeout_ms: int) -> None:
        self._node = node
        self._request = request
        self._tried: set[Contact] = set()
        self._loop = asyncio.get_running_loop()
        self._end_s = self._loop.time() + timeout_ms / 1000
        self.trouble: Exception | None = None
        self.salt: int | None = None
        #: The master that somebody named last.
        self.named: Contact | None = None

    async def straight(self, master: Contact, path: list[str]) -> Found | None:
        """Ask an agent said to be the master; None if it is not, or cannot be reached, or was asked before."""
        if master in self._tried:
            return None
        self._tried.add(master)
        try:
            answer = value_of(await self._node.ask(master, encode(self._request), self._left_ms()))
        except (NotFoundError, UnknownJobError):
            return None
        except OverlayError as error:
            self.trouble = self.trouble or error
            return None
        way = [] if master == self._node.contact else [master.address]
        return answer, path if path[-1:] == way else path + way

    async def toward_keys(self, hint: int | None) -> Found | None:
        """Route toward both candidate keys; the first who knows the job counts. `hint`: the salt to begin with."""
        question = None if isinstance(self._request, _ONCE) else self._request
        body = encode(Locate(self._request.app, question))
        salts = sorted(SALTS, key=lambda salt: salt != hint)
        routes: list[asyncio.Task[tuple[Located, list[str]] | None]] = []
        try:
            for salt in salts:
                routes.append(asyncio.create_task(self._locate(candidate_key(self._request.app, salt), body)))
                if salt == hint:
                    await asyncio.wait(routes, timeout=HEDGE_S)
                    if routes[0].done() and (found := await self._follow(routes[0])) is not None:
                        return found
            for route in asyncio.as_completed(routes):
                if (found := await self._follow(route)) is not None:
                    return found
        finally:
            for task in routes:
                task.cancel()
            await asyncio.gather(*routes, return_exceptions=True)
        return None

    async def _follow(self, route: Awaitable[tuple[Located, list[str]] | None]) -> Found | None:
        """Take the answer that came along a route, or ask the master that it names."""
        located, path = await route or (None, [])
        if located is None:
            return None
        self.salt = located.job.salt
        if located.answer is not None:
            return located.answer, path
        self.named = located.job.master
        return await self.straight(located.job.master, path)

    async def near_keys(self) -> Found | None:
        """Ask the agents nearest to both candidate keys which of them know the job, and then the master they name."""
        keys = [candidate_key(self._request.app, salt) for salt in SALTS]
        try:
            async with asyncio.timeout(self._left_ms() / 1000):
                near = await asyncio.gather(*(self._node.closest(key, NEAR) for key in keys))
        except (OverlayError, TimeoutError):
            return None
        others = dict.fromkeys(each for contacts in near for each in contacts if each != self._node.contact)
        told = await asyncio.gather(*(self._told_by(contact) for contact in others))
        jobs = sorted((job for job in told if job is not None), key=lambda job: -job.stamp_ms)
        for job in jobs:
            self.named = self.named or job.master
            if (found := await self.straight(job.master, [])) is not None:
                return found
        return None

    async def _told_by(self, contact: Contact) -> JobRecord | None:
        """Return a running job as an agent knows it; None if it does not, or does not answer."""
        try:
            answer = await self._node.ask(contact, encode(Locate(self._request.app)), self._left_ms())
            job = msgspec.convert(value_of(answer), Located).job
        except (OverlayError, ElfError, msgspec.ValidationError):
            return None
        return job if job.definition.app_id == self._request.app else None

    async def _locate(self, key: bytes, body: bytes) -> tuple[Located, list[str]] | None:
        try:
            answer = await self._node.route(key, body, self._left_ms())
            return msgspec.convert(value_of(answer.body), Located), list(answer.path)
        except (NotFoundError, UnknownJobError):
            return None
        except (OverlayError, UnavailableError, msgspec.ValidationError) as error:
            self.trouble = self.trouble or error
            return None

    def _left_ms(self) -> int:
        return max(round((self._end_s - self._loop.time()) * 1000), LEFT_MS_MIN)
