"""One seed: agents, jobs, clients, faults, the end, the verdict.

Owns the course of a run, and that what agents say is wrong with themselves counts, too.
"""

from __future__ import annotations

import asyncio
import functools
import logging
import random
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace

from tests.agents.archive.archived import read_archive
from tests.world.checkers import check_all, check_archive, check_end
from tests.world.disk import is_disk_full
from tests.world.faults import Faults
from tests.world.files import folder_of, numbered_files
from tests.world.loop import WorldLoop
from tests.world.members import Members
from tests.world.reloads import Reloads
from tests.world.rogue import Rogue
from tests.world.truth import LOGGED, PUSHED, JobPlan, Truth
from tests.world.work import Work
from tests.world.world import Host, World

#: How long agents have to find each other, and results to become whole once all is well.
MEET_S, SETTLE_S = 30.0, 120.0
#: It is looked so often whether they are whole.
LOOK_S = 5.0
#: So many hosts keep an archive.
ARCHIVED_SHARE = 0.3
#: Clocks differ by up to so much from the true time, either way.
SKEW_MS = 400


@dataclass
class Run:
    """What came of one seed."""

    seed: int
    agents: int
    failures: list[str] = field(default_factory=list)
    figures: Counter[str] = field(default_factory=Counter)
    digest: str = ""
    virtual_s: float = 0.0
    real_s: float = 0.0

    def line(self) -> str:
        """Say in a line how it went."""
        verdict = f"{len(self.failures)} wrong" if self.failures else "ok"
        figures = ", ".join(f"{count} {what}" for what, count in sorted(self.figures.items()))
        times = f"{self.virtual_s:.0f} s in {self.real_s:.1f} s"
        return f"seed {self.seed}, {self.agents} agents: {verdict}, {times}, digest {self.digest}; {figures}"


class Complaints(logging.Handler):
    """Keeps what agents log of errors that they did not expect."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.heard: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        """Keep a record that has a traceback; that a disk is full is expected."""
        error = record.exc_info[1] if record.exc_info else None
        if error is not None and not is_disk_full(error):
            self.heard.append(f"{record.name}: {record.getMessage()}: {error!r}")


@dataclass(frozen=True, kw_only=True)
class Options:
    """What a seed does not decide: how long faults come, which kinds of them (None: all), which jobs (none: drawn)."""

    seconds: float = 40.0
    faults: tuple[str, ...] | None = None
    jobs: tuple[JobPlan, ...] = ()
    #: So many of the hosts come later; with any, others leave, too, and masters are moved.
    comers: int = 0
    #: The last host's agent is rogue.
    is_betrayed: bool = False
    #: Most children of a node of a tree; None: as shipped, or for every other seed two.
    fan_in_max: int | None = None
    #: People change settings.
    is_reloaded: bool = False

    @property
    def storm(self) -> type[Faults]:
        """What befalls the hosts."""
        if self.is_reloaded:
            return Reloads
        return Rogue if self.is_betrayed else Members if self.comers else Faults


def drawn_jobs(rng: random.Random) -> tuple[JobPlan, ...]:
    """Draw two jobs: one whose late data always comes, and one of any kind."""
    straggler, trees = rng.choice(("late", "mirror", "drop", "void")), rng.choice((1, 1, 2))
    leap_after_ms = rng.choice((1_000, 3_000, 10_000))
    source, others = rng.choice(((PUSHED, LOGGED), (LOGGED, PUSHED)))
    return (
        JobPlan(name="each", source=source, size_ms=2_000, leap_after_ms=leap_after_ms),
        JobPlan(name="other", source=others, size_ms=5_000, straggler=straggler, trees=trees),
    )


def drawn_jobs_of_members(rng: random.Random) -> tuple[JobPlan, ...]:
    """Draw two jobs, of which one may be answered for by each side of a network that is split."""
    each, other = drawn_jobs(rng)
    return replace(each, availability=rng.choice(("exact", "partial"))), other


def play(seed: int, agents: int = 5, options: Options | None = None) -> Run:
    """Run a seed; what goes wrong becomes a failure of the run, never an exception."""
    return run_course(Run(seed, agents), functools.partial(_play, options=options or Options()), "")


def run_course(run: Run, course: Callable[[World, Run], Awaitable[None]], name: str) -> Run:
    """Run what happens to a seed's agents, and end them; `name` tells the folders of several kinds of runs apart."""
    loop = WorldLoop(run.seed)
    complaints, root = Complaints(), logging.getLogger()
    root.addHandler(complaints)
    began_s = time.monotonic()
    try:
        with folder_of(f"{name}{run.seed}-{run.agents}") as folder, numbered_files():
            loop.run(_end_well(World(loop, folder, run.agents), run, complaints, course))
    except Exception as error:
        run.failures.append(f"{type(error).__name__}: {error}")
    finally:
        root.removeHandler(complaints)
    run.failures += loop.errors
    run.digest, run.virtual_s, run.real_s = loop.digest, loop.time(), time.monotonic() - began_s
    return run


