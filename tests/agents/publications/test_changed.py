"""A job that is changed while agents fall and learn of it late: no window mixes versions, no label claims too much."""

from __future__ import annotations

import pathlib
from typing import Literal

import pytest

from elf.agents.store.database import Database
from elf.agents.store.panes import Panes
from elf.agents.wire.changes import Kind
from tests.agents.changed import CLASSES, ChangedMachine, ChangedWorld
from tests.agents.plans import plan_of

QUERY = "SELECT product, count(*) AS n {more} FROM clicks {where} GROUP BY product, window(ts, {window})"
#: Intervals of 2, 3 and 1 s.
WINDOWS = ("'4 seconds', '2 seconds'", "'4 seconds', '2 seconds'", "'3 seconds'", "'5 seconds', '1 second'")
Changed = Kind | Literal["stop"]
KINDS: tuple[Changed, ...] = ("update", "update", "reset", "pause", "stop", "rollback")
#: With another aggregate PAOs have other columns; the count is the first one always.
MORE = ("", ", sum(cents) AS cents", ", max(cents) AS most")


def play(world: ChangedWorld, steps: int, pumps: float = 0.05) -> None:
    """Let agents log, read, seal and fall while the job is changed; `pumps`: how often one works."""
    rng, interval_ms = world.rng, world.plan.interval_ms
    world.crash_at_commit = 0.005
    world.start()
    paused = False
    for _ in range(steps):
        world.step()
        machine = rng.choice(world.machines)
        assert isinstance(machine, ChangedMachine)
        if rng.random() < 0.02:
            lag_ms = rng.choice((0, 0, 0, interval_ms // 2, rng.randrange(5 * interval_ms)))
            machine.write(world.now_ms - lag_ms)
        if machine.app is not None and rng.random() < pumps:
            machine.pump(rng.choice((2, 100)))
        if rng.random() < 0.004:
            machine.hear()
        if rng.random() < 0.002:
            kind: Changed = "resume" if paused else rng.choice(KINDS)
            if kind == "rollback" and not world.changes:
                continue
            where = rng.choice(["", *(f"WHERE cents <> {number}" for number in range(CLASSES))])
            query = QUERY.format(more=rng.choice(MORE), where=where, window=rng.choice(WINDOWS))
            world.change(kind, query if kind == "update" else None)
            paused = kind in ("pause", "stop")
        world.disturb()


@pytest.mark.parametrize(("seed", "pumps"), [(2, 0.05), (22, 0.05), (36, 0.05), (25, 0.01), (49, 0.01)])
def test_windows_are_of_one_version_and_labels_know_who_came_late(
    tmp_path: pathlib.Path, seed: int, pumps: float
) -> None:
    """Who works seldom seals many intervals at once, of several versions."""
    plan = plan_of(QUERY.format(more="", where="", window=WINDOWS[0]), lateness_ms=1_000)
    database = Database(tmp_path / "state.db")
    world = ChangedWorld(plan, Panes(database), 3 + seed % 3, seed)
    play(world, 5_000, pumps)
    database.close()
    assert not world.wrong, f"seed {seed}: {world.wrong[0]}"
    assert world.changes > 3 and world.leapt and world.late, "versions came, and some agents learnt too late"
    assert world.renumbered, "some of them with longer or shorter intervals"
