"""A few seeds of the World with all faults, and the same digest whatever the process hashes with."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys

import pytest

from tests.world.faults import Faults
from tests.world.trials import Options, Run, play

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


def test_calm_agents_count_everything_at_once() -> None:
    run = passed(1, 3, Options(seconds=SECONDS, faults=()))
    assert run.figures["UnavailableError"] <= 3, "while the job begins"


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
