"""The agent behind its HTTP door: every route's answer, found here or fetched through the overlay; no web in it.

Every method may raise the errors of `elf.agents.errors`; `elf.agents.http.problems` turns them into problem+json.
Dictionaries are JSON-ready: text, numbers, booleans, None, lists and dictionaries of these.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import sqlite3
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Annotated, Any

import msgspec

from elf.agents.errors import BadRequestError, ElfError, JobError, NotCreatorError, UnavailableError, UnknownSourceError
from elf.agents.http.excerpt import excerpt
from elf.agents.http.metrics import render_metrics
from elf.agents.intake.push import Appended
from elf.agents.intake.push_keys import PushKey
from elf.agents.jobs.definition import TREES_MAX
from elf.agents.jobs.orders import Order
from elf.agents.jobs.parts import Part
from elf.agents.master.listing import summary
from elf.agents.publications.change import Changing, Wanted
from elf.agents.publications.retirement import Retiring
from elf.agents.publications.stop import Stopping
from elf.agents.publications.whole_jobs import WholeJobs
from elf.agents.results.explanation import Explaining
from elf.agents.results.inquiry import ASK_MAX
from elf.agents.results.joined_jobs import look_up
from elf.agents.wire.agents import ViewTree
from elf.agents.wire.application_messages import Ask, packed, unpacked
from elf.agents.wire.parts import parts_told
from elf.agents.wire.positions import Json, Position, Positioned, Told
from elf.agents.wire.questions import Describe
from elf.agents.wire.records import contact_at
from elf.agents.wire.shares import LoadedTallies, LoadIntervals
from elf.overlay.fields import Interval

if TYPE_CHECKING:
    from elf.agents.agent import Agent

log = logging.getLogger(__name__)
#: Merging a few thousand intervals takes a second, and as long on each copy.
LOAD_MS = 25_000
#: A source that has lines waiting and reads none for this long is not ready.
STALLED_MS = 15_000


class Loaded(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Intervals of a job, or of one of its parts, as `elf.agents.wire.shares.LoadIntervals` has them."""

    instance: str
    first: Interval
    last: Interval
    block: bytes
    missing: tuple[str, ...] = ()
    part: Annotated[int, msgspec.Meta(ge=0, lt=TREES_MAX)] = 0
    mistyped: LoadedTallies = {}


