"""Labels are never optimistic: at no commit, whatever comes late, is leapt, lost on its way or restarted."""

from __future__ import annotations

import pathlib
from typing import Any

import pytest

from elf.agents.jobs.plan import Plan
from elf.agents.store.database import Database
from elf.agents.store.panes import Panes
from elf.agents.worker.snapshot_size import Fitted, fit
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
        world.disturb()
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
        _hold(plan, tmp_path, seed, busy)


def _hold(plan: Plan, folder: pathlib.Path, seed: int, busy: float) -> None:
    database = Database(folder / str(seed) / "state.db")
    world = play(plan, Panes(database), seed, busy=busy)
    database.close()
    assert not world.wrong, f"seed {seed}: {world.wrong[0]}"
    assert world.counted and world.leapt and world.corrected, "something was leapt over, and brought later"


def _waits(monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path, query: str, options: str) -> None:
    """Play worlds in which something that is owed has to wait for a later snapshot."""
    waited = 0

    def watched(*given: Any) -> Fitted:
        nonlocal waited
        fitted = fit(*given)
        waited += bool(fitted.owed)
        return fitted

    monkeypatch.setattr("elf.agents.worker.worker.fit", watched)
    plan = plan_of(query, lateness_ms=1_000, options=options)
    for seed in range(50, 52):
        _hold(plan, tmp_path, seed, 0.02)
    assert waited, "something that was owed had to wait for a later snapshot"


@pytest.mark.parametrize(
    ("query", "options", "bytes_max"),
    [(WINDOWED, "", 260), (*TOTAL, 190)],
)
def test_it_is_so_where_a_message_has_no_room_for_all_that_is_late(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, query: str, options: str, bytes_max: int
) -> None:
    monkeypatch.setattr("elf.agents.worker.snapshot_size.SNAPSHOT_BYTES_MAX", bytes_max)
    _waits(monkeypatch, tmp_path, query, options)


def test_it_is_so_where_late_intervals_are_brought_one_at_a_time(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for bound, most in (("LATE_MIN", 1), ("LATE_PER_S", 0), ("LATE_OLD_MAX", 1)):
        monkeypatch.setattr(f"elf.agents.worker.snapshot_size.{bound}", most)
    _waits(monkeypatch, tmp_path, WINDOWED, "")
