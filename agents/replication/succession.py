"""Going on where an agent has left off whose disk is lost, from the checkpoint that a neighbour keeps of it.

An agent with an empty disk first asks, once a source, whether a neighbour holds the checkpoint of whoever was at its
address. It is used only if all of this holds: this agent has no checkpoint of its own, and none was ever on this disk;
the job's master has excluded the agent that it is of, for good (`Enlisted.of`); and the lines that it was made of are
not all to be found where this agent would read them from the beginning, which needs no replica and makes the archive
anew. Then this agent takes it over as if it were its own, read positions and all. So what is in it is counted once:
nobody but the successor ever brings what an excluded agent had not brought, and the successor reads on behind it.

What came between the checkpoint and the loss is read again where the files are still there; for those that are not,
the tail notes a gap from the newest event of the checkpoint on.
"""

from __future__ import annotations

import asyncio
import dataclasses
import logging
import os
from collections.abc import Awaitable, Callable, Mapping

import msgspec

from elf.agents.errors import ElfError
from elf.agents.intake.intake import Intake
from elf.agents.intake.progress import SourceProgress
from elf.agents.jobs.versions import Versions
from elf.agents.master.commands import Enlisted
from elf.agents.replication.inherited import taken_over
from elf.agents.sources.files import rotation
from elf.agents.sources.files.rotation import Position
from elf.agents.store.checkpoints import Checkpoints
from elf.agents.wire.catalogue import Catalogue
from elf.agents.wire.records import JobRecord, contact_at
from elf.agents.wire.replicas import KeepCheckpoint, Recall
from elf.agents.wire.replies import value_of
from elf.agents.wire.request import encode
from elf.agents.worker.state import Whole, WorkerState
from elf.agents.worker.worker import Worker
from elf.cbt import PaoDecodeError
from elf.overlay.decoding import read_msgpack
from elf.overlay.errors import OverlayError
from elf.overlay.ids import distance
from elf.overlay.node import OverlayNode

log = logging.getLogger(__name__)
#: Neighbours that are asked, those whose ids are nearest first: replicas are with the nearest that were there.
ASKED_MAX = 8
RECALL_MS = 3_000


@dataclasses.dataclass(frozen=True)
class Found:
    """A checkpoint that a neighbour holds of `agent`; a higher number is a newer one."""

    agent: str
    number: int
    whole: Whole


