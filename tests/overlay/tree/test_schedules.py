"""Trees under random schedules: cut links, crashes, restarts, lies, messages that arrive twice and out of order.

After every step each machine asserts its own invariants (I7, I8); once the faults stop there must be one tree.
"""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from elf.overlay.ids import distance
from elf.overlay.tree.machine import Role
from tests.overlay.harness import APP, Machine, World

#: Time in which all must be repaired: a false root doubts itself every 30 s, an edge of one end lasts 15 s.
HEAL_MS = 90_000


def disturb(world: World, steps: int, faults: float) -> None:
    world.start()
    count = len(world.machines)
    for _ in range(steps):
        world.step()
        if world.rng.random() < faults:
            world.cut(*world.rng.sample(range(count), 2))
        if world.rng.random() < faults / 2:
            world.crash(world.rng.choice(world.machines))


def heal(world: World) -> None:
    world.echoes = world.lies = 0.0
    end_ms = world.now_ms + HEAL_MS
    while world.now_ms < end_ms:
        for _ in range(200):
            world.step()
        if strays(world) == []:
            return
    raise AssertionError(f"not one tree: {strays(world)}")


def strays(world: World) -> list[object]:
    """Say what is wrong, from outside: who has no way to the root, which edges one end alone believes in."""
    wrong: list[object] = [f"{machine.name} is down" for machine in world.machines if machine.app is None]
    if wrong:
        return wrong
    root = world.root if world.root is not None else min(range(len(world.machines)), key=lambda i: away(world, i))
    for machine in world.machines:
        tree = tree_of(machine)
        if machine.index in world.members or tree.role is not Role.OUT:
            at, hops = tree, 0
            while at.parent is not None and hops <= len(world.machines):
                above = tree_of(world.machines[world.index_of[at.parent.peer.id]])
                if not above.edges.is_child(at.me, at.parent.epoch):
                    wrong.append(f"{above.me} does not know its child {at.me}")
                at, hops = above, hops + 1
            if at.me != world.machines[root].contact or at.role is not Role.ROOT:
                wrong.append(f"{machine.name} ends at {at.me} ({at.role}) after {hops} hops")
        for edge in tree.children.values():
            below = tree_of(world.machines[world.index_of[edge.peer.id]])
            if not below.edges.is_parent(tree.me, edge.epoch):
                wrong.append(f"{tree.me} believes in its child {edge.peer}")
    return wrong


def away(world: World, index: int) -> int:
    """Return the distance to the key, members before all others, who join only as forwarders."""
    far = distance(world.machines[index].contact.id, APP)
    return far if world.root is None and tree_of(world.machines[index]).role is not Role.OUT else far + (1 << 160)


def tree_of(machine: Machine):  # type: ignore[no-untyped-def]
    assert machine.app is not None
    return machine.app.tree


def schedule(
    seed: int, count: int, fan_in_max: int, *, root: int | None, faults: float, echoes: float, lies: float = 0
) -> World:
    world = World(count, seed, root=root, members=[i for i in range(count) if i % 5 != 4])
    world.fan_in_max = fan_in_max
    world.echoes, world.lies = echoes, lies
    disturb(world, 4_000, faults)
    heal(world)
    return world


@pytest.mark.parametrize("seed", range(10))
def test_a_small_fan_in_makes_one_deep_tree(seed: int) -> None:
    world = schedule(seed, 12, 2, root=seed % 12, faults=0.0, echoes=0.0)
    assert max(len(tree_of(machine).children) for machine in world.machines) <= 2


@pytest.mark.parametrize("recorded", [True, False], ids=["recorded", "rendezvous"])
@pytest.mark.parametrize("seed", range(20))
def test_one_tree_after_cut_links_and_crashes(seed: int, recorded: bool) -> None:
    schedule(seed, 4 + seed % 8, 2 + seed % 2, root=seed % 4 if recorded else None, faults=0.004, echoes=0.0)


@pytest.mark.parametrize("recorded", [True, False], ids=["recorded", "rendezvous"])
@pytest.mark.parametrize("seed", range(20))
def test_one_tree_after_messages_that_came_twice_and_out_of_order(seed: int, recorded: bool) -> None:
    schedule(seed, 4 + seed % 8, 2 + seed % 2, root=seed % 4 if recorded else None, faults=0.002, echoes=0.05)


@pytest.mark.parametrize("recorded", [True, False], ids=["recorded", "rendezvous"])
@pytest.mark.parametrize("seed", range(20))
def test_lies_about_edges_make_no_cycle_and_no_lasting_harm(seed: int, recorded: bool) -> None:
    schedule(seed, 4 + seed % 8, 2 + seed % 2, root=seed % 4 if recorded else None, faults=0.001, echoes=0.02, lies=0.1)


@settings(max_examples=40)
@given(
    st.integers(0, 1 << 32),
    st.integers(2, 10),
    st.integers(2, 4),
    st.booleans(),
    st.sampled_from((0.0, 0.001, 0.01)),
    st.sampled_from((0.0, 0.02, 0.2)),
    st.sampled_from((0.0, 0.02, 0.2)),
)
def test_one_tree_after_any_schedule(
    seed: int, count: int, fan_in_max: int, recorded: bool, faults: float, echoes: float, lies: float
) -> None:
    root = seed % count if recorded else None
    schedule(seed, count, fan_in_max, root=root, faults=faults, echoes=echoes, lies=lies)
