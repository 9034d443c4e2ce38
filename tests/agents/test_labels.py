"""Labels are never optimistic: at no commit, whatever comes late, is leapt, lost on its way or restarted."""

from __future__ import annotations

import pathlib

import pytest

from agents.jobs.plan import Plan
from agents.store.database import Database
from agents.store.panes import Panes
from tests.agents.labelled import LabelWorld
from tests.agents.plans import CUMULATIVE, WINDOWED, plan_of

TOTAL = CUMULATIVE, 'interval = "1s"'


def play(plan: Plan, store: Panes, seed: int, *, steps: int = 5_000, busy: float = 0.02) -> LabelWorld:
    """Let agents that are leapt over at once log, read, seal and fall; returns the world with what was wrong.

    Args:
        plan: of the job; its keys are the names of events.
        store: for the master.
        seed: of everything that is drawn.
        steps: how long.
        busy: how often an event is logged; some in time, some late by up to five intervals.
    """
    world = LabelWorld(plan, store, 3 + seed % 3, seed)
    world.crash_at_commit = 0.005
    rng, interval_ms = world.rng, plan.interval_ms
    world.start()
    for _ in range(steps):
        world.step()
        machine = rng.choice(world.machines)
        if rng.random() < busy:
            lag_ms = rng.choice((0, 0, 0, interval_ms // 2, rng.randrange(5 * interval_ms)))
            machine.write(world.now_ms - lag_ms)
        if machine.app is not None and rng.random() < 0.05:
            machine.pump(rng.choice((2, 100)))
        if rng.random() < 0.02:
            world.spread_news()
        if rng.random() < 0.001:
            world.cut(*rng.sample(range(len(world.machines)), 2))
        if rng.random() < 0.002:
            world.crash(rng.choice(world.machines))
        if rng.random() < 0.001:
            world.move_root()
    return world


@pytest.mark.parametrize(
    ("query", "options", "busy", "seeds"),
    [
        (WINDOWED, "", 0.02, range(3)),
        (WINDOWED, "", 0.004, range(10, 11)),
        (WINDOWED, 'straggler = "drop"', 0.02, range(20, 21)),
        (WINDOWED, 'straggler = "void"', 0.02, range(30, 31)),
        (*TOTAL, 0.02, range(40, 42)),
    ],
)
def test_what_a_label_does_not_name_is_in_the_rows(
    tmp_path: pathlib.Path, query: str, options: str, busy: float, seeds: range
) -> None:
    plan = plan_of(query, lateness_ms=1_000, options=options)
    for seed in seeds:
        database = Database(tmp_path / str(seed) / "state.db")
        world = play(plan, Panes(database), seed, busy=busy)
        database.close()
        assert not world.wrong, f"seed {seed}: {world.wrong[0]}"
        assert world.counted and world.leapt and world.corrected, "something was leapt over, and brought later"
