"""Asking others on behalf of one agent: the masters of jobs wherever they are, and all agents that are known."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any

from elf.agents.errors import ElfError, UnavailableError, UnknownJobError
from elf.agents.group.masters import Masters
from elf.agents.host.neighbours import Neighbours
from elf.agents.results.follower import Following
from elf.agents.results.gatherer import Gathering
from elf.agents.results.location import JobRequest, Locator
from elf.agents.results.split.sides import Sides
from elf.agents.wire.agents import Introduce, ListJobs
from elf.agents.wire.catalogue import Catalogue
from elf.agents.wire.positions import Json
from elf.agents.wire.records import contact_at
from elf.agents.wire.replies import value_of
from elf.agents.wire.request import AnyRequest, encode
from elf.agents.wire.split import Seek, encode_question
from elf.overlay.errors import OverlayError
from elf.overlay.ids import Contact
from elf.overlay.node import OverlayNode

#: Agents asked at a time for what they know, since more would only repeat it, and for who they are: each costs a link.
ASK_MAX, INTRODUCE_MAX = 64, 256
ASK_MS = 1_000

AnswerHere = Callable[[bytes, bytes], Awaitable[bytes | Contact | None]]


class Asking:
    """Asks for one agent.

    Args:
        node: the overlay.
        catalogue: jobs and members known here.
        masters: jobs mastered here.
        sides: jobs that are answered for one side only.
        neighbours: whether this agent has met others yet.
        answer: this agent's own answer to a request to a key.
    """

    def __init__(
        self,
        node: OverlayNode,
        catalogue: Catalogue,
        masters: Masters,
        sides: Sides,
        neighbours: Neighbours,
        answer: AnswerHere,
    ) -> None:
        self._node = node
        self._catalogue = catalogue
        self._answer = answer
        self._neighbours = neighbours
        self._locator = Locator(node, catalogue, masters, self.rows, sides.root_of, self._sides_of)
        #: Results of jobs with several trees, and results as they come.
        self.gathering = Gathering(self.ask, catalogue)
        self.following = Following(self.ask, self.gathering)

    async def ask(self, key: str, request: JobRequest, timeout_ms: int = 5_000) -> tuple[Any, list[str]]:
        """Ask a job's master; see `Locator.ask`. Who was just started cannot know yet that there is no such job."""
        try:
            return await self._locator.ask(key, request, timeout_ms)
        except UnknownJobError as error:
            if error.ended or self._neighbours.entering.done:
                raise
            raise UnavailableError(f"this agent has not met the others yet, and knows no job {key!r} itself") from None

    async def rows(self, ended: bytes | None = None) -> list[Json]:
        """List the jobs of all agents we know, and all their parts, and this one even if it is over."""
        return newest(await self.ask_all(ListJobs(ended)))

    async def ask_all(self, request: AnyRequest) -> list[Any]:
        """Ask this agent and those it knows; those that do not answer in time are left out."""
        return await self.ask_each([each.address for each in self._known()[:ASK_MAX]], request)

    async def members(self) -> list[Any]:
        """Let the agents introduce themselves that this one knows of: itself, its contacts, and those with its sources.

        Contacts are fewer than all (Kademlia keeps some of the far half of the identifiers); the sources' trees have
        told of the others. Those that do not answer in time are left out.
        """
        addresses = [each.address for each in self._known()]
        addresses += [each.address for each in self._catalogue.all_members() if not each.gone]
        return await self.ask_each(list(dict.fromkeys(addresses))[:INTRODUCE_MAX], Introduce())

    def _known(self) -> list[Contact]:
        return [self._node.contact, *self._node.contacts()]

    async def ask_each(self, addresses: Iterable[str], request: AnyRequest) -> list[Any]:
        """Ask agents at some addresses; those that do not answer in time are left out."""
        values = await asyncio.gather(*(self.ask_one(address, request) for address in addresses))
        return [value for value in values if value is not None]

    async def ask_one(self, address: str, request: AnyRequest) -> Any:
        """Ask one agent; None if it does not answer in time."""
        try:
            if address == self._node.contact.address:
                return await self.ask_self(request)
            return value_of(await self._node.ask(contact_at(address), encode(request), ASK_MS))
        except (OverlayError, ElfError):
            return None

    async def ask_self(self, request: AnyRequest) -> Any:
        """Ask this very agent."""
        answer = await self._answer(self._node.contact.id, encode(request))
        assert isinstance(answer, bytes)
        return value_of(answer)

    async def _sides_of(self, app: bytes) -> list[Contact]:
        """Return the provisional masters of a job that the agents we know know of, ourselves included."""
        answers = await self.ask_all(encode_question(Seek(app)))
        found: list[Contact] = []
        for address in dict.fromkeys(answer for answer in answers if isinstance(answer, str)):
            with contextlib.suppress(ValueError):
                found.append(contact_at(address))
        return found


def newest(answers: Iterable[Sequence[Json]]) -> list[Json]:
    """Merge the agents' lists of jobs, by creator and name: of a job's rows, the newest counts.

    Whoever has not heard yet that a job was published anew still names the master it had before, and whoever has not
    heard of its last change the state. Of what agents say is wrong with a job one sentence is kept.
    """
    found: dict[str, Json] = {}
    troubles: dict[tuple[str, int], str] = {}
    for row in (row for rows in answers for row in rows):
        known = found.get(row["app_id"])
        if known is None or _age(row) > _age(known):
            found[row["app_id"]] = row
        if "trouble" in row:
            troubles[row["app_id"], row["published_ms"]] = row["trouble"]
    told = (
        row | ({} if (why := troubles.get((app, row["published_ms"]))) is None else {"trouble": why})
        for app, row in found.items()
    )
    return sorted(told, key=lambda row: (row["creator"], row["name"]))


def _age(row: Json) -> tuple[int, int, bool]:
    return row["published_ms"], row["version"], row["state"] == "ended"
