"""Taking an agent that is gone for good off the rosters of its jobs and out of its sources: an operator's act.

Owns asking all masters and telling the sources' trees; a master's own part is `elf.agents.master`'s, and that one that
comes back is told what was counted is the overlay's (`elf.overlay.rollup.ledger`). OVERLAY 6.3 ("Leaver").
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from elf.agents.errors import ElfError, UnavailableError, UnknownAgentError, UnknownJobError
from elf.agents.jobs.orders import Order
from elf.agents.jobs.parts import Part, first_part
from elf.agents.wire.catalogue import Catalogue, find_member, member_record
from elf.agents.wire.introductions import gone
from elf.agents.wire.parts import parts_told
from elf.agents.wire.positions import Json
from elf.agents.wire.questions import Describe, Retire
from elf.agents.wire.records import Member
from elf.agents.wire.replies import value_of
from elf.agents.wire.request import encode
from elf.agents.wire.sources import Spread
from elf.overlay.contract import Record
from elf.overlay.errors import OverlayError
from elf.overlay.ids import source_id
from elf.overlay.node import OverlayNode

#: Masters asked at a time, and jobs whose rosters are looked at for names like a wrong one.
ASKED_MAX, DESCRIBED_MAX = 32, 8
ASK_MS = 5_000

#: Asks a master: how people write its job, the question, milliseconds.
Ask = Callable[[str, Retire | Describe, int], Awaitable[tuple[Any, list[str]]]]


class Retiring:
    """Retires agents on behalf of whoever asked this one.

    Args:
        node: the overlay.
        catalogue: jobs and members known here.
        ask: asks a master.
        jobs: lists the jobs of all agents we know, rows as `listing.summary` makes them.
        announce: puts a record into the tree of a source that this agent has; False if it has not.
        now_ms: wall clock.
    """

    def __init__(
        self,
        node: OverlayNode,
        catalogue: Catalogue,
        ask: Ask,
        jobs: Callable[[], Awaitable[Sequence[Json]]],
        announce: Callable[[str, Record], bool],
        now_ms: Callable[[], int],
    ) -> None:
        self._node = node
        self._catalogue = catalogue
        self._ask = ask
        self._jobs = jobs
        self._announce = announce
        self._now_ms = now_ms

    async def retire(self, named: str, job: str | None, order: Order | None = None) -> Json:
        """Take an agent off the roster of one job, or of all; then it is not expected by new jobs either.

        Returns `{"agent", "name", "jobs": [{"job", "missing_since_ms"}], "unreachable": [{"job", "why"}]}`: since which
        event time its data is missing from each job (None: all of it), and who could not be told.

        Raises:
            UnknownAgentError: no job has it on its roster, and no source knows it.
            AgentRunningError: it still answers.
            UnavailableError: no master could be reached.
        """
        rows = [row for row in await self._jobs() if job in (None, f"{row['creator']}/{row['name']}")]
        if job is not None and not rows:
            first = first_part(job)
            rows = [{"creator": first.creator, "name": first.name, "source": ""}]
            with contextlib.suppress(UnavailableError, UnknownJobError):
                rows = [(await self._ask(first.key, Describe(first.app), ASK_MS))[0]]
        asked = [(row, part) for row in rows for part in parts_told(_first(row), {"trees": 1, **row})]
        answers: list[Any] = []
        for since in range(0, len(asked), ASKED_MAX):
            some = asked[since : since + ASKED_MAX]
            answers += await asyncio.gather(*(self._retire(part, named, job is not None, order) for _, part in some))
        done = [(row, answer) for (row, _), answer in zip(asked, answers, strict=True) if isinstance(answer, dict)]
        unreachable = [
            {"job": part.key, "why": answer}
            for (_, part), answer in zip(asked, answers, strict=True)
            if isinstance(answer, str)
        ]
        member = self._member(named, done)
        if member is None:
            if unreachable:
                raise UnavailableError(f"the masters do not answer: {unreachable[0]['why']}")
            raise UnknownAgentError(named, await self._names(rows))
        if job is None:
            sources = {row["source"] for row, _ in done} | set(member.sources)
            unreachable += await self._tell_sources(member, sorted(sources))
        return {"agent": member.agent_id, "name": member.name, "jobs": _gaps(done), "unreachable": unreachable}

    async def _retire(self, part: Part, agent: str, alone: bool, order: Order | None) -> Json | str | None:
        """Ask one master; returns its answer, None if the agent is not on the roster, or why it cannot be reached."""
        try:
            answer, _ = await self._ask(part.key, Retire(part.app, agent, alone, order), ASK_MS)
        except UnknownJobError as error:
            if part.number == 0:
                raise
            return str(error)
        except UnavailableError as error:
            return str(error)
        return None if answer is None else dict(answer)

    def _member(self, named: str, done: Sequence[tuple[Json, Json]]) -> Member | None:
        members = {member.agent_id: member for member in self._catalogue.all_members()}
        if done:
            told = done[0][1]
            known = members.get(told["agent"])
            return known or Member(agent_id=told["agent"], name=told["name"], address=told["address"], sources=())
        agent = find_member(named, {member.agent_id: (member.name, member.address) for member in members.values()})
        return None if agent is None else members[agent]

    async def _names(self, rows: Sequence[Json]) -> set[str]:
        names = {member.name for member in self._catalogue.all_members()}
        for row in rows[:DESCRIBED_MAX]:
            part = _first(row)
            try:
                names.update((await self._ask(part.key, Describe(part.app), ASK_MS))[0]["roster"])
            except (UnavailableError, UnknownJobError):
                continue
        return names

    async def _tell_sources(self, member: Member, sources: Sequence[str]) -> list[Json]:
        """Let jobs that are published from now on not expect it; returns whom we could not tell."""
        untold: list[Json] = []
        record = member_record(gone(member), self._now_ms())
        for source in sources:
            if self._announce(source, record):
                continue
            spread = encode(Spread(source, record.key, record.version, record.body))
            try:
                value_of((await self._node.route(source_id(source), spread)).body)
            except (OverlayError, ElfError) as error:
                untold.append({"job": "", "why": f"the agents with source {source!r} could not be told: {error}"})
        return untold


def _first(row: Json) -> Part:
    return Part(row["creator"], row["name"])


def _gaps(done: Sequence[tuple[Json, Json]]) -> list[Json]:
    """Return since when an agent's data is missing from each job: since the first time that a part of it lacks it."""
    since: dict[str, int | None] = {}
    for row, answer in done:
        key, missing_ms = _first(row).key, answer["missing_since_ms"]
        known_ms = since.get(key, missing_ms)
        since[key] = None if None in (known_ms, missing_ms) else min(known_ms, missing_ms)
    return [{"job": key, "missing_since_ms": missing_ms} for key, missing_ms in since.items()]
