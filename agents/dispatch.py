"""What this agent answers when another one asks: each request of `elf.agents.wire`, and who here knows the answer.

A request about a job is answered by the job's master; any other agent that knows the job points there, and one that
does not lets the overlay route on toward the candidate key (`elf.agents.results.location` asks toward both).
"""

from __future__ import annotations

import logging
import sqlite3
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
import polars as pl

from elf.agents.applications.applications import Applications
from elf.agents.errors import ElfError, UnavailableError
from elf.agents.group.masters import Masters
from elf.agents.group.transfer import Pages
from elf.agents.host.clock import Clock
from elf.agents.master.listing import summary
from elf.agents.master.results import Json
from elf.agents.publications.adoption import adopt
from elf.agents.publications.amendment import amend, leap
from elf.agents.publications.backfill import load
from elf.agents.publications.end import end, install
from elf.agents.replication.holder import Holder
from elf.agents.results.own_results import OwnResults
from elf.agents.results.split.sides import Sides
from elf.agents.wire.application_messages import Ask, Letter
from elf.agents.wire.catalogue import Catalogue
from elf.agents.wire.changes import Amend, Leap
from elf.agents.wire.copies import Keep, KeepCheckpoint, Recall
from elf.agents.wire.replies import Reply, encode_reply, reply_of_error
from elf.agents.wire.requests import (
    AnyRequest,
    Describe,
    DescribeSource,
    Enlist,
    Fetch,
    Follow,
    Inspect,
    Install,
    Introduce,
    JobRecord,
    ListJobs,
    Locate,
    Located,
    Member,
    OfSide,
    Query,
    Retire,
    Spread,
    Stop,
    ViewTree,
    Weigh,
    contact_at,
    decode_request,
)
from elf.agents.wire.shares import Adopt, AskShare, LoadIntervals, Watch
from elf.overlay.contract import Record
from elf.overlay.ids import Contact, source_id
from elf.overlay.node import OverlayNode

log = logging.getLogger(__name__)
#: Jobs one `ListJobs` reply holds at most.
JOBS_MAX = 2_000

SourceAnswer = Callable[[DescribeSource | Inspect], Awaitable[Any]]


