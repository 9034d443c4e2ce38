"""Whatever befalls a job, each durable step is one that the model allows; in the end everything is counted."""

from __future__ import annotations

import pytest

from tests.overlay.rollup.modelled import ModelWorld


def play(
    seed: int,
    *,
    count: int,
    faults: float = 0.003,
    changes: float = 0.0,
    crash_at_commit: float = 0.01,
    steps: int = 0,
    **settings: int,
) -> ModelWorld:
    """Let machines work under faults, heal, and demand that everything is counted; the model watches all along."""
    world = ModelWorld(count, seed, changes=changes)
    world.crash_at_commit = crash_at_commit
    for name, value in settings.items():
        setattr(world, name, value)
    world.start()
    sealed = 0
    for number in range(steps or 1_500 * count):
        world.step()
        machine = world.rng.choice(world.machines)
        if machine.app is not None and world.rng.random() < 0.02:
            world.produce(machine, number // 100)
            sealed += 1
        if world.rng.random() < faults:
            world.cut(*world.rng.sample(range(count), 2))
        if world.rng.random() < faults / 2:
            world.crash(world.rng.choice(world.machines))
        if number % 500 == 0:
            world.model.check()
    assert sealed
    heal(world)
    return world


def heal(world: ModelWorld) -> None:
    """Stop all faults and changes, and let everyone seal until nothing waits any more."""
    world.crash_at_commit = world.changes = 0.0
    through = 1_000_000
    for _ in range(60):
        through += 1
        for machine in world.machines:
            if machine.app is not None and machine.member and not machine.succeeds:
                machine.seal(through, [])
        for _ in range(400 * len(world.machines)):
            world.step()
        world.model.check()
        if not world.model.rest() and all(machine.app is not None for machine in world.machines):
            return
    raise AssertionError(f"not settled in the end: {sorted(world.model.rest())[:5]}")


@pytest.mark.parametrize("seed", range(12))
def test_every_step_is_allowed_under_crashes_and_cut_links(seed: int) -> None:
    play(seed, count=2 + seed % 7)


@pytest.mark.parametrize("seed", range(40))
def test_every_step_is_allowed_while_roots_members_and_the_definition_change(seed: int) -> None:
    world = play(seed, count=2 + seed % 7, changes=0.002)
    assert world.model.counted
