"""A job's newest result, back at the agents: whoever runs beside one, a web application say, reads it there at once.

The master puts each new result of a job with `feedback` into the job's tree as a control record. The overlay floods it,
keeps the newest, and brings it to agents that come late, that were away, or that start again; nothing is on disk. An
agent that is cut off goes on answering with the last one that it has: its window says how old that is. Paper: dataflow
cycles (the master sends results back to the agents, by multicast).
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import logging
import zlib

import msgspec

from elf.agents.errors import JobError, UnavailableError, UnknownJobError
from elf.agents.failures import FAILURES
from elf.agents.group.masters import Masters
from elf.agents.jobs.parts import Part
from elf.agents.master.stops import stopped_error, why_ended
from elf.agents.results.own_results import OwnResults
from elf.agents.wire.catalogue import Catalogue
from elf.agents.wire.positions import Json, Told
from elf.agents.wire.records import FEEDBACK_KEY
from elf.overlay.contract import Record
from elf.overlay.messages import RECORD_BYTES_MAX
from elf.overlay.node import OverlayNode

log = logging.getLogger(__name__)
#: How often it is looked for jobs that this agent has become the master of, and how long a job is waited for at a time.
LOOK_S, WAIT_MS = 0.25, 30_000
#: When who asks for a job's first result before it has come should ask again; windows differ.
UNTOLD_S = 5
#: Pause after a failure, and where other masters than ours have no result now.
RETRY_S, OTHERS_S = 10.0, 1.0


class Feedback:
    """Brings results of jobs mastered here to all agents, and has those of all jobs that this agent works for.

    Args:
        node: the overlay.
        masters: the jobs of which this agent is the master.
        results: answers for these.
        catalogue: the jobs it knows.
    """

    def __init__(self, node: OverlayNode, masters: Masters, results: OwnResults, catalogue: Catalogue) -> None:
        self._node = node
        self._masters = masters
        self._results = results
        self._catalogue = catalogue
        self._following: dict[bytes, asyncio.Task[None]] = {}
        #: What was known of jobs when it was last looked for those to follow, unless one has ended since.
        self._as_of: tuple[int, frozenset[bytes]] | None = None

    async def run(self) -> None:
        """Follow the jobs that this agent is the master of, until cancelled."""
        try:
            while True:
                as_of = self._catalogue.revision, self._masters.apps
                if as_of != self._as_of:
                    self._look()
                    self._as_of = as_of
                await asyncio.sleep(LOOK_S)
        finally:
            for task in self._following.values():
                task.cancel()

    def _look(self) -> None:
        for job in self._masters.jobs:
            definition, app = job.definition, job.definition.app_id
            if definition.is_first and definition.options.feedback and app not in self._following:
                task = self._following[app] = asyncio.create_task(self._follow(app))
                task.add_done_callback(functools.partial(self._ended, app))

    def _ended(self, app: bytes, _: asyncio.Task[None]) -> None:
        del self._following[app]
        self._as_of = None

    def newest(self, first: Part) -> Told:
        """Return the newest result that has come to this agent of a job, by its first part.

        Raises:
            UnknownJobError: this agent does not know the job.
            StoppedError: the job is stopped.
            JobError: the job has no feedback.
            UnavailableError: no result has come yet, or this agent takes no part in the job.
        """
        job, key = self._catalogue.job(first.app), first.key
        if job is None or job.stopped:
            ended = "" if job is None else why_ended(job.ends_ms)
            raise UnknownJobError(key, [job.definition.key for job in self._catalogue.running()], ended)
        if job.rests:
            raise stopped_error(job)
        if not (job.definition.options.feedback or job.definition.options.application):
            raise JobError(f"{key} has no feedback; publish it with `feedback = 100`, so many rows, in its [options]")
        record = self._told(job.tree)
        if record is None:
            raise UnavailableError(
                f"no result of {key} has come to this agent yet; they come to agents with source "
                f"{job.definition.source!r}",
                retry_after_s=UNTOLD_S,
            )
        return Told(record.body, f"{record.version}-{zlib.crc32(record.body):08x}")

    async def _follow(self, app: bytes) -> None:
        """Tell all agents each new result while this agent is the job's master."""
        edition = -1
        while True:
            try:
                if self._results.has_others(app) and self._rows(app):
                    await self._follow_others(app)
                    continue
                master = await self._masters.changed(app, edition, WAIT_MS)
                if not self._masters.job(app).definition.options.feedback:
                    return  # the job was changed, and wants none any more
                if master is not None:
                    edition = master.windows.edition
                    await self._tell(app, edition)
            except UnknownJobError:
                return  # another agent is the master, or the job was stopped
            except (UnavailableError, JobError) as error:
                log.debug("a job has no result to tell of: %s", error)
            except FAILURES as error:
                log.error("results are not told to the agents now, will try again: %s", error)
                await asyncio.sleep(RETRY_S)

    async def _follow_others(self, app: bytes) -> None:
        """Tell all agents the newest result that several masters make, and again whenever late data has changed it."""
        newest_ms: int | None = None
        limit = self._rows(app)
        try:
            async with contextlib.aclosing(self._results.followed(app, limit)) as results:
                async for result in results:
                    if self._rows(app) != limit:
                        return  # the job was changed, and wants others
                    window = result["window"]
                    if window is None or newest_ms is None or window["end_ms"] >= newest_ms:
                        newest_ms = None if window is None else window["end_ms"]
                        self._say(app, self._masters.master(app).windows.edition, packed(result))
        except UnknownJobError:
            raise
        except (UnavailableError, JobError) as error:
            log.debug("a job with several masters has no result to tell of: %s", error)
        await asyncio.sleep(OTHERS_S)

    async def _tell(self, app: bytes, edition: int) -> None:
        self._say(app, edition, packed(await self._results.newest(app, self._rows(app))))

    def _rows(self, app: bytes) -> int:
        return self._masters.job(app).definition.options.feedback

    def _say(self, app: bytes, edition: int, body: bytes) -> None:
        # The job may have been stopped and published again meanwhile.
        tree = self._masters.job(app).tree
        told = self._told(tree)
        if told is None:
            self._node.add_record(tree, Record(FEEDBACK_KEY, edition, body))
        elif told.body != body:
            # A master before us may have had editions that were never decided, or said another label of this one.
            self._node.add_record(tree, Record(FEEDBACK_KEY, max(edition, told.version + 1), body))

    def _told(self, tree: bytes) -> Record | None:
        return next((record for record in self._node.records(tree) if record.key == FEEDBACK_KEY), None)


def packed(result: Json) -> bytes:
    """Encode a result for all agents; of one with too many bytes the first rows, and `cut` says how many are left out.

    Who the master is, and how far the job has come since the window closed, is no part of it.

    Raises:
        UnavailableError: what is not rows is too long by itself.
    """
    passing = {"master", "hops"} | ({"through_ms"} if result["window"] is not None else set())
    plain = {name: value for name, value in result.items() if name not in passing}
    rows = plain["rows"]
    body, kept = msgspec.json.encode(plain), len(rows)
    while len(body) > RECORD_BYTES_MAX:
        if not kept:
            raise UnavailableError(f"without any row the result has {len(body)} bytes, over {RECORD_BYTES_MAX}")
        kept = min(kept - 1, kept * RECORD_BYTES_MAX // len(body))
        body = msgspec.json.encode({**plain, "rows": rows[:kept], "cut": len(rows) - kept})
    return body
