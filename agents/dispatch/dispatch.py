"""Who answers when another agent asks: each request of `elf.agents.wire`, and which part of this agent it is for.

A request about a job is answered by the job's master; any other agent that knows the job points there, and one that
does not lets the overlay route on toward the candidate key (`elf.agents.results.location` asks toward both).
"""

from __future__ import annotations

import logging
import sqlite3
from collections.abc import Callable
from typing import Any

import msgspec

from elf.agents.dispatch.of_agent import AgentAnswers
from elf.agents.dispatch.of_job import OF_JOB, JobAnswers
from elf.agents.errors import ElfError, MistakeError, UnavailableError
from elf.agents.failures import FAILURES
from elf.agents.group.masters import Masters
from elf.agents.results.split.sides import Sides
from elf.agents.wire.catalogue import Catalogue
from elf.agents.wire.questions import Describe, Follow, Locate, Located, OfSide, Query
from elf.agents.wire.records import JobRecord
from elf.agents.wire.replies import Reply, encode_reply, reply_of_error
from elf.agents.wire.request import AnyRequest, decode_request
from elf.agents.wire.sources import Spread
from elf.overlay.contract import Record
from elf.overlay.ids import Contact, source_id
from elf.overlay.node import OverlayNode

log = logging.getLogger(__name__)

AddRecord = Callable[[bytes, Record], bool]


class Answers:
    """Answers requests on behalf of one agent.

    Args:
        node: the overlay.
        catalogue: jobs and members known here.
        masters: jobs mastered here.
        sides: jobs that are answered for one side only.
        of_job: answers about jobs that are mastered here.
        of_agent: answers about this agent.
        add_record: puts a record into a tree this agent stands in.
    """

    def __init__(
        self,
        node: OverlayNode,
        catalogue: Catalogue,
        masters: Masters,
        sides: Sides,
        of_job: JobAnswers,
        of_agent: AgentAnswers,
        add_record: AddRecord,
    ) -> None:
        self._node = node
        self._catalogue = catalogue
        self._masters = masters
        self._sides = sides
        self._of_job = of_job
        self._of_agent = of_agent
        self._add_record = add_record

    async def answer(self, key: bytes, body: bytes) -> bytes | Contact | None:
        """Answer one request; the overlay's `on_route`."""
        try:
            request = decode_request(body)
        except msgspec.DecodeError as error:
            return encode_reply(reply_of_error(ElfError(f"not a request: {error}")))
        here = key == self._node.contact.id
        try:
            value = await self._dispatch(request, here)
        except ElfError as error:
            return encode_reply(reply_of_error(error))
        except (OSError, sqlite3.Error) as error:
            where = self._node.contact.address
            return encode_reply(reply_of_error(UnavailableError(f"the agent at {where} cannot write: {error}")))
        except FAILURES as error:
            # Unanswered it would look like a dead agent, and who follows a job would wait for another one, silently.
            log.exception("a request cannot be answered")
            where, what = self._node.contact.address, type(error).__name__
            mistake = MistakeError(f"the agent at {where} failed on this: {what}, see its log")
            return encode_reply(reply_of_error(mistake))
        return value if value is None or isinstance(value, Contact) else encode_reply(Reply(value=value[0]))

    async def _dispatch(self, request: AnyRequest, here: bool) -> tuple[Any] | Contact | None:
        if isinstance(request, OF_JOB):
            return await self._master_or_elsewhere(request)
        match request:
            case OfSide(body) if here:
                return (self._sides.answer(body),)
            case Locate():
                return await self._locate(request)
            case Spread():
                return self._spread(request, here)
            case _:
                return await self._of_agent.answer(request, here)

    async def _master_or_elsewhere(self, request: Any) -> tuple[Any] | Contact | None:
        """Answer about a job, as its master or for a side of its split group, or say who is its master."""
        app: bytes = request.app
        reads = isinstance(request, Describe | Query | Follow)
        if app in self._masters or (reads and self._sides.holds(app)):
            return (await self._of_job.answer(request),)
        job = self._elsewhere(app)
        return None if job is None else (self._sides.root_of(app) if reads else None) or job.master

    async def _locate(self, request: Locate) -> tuple[Any] | None:
        """Name a job's master; if that is us, answer the question too."""
        if request.app in self._masters or (self._sides.holds(request.app) and request.question is not None):
            job = self._catalogue.job(request.app) or self._masters.job(request.app)
            answer = None if request.question is None else await self._of_job.answer(request.question)
            return (Located(job=job, answer=answer).plain(),)
        known = self._elsewhere(request.app)
        root = self._sides.root_of(request.app) if request.question is not None else None
        if known is not None and root is not None:
            known = msgspec.structs.replace(known, master_host=root.host, master_port=root.port)
        return None if known is None else (Located(job=known).plain(),)

    def _elsewhere(self, app: bytes) -> JobRecord | None:
        """Return a running job that is known here but not mastered here."""
        job = self._catalogue.job(app)
        return None if job is None or job.stopped or job.master.id == self._node.contact.id else job

    def _spread(self, request: Spread, here: bool) -> tuple[Any] | None:
        """Put a record into its source's tree, from any agent that stands in that tree."""
        tree = source_id(request.source)
        if not here and self._node.tree(tree).role in ("out", "joining"):
            return None
        record = Record(request.key, request.version, request.body)
        return (self._add_record(tree, record) or record in self._node.records(tree),)
