"""The shape of whole trees and what building them costs, at the sizes and bounds the overlay promises.

The contacts are those of settled routing tables: 20 at random of each level. Measured with everyone joining at once,
half of the trees with a recorded root, mean and worst of 80 trees at 20 agents, 60 at 300, 20 at 1,280, 10 at 2,000:

    agents   depth      hops to the root   JOINs a member   settled after
        20   2.3 / 4    1.6 / 3.6          1.00 / 1.10      1 / 2 ms
       300   4.1 / 6    2.6 / 3.6          1.17 / 1.32      3 / 4 ms
     1,280   5.0 / 6    3.2 / 3.7          1.21 / 1.27      4 / 5 ms
     2,000   5.4 / 7    3.3 / 4.0          1.20 / 1.24      4 / 5 ms

No tree of 1,280 with at most 16 children a node has fewer than 2.77 hops in the mean.
"""

from __future__ import annotations

import pytest

from elf.overlay.tree.machine import Role
from tests.overlay.tree.forest import Figures, Forest


def grow(count: int, seed: int, within_ms: int = 0, **options: bool) -> tuple[Forest, Figures]:
    forest = Forest(count, seed, check=True, **options)
    forest.join_all(within_ms)
    forest.run_for(within_ms + 10_000)
    return forest, forest.figures()


@pytest.mark.parametrize("recorded", [False, True], ids=["rendezvous", "recorded"])
@pytest.mark.parametrize(("count", "seeds"), [(20, 10), (300, 5), (1_280, 2)])
def test_trees_are_flat_narrow_and_cheap_to_join(count: int, seeds: int, recorded: bool) -> None:
    for seed in range(seeds):
        _, figures = grow(count, seed, recorded=recorded)
        assert figures.depth <= 7, (seed, figures)
        assert figures.fan_in <= 16, (seed, figures)
        assert figures.joins_per_member <= 1.3, (seed, figures)
        assert figures.hops_mean <= 4.4, (seed, figures)


@pytest.mark.parametrize(("count", "seed"), [(20, 3), (300, 4), (1_280, 5)])
def test_agents_that_come_one_after_another_build_the_same_kind_of_tree(count: int, seed: int) -> None:
    _, figures = grow(count, seed, within_ms=20_000)
    assert figures.depth <= 7
    assert figures.joins_per_member <= 1.3


def test_two_thousand_joins_at_once_settle_within_ten_seconds() -> None:
    _, figures = grow(2_000, 6)
    assert figures.settled_ms <= 10_000
    assert figures.depth <= 7
    assert figures.joins_per_member <= 1.3


def test_an_idle_tree_is_nearly_silent() -> None:
    forest, before = grow(300, 7)
    forest.run_for(60_000)
    assert before.joins <= forest.figures().joins <= before.joins + 300 * 0.05, "few find a place higher up"
    forest.messages.clear()
    forest.run_for(60_000)
    assert set(forest.messages) == {"Heartbeat"}
    assert forest.messages["Heartbeat"] <= 300 * 2 * (60 / 5 + 1)


@pytest.mark.parametrize("seed", [8, 9])
def test_a_tree_is_repaired_at_once_when_agents_crash(seed: int) -> None:
    forest, before = grow(300, seed)
    inner = [tree.me for tree in forest.trees.values() if tree.children and tree.role is not Role.ROOT]
    victims = forest.rng.sample(inner, 10)
    orphans = sum(len(forest.trees[victim.id].children) for victim in victims)
    forest.messages.clear()
    for victim in victims:
        forest.crash(victim)
    forest.run_for(3_000)
    assert not forest.orphans()
    after = forest.figures()
    assert after.depth <= max(7, before.depth + 2)
    assert after.joins <= 3 * orphans


def test_a_rendezvous_root_that_crashes_is_succeeded_by_the_next_closest() -> None:
    forest, _ = grow(300, 10)
    root = next(tree.me for tree in forest.trees.values() if tree.role is Role.ROOT)
    forest.crash(root)
    forest.run_for(40_000)
    assert not forest.orphans()
    assert forest.figures().depth <= 8
