"""Doing what an application asks for: multicasts, messages, queries, results. Each is done once, or not at all."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Sequence

import msgspec

from elf.agents.applications.runner import Runner
from elf.agents.errors import ElfError, JobError, UnavailableError
from elf.agents.extensions.application_contract import (
    Answered,
    Closed,
    Effect,
    Json,
    Keep,
    Multicast,
    Publish,
    Route,
    Send,
    SetTimer,
    Subscribe,
)
from elf.agents.group.masters import Masters
from elf.agents.jobs.parts import first_part
from elf.agents.master.commands import Remember
from elf.agents.results.feedback import packed
from elf.agents.results.inquiry import Asking
from elf.agents.wire.application_messages import Ask, Letter, Role, Said
from elf.agents.wire.catalogue import Catalogue
from elf.agents.wire.positions import Position
from elf.agents.wire.records import FEEDBACK_KEY, JobRecord, Member, contact_at
from elf.agents.wire.replies import value_of
from elf.agents.wire.request import encode
from elf.agents.wire.result import Result
from elf.overlay.contract import Record
from elf.overlay.errors import OverlayError
from elf.overlay.ids import Contact
from elf.overlay.node import OverlayNode

log = logging.getLogger(__name__)
#: Jobs that one application follows, and queries of its that wait for an answer.
SUBSCRIPTIONS_MAX, ROUTES_MAX = 16, 64
SEND_MS, ROUTE_MS = 2_000, 5_000
#: A group that decides nothing now is waited for so long before what is kept counts as lost.
KEEP_S = 5.0
#: A control log that takes no entry now is waited for so long.
MULTICAST_TRIES, MULTICAST_S = 20, 0.1
#: Pause before a job that cannot be followed now is asked for again.
RETRY_S = 1.0


class Performer:
    """Performs effects for the applications of one agent.

    Args:
        me: how this agent introduces itself.
        node: the overlay.
        catalogue: jobs and members known here.
        masters: the jobs mastered here.
        asking: asks masters.
    """

    def __init__(
        self, me: Callable[[], Member], node: OverlayNode, catalogue: Catalogue, masters: Masters, asking: Asking
    ) -> None:
        self._me = me
        self._node = node
        self._catalogue = catalogue
        self._masters = masters
        self._asking = asking
        self._following: dict[Runner, set[str]] = {}
        self._routes: dict[Runner, int] = {}

    def forget(self, runner: Runner) -> None:
        """Drop what is kept for a runner that has ended."""
        self._following.pop(runner, None)
        self._routes.pop(runner, None)

    async def perform(self, tree: bytes, runner: Runner, effects: Sequence[Effect]) -> None:
        """Do what a callback asked for; messages to several agents go at the same time, each agent's in order.

        What it keeps comes first: what the others are told, the next master is not to be behind.
        """
        kept = [effect for effect in effects if isinstance(effect, Keep)]
        if kept:
            await self._keep(tree, runner, kept[-1])
        letters: dict[str | None, list[Letter]] = {}
        for effect in effects:
            match effect:
                case Subscribe(job):
                    self.follow(runner, job)
                case SetTimer(in_ms):
                    runner.set_timer(in_ms)
                case Multicast(body):
                    await self._multicast(tree, runner, body)
                case Send(to, body):
                    role: Role = "master" if to is None else "agent"
                    letters.setdefault(to, []).append(Letter(tree, role, self._me().agent_id, body))
                case Route():
                    self._route(runner, effect)
                case Publish(result):
                    self._publish(tree, runner, result)
        await asyncio.gather(*(self._send(tree, runner, to, each) for to, each in letters.items()))

    def follow(self, runner: Runner, job: str) -> None:
        """Have an application called for a job's windows, as they close."""
        followed = self._following.setdefault(runner, set())
        if job in followed:
            return
        if len(followed) >= SUBSCRIPTIONS_MAX:
            log.warning("%s follows %d jobs already, and not %s", runner.what, SUBSCRIPTIONS_MAX, job)
            return
        followed.add(job)
        runner.spawn(self._follow(runner, job))

    async def _follow(self, runner: Runner, key: str) -> None:
        position: Position | None = None
        while True:
            try:
                following = self._asking.following.results(first_part(key), position)
                async with contextlib.aclosing(following) as results:
                    async for told, reached in results:
                        position = reached
                        result = msgspec.convert(told, Result)
                        is_open = result.window is not None and result.completeness.status == "open"
                        if not is_open and not await runner.put(Closed(result)):
                            return
            except UnavailableError as error:
                log.debug("%s waits for %s: %s", runner.what, key, error)
            except (JobError, msgspec.ValidationError) as error:
                # It is stopped, or not published yet; what comes under this name is another publication.
                log.debug("%s waits for %s: %s", runner.what, key, error)
                position = None
            await asyncio.sleep(RETRY_S)

    async def _multicast(self, tree: bytes, runner: Runner, body: bytes) -> None:
        error: OverlayError | None = None
        for _ in range(MULTICAST_TRIES):
            try:
                self._node.multicast(tree, Said(body).encode())
                return
            except OverlayError as now:
                error = now
            await asyncio.sleep(MULTICAST_S)
        runner.lost += 1
        log.warning("%s: a multicast is lost: %s", runner.what, error)

    async def _keep(self, tree: bytes, runner: Runner, keep: Keep) -> None:
        try:
            job = self._catalogue.job_of_tree(tree)
            if job is None or self._masters.job(job.definition.app_id).tree != tree:
                raise UnavailableError("the job has ended")
            async with asyncio.timeout(KEEP_S):
                await self._masters.decide(job.definition.app_id, Remember(keep.body))
        except (ElfError, TimeoutError) as error:
            runner.lost += 1
            why = str(error) or f"its root group decided nothing for {KEEP_S:.0f} s"
            log.warning("%s: what it keeps is lost: %s", runner.what, why)

    async def _send(self, tree: bytes, runner: Runner, to: str | None, letters: Sequence[Letter]) -> None:
        for letter in letters:
            try:
                taken = value_of(await self._node.ask(self._contact(tree, to), encode(letter), SEND_MS))
            except (OverlayError, ElfError, ValueError) as error:
                taken = False
                log.debug("%s: a message to %s is lost: %s", runner.what, to or "the master", error)
            runner.lost += not taken

    def _contact(self, tree: bytes, to: str | None) -> Contact:
        """Return where a message goes; raises ElfError if there is no such agent, or several."""
        job = self._catalogue.job_of_tree(tree)
        if job is None:
            raise ElfError("the job has ended")
        if to is None:
            return job.master
        members = self._catalogue.members(job.definition.source)
        found = {each.address for each in members if to in (each.name, each.agent_id)}
        if len(found) != 1:
            raise ElfError(f"{len(found)} agents of the job are called {to}")
        return contact_at(found.pop())

    def _route(self, runner: Runner, route: Route) -> None:
        waiting = self._routes.get(runner, 0)
        if waiting >= ROUTES_MAX:
            why = f"{ROUTES_MAX} queries wait for an answer already"
            runner.spawn(_put(runner, Answered(route.number, None, why)))
            return
        self._routes[runner] = waiting + 1
        runner.spawn(self._ask(runner, route))

    async def _ask(self, runner: Runner, route: Route) -> None:
        try:
            request = Ask(first_part(route.job).app, runner.instance.elf.job, route.body)
            async with asyncio.timeout(ROUTE_MS / 1_000):
                body, _ = await self._asking.ask(route.job, request, ROUTE_MS)
            answered = Answered(route.number, body) if isinstance(body, bytes) else _nonsense(route)
        except TimeoutError:
            answered = Answered(route.number, None, f"no answer of {route.job} within {ROUTE_MS} ms")
        except (ElfError, OverlayError) as error:
            answered = Answered(route.number, None, str(error))
        finally:
            if runner in self._routes:
                self._routes[runner] -= 1
        await runner.put(answered)

    def _publish(self, tree: bytes, runner: Runner, result: Json) -> None:
        try:
            body = packed(result)
        except UnavailableError as error:
            runner.lost += 1
            log.warning("%s: what it publishes cannot be told: %s", runner.what, error)
            return
        told = next((each for each in self._node.records(tree) if each.key == FEEDBACK_KEY), None)
        # By the clock, so that it is newer than what a master before us may have said that has not come here.
        version = max(runner.instance.elf.now_ms, 1 if told is None else told.version + 1)
        self._node.add_record(tree, Record(FEEDBACK_KEY, version, body))


async def _put(runner: Runner, answered: Answered) -> None:
    await runner.put(answered)


def _nonsense(route: Route) -> Answered:
    return Answered(route.number, None, f"the master of {route.job} sent something that is no answer")


def is_of(job: JobRecord) -> bool:
    """Tell whether an application belongs to this part of a job; the first part stands for all."""
    return bool(job.definition.options.application) and job.definition.is_first
