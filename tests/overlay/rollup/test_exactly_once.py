"""The closing rule: after faults stop, every snapshot of every agent is in exactly one commit."""

from __future__ import annotations

import pytest

from tests.overlay.harness import World


def run(seed: int, *, count: int, faults: float, intervals: int = 30, crash_at_commit: float = 0.0) -> World:
    world = World(count, seed, root=seed % count, members=[i for i in range(count) if i % 5 != 4])
    world.crash_at_commit = crash_at_commit
    world.start()
    sealed = dict.fromkeys(world.members, 0)
    while min(sealed.values()) < intervals:
        world.step()
        index = world.rng.choice(sorted(world.members))
        machine = world.machines[index]
        if machine.app is not None and sealed[index] < intervals and world.rng.random() < 0.05:
            sealed[index] += world.rng.choice((1, 1, 1, 3))
            world.produce(machine, sealed[index])
        if world.rng.random() < faults:
            world.cut(*world.rng.sample(range(count), 2))
        if world.rng.random() < faults / 2:
            world.crash(world.rng.choice(world.machines))
    heal(world)
    return world


def heal(world: World) -> None:
    """Stop the faults and let everyone seal until nothing waits any more."""
    world.crash_at_commit = 0.0
    through = 1_000
    for _ in range(60):
        through += 1
        for index in sorted(world.members):
            machine = world.machines[index]
            if machine.app is not None:
                machine.seal(through, [])
        for _ in range(400 * len(world.machines)):
            world.step()
        rest = [m for m in world.machines if m.app is None or m.store.carry or any(m.store.snapshots.values())]
        if not rest:
            return
    state = [
        (m.name, m.app and m.app.tree.view().role, m.store.settled, m.store.snapshots, m.store.carry) for m in rest
    ]
    raise AssertionError(f"not settled at the end: {state}")


@pytest.mark.parametrize("seed", range(12))
def test_exactly_once_without_faults_and_without_leaps(seed: int) -> None:
    world = run(seed, count=2 + seed % 7, faults=0.0)
    assert world.counted() == world.produced


@pytest.mark.parametrize("seed", range(40))
def test_exactly_once_with_cut_links_and_crashes(seed: int) -> None:
    world = run(seed, count=2 + seed % 8, faults=0.003)
    assert world.counted() == world.produced


@pytest.mark.parametrize("seed", range(20))
def test_exactly_once_with_crashes_between_store_and_answer(seed: int) -> None:
    world = run(100 + seed, count=3 + seed % 5, faults=0.001, crash_at_commit=0.02)
    assert world.counted() == world.produced
