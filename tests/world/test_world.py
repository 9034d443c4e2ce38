"""A few seeds of the World with all faults, and the same digest whatever the process hashes with."""

from __future__ import annotations

import asyncio
import os
import pathlib
import subprocess
import sys

import pytest

from elf.overlay.rollup.words import Words
from tests.world import trials
from tests.world.checkers import check_all
from tests.world.faults import Faults
from tests.world.trials import Options, Run, meet, play, run_course
from tests.world.truth import LOGGED, JobPlan, Truth
from tests.world.work import Work
from tests.world.world import World

ROOT = pathlib.Path(__file__).parents[2]
#: Long enough for a few faults.
SECONDS = 8.0


def passed(seed: int, agents: int = 5, options: Options | None = None) -> Run:
    run = play(seed, agents, options)
    assert run.failures == [], run.line()
    return run


@pytest.mark.parametrize("seed", range(1, 4))
def test_all_faults(seed: int) -> None:
    run = passed(seed)
    assert run.figures["events"] > 200
    assert sum(run.figures[kind] for kind in set(Faults.KINDS)) > 10


@pytest.mark.parametrize("seed", [2, 3])
def test_all_faults_while_agents_come_and_go(seed: int) -> None:
    run = passed(seed, 7, Options(seconds=25.0, comers=2))
    assert run.figures["join"] and run.figures["drain"] and run.figures["retired"] and run.figures["hand_over"]


@pytest.mark.parametrize("seed", [1, 4])
def test_all_faults_while_settings_are_changed(seed: int) -> None:
    run = passed(seed, 5, Options(is_reloaded=True))
    assert run.figures["taken"] and run.figures["refused"]


@pytest.mark.parametrize("seed", [1, 3])
def test_all_faults_with_a_rogue_among_the_agents(seed: int) -> None:
    run = passed(seed, 5, Options(is_betrayed=True))
    assert run.figures["claim"] and run.figures["record"]


def test_a_rogue_is_noticed_where_agents_are_believed_without_a_word(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Words, "believed", lambda self, claim, **_: claim)
    monkeypatch.setattr(trials, "SETTLE_S", 20.0)
    kinds = ("claim", "crash")
    assert any(play(seed, 5, Options(faults=kinds, is_betrayed=True)).failures for seed in range(1, 6))


def test_calm_agents_count_everything_at_once() -> None:
    run = passed(1, 3, Options(seconds=SECONDS, faults=()))
    assert run.figures["UnavailableError"] <= 3, "while the job begins"


def test_an_agent_whose_clock_is_behind_comes_back_once_it_was_leapt_over() -> None:
    """Each interval is counted before it has come to its end there: it would never be in one again."""

    async def course(world: World, run: Run) -> None:
        truth = Truth()
        work, behind = Work(world, truth, seed=3), world.hosts[2]
        behind.skew_ms = -700
        await world.start()
        await meet(world, world.hosts)
        await work.publish(world.hosts[0], JobPlan(name="each", source=LOGGED, size_ms=2_000, leap_after_ms=1_000))
        for tenths in range(200):
            # While its log is not there it cannot say how far it is, and is leapt over.
            for host in world.hosts if tenths > 60 else world.hosts[:2]:
                work.log(host, 1)
            await asyncio.sleep(0.1)
        await asyncio.sleep(10)
        await work.ask_for_all()
        await work.end()
        run.failures += check_all(truth)

    run = run_course(Run(seed=1, agents=3), course, "behind-")
    assert run.failures == [], run.line()


def digest(seed: int, agents: int, hashed: str) -> str:
    command = [sys.executable, "-m", "tests.world", "--seeds", f"{seed}", "--agents", f"{agents}"]
    environment = {**os.environ, "PYTHONHASHSEED": hashed, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [*command, "--seconds", f"{SECONDS}"], env=environment, cwd=ROOT, capture_output=True, text=True, check=True
    )
    return done.stdout.partition("digest ")[2].partition(";")[0]


@pytest.mark.parametrize("agents", [1, 3, 5, 12])
def test_a_seed_is_one_run_whatever_is_hashed(agents: int) -> None:
    first, second = digest(2, agents, "1"), digest(2, agents, "2")
    assert len(first) == 32
    assert first == second
