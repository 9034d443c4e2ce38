"""Many nodes in virtual time: they join, fall, stand still, come back with their disk, and one seed is one run."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from elf.overlay.ids import app_id, partition_id
from elf.overlay.sim.checkers import check_settled, measure
from elf.overlay.sim.loop import SimLoop
from tests.sweep.checkers import check_edges
from tests.sweep.machines import Cluster
from tests.sweep.run import run

APP = app_id("job", "shop")


def simulate(scenario: Callable[[Cluster], Coroutine[Any, Any, None]], seed: int = 1, **settings: int) -> SimLoop:
    loop = SimLoop(seed)
    loop.run(scenario(Cluster(loop, **settings)))
    assert loop.errors == []
    return loop


async def grown(cluster: Cluster, count: int) -> None:
    await cluster.grow(count)
    for machine in cluster.machines:
        machine.join_tree(APP, member=True)
    await cluster.wait(lambda: not check_settled(cluster, APP), 5.0)


def test_a_tree_that_grew_deep_because_all_started_at_once_becomes_flat() -> None:
    async def scenario(cluster: Cluster) -> None:
        [first] = await cluster.grow(1)
        fresh = [cluster.add() for _ in range(39)]
        starts = [machine.start([first.contact]) for machine in fresh]
        await cluster.wait(lambda: all(machine.node is not None for machine in fresh), 1.0, 0.0005)
        for machine in cluster.machines:
            machine.join_tree(APP, member=True)
        await asyncio.gather(*starts)
        await cluster.wait(lambda: not check_settled(cluster, APP), 60.0)
        deep = measure(cluster, APP)
        await asyncio.sleep(60.0)
        assert check_settled(cluster, APP) == check_edges(cluster, APP, 16) == []
        flat = measure(cluster, APP)
        assert deep.depth > flat.depth
        assert flat.depth <= 6
        await asyncio.sleep(60.0)
        joins = cluster.sent()["Join"]
        await asyncio.sleep(60.0)
        assert cluster.sent()["Join"] == joins, "it rests once it is flat"

    for seed in (1, 2):
        simulate(scenario, seed)


def test_the_trees_of_a_partitioned_job_have_their_own_roots_and_outlive_each_others() -> None:
    """Every agent is a member of all m trees; the work of a root falls on m agents instead of one."""

    async def scenario(cluster: Cluster) -> None:
        await cluster.grow(40)
        trees = [partition_id(APP, partition) for partition in range(8)]
        for tree in trees:
            root = cluster.closest(tree).contact
            for machine in cluster.machines:
                machine.join_tree(tree, member=True, root=root)

        def wrong() -> list[str]:
            return [
                why
                for tree, root in zip(trees, roots, strict=True)
                if root.is_up
                for why in [*check_settled(cluster, tree, root.contact), *check_edges(cluster, tree, 16)]
            ]

        roots = [cluster.closest(tree) for tree in trees]
        await cluster.wait(lambda: not wrong(), 5.0)
        assert roots[0] is cluster.closest(APP), "the job's own tree is the first of them"
        assert len(set(roots)) >= 6
        roots[0].crash()
        await cluster.wait(lambda: not wrong(), 10.0)
        await roots[0].restart()
        await cluster.wait(lambda: not wrong(), 10.0)

    simulate(scenario)


@pytest.mark.parametrize("silent", [False, True])
def test_a_tree_closes_over_a_dead_root_and_takes_it_back(silent: bool) -> None:
    async def scenario(cluster: Cluster) -> None:
        await grown(cluster, 12)
        root = cluster.closest(APP)
        root.crash(silent=silent)
        await cluster.wait(lambda: not check_settled(cluster, APP), 20.0)
        assert cluster.closest(APP) is not root
        await root.restart()
        await cluster.wait(lambda: not check_settled(cluster, APP), 60.0)
        assert cluster.closest(APP) is root

    simulate(scenario)


def test_a_paused_agent_is_given_up_and_finds_back() -> None:
    async def scenario(cluster: Cluster) -> None:
        await grown(cluster, 8)
        leaf = next(m for m in cluster.machines if m.node is not None and not m.node.tree(APP).children)
        assert leaf.node is not None
        parent = leaf.node.tree(APP).parent
        assert parent is not None
        above = cluster.by_id[parent.id].node
        assert above is not None
        leaf.pause()
        sent = leaf.links.counters["frames_out"] if leaf.links is not None else 0
        await cluster.wait(lambda: leaf.contact not in above.tree(APP).children, 10.0)
        assert leaf.links is not None and leaf.links.counters["frames_out"] == sent, "it says nothing"
        leaf.resume()
        await cluster.wait(lambda: not check_settled(cluster, APP), 20.0)

    simulate(scenario)


def test_two_halves_are_two_trees_and_then_one_again() -> None:
    async def scenario(cluster: Cluster) -> None:
        await grown(cluster, 10)
        left = {machine.address for machine in cluster.machines[:5]}
        cluster.loop.cut = lambda source, target: (source in left) != (target in left)
        await asyncio.sleep(30)
        roots = [m for m in cluster.machines if m.node is not None and m.node.tree(APP).role == "root"]
        assert {machine.address in left for machine in roots} == {True, False}
        cluster.loop.cut = None
        await cluster.wait(lambda: not check_settled(cluster, APP), 120.0)

    simulate(scenario)


def test_clocks_apart_by_ten_seconds_change_nothing() -> None:
    async def scenario(cluster: Cluster) -> None:
        await grown(cluster, 12)
        assert len({machine.clock() for machine in cluster.machines}) > 1
        await asyncio.sleep(20)
        assert check_settled(cluster, APP) == []

    simulate(scenario, skew_ms=10_000)


SCRIPT = "from tests.sweep.run import run; print(run('faults', 3, agents=7, minutes=0.2).digest)"


def test_one_seed_is_one_run_whatever_the_hash_seed() -> None:
    def digest(hash_seed: str) -> str:
        environment = dict(os.environ, PYTHONHASHSEED=hash_seed)
        done = subprocess.run([sys.executable, "-c", SCRIPT], env=environment, check=True, capture_output=True)
        return done.stdout.decode().strip()

    first = digest("1")
    assert first == digest("2") == run("faults", 3, agents=7, minutes=0.2).digest
    assert first != run("faults", 4, agents=7, minutes=0.2).digest
