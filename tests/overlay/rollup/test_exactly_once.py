"""The closing rule: after faults stop, every snapshot of every agent is in exactly one commit."""

from __future__ import annotations

import pytest

from tests.overlay.harness import World


def run(
    seed: int,
    *,
    count: int,
    faults: float,
    intervals: int = 30,
    crash_at_commit: float = 0.0,
    straggler: str = "late",
    retirements: float = 0.0,
    replicas: float = 0.0,
    leaps: float = 0.0,
) -> World:
    world = World(count, seed, root=seed % count, members=[i for i in range(count) if i % 5 != 4])
    world.crash_at_commit, world.straggler, world.retirements = crash_at_commit, straggler, retirements
    world.replicas = replicas
    world.start()
    sealed = dict.fromkeys(world.members, 0)
    while min(sealed.values()) < intervals:
        world.step()
        index = world.rng.choice(sorted(world.members))
        machine = world.machines[index]
        if machine.app is not None and sealed[index] < intervals and world.rng.random() < 0.05:
            sealed[index] += world.rng.choice((1, 1, 1, 3))
            world.produce(machine, sealed[index])
        if world.rng.random() < leaps and machine.app is not None and machine.app.rollup is not None:
            # Said at the root, or heard of it, sooner or later, anywhere else.
            through = None if machine.app.rollup.ledger is not None else max(sealed.values())
            machine.run(machine.app.rollup.leap(through, world.now_ms)[2])
        if world.rng.random() < faults:
            world.cut(*world.rng.sample(range(count), 2))
        if world.rng.random() < faults / 2:
            world.crash(world.rng.choice(world.machines))
    heal(world)
    return world


def heal(world: World) -> None:
    """Stop the faults and let everyone seal until nothing waits any more."""
    world.crash_at_commit = world.retirements = 0.0
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
            apps = [machine.app for machine in world.machines if machine.app is not None]
            assert not [app for app in apps if app.rollup is not None and app.rollup.words.refused], "all spoke truly"
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


@pytest.mark.parametrize("seed", range(10))
def test_exactly_once_where_stragglers_are_leapt_over_by_hand(seed: int) -> None:
    world = run(300 + seed, count=3 + seed % 6, faults=0.001, leaps=0.05)
    assert world.counted() == world.produced


@pytest.mark.parametrize("seed", range(20))
def test_exactly_once_with_crashes_between_store_and_answer(seed: int) -> None:
    world = run(100 + seed, count=3 + seed % 5, faults=0.001, crash_at_commit=0.02)
    assert world.counted() == world.produced


@pytest.mark.parametrize("seed", range(30))
def test_exactly_once_when_agents_are_retired_whether_they_are_gone_or_not(seed: int) -> None:
    world = run(200 + seed, count=2 + seed % 7, faults=0.002, crash_at_commit=0.01, retirements=0.002)
    assert world.counted() == world.produced


@pytest.mark.parametrize("seed", range(40))
def test_exactly_once_when_others_answer_for_an_agent_with_copies(seed: int) -> None:
    world = run(
        400 + seed, count=2 + seed % 7, faults=0.003, crash_at_commit=0.01, retirements=0.001 * (seed % 2), replicas=0.7
    )
    assert world.counted() == world.produced


def test_a_copy_answers_for_an_agent_that_is_gone_with_its_disk() -> None:
    world = World(3, 7, root=0)
    world.replicas, owner = 1.0, world.machines[2]
    world.start()
    for machine in world.machines:
        if machine.app is None:
            world.restart(machine)
    for _ in range(2_000):
        world.step()
    world.copies.clear()
    items = {machine.index: [f"{machine.name}#x@5"] for machine in world.machines}
    owner.seal(5, items[2])
    claim = next(copy for _, copy in world.copies if copy.agents == (owner.name,))
    world.copies.clear()
    world.crash(owner)
    del world.down_until[owner.index]
    for pair in [pair for pair in world.links if owner.index in pair]:
        world.links[pair] = type(world.links[pair])([None] if None in world.links[pair] else [])
    world.copies = [(1, claim)]
    world.answer_for()
    for index in (0, 1):
        world.machines[index].seal(5, items[index])
    for _ in range(3_000):
        world.step()
    assert set(world.counted()) == {item for sealed in items.values() for item in sealed}


@pytest.mark.parametrize("straggler", ["drop", "void"])
@pytest.mark.parametrize("seed", range(30))
def test_what_a_leap_drops_is_what_the_labels_name(seed: int, straggler: str) -> None:
    retirements = 0.002 if seed % 3 == 0 else 0.0
    world = run(
        300 + seed,
        count=2 + seed % 7,
        faults=0.003,
        crash_at_commit=0.01,
        straggler=straggler,
        retirements=retirements,
    )
    counted = world.counted()
    assert not counted - world.produced, "nothing is counted twice"
    lost = world.produced - counted
    for item in lost:
        missing = world.commit_of(item).missing
        assert missing if straggler == "void" else item.split("#")[0] in missing, f"{item} is lost and nobody says so"
    if straggler == "void":
        assert not any(world.commit_of(item).missing for item in counted), "no result lacks a part"


def test_dropping_does_drop() -> None:
    """The test above would hold, too, if nobody were ever leapt."""
    worlds = [run(seed, count=5, faults=0.01, straggler="drop") for seed in range(300, 306)]
    assert any(world.produced - world.counted() for world in worlds)
