"""What people and programs do with the agents all the time: log and push events, ask, change jobs, look about.

Owns clients, which know nothing of the agents' insides but who leads a root group; what they see goes into `Truth`.
"""

from __future__ import annotations

import asyncio
import json
import random
from collections import Counter
from collections.abc import Collection, Coroutine, Sequence
from typing import Any

import msgspec

from elf.agents.errors import ElfError, UnavailableError
from elf.agents.http.agent_service import Service
from elf.agents.jobs.parts import Part
from elf.agents.publications.change import Wanted
from elf.overlay.errors import OverlayError
from tests.world.truth import LOGGED, PUSHED, Answer, Event, JobPlan, Known, Truth
from tests.world.world import Host, UnansweredError, World

#: Pushes to one agent, questions of one reader and looks at all agents come so often, in seconds.
PUSH_S, ASK_S, LOOK_S = 1.0, 0.4, 0.5
#: Somebody changes a job so often.
CHANGE_S = 8.0
#: So many events come by the web server's log, whether the agent runs or not; the others are pushed.
LOGGED_SHARE = 0.5
#: Shares of events that are dated wrong: back by up to so long, ahead by up to so long.
LATE_SHARE, LATE_MS, AHEAD_SHARE, AHEAD_MS = 0.05, 15_000, 0.05, 1_500
#: A refused push is tried again so often.
PUSH_TRIES, AGAIN_S = 3, 0.5
#: Readers ask for windows of so long ago at most.
ASKED_BACK_MS = 30_000


