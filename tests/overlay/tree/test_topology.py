"""The topology simulation builds the trees that the tree machines build, and their shape is as promised."""

import math
import random
from collections import deque
from itertools import takewhile

import pytest

from elf.overlay.contract import OverlaySettings
from elf.overlay.effects import Effect, Lookup, Send
from elf.overlay.ids import ID_BYTES, Contact, prefix_bits
from elf.overlay.messages import Accept, Drop, Join, Redirect, TreeMessage
from elf.overlay.routing import bounded
from elf.overlay.sim.machines import numbered_contact
from elf.overlay.tree.machine import Tree
from elf.overlay.tree.policy import Seat, rank
from tests.overlay.tree.topology import FAN_IN_MAX, Figures, K, Tables, check, grow, measure

SIZES = [300, 1_280]


def genuine(count: int) -> list[Contact]:
    return [numbered_contact(index, 4_000) for index in range(count)]


class Machines:
    """The tree machines of all agents, one message after another."""

    def __init__(self, tables: Tables, key: bytes, rng: random.Random, fan_in_max: int) -> None:
        settings = OverlaySettings(fan_in_max=fan_in_max)
        self.key, self.joins = key, 0
        self.nearest = sorted(tables.contacts, key=lambda contact: rank(contact, key, None))[:3]
        self.trees = {}
        for me in tables.contacts:
            view = tuple(bounded(tables.all_levels(me), me.id, key))
            self.trees[me.id] = Tree(key, me, lambda _, view=view: view, settings, rng, None)  # type: ignore[misc]
        self.queue: deque[tuple[Contact, Contact, TreeMessage]] = deque()

    def join(self, me: Contact) -> None:
        self.execute(me, self.trees[me.id].join(True, None, 1_000))
        while self.queue:
            sender, to, message = self.queue.popleft()
            tree = self.trees[to.id]
            match message:
                case Join():
                    self.joins += 1
                    effects = tree.on_join(sender, message, 1_000)
                case Accept():
                    effects = tree.on_accept(sender, message, 1_000)
                case Redirect():
                    effects = tree.on_redirect(sender, message, 1_000)
                case Drop():
                    effects = tree.on_drop(sender, message, 1_000)
                case _:
                    raise AssertionError(message)
            self.execute(to, effects)

    def execute(self, me: Contact, effects: list[Effect]) -> None:
        for effect in effects:
            match effect:
                case Send(to=to, message=message):
                    self.queue.append((me, to, message))
                case Lookup():
                    self.execute(me, self.trees[me.id].on_looked_up(tuple(self.nearest), 1_000))

    def parents(self) -> dict[bytes, Contact]:
        return {id: tree.parent.peer for id, tree in self.trees.items() if tree.parent is not None}


@pytest.mark.parametrize("members", [1.0, 0.1])
@pytest.mark.parametrize("fan_in_max", [4, 16])
@pytest.mark.parametrize("count", SIZES)
def test_the_tree_is_the_one_that_the_machines_build(count: int, fan_in_max: int, members: float) -> None:
    """Edge for edge and JOIN for JOIN, with whole routing tables on the machines' side."""
    for seed in range(2):
        rng = random.Random(seed)
        tables, key = Tables(genuine(count)), rng.randbytes(ID_BYTES)
        joining = rng.sample(tables.contacts, round(count * members))
        tree = grow(tables, key, joining, random.Random(seed), fan_in_max)
        machines = Machines(tables, key, random.Random(seed), fan_in_max)
        for contact in joining:
            machines.join(contact)
        assert tree.parents == machines.parents()
        assert tree.joins == machines.joins


