"""What follows when a job's root group chooses this agent, or another one, to lead: the tree's root moves.

Whoever leads says so in the group's log, takes the root of the job's tree, and tells everyone: agents with the source
by its tree, forwarders by the job's own. Whoever leads no more gives the root up at once; until the agents hear of the
new one they keep what they have sealed. OVERLAY 6.5.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import logging
from collections.abc import Callable, Coroutine
from typing import Protocol

import msgspec

from elf.agents.errors import ElfError
from elf.agents.group.care import care
from elf.agents.group.copies import Copies, Copy
from elf.agents.master.commands import Command, Count, End, Load, Rename, Turn
from elf.agents.store.controls import Controls
from elf.agents.wire.catalogue import Catalogue
from elf.agents.wire.records import JOB_KEY, JobRecord
from elf.overlay.contract import Record
from elf.overlay.errors import OverlayError
from elf.overlay.node import OverlayNode

log = logging.getLogger(__name__)

#: Pauses before everyone is told again of a new master.
SPREAD_RETRY_S, SPREAD_RETRY_S_MAX = 0.1, 5.0
#: How often the clock, which may be set, is looked at while the end of a stopped job is far.
LOOK_S_MAX = 60.0
#: How soon others are asked again whether a stopped job whose time is over ends.
OVER_RETRY_S = 2.0
#: Whoever changes a job waits at most so long until those whom it concerns were told.
TOLD_S = 2.0
#: The leader of a job that is over stays so long for members that have not heard of it.
END_S = 2.0
#: A member without a vote that its leader has not told of a job's end drops its copy so long after the job's record.
DROP_S = 3 * END_S
#: ... and is looked for so many times: it may be on its way to this agent only now.
DROP_LOOKS = 5


class Others(Protocol):
    """All others whom a job that is mastered here concerns (`elf.agents.publications.notices.Notices`)."""

    async def tell(self, job: JobRecord) -> None:
        """Tell them of its record; raises ElfError if not all have heard."""

    async def is_over(self, job: JobRecord) -> bool:
        """Tell whether a stopped job whose time is over ends, as far as they say; raises ElfError if they do not."""


class Leadership:
    """The jobs of which this agent is the root, as their groups decide.

    Args:
        node: the overlay.
        copies: the copies of masters kept here; those that lead are the masters.
        controls: where the control logs of their trees live.
        catalogue: told of each job before its tree is joined, so that payloads of it can be merged here; knows which
            are over.
        others: all others whom a job concerns: agents with its source, masters of its other parts.
        now_ms: wall clock.
    """

    def __init__(
        self,
        node: OverlayNode,
        copies: Copies,
        controls: Controls,
        catalogue: Catalogue,
        others: Others,
        now_ms: Callable[[], int],
    ) -> None:
        self._node = node
        self._copies = copies
        self._controls = controls
        self._catalogue = catalogue
        self._others = others
        self._now_ms = now_ms
        #: Jobs of which the tree has its root here -> set when there is something new.
        self.rooted: dict[bytes, asyncio.Event] = {}
        #: What is done for jobs while we lead them; under None, what goes on whoever leads.
        self._work: dict[bytes | None, list[asyncio.Task[None]]] = {}
        #: What tells of a job's newest version, while that goes on or has ended.
        self._telling: dict[bytes, asyncio.Task[None]] = {}

    async def told(self, app: bytes) -> None:
        """Wait until everybody was told of a job's newest version, but not for long: who is away is told later."""
        loop = asyncio.get_running_loop()
        end_s = loop.time() + TOLD_S
        while (telling := self._telling.get(app)) is not None and not telling.done() and loop.time() < end_s:
            await asyncio.wait([telling], timeout=end_s - loop.time())

    async def stop(self) -> None:
        """End what is done for the jobs; nothing is forgotten."""
        tasks = [task for work in self._work.values() for task in work]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def on_changed(self, app: bytes, command: Command | None) -> None:
        """A copy has applied a command, or has begun or ceased to lead."""
        copy = self._copies.get(app)
        if copy is None:
            return
        match command:
            case None if copy.leads:
                self._begin(app, self._lead(app, copy))
                self._begin(app, care(self._copies.agent_id, self._node, copy.job.tree))
            case None:
                self._resign(app, copy)
            case Count() | Load() if app in self.rooted:
                self._tell(app)
            case Rename() if app in self.rooted and copy.job.stopped:
                self._begin(app, self._finish_stop(app, copy))
            case Rename(job=job) if not copy.leads:
                self._node.move_root(job.tree, job.master, job.stamp_ms)
            case Turn() if app in self.rooted:
                self._stand(copy)
                if app in self._telling:
                    # Where somebody is away for long there would be one for each version; a later one has them all.
                    self._telling[app].cancel()
                self._telling[app] = self._begin(app, self._tell_all(copy))
                self._begin(app, self._end_in_time(app, copy))
                self._tell(app)
            case End(tombstone=tombstone):
                self._begin(None, self._end(app, tombstone, leads=copy.leads))

    def on_record(self, job: JobRecord) -> None:
        """A job's record came by a tree.

        At its end a copy that the group's leader did not tell of it in time is dropped. Only one without a vote: those
        with votes still have to decide the end, and ask when their leader is gone. It may be here already, or on its
        way still. A record of a job that we lead, later than all that its group has decided, is overtaken by ours:
        whoever made it misleads the agents, of the master perhaps, or by its stamp alone, which what is decided next
        would not come up to. If he was elected since, nothing is decided here.
        """
        app = job.definition.app_id
        copy = self._copies.get(app)
        if job.stopped:
            self._begin(None, self._drop_later(app, job.tree))
            return
        is_ours = copy is not None and app in self.rooted and copy.job.tree == job.tree
        if copy is not None and is_ours and job.stamp_ms > copy.job.stamp_ms:
            log.warning("job %s: somebody else tells of it, as if he were its master", copy.job.definition.key)
            self._begin(app, self._reclaim(app, copy, job.stamp_ms))

    async def _reclaim(self, app: bytes, copy: Copy, stamp_ms: int) -> None:
        """Have it decided that we are the master of a job still, later than a stamp, and tell everyone."""
        later_ms = max(self._now_ms(), stamp_ms + 1, copy.job.stamp_ms + 1)
        with contextlib.suppress(OverlayError):
            await self._copies.propose(app, Rename(msgspec.structs.replace(copy.job, stamp_ms=later_ms)))
            self._catalogue.learn(copy.job)
            self._stand(copy)
            await self._tell_all(copy)

    def on_opened(self, app: bytes) -> None:
        """A copy was fetched, or is of the last run: if its job has ended since, it is dropped like any other."""
        copy = self._copies.get(app)
        if copy is not None and self._catalogue.is_over(copy.job.tree):
            self._begin(None, self._drop_later(app, copy.job.tree))

    def restored(self) -> None:
        """The copies of the last run are open, and what was heard of jobs then is known again."""
        for copy in self._copies.all():
            self.on_opened(copy.job.definition.app_id)

    async def _drop_later(self, app: bytes, tree: bytes) -> None:
        for _ in range(DROP_LOOKS):
            await asyncio.sleep(DROP_S)
            async with self._copies.life(app):
                copy, view = self._copies.get(app), self._node.groups.view(tree)
                if copy is None or copy.job.tree != tree or copy.leads or view is None:
                    continue
                if not any(seat.agent == self._copies.agent_id and seat.votes for seat in view.seats):
                    await self._copies.forget(app)
                    return

    async def _lead(self, app: bytes, copy: Copy) -> None:
        """Become the master: say so in the log, take the tree's root, tell everyone; or end what was being ended."""
        try:
            if copy.job.master != self._node.contact:
                me, stamp_ms = self._node.contact, max(self._now_ms(), copy.job.stamp_ms + 1)
                job = msgspec.structs.replace(copy.job, master_host=me.host, master_port=me.port, stamp_ms=stamp_ms)
                await self._copies.propose(app, Rename(job))
        except OverlayError as error:
            log.info("job %s: %s", copy.job.definition.key, error)
            return
        if copy.job.stopped:
            await self._finish_stop(app, copy)
            return
        self._take_root(app, copy)
        self._begin(app, self._end_in_time(app, copy))
        log.info("this agent is the master of job %s", copy.job.definition.key)
        await self._tell_all(copy)

    async def _finish_stop(self, app: bytes, copy: Copy) -> None:
        """Tell everybody that the job ends, as was decided, and drop it."""
        await self._tell_all(copy)
        with contextlib.suppress(OverlayError):
            await self._copies.propose(app, End(copy.job))

    async def _end_in_time(self, app: bytes, copy: Copy) -> None:
        """End a stopped job for good when its time is over; nothing if it is resumed, or stopped anew, before that."""
        version = copy.job.history[-1].number
        while copy.job.rests and copy.job.history[-1].number == version:
            ends_ms = copy.job.ends_ms
            assert ends_ms is not None
            left_ms = ends_ms - self._now_ms()
            if copy.job.owner and copy.job.history[-1].order is None:
                return  # agents stopped it themselves, and its end is its creator's to order
            if left_ms > 0:
                await asyncio.sleep(min(left_ms / 1000, LOOK_S_MAX))
                continue
            over = False
            with contextlib.suppress(ElfError, OverlayError):
                over = await self._others.is_over(copy.job)
            if not over:
                await asyncio.sleep(OVER_RETRY_S)
                continue
            log.info("job %s was not resumed in time, and ends", copy.job.definition.key)
            # Decided like every version of it: a resume that came first counts.
            try:
                await self._copies.propose(app, Rename(copy.job.tombstone(self._now_ms()), version))
            except OverlayError:
                await asyncio.sleep(SPREAD_RETRY_S_MAX)

    async def _tell_all(self, copy: Copy) -> None:
        """Tell everybody of the job's record, until that is done or we lead no more."""
        pause_s = SPREAD_RETRY_S
        while copy.leads:
            with contextlib.suppress(ElfError, OverlayError):
                await self._others.tell(copy.job)
                return
            await asyncio.sleep(pause_s)
            pause_s = min(2 * pause_s, SPREAD_RETRY_S_MAX)

    def _take_root(self, app: bytes, copy: Copy) -> None:
        job, master = copy.job, copy.master
        self._catalogue.learn(job)
        self.rooted.setdefault(app, asyncio.Event())
        self._node.join_tree(
            job.tree,
            member=False,
            root=self._node.contact,
            state=master.state.rollup,
            leap_after_ms=_patience_ms(copy),
            control=self._controls.rooted(job.tree),
            reign=job.stamp_ms,
        )
        at = {known.address: agent for agent, known in master.state.enlisted.items() if not known.lost}
        for agent, enlisted in master.state.enlisted.items():
            if enlisted.lost:
                self._node.exclude(job.tree, agent, at.get(enlisted.address))
        for agent in master.state.retiring:
            self._node.retire(job.tree, agent)
        self._node.add_record(job.tree, Record(JOB_KEY, job.stamp_ms, job.encode()))

    def _stand(self, copy: Copy) -> None:
        """Go on as the root of a tree as the job's newest record says, and tell the tree, which all its agents are in.

        An agent without the job's source hears of a change here only.
        """
        job = copy.job
        self._node.join_tree(
            job.tree, member=False, root=job.master, leap_after_ms=_patience_ms(copy), reign=job.stamp_ms
        )
        self._node.add_record(job.tree, Record(JOB_KEY, job.stamp_ms, job.encode()))

    def _resign(self, app: bytes, copy: Copy) -> None:
        """Another agent leads, or nobody knows who: give the root up."""
        self._cease(app)
        news = self.rooted.pop(app, None)
        if news is not None:
            news.set()
            job = copy.job
            log.info("this agent is the master of job %s no more", job.definition.key)
            self._node.join_tree(job.tree, member=False, root=job.master, reign=job.stamp_ms, rooted=False)

    async def _end(self, app: bytes, tombstone: JobRecord, *, leads: bool) -> None:
        """Forget a stopped job; its leader stays a little longer, until the other members have heard of it."""
        self._catalogue.learn(tombstone)
        await self._let_go(app, tombstone, leads=leads)

    async def _let_go(self, app: bytes, tombstone: JobRecord, *, leads: bool) -> None:
        tree = tombstone.tree
        self._cease(app)
        news = self.rooted.pop(app, None)
        if news is not None:
            news.set()
            # Forwarders know the job from its own tree only; the next publication may have another master.
            self._node.add_record(tree, Record(JOB_KEY, tombstone.stamp_ms, tombstone.encode()))
            self._node.leave_tree(tree)
        if leads:
            self._node.groups.show(tree)
            await asyncio.sleep(END_S)
        await self._copies.drop(app, tree)

    async def purge(self, app: bytes, tombstone: JobRecord) -> None:
        """Forget a job at once that an operator has purged, whoever leads it; nobody is asked."""
        await self._let_go(app, tombstone, leads=False)

    def _cease(self, app: bytes) -> None:
        """End what is done for a job only while we lead it."""
        self._telling.pop(app, None)
        for task in self._work.pop(app, ()):
            task.cancel()

    def _tell(self, app: bytes) -> None:
        news, self.rooted[app] = self.rooted[app], asyncio.Event()
        news.set()

    def _begin(self, app: bytes | None, work: Coroutine[None, None, None]) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(work)
        self._work.setdefault(app, []).append(task)
        task.add_done_callback(functools.partial(self._done, app))
        return task

    def _done(self, app: bytes | None, task: asyncio.Task[None]) -> None:
        work = self._work.get(app, [])
        if task in work:
            work.remove(task)
        if not task.cancelled() and task.exception() is not None:
            log.error("work for a job failed", exc_info=task.exception())


def _patience_ms(copy: Copy) -> int:
    """How long a job's root waits for silent agents: as of its newest version, at once."""
    return copy.master.versions.newest.plan.leap_after_ms