class Work:
    """All clients of a run.

    Args:
        world: the agents.
        truth: takes what is done and seen.
        seed: decides what is done.
    """

    def __init__(self, world: World, truth: Truth, seed: int) -> None:
        self.world, self.truth = world, truth
        self._rng = random.Random(seed)
        #: What agents answered instead of results, by the error's name.
        self.errors: Counter[str] = Counter()
        self._tasks: set[asyncio.Task[None]] = set()
        self._clients: list[asyncio.Task[None]] = []

    def begin(self, *, readers: int = 2) -> None:
        """Let clients begin."""
        loop = self.world.loop
        self._clients += [loop.create_task(self._push_always(host)) for host in self.world.hosts]
        self._clients += [loop.create_task(self._ask_always()) for _ in range(readers)]
        self._clients.append(loop.create_task(self._look_always()))
        self._clients.append(loop.create_task(self._change_always()))

    async def rest(self) -> None:
        """Push no more, once the last pushes are answered; ask on."""
        pushing = self._clients[: len(self.world.hosts)]
        for task in pushing:
            task.cancel()
        await asyncio.gather(*pushing, *self._tasks, return_exceptions=True)

    async def end(self) -> None:
        """Let clients end, when their last questions are answered."""
        for task in self._clients:
            task.cancel()
        await asyncio.gather(*self._clients, *self._tasks, return_exceptions=True)
        for task in self._clients:
            if not task.cancelled() and (error := task.exception()) is not None:
                raise error
        self._clients.clear()

    def _beside(self, work: Coroutine[Any, Any, None]) -> None:
        task = self.world.loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    # ---- pushing

    async def _push_always(self, host: Host) -> None:
        while True:
            await asyncio.sleep(self._rng.expovariate(1 / PUSH_S))
            if not host.starts or host.is_gone:
                continue
            is_logged = self._rng.random() < LOGGED_SHARE
            if not is_logged and host.service is None:
                continue
            count = self._rng.randint(1, 5)
            if is_logged:
                self.log(host, count)
            else:
                self._beside(self._push(host, self._events(PUSHED, host, count)))

    def log(self, host: Host, count: int) -> None:
        """Let a host's web server log some events."""
        events = self._events(LOGGED, host, count)
        host.log.write(_lines(events))
        for event in events:
            event.acked_s, event.shown_ms = event.pushed_s, host.shown_ms_max()

    def _events(self, source: str, host: Host, count: int) -> list[Event]:
        now_s = self.world.loop.time()
        return [self.truth.push(source, host.name, self._date(host), now_s) for _ in range(count)]

    def _date(self, host: Host) -> int:
        drawn, now_ms = self._rng.random(), host.wall_ms()
        if drawn < LATE_SHARE:
            return now_ms - self._rng.randint(0, LATE_MS)
        return now_ms + self._rng.randint(0, AHEAD_MS) if drawn < LATE_SHARE + AHEAD_SHARE else now_ms

    async def _push(self, host: Host, events: list[Event]) -> None:
        body = _lines(events)
        for _ in range(PUSH_TRIES):
            losses = host.disks_lost
            try:
                await host.ask(lambda service: service.ingest(PUSHED, body))
            except UnavailableError:
                self.errors["push refused"] += 1
                await asyncio.sleep(AGAIN_S)
                continue
            except UnansweredError:
                return  # nobody knows
            for event in events:
                event.acked_s, event.shown_ms = self.world.loop.time(), host.shown_ms_max()
                event.lost = event.lost or host.disks_lost > losses
            return
        for event in events:
            event.refused = True

    # ---- asking

    async def publish(self, host: Host, job: JobPlan) -> None:
        """Publish a job, for as long as it takes."""
        while True:
            try:
                await host.ask(lambda service: service.publish(job.text, f"{job.name}.toml", None, None))
                self.truth.jobs += (job,)
                self.truth.published_s[job.name] = self.world.loop.time()
                return
            except (ElfError, OverlayError, UnansweredError) as error:
                self.errors[f"publish: {type(error).__name__}"] += 1
                await asyncio.sleep(AGAIN_S)

    async def _ask_always(self) -> None:
        while True:
            await asyncio.sleep(self._rng.expovariate(1 / ASK_S))
            up = self.world.up()
            if up and self.truth.jobs:
                host, job = self._rng.choice(up), self._rng.choice(self.truth.jobs)
                back_ms = self._rng.randint(job.size_ms, ASKED_BACK_MS)
                self._beside(self.look_up(host, job, job.start_of(host.wall_ms() - back_ms)))

    async def look_up(self, host: Host, job: JobPlan, start_ms: int) -> None:
        """Ask an agent for a window."""
        asked_s, window = self.world.loop.time(), f"{start_ms}/{start_ms + job.size_ms}"

        async def question(service: Service) -> Any:
            return await service.result("world", job.name, window, None, None)

        try:
            found = msgspec.to_builtins(await host.ask(question))
        except (ElfError, OverlayError, UnansweredError) as error:
            self.errors[type(error).__name__] += 1
            return
        label = found["completeness"]
        self.truth.answers.append(
            Answer(
                job.name,
                start_ms,
                {row["number"]: (row["host"], row["n"]) for row in found["rows"]},
                label["status"],
                tuple(label["missing"]),
                label["gaps"],
                label["void"],
                label["revision"],
                found["version"],
                found["master"] if job.trees == 1 else "",
                host.name,
                asked_s,
                self.world.loop.time(),
            )
        )

    async def ask_for_all(self) -> None:
        """Ask for every window with events, once."""
        for job in self.truth.jobs:
            for start_ms in sorted(self.truth.windows(job)):
                await self.look_up(self._rng.choice(self.world.up()), job, start_ms)

    # ---- changing jobs

    async def _change_always(self) -> None:
        while True:
            await asyncio.sleep(self._rng.expovariate(1 / CHANGE_S))
            up = self.world.up()
            if up and self.truth.jobs:
                job = self._rng.choice(self.truth.jobs)
                for host in self._rng.sample(up, min(2, len(up))):  # at the same time
                    self._beside(self._change(host, job, f"{self._rng.randint(60, 600)} s"))

    async def _change(self, host: Host, job: JobPlan, retain: str) -> None:
        wanted = Wanted(change="update", options={"retain": retain})
        try:
            await host.ask(lambda service: service.change("world", job.name, wanted))
            self.errors["versions made"] += 1
        except (ElfError, OverlayError, UnansweredError) as error:
            self.errors[f"change: {type(error).__name__}"] += 1

    # ---- looking about

    async def _look_always(self) -> None:
        while True:
            await asyncio.sleep(LOOK_S)
            self.look_about()

    def look_about(self) -> None:
        """Note what every agent knows of the jobs."""
        for host in self.world.up():
            for job in self.truth.jobs:
                for part in range(job.trees):
                    self._note(host, job, part)

    def _note(self, host: Host, job: JobPlan, part: int) -> None:
        agent = host.agent
        app = Part("world", job.name, part).app
        record = agent.catalogue.job(app) if agent is not None else None
        if agent is None or record is None:
            return
        copy = agent.copies.get(app)
        if copy is not None and copy.leads:
            self._note_roster(job, part, copy.master.state.rollup.roster.keys() - copy.master.state.retiring)
        view = agent.node.groups.view(record.tree)
        versions = {each.number: msgspec.json.encode(each).hex() for each in record.history}
        leader = view.leader if view is not None and view.leader else None
        term = view.term if view is not None else None
        self.truth.known.append(
            Known(host.name, self.world.loop.time(), job.name, record.instance, versions, term, leader)
        )

    def _note_roster(self, job: JobPlan, part: int, roster: Collection[str]) -> None:
        for host in self.world.up():
            if host.agent is not None and host.agent.agent_id in roster:
                self.truth.enrolled_s.setdefault((job.name, part, host.name), self.world.loop.time())


def _lines(events: Sequence[Event]) -> bytes:
    lines = [json.dumps({"ts": each.ts_ms, "host": each.host, "number": each.number}) for each in events]
    return b"".join(line.encode() + b"\n" for line in lines)