@pytest.mark.parametrize(("count", "k"), [(2, 20), (3, 1), (20, 8), (300, 1), (300, 8), (300, 20), (1_280, 20)])
def test_one_level_of_a_table_gives_the_choice_that_the_whole_table_gives(count: int, k: int) -> None:
    tables, rng = Tables.of_random_ids(count, 7, k), random.Random(7)
    for key in [rng.randbytes(ID_BYTES), tables.contacts[0].id]:
        for me in tables.contacts:
            few, whole = tables.view(me, key), bounded(tables.all_levels(me), me.id, key)
            assert bool(few) == bool(whole) == (me != tables.root(key)), "only the root has nobody to ask"
            if whole:
                assert alike(few, key) == alike(whole, key)


def alike(candidates: list[Contact], key: bytes) -> list[Contact]:
    """Return those that `first_choice` draws from."""
    if len(candidates) <= FAN_IN_MAX // 2:
        return candidates[:1]
    level = prefix_bits(candidates[0].id, key)
    return list(takewhile(lambda one: prefix_bits(one.id, key) == level, candidates))


def test_tables_are_settled_ones() -> None:
    """On every level as many contacts as there are agents, or k; all of that level; always the same."""
    tables = Tables.of_random_ids(1_280, 3)
    for me in tables.contacts[::50]:
        known = list(tables.all_levels(me))
        assert len({contact.id for contact in known}) == len(known)
        assert known == list(tables.all_levels(me))
        for level in range(20):
            there = [one for one in tables.contacts if one is not me and prefix_bits(one.id, me.id) == level]
            held = [one for one in known if prefix_bits(one.id, me.id) == level]
            assert len(held) == min(K, len(there))
            assert {one.id for one in held} <= {one.id for one in there}


@pytest.mark.parametrize("count", SIZES)
def test_trees_are_flat_narrow_and_cheap_to_join(count: int) -> None:
    """A key with few agents near it makes a tree up to two hops deeper than the mean."""
    tables = Tables.of_random_ids(count, 1)
    found = [measure(count, seed, tables=tables) for seed in range(10)]
    assert sum(one.hops_mean for one in found) / len(found) < math.log(count, FAN_IN_MAX) + 1.25
    for one in found:
        assert one.fan_in_max <= FAN_IN_MAX
        assert one.hops_max == one.depth <= 7
        assert one.joins_per_member < 1.4
        assert one.interior < 0.25
        assert one.forwarders == 0


def test_few_members_need_some_forwarders_and_no_deeper_tree() -> None:
    found = measure(1_280, 2, members=0.1)
    assert found.members == 128
    assert 0 < found.forwarders < 0.5
    assert found.hops_max <= 7


def test_the_same_seed_gives_the_same_tree_and_another_one_another() -> None:
    assert measure(300, 5) == measure(300, 5)
    assert measure(300, 5) != measure(300, 6)


def test_a_single_agent_is_its_own_root() -> None:
    found = measure(1, 0)
    assert found == Figures(1, 1, 0.0, 0, 0, 0, 0, 0.0, 0.0, 0.0)


def test_what_is_no_tree_is_noticed() -> None:
    tables, key = Tables.of_random_ids(50, 1), bytes(ID_BYTES)
    order = sorted(tables.contacts, key=lambda contact: rank(contact, key, None))

    def grown():  # type: ignore[no-untyped-def]
        return grow(tables, key, tables.contacts, random.Random(1), FAN_IN_MAX)

    check(grown(), key, FAN_IN_MAX)
    with pytest.raises(AssertionError, match="I8"):
        check(grown(), key, 2)
    upside_down = grown()
    last, first = order[-1], order[1]
    upside_down.children[upside_down.parents[first.id].id].pop(first.id)
    upside_down.parents[first.id] = last
    upside_down.children.setdefault(last.id, {})[first.id] = Seat(first, 0)
    with pytest.raises(AssertionError, match="I7"):
        check(upside_down, key, FAN_IN_MAX + 1)
    disagreed = grown()
    disagreed.parents[last.id] = next(c for c in order if c not in (last, disagreed.parents[last.id]))
    with pytest.raises(AssertionError, match="another parent"):
        check(disagreed, key, FAN_IN_MAX)
