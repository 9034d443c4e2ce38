"""The applications that run at this agent: at the masters it is, and for the jobs of its sources."""

from __future__ import annotations

import asyncio
import functools
import logging
import random
from collections.abc import Callable, Sequence

import msgspec

from elf.agents.applications.instance import Instance
from elf.agents.applications.performer import Performer, is_of
from elf.agents.applications.runner import Runner
from elf.agents.errors import JobError, UnavailableError
from elf.agents.extensions.application_contract import ApplicationError, Asked, Effect, Json, Received
from elf.agents.extensions.installed_applications import find_application, installed
from elf.agents.group.masters import Masters
from elf.agents.results.inquiry import Asking
from elf.agents.wire.application_messages import Ask, Letter, Role, Said
from elf.agents.wire.catalogue import Catalogue
from elf.agents.wire.records import JobRecord, Member
from elf.overlay.contract import ControlEntry
from elf.overlay.decoding import read_msgpack
from elf.overlay.node import OverlayNode

log = logging.getLogger(__name__)
#: How often it is looked for jobs that have come or gone.
LOOK_S = 0.25
#: Each has a thread.
RUNNERS_MAX = 128
#: A message waits so long for room at a busy application.
TAKE_S = 1.0

_Place = tuple[bytes, Role]


class Applications:
    """Runs the applications of one agent.

    Args:
        me: how this agent introduces itself.
        node: the overlay.
        catalogue: jobs and members known here.
        masters: jobs mastered here.
        asking: asks masters.
        now_ms: wall clock.
        rng: draws the seeds of what applications get as their randomness.
    """

    def __init__(
        self,
        me: Callable[[], Member],
        node: OverlayNode,
        catalogue: Catalogue,
        masters: Masters,
        asking: Asking,
        now_ms: Callable[[], int],
        rng: random.Random,
    ) -> None:
        self._me = me
        self._node = node
        self._catalogue = catalogue
        self._masters = masters
        self._now_ms = now_ms
        self._rng = rng
        self._performer = Performer(me, node, catalogue, masters, asking)
        #: By tree and role.
        self._runners: dict[_Place, Runner] = {}
        #: In which term of the job's root group each of them began.
        self._terms: dict[_Place, int] = {}
        #: Why one cannot run here that should.
        self._lacking: dict[_Place, str] = {}
        self._over = False
        #: What was known of jobs at the last look; while nothing runs, nothing is to be done until that changes.
        self._as_of: tuple[int, frozenset[bytes]] | None = None

    async def run(self) -> None:
        """Begin and end applications as jobs come and go, until cancelled."""
        try:
            while True:
                await self.look()
                await asyncio.sleep(LOOK_S)
        finally:
            self._over = True
            for place in tuple(self._runners):
                await self._stop(place)

    async def on_control(self, tree: bytes, entry: ControlEntry) -> None:
        """Hand what a job's master says to the application here."""
        job = self._catalogue.job_of_tree(tree)
        if job is None or not is_of(job) or job.definition.source not in self._me().sources:
            return
        try:
            body = read_msgpack(entry.body, Said).body
        except msgspec.DecodeError:
            body = None  # it is for the agent
        if body is None and not entry.skipped:
            return
        # It may come before the application has begun.
        await asyncio.to_thread(installed)
        runner = self._begin(job, "agent")
        if runner is not None:
            if entry.skipped:
                runner.hear(None)
            if body is not None:
                runner.hear(body)

    async def receive(self, letter: Letter) -> bool:
        """Take a message of an application at another agent; False if it cannot be taken."""
        runner = self._runner((letter.tree, letter.role))
        sender = self._catalogue.name_of(letter.sender)
        return runner is not None and await runner.put(Received(sender, letter.body), TAKE_S)

    async def answer(self, ask: Ask) -> bytes:
        """Answer a query for a job mastered here.

        Raises:
            JobError: its application does not run, or answers with an error.
            UnavailableError: it is too busy, or has not begun yet.
        """
        job = self._masters.job(ask.app)
        if not is_of(job):
            raise JobError(f"{job.definition.key} has no application that could answer")
        runner = self._runner((job.tree, "master"))
        if runner is None:
            why = self._lacking.get((job.tree, "master"))
            raise JobError(why) if why else UnavailableError(f"the application of {job.definition.key} begins just now")
        try:
            reply = await runner.ask(Asked(ask.asker, ask.body))
        except ApplicationError as error:
            raise JobError(f"{runner.what} is stopped: {error}") from None
        if reply.body is None:
            raise JobError(f"{job.definition.key}: {reply.error}")
        return reply.body

    def describe(self, job: JobRecord) -> Json | None:
        """Describe a job's application at this agent, by role; None if the job has none."""
        name = job.definition.options.application
        if not name:
            return None
        told: Json = {"name": name}
        for role in ("master", "agent"):
            runner, why = self._runners.get((job.tree, role)), self._lacking.get((job.tree, role))
            if runner is not None:
                counts = {"handled": runner.handled, "lost": runner.lost, "slow": runner.slow}
                told[role] = {"state": "stopped" if runner.why else "running", "why": runner.why, **counts}
            elif why is not None:
                told[role] = {"state": "lacking", "why": why}
        return told

    def trouble(self, job: JobRecord) -> str | None:
        """Say why a job's application does not run here; None if it does, or should not."""
        for role in ("master", "agent"):
            place: _Place = (job.tree, role)
            runner, why = self._runners.get(place), self._lacking.get(place)
            if runner is not None and runner.why:
                return f"{runner.what} is stopped: {runner.why}"
            if why is not None:
                return why
        return None

    def counts(self) -> list[tuple[str, str, Runner]]:
        """Return job, role and runner of each that has begun."""
        return [(runner.instance.elf.job, role, runner) for (_, role), runner in self._runners.items()]

    async def look(self) -> None:
        """Begin and end what has to be by now."""
        as_of = self._catalogue.revision, self._masters.apps
        if as_of == self._as_of and not self._runners:
            return  # of a thousand jobs most have no application
        wanted: dict[_Place, JobRecord] = {(job.tree, "master"): job for job in self._masters.jobs if _runs(job)}
        sources = self._me().sources
        for job in self._catalogue.jobs():
            if _runs(job) and job.definition.source in sources:
                wanted[job.tree, "agent"] = job
        for place in [place for place in self._runners if place not in wanted or self._runner(place) is None]:
            await self._stop(place)
        self._lacking = {place: why for place, why in self._lacking.items() if place in wanted}
        if wanted:
            await asyncio.to_thread(installed)
        for (_, role), job in wanted.items():
            self._begin(job, role)
        self._as_of = as_of

    def _begin(self, job: JobRecord, role: Role) -> Runner | None:
        """Return a job's application as it runs here; None if it cannot."""
        place, key = (job.tree, role), job.definition.key
        if place in self._runners or place in self._lacking or self._over:
            return self._runners.get(place)
        name = job.definition.options.application
        try:
            kind = find_application(name)
            if len(self._runners) >= RUNNERS_MAX:
                raise JobError(f"{RUNNERS_MAX} applications run at this agent already")
        except JobError as error:
            self._lacking[place] = f"application {name} does not run at {self._me().name}: {error}"
            log.warning("job %s: its %s", key, self._lacking[place])
            return None
        kept: bytes | None = None
        if role == "master":
            if not self._masters.has_tree(job.tree):
                return None  # no more; another agent is
            kept = self._masters.master(job.definition.app_id).state.kept
        here = self._me().name
        rng = random.Random(self._rng.getrandbits(64))
        instance = Instance(kind, role, key, here, rng, kept)
        what = f"application {name} of job {key} at {'the master' if role == 'master' else 'agent'} {here}"
        runner = Runner(instance, what, functools.partial(self._perform, place), self._now_ms)
        self._runners[place], self._terms[place] = runner, self._term(place)
        if role == "master":
            self._performer.follow(runner, key)
        return runner

    def _term(self, place: _Place) -> int:
        """Return the term of a job's root group in which this agent leads; -1: it does not. For agents always 0."""
        tree, role = place
        if role == "agent":
            return 0
        view = self._node.groups.view(tree)
        return -1 if view is None or not self._masters.has_tree(tree) else view.term

    def _runner(self, place: _Place) -> Runner | None:
        """Return what runs at a place, unless another agent may have been the master since it began."""
        return self._runners.get(place) if self._terms.get(place) == self._term(place) else None

    async def _perform(self, place: _Place, runner: Runner, effects: Sequence[Effect]) -> None:
        """Do what a callback asked for, unless the job's master may know better by now."""
        if self._runner(place) is not runner:
            runner.lost += len(effects)
            return
        await self._performer.perform(place[0], runner, effects)

    async def _stop(self, place: _Place) -> None:
        runner = self._runners.pop(place)
        del self._terms[place]
        self._performer.forget(runner)
        await runner.stop()


def _runs(job: JobRecord) -> bool:
    """Tell whether a job has an application that should run; that of a stopped job begins anew with it."""
    return is_of(job) and not job.stopped and not job.rests
