"""A job's root group under attack: commands that each name the one before, while leaders fall and members change.

Owns the course of such a run: who asks for commands, what befalls the members, what is read from their disks in the
end. What must hold is said in `chain`.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import sqlite3
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from elf.agents.errors import ElfError
from elf.agents.group import care
from elf.agents.http.agent_service import Service
from elf.agents.master.state import MasterState
from elf.agents.publications.change import Wanted
from elf.agents.store.checksums import is_whole
from elf.agents.wire.records import JobRecord
from elf.overlay.errors import OverlayError
from elf.overlay.group.care import CareTimes
from elf.overlay.ids import app_id
from tests.sweep.faults import Cut
from tests.world.chain import FIRST, FIRST_PLACE, Chain, check_chain
from tests.world.faults import Faults
from tests.world.power import age_mark, flip_bit
from tests.world.trials import SKEW_MS, Run, meet, run_course
from tests.world.truth import PUSHED, JobPlan, Truth
from tests.world.work import Work
from tests.world.world import Host, UnansweredError, World

#: Hosts; as many as a root group has members at most are there at first, the others come later.
HOSTS, AT_FIRST = 7, 5
JOB = JobPlan(name="chain", source=PUSHED, size_ms=2_000)
#: The option that tells blocks apart: retention beyond this, in seconds.
MARKED_S = 3_600
#: Each client asks for a command so often, and looks at all agents; one answer takes so long at most.
ASK_S, LOOK_S, ANSWER_S = 0.3, 0.4, 8.0
CLIENTS = 2
#: The power waits so long for the next confirmation.
CONFIRMED_S = 3.0
#: How long the job may take to be there.
PUBLISH_S = 60.0
#: How long a group may take to confirm one more command once all is well, and its members to have it.
RECOVER_S, AGREE_S = 60.0, 60.0


def play_chain(seed: int, seconds: float = 20.0) -> Run:
    """Run a seed; what goes wrong becomes a failure of the run, never an exception."""
    rng = random.Random(seed)
    # Members are given up early, and nearer ones lead soon, so that they change often.
    times = CareTimes(
        rest_s=rng.uniform(0.2, 2.0),
        look_ms=rng.randint(500, 5_000),
        silent_ms=rng.randint(2_000, 6_000),
        gone_ms=rng.randint(8_000, 30_000),
        stable_ms=rng.randint(1_000, 6_000),
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(care, "TIMES", times)
        return run_course(Run(seed, HOSTS), lambda world, run: _attack(world, run, seconds), "chain-")


class Leaders(Faults):
    """Faults of those who lead and of those who follow them; `confirmed` counts the commands that were confirmed."""

    KINDS = (
        "kill_leader", "kill_leader", "pause_leader", "pause_leader", "isolate_leader", "isolate_leader", "crash",
        "die", "restart", "partition", "one_way", "storm", "slow_disk", "fill_disk", "power", "power", "join", "spoil",
    )  # fmt: skip

    def __init__(self, world: World, seed: int, confirmed: Callable[[], int]) -> None:
        super().__init__(world, Truth(), seed)
        self.confirmed = confirmed

    def isolate_leader(self) -> bool:
        """Cut a leader off from all others, or only its ways to them."""
        leader = self._leader()
        if leader is None:
            return False
        others = frozenset(host.address for host in self.world.hosts if host is not leader)
        self._later(self._weather.interrupt(Cut(frozenset({leader.address}), others, self.rng.random() < 0.3)))
        return True

    def power(self) -> bool:
        """Let the power fail on all machines at once; they come back one by one."""
        if not self.world.up():
            return False
        self._beside(self._fail_together(None))
        return True

    async def _fail_together(self, spoiled: Callable[[Host], None] | None) -> None:
        """Let the power fail, as often as not when a command has just been confirmed, and spoil one of the disks."""
        if self.rng.random() < 0.5:
            confirmed = self.confirmed()
            with contextlib.suppress(TimeoutError):
                await self.world.wait(lambda: self.confirmed() > confirmed, CONFIRMED_S, "a command", 0.0005)
        falling = [host for host in self.world.hosts if host.is_up]
        for host in falling:
            host.crash(silent=True)
            self.counts[f"marks {age_mark(host.folder, self.rng)}"] += 1
        if spoiled is not None and falling:
            spoiled(self.rng.choice(falling))
        for host in falling:
            self._beside(self._come_back(host))

    def join(self) -> bool:
        """Let one more agent come, for good."""
        waiting = [host for host in self.world.hosts if not host.starts]
        if not waiting:
            return False
        self._beside(self._bring_back(waiting[0]))
        return True

    def spoil(self) -> bool:
        """Let one bit of one disk be another when the power comes back, or lose that disk, once."""
        if self.counts["spoil"] or not self.world.up():
            return False
        self._beside(self._fail_together(self._spoil))
        return True

    def _spoil(self, host: Host) -> None:
        if self.rng.random() < 0.2:
            host.lose_disk()
            self.counts["disk lost"] += 1
        elif (where := flip_bit(host.folder, self.rng)) is not None:
            self.counts[f"bit of {where.partition(':')[0]}"] += 1


class Clients:
    """Those who ask for commands, and see what comes of them."""

    def __init__(self, world: World, chain: Chain, seed: int) -> None:
        self._world = world
        self._chain = chain
        self._rng = random.Random(seed)
        self._tasks: list[asyncio.Task[None]] = []

    def begin(self) -> None:
        """Begin to ask, and to look."""
        loop = self._world.loop
        self._tasks += [loop.create_task(self._ask_always()) for _ in range(CLIENTS)]
        self._tasks.append(loop.create_task(self._look_always()))

    async def end(self) -> None:
        """End, with the answers that are under way."""
        for task in self._tasks:
            task.cancel()
        for done in await asyncio.gather(*self._tasks, return_exceptions=True):
            if isinstance(done, Exception):
                raise done

    async def _ask_always(self) -> None:
        place, mark = FIRST_PLACE, FIRST
        while True:
            await asyncio.sleep(self._rng.expovariate(1 / ASK_S))
            up = self._world.up()
            if up:
                place, mark = await self.add(self._rng.choice(up), place, mark)

    async def add(self, host: Host, place: int, mark: int) -> tuple[int, int]:
        """Ask an agent for a block after another one; return the last block that is known then."""
        block = self._chain.ask(place + 1, mark, self._world.loop.time())
        retain = f"{MARKED_S + block.mark} s"
        wanted = Wanted(change="update", options={"retain": retain}, expected=place)
        try:
            row = await host.ask(lambda service: service.change("world", JOB.name, wanted), ANSWER_S)
        except (ElfError, OverlayError, UnansweredError):
            return await self.newest(host) or (place, mark)
        self._chain.see(*_block_of(row), host.name)
        block.confirmed_s = self._world.loop.time()
        return _block_of(row)

    async def newest(self, host: Host) -> tuple[int, int] | None:
        """Ask an agent for all blocks; return the last one."""

        async def question(service: Service) -> Any:
            return await service.job("world", JOB.name)

        try:
            rows = (await host.ask(question, ANSWER_S))["versions"]
        except (ElfError, OverlayError, UnansweredError):
            return None
        for row in rows:
            self._chain.see(*_block_of(row), host.name)
        return _block_of(rows[-1])

    async def _look_always(self) -> None:
        while True:
            await asyncio.sleep(LOOK_S)
            for host in self._world.up():
                agent = host.agent
                record = agent.catalogue.job(app_id(JOB.name, "world")) if agent is not None else None
                if record is not None:
                    see_all(self._chain, record, host.name)


def _block_of(row: Any) -> tuple[int, int]:
    """Return place and mark of a version as it is described."""
    return row["version"], _mark_of(row["options"]["retain_ms"])


def _mark_of(retain_ms: int | None) -> int:
    return FIRST if retain_ms is None else retain_ms // 1_000 - MARKED_S


def see_all(chain: Chain, record: JobRecord, who: str) -> int:
    """Note the blocks of a job's record; return the last place."""
    for version in record.history:
        chain.see(version.number, _mark_of(version.definition.options.retain_ms), who)
    return record.history[-1].number