class Succession:
    """Takes over checkpoints, source by source, before any line of the source is read.

    Args:
        agent_id: this agent's name in rosters.
        node: the overlay.
        intakes: this agent's sources.
        catalogue: the jobs and members known here.
        checkpoints: this agent's own.
        enlist: asks a job's master where this agent begins.
    """

    def __init__(
        self,
        agent_id: str,
        node: OverlayNode,
        intakes: Mapping[str, Intake],
        catalogue: Catalogue,
        checkpoints: Checkpoints,
        enlist: Callable[[JobRecord], Awaitable[Enlisted]],
    ) -> None:
        self._agent_id = agent_id
        self._node = node
        self._intakes = intakes
        self._catalogue = catalogue
        self._checkpoints = checkpoints
        self._enlist = enlist
        self._locks: dict[str, asyncio.Lock] = {}
        self._settled: set[str] = set()
        #: Checkpoints taken over since this start.
        self.adopted = 0

    async def settle(self, source: str) -> None:
        """Take over what there is to be taken over of a source; at once if that is done, or there is nothing.

        Raises:
            OverlayError, ElfError, OSError, sqlite3.Error: not now; to be tried again before any line is read.
        """
        async with self._locks.setdefault(source, asyncio.Lock()):
            if source in self._settled:
                return
            # With a predecessor whose disk is this one, its files are here, too: its lines are read again.
            fresh = self._checkpoints.source(source) is None and self._checkpoints.predecessor is None
            if fresh and await self._succeeds(source):
                await self._take_over(source)
            self._settled.add(source)

    async def _succeeds(self, source: str) -> bool:
        """Tell whether somebody was at our address before, as far as the masters of the source's jobs can be asked.

        Most agents with an empty disk are new: they need not wait for what neighbours say. All are asked at once, or
        masters that do not answer would be waited for one after the other.
        """
        jobs = self._catalogue.running(source)
        answers = await asyncio.gather(*map(self._enlist, jobs), return_exceptions=True)
        troubles = [answer for answer in answers if isinstance(answer, BaseException)]
        for trouble in troubles:
            if not isinstance(trouble, OverlayError | ElfError) or len(troubles) == len(answers):
                raise trouble
        return any(answer.of for answer in answers if not isinstance(answer, BaseException))

    async def _take_over(self, source: str) -> None:
        intake = self._intakes[source]
        for found in await self._recall(source):
            if not intake.pump.from_end and is_all_there(found.whole.source.positions):
                continue
            if not self._is_for_all(source):
                return
            able = await self._enlist_for(source, found)
            try:
                workers = [
                    Worker.restore(job, self._agent_id, taken_over(state, entry, job)) for state, entry, job in able
                ]
            except (PaoDecodeError, ArithmeticError, ValueError) as error:
                log.warning("source %s: the copy of agent %s cannot be used: %s", source, found.agent, error)
                continue
            if workers:
                await intake.adopt(found.whole.source, workers)
                self.adopted += 1
                log.warning("source %s: goes on where agent %s, whose disk is lost, was copied", source, found.agent)
                return

    def _is_for_all(self, source: str) -> bool:
        """Tell whether no job would lose lines that it has only here: one that is never copied reads all again."""
        options = [job.definition.options for job in self._catalogue.running(source)]
        return all(each.holders or each.semantics == "at-most-once" for each in options)

    async def _enlist_for(self, source: str, found: Found) -> list[tuple[WorkerState, Enlisted, Versions]]:
        """Return the workers of a checkpoint whose agent is counted no more, each with where we begin."""
        able: list[tuple[WorkerState, Enlisted, Versions]] = []
        for state in found.whole.workers:
            job = self._catalogue.job_of_tree(state.tree)
            if job is None or job.stopped or job.definition.source != source:
                continue
            entry = await self._enlist(job)
            if found.agent in entry.of:
                able.append((state, entry, self._catalogue.versions(state.tree)))
        return able

    async def _recall(self, source: str) -> list[Found]:
        """Ask the neighbours; returns what they hold, the newest first."""
        me = self._node.contact
        members = {contact_at(member.address) for member in self._catalogue.members(source)} - {me}
        near = sorted(members, key=lambda contact: distance(contact.id, me.id))[:ASKED_MAX]
        body = encode(Recall(source, me.address))
        answers = await asyncio.gather(
            *(self._node.ask(contact, body, RECALL_MS) for contact in near), return_exceptions=True
        )
        found = []
        for answer in answers:
            if isinstance(answer, bytes):
                found += self._read(source, answer)
            elif not isinstance(answer, OverlayError):
                raise answer
        return sorted(found, key=lambda each: (-each.number, each.agent))

    def _read(self, source: str, answer: bytes) -> list[Found]:
        try:
            value = value_of(answer)
            if value is None:
                return []
            replica = msgspec.convert(value, KeepCheckpoint)
            whole = read_msgpack(replica.body, Whole)
            rotation.decode(whole.source.positions)
            msgspec.json.decode(whole.source.counters, type=SourceProgress)
        except (ElfError, msgspec.MsgspecError, ValueError) as error:
            log.warning("source %s: a neighbour's copy of a checkpoint cannot be used: %s", source, error)
            return []
        if replica.agent == self._agent_id or (whole.source.source, whole.source.sequence) != (source, replica.number):
            return []
        return [Found(replica.agent, replica.number, whole)]


def is_all_there(positions: bytes) -> bool:
    """Tell whether whoever reads from the beginning finds everything that was read up to some places.

    Raises:
        ValueError: the places cannot be read.
    """
    places = rotation.decode(positions)
    paths = {place.path for place in places}
    return all(
        _is_there(place) and rotation.live_of(place.path, paths - {place.path}) is None
        for place in places
        if place.offset
    )


def _is_there(place: Position) -> bool:
    """Tell whether a file is where it was, with the text that was read of it; of a compressed one we cannot tell."""
    if place.done or rotation.is_compressed_name(place.path):
        return False
    try:
        with open(place.path, "rb") as file:

            def read_at(offset: int, count: int) -> bytes:
                file.seek(offset)
                return file.read(count)

            return rotation.continues(place, os.fstat(file.fileno()).st_size, read_at)
    except OSError:
        return False