async def _end_well(
    world: World, run: Run, complaints: Complaints, course: Callable[[World, Run], Awaitable[None]]
) -> None:
    try:
        await course(world, run)
    finally:
        run.failures += complaints.heard
        await world.close()
        complaints.heard.clear()


async def _play(world: World, run: Run, options: Options) -> None:
    rng = random.Random(world.rng.getrandbits(64))
    truth = Truth()
    work = Work(world, truth, rng.getrandbits(64))
    storm = options.storm(world, truth, rng.getrandbits(64), options.faults)
    for host in world.hosts:
        host.skew_ms = rng.randint(-SKEW_MS, SKEW_MS)
        host.is_archived = rng.random() < ARCHIVED_SHARE
    world.fan_in_max = options.fan_in_max or (2 if run.seed % 2 else 16)
    first = world.hosts[: len(world.hosts) - options.comers]
    await asyncio.gather(*(host.start() for host in first))
    await meet(world, first)
    work.begin()
    for job in options.jobs or (drawn_jobs_of_members(rng) if options.comers else drawn_jobs(rng)):
        await work.publish(rng.choice(first), job)
    await storm.rage(options.seconds)
    await storm.heal()
    await work.rest()
    run.figures["s to settle"] = round(await _settle(world, work))
    await work.end()
    run.failures += check_all(truth)
    run.failures += _check_audits(world, run, options)
    for host in world.hosts:
        if host.is_archived and not host.is_gone and not run.failures:
            await host.stop()
            for source in (PUSHED, LOGGED):
                archived = read_archive(host.folder / "archive", source)
                numbers = archived["number"].to_list() if archived.height else []
                run.failures += check_archive(truth, source, host.name, numbers)
    run.figures["events"] = len(truth.events)
    run.figures["answers"] = len(truth.answers)
    run.figures.update(storm.counts)
    run.figures.update(work.errors)


def _check_audits(world: World, run: Run, options: Options) -> list[str]:
    """Check that nobody was found to alter what it merges who did not, whatever befell it."""
    rogue = world.hosts[-1].contact.address if options.is_betrayed else ""
    wrong: list[str] = []
    for host, findings in world.audits():
        run.figures.update({f"audits {outcome}": count for outcome, count in findings.counts.items() if count})
        found = {each.address for _, each in findings.found()} - {rogue}
        wrong += [f"{host.name} has shut {address} out of a tree" for address in sorted(found)]
        if findings.counts["wrong"] and not rogue:
            wrong.append(f"{host.name} found {findings.counts['wrong']} claims wrong")
    return wrong


async def meet(world: World, hosts: Sequence[Host]) -> None:
    """Wait until some hosts' agents know each other."""

    def have_met() -> bool:
        return all(host.agent and len(host.agent.node.contacts()) == len(hosts) - 1 for host in hosts)

    await world.wait(have_met, MEET_S, "agents meet")


async def _settle(world: World, work: Work) -> float:
    """Ask for all windows until every one is closed and whole, or time is up; return how long it took."""
    began_s = world.loop.time()
    while True:
        await asyncio.sleep(LOOK_S)
        await work.ask_for_all()
        took_s = world.loop.time() - began_s
        if not check_end(work.truth) or took_s > SETTLE_S:
            return took_s