def read_disk(chain: Chain, host: Host) -> None:
    """Note what an agent that has ended left on its disk."""
    path = host.folder / "state.db"
    with contextlib.closing(sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True)) as sql:
        masters = sql.execute("SELECT * FROM masters").fetchall()
        entries = sql.execute("SELECT * FROM group_entries").fetchall()
    for row in filter(is_whole, masters):
        job = JobRecord.decode(row[1])
        applied = msgspec.msgpack.decode(row[2], type=MasterState).applied
        chain.ends[host.name] = see_all(chain, job, f"the disk of {host.name}")
        made = msgspec.msgpack.encode(job.history)
        chain.states.setdefault((job.tree, applied.index), {}).setdefault(made, host.name)
    for row in filter(is_whole, entries):
        tree, position, term, kind, body = row[:5]
        told = bytes([kind]) + body
        chain.entries.setdefault((tree, position, term), {}).setdefault(told, host.name)


async def _attack(world: World, run: Run, seconds: float) -> None:
    rng = random.Random(world.rng.getrandbits(64))
    chain = Chain()
    faults = Leaders(world, rng.getrandbits(64), chain.confirmed)
    clients = Clients(world, chain, rng.getrandbits(64))
    for host in world.hosts:
        host.skew_ms = rng.randint(-SKEW_MS, SKEW_MS)
    first = world.hosts[:AT_FIRST]
    await asyncio.gather(*(host.start() for host in first))
    await meet(world, first)
    async with asyncio.timeout(PUBLISH_S):
        await Work(world, Truth(), rng.getrandbits(64)).publish(rng.choice(first), JOB)
    clients.begin()
    await faults.rage(seconds)
    await faults.heal()
    healed_s = world.loop.time()
    await world.wait(lambda: _is_confirmed_since(chain, healed_s), RECOVER_S, "a command is confirmed")
    await clients.end()
    await world.wait(lambda: _agree(world), AGREE_S, "members agree")
    run.figures["s to recover"] = round(world.loop.time() - healed_s)
    for host in world.hosts:
        await host.stop()
        read_disk(chain, host)
    run.failures += check_chain(chain)
    run.figures["asked"] = len(chain.blocks)
    run.figures["confirmed"] = chain.confirmed()
    run.figures["copies"] = len(chain.ends)
    run.figures.update(faults.counts)


def _is_confirmed_since(chain: Chain, since_s: float) -> bool:
    return any(block.asked_s > since_s and block.confirmed_s is not None for block in chain.blocks.values())


def _agree(world: World) -> bool:
    """Tell whether there is one leader, and all members of its group have copies that are as far as its own.

    One that listened and was replaced while it was away does not hear of that, and keeps the copy that it had.
    """
    agents = {host.agent.agent_id: host.agent for host in world.up() if host.agent is not None}
    leading = [copy for agent in agents.values() for copy in agent.copies.all() if copy.leads]
    if len(leading) != 1:
        return False
    seats = leading[0].master.state.seats
    members = [agents[seat.agent].copies.get(leading[0].master.app) for seat in seats if seat.agent in agents]
    numbers = [copy.job.history[-1].number for copy in members if copy is not None]
    return len(numbers) == len(members) > AT_FIRST // 2 and set(numbers) == {leading[0].job.history[-1].number}