class Service:
    """One agent as its HTTP API sees it; tests of the API have one in memory in its place."""

    def __init__(self, agent: Agent) -> None:
        self._agent = agent
        self._asking = asking = agent.asking
        assert agent.reconfiguration.departure is not None
        self.departure = agent.reconfiguration.departure
        self._changing = Changing(asking.ask, agent.publisher, agent.means.rng)
        self._parts = WholeJobs(asking.ask, agent.copies, agent.masters, asking.rows)
        self._stopping = Stopping(asking.ask, self._changing.amend, asking.rows, agent.means.rng)
        self._explaining = Explaining(agent.node, agent.intakes, self._parts.described, self.tree, asking.ask_self)
        self._retiring = Retiring(agent.node, agent.catalogue, asking.ask, self.jobs, agent.announce, agent.now_ms)

    async def publish(
        self, text: str, filename: str, name: str | None, creator: str | None, order: Order | None = None
    ) -> Json:
        """Check and publish a job from the text of its file.

        Args:
            text: TOML job file or bare SQL.
            filename: its name; the suffix tells the kind, the stem is the default name of a bare SQL job.
            name: replaces the name in the file.
            creator: the creator if the file names none.
            order: of the creator, if there is a key; as in all that follows.

        Returns:
            The row that `jobs` has of it.

        Raises:
            JobSpecError: the job cannot run as written.
            JobConflictError: the same creator runs another job of this name.
        """
        definition = await self._agent.publisher.load(text, filename, name, creator)
        definition = await look_up(definition, self._asking.ask)
        job = await self._agent.publisher.publish(definition, self._agent.now_ms(), order)
        return summary(job)

    async def jobs(self) -> list[Json]:
        """List the jobs this agent knows.

        Returns:
            `{"creator", "name", "app_id" (hex), "source", "query", "columns" (types as published), "master", "state",
            "version", "ends_ms" (until when a stopped one can be resumed), ...}` each.
        """
        return await self._parts.jobs()

    async def job(self, creator: str, name: str) -> Json:
        """Describe one job: its definition, master and status; UnknownJobError if there is none."""
        value, hops = await self._parts.described(creator, name)
        return {**value, "hops": hops}

    async def stop(self, creator: str, name: str, keep_ms: int | None = None, order: Order | None = None) -> Json:
        """Stop a job on all agents; arguments, answer and errors as of `Stopping.stop`."""
        return await self._stopping.stop(creator, name, keep_ms, order)

    async def change(self, creator: str, name: str, wanted: Wanted, order: Order | None = None) -> Json:
        """Make another version of a running job, or take a paused or stopped one up again; see `Changing.change`.

        Returns:
            `{"version", "what", "since_ms", "until_ms", "begins_ms", "made_ms", "ends_ms", "query", "columns",
            "options"}`, as the `versions` of `job` has it: effective from event time `since_ms` on, on all agents.
        """
        return await self._changing.change(creator, name, wanted, order)

    async def leap(self, creator: str, name: str, order: Order | None = None) -> Json:
        """Wait no longer for a job's stragglers in the interval that they keep waiting; errors as of `WholeJobs.leap`.

        Returns:
            `{"through_ms", "agents"}`: the interval's end, and the names of those that it is committed without.
        """
        return await self._parts.leap(creator, name, order)

    async def force(self, creator: str, name: str) -> None:
        """Let this agent go on alone with a job whose root group has lost its majority for good."""
        await self._parts.force(creator, name)

    async def load(self, creator: str, name: str, loaded: Loaded, order: Order | None = None) -> Json:
        """Load intervals that were computed from the agents' archives, in the place of what they are now.

        Returns:
            `{"first", "last", "edition"}`.

        Raises:
            JobError: these intervals are not to be loaded, or were computed for another publication.
        """
        part = Part(creator, name, loaded.part)
        what = loaded.instance, loaded.first, loaded.last, loaded.block, loaded.missing, loaded.mistyped
        request = LoadIntervals(part.app, *what, order)
        value, _ = await self._asking.ask(part.key, request, LOAD_MS)
        answer: Json = value
        return answer

    async def retire(self, agent: str, job: str | None, order: Order | None = None) -> Json:
        """Take an agent that is gone for good off one job's roster (`creator/name`), or all; see `Retiring.retire`."""
        return await self._retiring.retire(agent, job, order)

    async def purge(self, key: str, order: Order | None) -> Json:
        """Purge a job or an agent everywhere, by an operator's order; see `Purging.purge`.

        Args:
            key: `job/CREATOR/NAME` or `member/AGENT_ID`.
            order: to purge that.
        """
        if order is None or order.job != key:
            raise NotCreatorError(f"to purge {key} takes an operator's order: elf purge makes it with a creator's key")
        return await self._agent.purging.purge(order)

    async def result(self, creator: str, name: str, window: str, key: str | None, limit: int | None) -> Json:
        """Ask the job's master for one result, from anywhere; StoppedError if the job is stopped.

        Arguments are those of `Gathering.result`; the window is well-formed, as `elf.agents.master.windows` checks.

        Returns:
            The Result of the contract: job, window, columns, rows, completeness, master, hops.
        """
        return await self._asking.gathering.result(Part(creator, name), window, key, limit)

    def feedback(self, creator: str, name: str) -> Told:
        """Return the newest result that has come to this very agent; nobody else is asked. See `Feedback.newest`."""
        return self._agent.feedback.newest(Part(creator, name))

    async def route(self, creator: str, name: str, query: Any) -> Any:
        """Have a job's application answer a query, at its master; both are JSON.

        Raises:
            JobError: the job has no application, or it answers with an error.
            UnavailableError: it is too busy, or its master out of reach.
        """
        try:
            body = packed(query)
        except ValueError as error:
            raise BadRequestError(str(error)) from None
        part = Part(creator, name)
        answer, _ = await self._asking.ask(part.key, Ask(part.app, "", body))
        try:
            return unpacked(answer)
        except (TypeError, msgspec.DecodeError):
            raise UnavailableError(f"the master of {creator}/{name} sent something that is no answer") from None

    async def results(self, creator: str, name: str, position: Position | None = None) -> AsyncIterator[Positioned]:
        """Follow a job: the newest result at once, then each new, early or revised one.

        Errors surface on the first step.

        Args:
            creator: of the job.
            name: of the job.
            position: where an earlier follower stopped; what is newer comes instead of the newest result.
        """
        following = self._asking.following.results(Part(creator, name), position)
        async with contextlib.aclosing(following) as results:
            async for each in results:
                yield each

    async def tree(self, creator: str, name: str, part: int = 0) -> Json:
        """Describe one of the job's reducer trees: `{"root": id, "nodes": [{id, address, name, parent, role}]}`."""
        described, _ = await self._parts.describe(creator, name)
        parts = parts_told(Part(creator, name), described)
        if not part < len(parts):
            raise JobError(f"{creator}/{name} has no tree {part}; it has {len(parts)}, counted from 0")
        key, app = parts[part].key, parts[part].app
        if part:
            described, _ = await self._asking.ask(key, Describe(app))
        nodes: list[Json] = []
        level: list[tuple[str, str | None]] = [(described["master"], None)]
        seen: set[str] = set()
        while level and len(nodes) < ASK_MAX * 16:
            views = await asyncio.gather(*(self._asking.ask_one(address, ViewTree(app)) for address, _ in level))
            below: list[tuple[str, str | None]] = []
            for (address, parent), view in zip(level, views, strict=True):
                seen.add(address)
                known = view or {"name": address, "role": "unreachable", "children": []}
                nodes.append(
                    {
                        "id": contact_at(address).id.hex(),
                        "address": address,
                        "name": known["name"],
                        "parent": None if parent is None else contact_at(parent).id.hex(),
                        "role": known["role"],
                    }
                )
                below += [(child, address) for child in known["children"] if child not in seen]
            level = below
        return {"root": nodes[0]["id"], "job": f"{creator}/{name}", "nodes": nodes}

    async def explain(self, creator: str, name: str) -> Json:
        """Explain a job: its plan, what it shares, its tree and its cost (`elf.agents.results.explanation`)."""
        return await self._explaining.explain(creator, name)

    async def members(self) -> list[Json]:
        """List the agents this one knows: `{id, address, name, sources, is_self}` each."""
        me = self._agent.node.contact.address
        found = []
        for member in await self._asking.members():
            contact = contact_at(member["address"])
            found.append(
                {
                    "id": contact.id.hex(),
                    "agent": member["agent_id"],
                    "address": member["address"],
                    "name": member["name"],
                    "sources": list(member["sources"]),
                    "release": member.get("release", ""),
                    "is_self": member["address"] == me,
                }
            )
        return sorted(found, key=lambda row: (not row["is_self"], row["name"]))

    async def ingest(self, source: str, ndjson: bytes, key: PushKey | None = None) -> Appended:
        """Take whole lines for a source, once for a key; return how many, only after they are safe on disk (fsync).

        Raises:
            UnknownSourceError: no such source here.
            KeyReusedError: the key is remembered with other lines.
            UnavailableError: the agent is full; the caller should come again later.
        """
        intake = self._agent.intakes.get(source)
        if intake is None:
            raise UnknownSourceError(source, self._agent.intakes)
        return await intake.ingest(ndjson, key)

    async def reload(self) -> Json:
        """Read the agent's settings again and let them hold; answer and errors as of `Reconfiguration.reload`."""
        # Whoever asked may hang up; half of a change is none.
        return await asyncio.shield(asyncio.ensure_future(self._agent.reconfiguration.reload()))

    async def drain(self, within_s: float) -> Json:
        """Take this agent out of service: it hands on what it has, in that time at most, and ends.

        Returns:
            `{"sources"}`: what it still has to hand on.
        """
        if not self.departure.is_under_way:
            self._agent.means.spawn(self._depart(within_s))
        return {"sources": sorted(self._agent.intakes)}

    async def _depart(self, within_s: float) -> None:
        try:
            if await self.departure.run(within_s):
                self._agent.on_departed()
        except (ElfError, OSError, sqlite3.Error) as error:
            log.error("this agent cannot drain now, and goes on: %s", error)

    async def cancel_drain(self) -> Json:
        """Let this agent stay after all; returns `{"sources"}`, which it reads again."""
        await self.departure.cancel()
        return {"sources": sorted(self._agent.config.sources)}

    def health(self) -> Json:
        """Tell that the process lives, and what it is (name, version, node id)."""
        member = self._agent.introduce()
        return {
            "status": "alive",
            "name": member.name,
            "version": member.release,
            "id": self._agent.node.contact.id.hex(),
            "address": member.address,
        }

    def ready(self) -> tuple[bool, list[str]]:
        """Tell whether the agent makes progress: joined, reading, committing; if not, why, a few reasons of a kind."""
        agent = self._agent
        reasons = ["drains: it reads no more, and ends"] if self.departure.is_under_way else []
        reasons += agent.neighbours.entering.reasons()
        refused = sorted(agent.node.refused().items())
        reasons += excerpt((f"no link with {address}: {why}" for address, why in refused), "agents refuse a link")
        reasons += [agent.neighbours.trouble] if agent.neighbours.trouble is not None else []
        for name, intake in agent.intakes.items():
            if intake.trouble is not None:
                reasons.append(f"source {name}: {intake.trouble}")
            elif intake.pump.rejecting.trouble is not None:
                reasons.append(f"source {name}: {intake.pump.rejecting.trouble}")
            elif intake.pump.stalled_ms() > STALLED_MS:
                why = " because a job's tree takes no more for now" if intake.resting else ""
                reasons.append(f"source {name}: lines wait but none was read for {intake.pump.stalled_ms()} ms{why}")
        out_of_reach = (
            f"job {job.definition.key}: its tree's root {job.master.address} is out of reach"
            for job in agent.catalogue.running()
            if job.definition.source in agent.intakes and agent.node.tree(job.tree).role == "joining"
        )
        unusable = (
            f"job {job.definition.key} cannot run on this agent, and misses it: {why}"
            for name in agent.intakes
            for job, why in agent.catalogue.unusable(name)
        )
        pending = (f"job {key}: {why}" for key, why in sorted(agent.attachments.pending.items()))
        reasons += excerpt(out_of_reach, "jobs' roots are out of reach")
        reasons += excerpt(unusable, "jobs cannot run on this agent")
        reasons += excerpt(pending, "jobs wait")
        return not reasons, reasons

    def notes(self) -> list[str]:
        """Say what an operator should look at though the agent makes progress: whom it does not hear, say."""
        is_open = ["the API is open to all users of this machine (api.open)"] if self._agent.config.api.open else []
        untold = [trouble] if (trouble := self._agent.stores.audit.trouble) else []
        return [
            *self._agent.reconfiguration.notes(),
            *is_open,
            *untold,
            *self._agent.node.unheard(),
            *self._agent.membership.notes(),
            *self._agent.sources.auditor.notes(),
        ]

    def metrics(self) -> bytes:
        """Render all metrics in the Prometheus text format."""
        return render_metrics(self._agent)