class Answers:
    """Answers requests on behalf of one agent.

    Args:
        me: how this agent introduces itself.
        node: the overlay.
        catalogue: jobs and members known here.
        masters: jobs mastered here.
        results: answers for these.
        sides: jobs that are answered for one side only.
        pages: copies that members of root groups read from here.
        describe_source: answers about this agent's own sources.
        add_record: puts a record into a tree this agent stands in.
        holder: holds copies for other agents.
        applications: those that run here.
        now_ms: the agent's clock.
    """

    def __init__(
        self,
        me: Callable[[], Member],
        node: OverlayNode,
        catalogue: Catalogue,
        masters: Masters,
        results: OwnResults,
        sides: Sides,
        pages: Pages,
        describe_source: SourceAnswer,
        add_record: Callable[[bytes, Record], bool],
        holder: Holder,
        applications: Applications,
        now_ms: Clock,
    ) -> None:
        self._me = me
        self._node = node
        self._catalogue = catalogue
        self._masters = masters
        self._describe_source = describe_source
        self._add_record = add_record
        self._results = results
        self._sides = sides
        self._pages = pages
        self._holder = holder
        self._now_ms = now_ms
        self._applications = applications

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
            return encode_reply(
                reply_of_error(UnavailableError(f"the agent at {self._me().address} cannot write: {error}"))
            )
        except pl.exceptions.PanicException as error:
            # Not an Exception to Python; unanswered it would look like a dead agent.
            log.error("a request made Polars panic: %s", error)
            return encode_reply(reply_of_error(ElfError(f"this request cannot be answered: {error}")))
        return value if value is None or isinstance(value, Contact) else encode_reply(Reply(value=value[0]))

    async def _dispatch(self, request: AnyRequest, here: bool) -> tuple[Any] | Contact | None:
        match request:
            case (
                Describe(app)
                | Query(app=app)
                | Follow(app=app)
                | AskShare(app=app)
                | Watch(app=app)
                | Enlist(app=app)
                | Stop(app)
                | Retire(app=app)
                | LoadIntervals(app=app)
                | Amend(app=app)
                | Adopt(app=app)
                | Leap(app)
                | Ask(app=app)
            ):
                reads = isinstance(request, Describe | Query | Follow)
                if reads and self._sides.holds(app):
                    return (await self._master(request),)
                if app not in self._masters:
                    job = self._elsewhere(app)
                    return None if job is None else (self._sides.root_of(app) if reads else None) or job.master
                return (await self._master(request),)
            case OfSide(body) if here:
                return (self._sides.answer(body),)
            case Locate():
                return await self._locate(request)
            case Weigh() if here:
                return (msgspec.to_builtins(self._masters.weigh(request, self._now_ms())),)
            case Install() if here:
                return ((await install(self._masters, request, self._now_ms())).encode(),)
            case Fetch() if here:
                return (await self._pages.answer(request),)
            case Spread():
                return self._spread(request, here)
            case Keep() if here:
                return (await self._holder.keep(request),)
            case KeepCheckpoint() if here:
                return (await self._holder.keep_checkpoint(request),)
            case Recall(source, address) if here:
                return (await self._holder.recall(source, address),)
            case Letter() if here:
                return (await self._applications.receive(request),)
            case DescribeSource(source=source) | Inspect(source=source):
                if source in self._me().sources:
                    return (await self._describe_source(request),)
                known = [m for m in self._catalogue.members(source) if m.agent_id != self._me().agent_id]
                return contact_at(known[0].address) if known else None
            case ListJobs(ended):
                return ([self._row(job) for job in self._jobs(ended)[:JOBS_MAX]],)
            case Introduce():
                return ({**msgspec.to_builtins(self._me()), "wall_ms": self._now_ms.wall_ms()},)
            case ViewTree(app):
                published = self._catalogue.job(app)
                view = self._node.tree(published.tree if published else app)
                me = self._me()
                parent = view.parent.address if view.parent else None
                children = [child.address for child in view.children]
                address = self._node.contact.address
                return (
                    {"address": address, "name": me.name, "role": view.role, "parent": parent, "children": children},
                )
            case _:
                raise ElfError("this request is for one agent, not to be routed")

    async def _master(self, request: AnyRequest) -> Any:
        if isinstance(request, Query | Follow | AskShare | Watch | LoadIntervals | Leap | Ask):
            self._masters.require_running(request.app)
        match request:
            case Query() | Follow() | AskShare() | Watch():
                return await self._results.answer(request)
            case Describe(app) if self._sides.holds(app):
                held = self._sides.answerer(app)
                described = await self._masters.describe_copy(held.job, held.master)
                return {**described, "master": self._node.contact.address}
            case Describe(app):
                described = await self._masters.describe(app)
                return {**described, "application": self._applications.describe(self._masters.job(app))}
            case Ask():
                return await self._applications.answer(request)
            case Enlist(app, instance, agent_id, address):
                if self._masters.job(app).instance != instance:
                    raise UnavailableError("this is not the job's newest publication")
                return msgspec.to_builtins(await self._masters.enlist(app, agent_id, address))
            case Retire(app, agent):
                return await self._masters.retire(app, agent)
            case LoadIntervals(app=app):
                self._masters.require_data(app)
                return await load(self._masters, request)
            case Amend():
                return await amend(self._masters, request, self._now_ms())
            case Adopt():
                return await adopt(self._masters, request)
            case Leap():
                return leap(self._masters, request)
            case Stop(app):
                await end(self._masters, app, self._now_ms())
                return None
            case _:
                raise AssertionError(request)

    async def _locate(self, request: Locate) -> tuple[Any] | None:
        """Name a job's master; if that is us, answer the question too."""
        if request.app in self._masters or (self._sides.holds(request.app) and request.question is not None):
            job = self._catalogue.job(request.app) or self._masters.job(request.app)
            answer = None if request.question is None else await self._master(request.question)
            return (Located(job=job, answer=answer).plain(),)
        known = self._elsewhere(request.app)
        root = self._sides.root_of(request.app) if request.question is not None else None
        if known is not None and root is not None:
            known = msgspec.structs.replace(known, master_host=root.host, master_port=root.port)
        return None if known is None else (Located(job=known).plain(),)

    def _row(self, job: JobRecord) -> Json:
        trouble = self._applications.trouble(job)
        return summary(job) if trouble is None or job.why else {**summary(job), "trouble": trouble}

    def _jobs(self, ended: bytes | None) -> list[JobRecord]:
        """Return the jobs that are known here, and `ended` too if it is known to be over."""
        over = None if ended is None else self._catalogue.job(ended)
        known = [over] if over is not None and over.stopped else []
        known += [*self._masters.jobs, *self._catalogue.running()]
        return list({job.definition.app_id: job for job in known}.values())

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
