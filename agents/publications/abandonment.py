"""Stopping jobs whose functions run no more at this agent: their masters are asked to until they do, and told why.

A job whose function misbehaves at one agent would go on everywhere else with results that lack something for ever, and
have it misbehave there, too. So it is stopped, like by a person, who finds the reason in `elf jobs` and resumes it,
mostly with another function.
"""

from __future__ import annotations

import asyncio
import collections
import contextlib
import hashlib
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, NamedTuple

from elf.agents.errors import ElfError, JobConflictError, JobError, NotCreatorError, UnknownJobError
from elf.agents.jobs.versions import WHY_CHARS_MAX
from elf.agents.language.own_functions import OwnFunction
from elf.agents.results.location import JobRequest
from elf.agents.wire.catalogue import Catalogue
from elf.agents.wire.changes import Amend
from elf.agents.wire.questions import Stop
from elf.agents.wire.records import JobRecord
from elf.overlay.errors import OverlayError
from elf.overlay.ids import app_id

log = logging.getLogger(__name__)
#: Deciding and making durable takes milliseconds; a root that moves takes a second.
ASK_MS = 5_000
#: Pauses before a master is asked again.
RETRY_S, RETRY_S_MAX = 0.1, 5.0

Ask = Callable[[str, JobRequest, int], Awaitable[tuple[Any, list[str]]]]


class Failed(NamedTuple):
    """Functions of a job that run no more here, and why."""

    creator: str
    name: str
    functions: tuple[OwnFunction, ...]
    why: str


class GivingUp:
    """Has jobs stopped on behalf of one agent.

    Args:
        catalogue: the jobs known here.
        ask: asks a job's master.
        me: this agent's name.
    """

    def __init__(self, catalogue: Catalogue, ask: Ask, me: Callable[[], str]) -> None:
        self._catalogue = catalogue
        self._ask = ask
        self._me = me
        self._noted: collections.deque[Failed] = collections.deque()
        self._wake = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None

    def note(self, creator: str, name: str, functions: Sequence[OwnFunction], why: str) -> None:
        """Have a job stopped, soon; from any thread."""
        self._noted.append(Failed(creator, name, tuple(functions), why))
        if self._loop is not None:
            with contextlib.suppress(RuntimeError):  # the agent ends
                self._loop.call_soon_threadsafe(self._wake.set)

    async def run(self) -> None:
        """Stop what is noted, as long as the agent runs."""
        self._loop = asyncio.get_running_loop()
        async with asyncio.TaskGroup() as tasks:
            while True:
                while self._noted:
                    tasks.create_task(self.stop(self._noted.popleft()))
                await self._wake.wait()
                self._wake.clear()

    async def stop(self, failed: Failed) -> None:
        """Ask the master of a job until it is stopped, has ended, or has other functions."""
        pause_s = RETRY_S
        while (job := self._concerned(failed)) is not None and not await self._is_stopped(job, failed):
            await asyncio.sleep(pause_s)
            pause_s = min(2 * pause_s, RETRY_S_MAX)

    def _concerned(self, failed: Failed) -> JobRecord | None:
        """Return the job, if it goes on with these functions as far as this agent has heard; its parts follow it."""
        job = self._catalogue.job(app_id(failed.name, failed.creator))
        if job is None or job.stopped or job.rests or job.definition.functions != failed.functions:
            return None
        return job

    async def _is_stopped(self, job: JobRecord, failed: Failed) -> bool:
        """Ask a job's master to stop it; tell whether that is decided: if it goes on later, somebody has resumed it."""
        definition = job.definition
        # Of all the agents that ask for the same, the first one makes a version.
        token = hashlib.sha256(f"{job.instance}/{definition.version}".encode()).hexdigest()
        why = f"{failed.why} (at {self._me()})"[:WHY_CHARS_MAX]
        stop = Amend(definition.app_id, "stop", token, expected=definition.version, why=why)
        try:
            try:
                await self._ask(definition.key, stop, ASK_MS)
            except (JobConflictError, UnknownJobError):
                return False  # what has become of it we shall hear
            except JobError:
                # It cannot rest, as a job that answers for one side of a split cannot.
                try:
                    await self._ask(definition.key, Stop(definition.app_id), ASK_MS)
                except NotCreatorError as error:
                    log.warning("job %s goes on without its functions here: %s", definition.key, error)
                    return True
        except (ElfError, OverlayError) as error:
            log.info("job %s is to be stopped, and its master does not do so yet: %s", definition.key, error)
            return False
        return True
