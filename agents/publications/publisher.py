"""Publishing and stopping a job from any agent: types found, master chosen, definition spread (paper, section 2.3).

The order matters: the master is installed before the definition spreads, so no agent ever knows a job whose master
does not. Of a job with several trees part 0 is placed first, which settles who publishes the name, and stopped last; so
whoever finds part 0 can stop all, and publish again what was placed by half.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import weakref
from collections.abc import Callable, Collection, Sequence
from typing import Any

from msgspec.structs import replace
from sqlglot import exp

from elf.agents.errors import (
    ElfError,
    JobConflictError,
    JobError,
    JobSpecError,
    NotCreatorError,
    UnavailableError,
    did_you_mean,
    nearest,
)
from elf.agents.extensions.installed_applications import require_application
from elf.agents.host.compilation import Compilation
from elf.agents.jobs.definition import Definition, load_definition
from elf.agents.jobs.intervals import check_pace
from elf.agents.jobs.orders import Order, digest_of
from elf.agents.jobs.parts import Part
from elf.agents.jobs.plan import compile_job
from elf.agents.language.dialect import refused
from elf.agents.language.own_functions import Admits, bound
from elf.agents.language.query import columns_read, parse_query, source_node
from elf.agents.publications.candidates import Candidates, Placement
from elf.agents.wire.catalogue import job_record
from elf.agents.wire.placement import Install
from elf.agents.wire.questions import Stop
from elf.agents.wire.records import JobRecord, contact_at
from elf.agents.wire.replies import value_of
from elf.agents.wire.request import encode
from elf.agents.wire.sources import DescribeSource, Spread
from elf.overlay.errors import NotFoundError, OverlayError
from elf.overlay.ids import Contact, source_id
from elf.overlay.node import OverlayNode

#: Agents asked, one after the other, for the types of columns that the ones before had not seen in their logs.
DESCRIBE_MAX = 8
DESCRIBE_MS = 1_000
OVERTAKEN_MAX = 3
#: A master that cannot begin now is asked again for so long: about as long as one takes to begin.
INSTALL_S, INSTALL_LOOK_S = 2.0, 0.1
#: Tries to tell the agents of a source while none of them stands in its tree, and the pause between them.
SPREAD_TRIES, SPREAD_S = 12, 0.25
#: Agents that are told of a record one by one.
INSIST_MAX = 256
#: Parts of a job whose masters are installed at a time.
AT_A_TIME = 8


class Publisher:
    """Publishes jobs through one agent's overlay node.

    Args:
        node: the overlay.
        known_sources: source names known here, for hints.
        rng: draws what tells publications apart, and pauses.
        admits: decides whether functions that jobs bring along may run here.
    """

    def __init__(
        self,
        node: OverlayNode,
        known_sources: Callable[[], set[str]],
        rng: random.Random,
        admits: Admits | None = None,
    ) -> None:
        self._node = node
        self._known_sources = known_sources
        self._rng = rng
        self._admits = admits
        self._compilation = Compilation()
        self._candidates = Candidates(node, rng)
        #: Job -> lock: a candidate cannot tell two publications by one agent apart.
        self._locks: weakref.WeakValueDictionary[bytes, asyncio.Lock] = weakref.WeakValueDictionary()

    async def load(self, text: str, filename: str, name: str | None, creator: str | None) -> Definition:
        """Read the text of a job's file, however long that takes; arguments and errors as of `load_definition`."""
        return await self._compilation.do(lambda: load_definition(text, filename=filename, name=name, creator=creator))

    async def publish(self, definition: Definition, now_ms: int, order: Order | None = None) -> JobRecord:
        """Publish a definition, by its creator's order if there is a key; see `_publish`.

        A stop on its way may overtake it: then it is published anew.
        """
        if order is not None:
            given, wanted = (order.what, order.job, order.about), ("publish", definition.key, digest_of(definition))
            if not order.is_signed or not order.publication or given != wanted:
                raise NotCreatorError(f"the order is not to publish this definition as job {definition.key}")
        async with self._locks.setdefault(definition.app_id, asyncio.Lock()):
            known = False
            try:
                for _ in range(OVERTAKEN_MAX):
                    jobs = await self._publish(definition, now_ms, order)
                    if all([await self.spread(job) for job in jobs]):
                        known = True
                        return jobs[0]
            except JobError:
                known = True
                raise
            finally:
                await self._let_go(definition, known)
        raise UnavailableError(f"job {definition.key} is being stopped and published at the same time; try again")

    async def _let_go(self, definition: Definition, known: bool) -> None:
        """Release the candidates at once if it is known what came of a publication; else their holds run out."""
        apps = [part.app for part in definition.parts]
        if known:
            await asyncio.gather(*(self._candidates.release(app) for app in apps))
        for app in apps:
            self._candidates.leave(app)

    async def _publish(self, definition: Definition, now_ms: int, order: Order | None) -> list[JobRecord]:
        """Check a definition and install its masters, one for each of its parts, or none.

        Raises:
            JobSpecError: it cannot run as written.
            JobConflictError: another definition of this name and creator is running.
            NotCreatorError: the job is another key's.
            UnavailableError: the agents needed cannot be reached now.
        """
        read = await self._compilation.do(lambda: columns_read(definition.query))
        source = await self._describe_source(definition, read)
        # A job stays known as a record, stopped or not: a new publication must be newer than that.
        known = [JobRecord.decode(record) if record else None for record in source["records"]]
        version = 1 if known[0] is None else known[0].definition.version + 1
        definition = await self._compilation.do(lambda: self._compiled(definition, read, source, version))
        require_application(definition)
        installer = _Installer(self._node, self._candidates, source, now_ms, self._rng, order)
        instance = self._rng.randbytes(8).hex() if order is None else order.publication
        first = await installer.install(definition, known[0], instance)
        # Of the publication that runs already, if it is the same.
        installer.order = first.published
        return [first, *await self._publish_parts(installer, first, known)]

    def _compiled(
        self, definition: Definition, read: dict[str, exp.Expr], source: dict[str, Any], version: int
    ) -> Definition:
        """Return a definition with a type for each column that it reads, which can run; errors as `_publish`."""
        typed = replace(definition, columns=_typed(definition, read, source), version=version)
        compile_job(typed, typed.types, self._admits)
        check_pace(typed)
        return typed

    async def _publish_parts(
        self, installer: _Installer, first: JobRecord, known: Sequence[JobRecord | None]
    ) -> list[JobRecord]:
        """Install the masters of all parts but the first; if one cannot be, stop again what was begun now."""
        places = asyncio.Semaphore(AT_A_TIME)

        async def install(part: Part) -> JobRecord:
            async with places:
                definition = replace(first.definition, part=part.number)
                return await installer.install_part(definition, known[part.number], first.publication)

        parts = first.definition.parts
        found = await asyncio.gather(*(install(part) for part in parts[1:]), return_exceptions=True)
        failed = next((error for error in found if isinstance(error, BaseException)), None)
        jobs = [job for job in found if isinstance(job, JobRecord)]
        if failed is None:
            return jobs
        for job in [*jobs, first]:
            if job.instance in installer.begun and not job.owner:  # else its creator publishes it again, or stops it
                with contextlib.suppress(OverlayError, ElfError):
                    await installer.stop(job)
        if isinstance(failed, JobConflictError | UnavailableError):
            number = found.index(failed) + 1
            raise type(failed)(f"part {number} of {len(parts)} of {first.definition.key}: {failed}") from None
        raise failed

    async def typed(self, definition: Definition) -> Definition:
        """Return a definition with a type for each column that it reads; errors as `publish`."""
        read = await self._compilation.do(lambda: columns_read(definition.query))
        source = await self._describe_source(definition, read)
        definition = replace(definition, columns=_typed(definition, read, source))
        check_pace(definition)
        # Refused here already, before any master is asked.
        bound(definition.creator, definition.name, definition.functions, self._admits)
        return definition

    async def spread(self, job: JobRecord) -> bool:
        """Put a job's record, or its tombstone, into its source's tree; False if a newer one is there.

        While agents join, all that a way leads to may be seeking their places in the tree; that is waited for.
        """
        source, record = job.definition.source, job_record(job)
        request = Spread(source, record.key, record.version, record.body)
        for left in reversed(range(SPREAD_TRIES)):
            try:
                return bool(value_of((await self._node.route(source_id(source), encode(request))).body))
            except OverlayError as error:
                if not left or not isinstance(error, NotFoundError):
                    raise UnavailableError(f"the agents with source {source!r} could not be told: {error}") from None
            await asyncio.sleep(SPREAD_S)
        raise AssertionError("there is a last try")

    async def insist(self, job: JobRecord, members: Sequence[Contact]) -> bool:
        """Put a creator's record into its source's tree, by way of many agents if one says that it knows a newer one.

        That may be a later publication of the name, or a member that withholds what it does not like.
        """
        if await self.spread(job):
            return True
        record = job_record(job)
        body = encode(Spread(job.definition.source, record.key, record.version, record.body))
        asked = [self._node.ask(member, body, DESCRIBE_MS) for member in members[:INSIST_MAX]]
        answers = await asyncio.gather(*asked, return_exceptions=True)
        return any(isinstance(answer, bytes) for answer in answers)

    async def _describe_source(self, definition: Definition, read: Collection[str]) -> dict[str, Any]:
        """Ask an agent with the source about it, and others for the columns that this one has not seen."""
        described = await self._describe_source_once(definition, tuple(read))
        others = sorted(address for address in described["members"].values() if address != described["address"])
        for address in others[:DESCRIBE_MAX]:
            unseen = tuple(name for name in read if not _offers(described, name))
            if not unseen:
                break
            request = DescribeSource(definition.source, unseen, definition.app_id)
            with contextlib.suppress(OverlayError, ElfError):
                more = value_of(await self._node.ask(contact_at(address), encode(request), DESCRIBE_MS))
                described["columns"] = {**more["columns"], **described["columns"]}
                described["fields"] = sorted({*described["fields"], *more["fields"]})
        return described

    async def _describe_source_once(self, definition: Definition, names: tuple[str, ...]) -> dict[str, Any]:
        source = definition.source
        try:
            request = DescribeSource(source, names, definition.app_id, len(definition.parts))
            answer = await self._node.route(source_id(source), encode(request))
        except NotFoundError:
            words = nearest(source, self._known_sources())
            message = f"no agent has a source {source!r}" + did_you_mean(words)
            if definition.joined is not None:  # the source is that of a job it reads
                raise JobSpecError(message) from None
            raise refused(source_node(parse_query(definition.query)), message) from None
        except OverlayError as error:
            raise UnavailableError(f"no agent with source {source!r} answers: {error}") from None
        described: dict[str, Any] = value_of(answer.body)
        return described


class _Installer:
    """Installs the masters of one publication.

    Args:
        node: the overlay.
        candidates: chooses who they are.
        source: what an agent told of the job's source: its members are expected from the first commit on.
        now_ms: the time of the publication.
        rng: draws what tells tries apart.
        order: of the job's creator, if there is a key.
    """

    def __init__(
        self,
        node: OverlayNode,
        candidates: Candidates,
        source: dict[str, Any],
        now_ms: int,
        rng: random.Random,
        order: Order | None,
    ) -> None:
        self._node = node
        self._candidates = candidates
        self._roster: dict[str, str] = source["members"]
        self._keys: dict[str, bytes] = source.get("keys", {})
        self._now_ms = now_ms
        self._rng = rng
        self.order = order
        #: Instances that began now.
        self.begun: set[str] = set()

    async def install(self, definition: Definition, known: JobRecord | None, instance: str) -> JobRecord:
        """Install one master; returns the job that runs then, which is an earlier one if it is the same.

        Args:
            definition: the job, or a part of it.
            known: the newest record of it that is known.
            instance: what tells this publication from others.

        Raises:
            JobConflictError: another definition of this name and creator is running.
            UnavailableError: the agents needed cannot be reached now.
        """
        try:
            # A running job keeps its master, whoever is closest or less loaded by now.
            running = known if known is not None and not known.stopped else None
            chosen = (
                Placement(running.master, running.salt) if running else await self._candidates.choose(definition.app_id)
            )
            job = JobRecord(
                definition=definition,
                master_host=chosen.master.host,
                master_port=chosen.master.port,
                salt=chosen.salt,
                published_ms=self._now_ms,
                instance=instance,
                stamp_ms=self._now_ms if known is None else max(self._now_ms, known.stamp_ms + 1),
                published=self.order,
            )
            ended = known.instance if known is not None and known.stopped else ""
            job = await self._asked(chosen.master, Install(job, self._roster, ended, self._keys))
        except OverlayError as error:
            raise UnavailableError(f"the job's master could not be installed: {error}") from None
        if job.instance == instance:
            self.begun.add(instance)
        return job

    async def _asked(self, master: Contact, request: Install) -> JobRecord:
        """Ask a master to begin; one that another publisher has just asked, or that ends a job, is waited for."""
        loop = asyncio.get_running_loop()
        end_s = loop.time() + INSTALL_S
        while True:
            answer = await self._node.ask(master, encode(request))
            try:
                return JobRecord.decode(value_of(answer))
            except UnavailableError:
                if loop.time() > end_s:
                    raise
            await asyncio.sleep(INSTALL_LOOK_S)

    async def install_part(self, definition: Definition, known: JobRecord | None, publication: str) -> JobRecord:
        """Install the master of a part other than the first; one that an earlier publication has left is stopped."""
        for _ in range(OVERTAKEN_MAX):
            job = await self.install(definition, known, f"{publication}.{self._rng.randbytes(4).hex()}")
            if job.publication == publication:
                return job
            known = await self.stop(job)
        raise UnavailableError("it is left from an earlier publication and does not end; try again")

    async def stop(self, job: JobRecord) -> JobRecord:
        """Stop a job where it runs; returns its record then, as far as that is known."""
        value_of(await self._node.ask(job.master, encode(Stop(job.definition.app_id, self.order))))
        return job.tombstone(self._now_ms, self.order)


def _offers(described: dict[str, Any], name: str) -> bool:
    return name.lower() in {column.lower() for column in described["columns"]}


def _typed(definition: Definition, read: dict[str, Any], source: dict[str, Any]) -> dict[str, str]:
    """Give every column the query reads a type: the job's own, else what the source says."""
    declared = {name.lower(): (name, kind) for name, kind in definition.columns.items()}
    offered = {name.lower(): (name, kind) for name, kind in source["columns"].items()}
    columns = {}
    for name, node in read.items():
        found = declared.get(name.lower()) or offered.get(name.lower())
        if found is None:
            words = nearest(name, source["fields"])
            message = f"source {definition.source!r} has no column {name!r}" + did_you_mean(words)
            if not source["fields"]:
                why = source.get("open", "has no lines yet")
                message = f"source {definition.source!r} {why}, so nothing is known of column {name!r}"
            raise refused(node, message, "" if source.get("closed") else "or declare its type under [columns]")
        columns[found[0]] = found[1]
    return columns
