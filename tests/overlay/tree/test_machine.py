from __future__ import annotations

import random

import pytest

from elf.overlay.contract import OverlaySettings
from elf.overlay.effects import ChildDown, ChildUp, Effect, Lookup, ParentDown, ParentUp, RootChanged, Send, Suspect
from elf.overlay.ids import Contact, distance
from elf.overlay.messages import Accept, Heartbeat, Join, Redirect, Unlink
from elf.overlay.routing import closer
from elf.overlay.tree.machine import RECHECK_MS, Tree
from elf.overlay.tree.policy import CLIMB_AFTER_MS
from tests.overlay.tree.invariants import check

APP = bytes(20)
#: Ascending distance to APP: the first is closest.
PEERS = sorted((Contact.at("10.0.0.1", port) for port in range(1, 9)), key=lambda c: distance(c.id, APP))
NEAR, MIDDLE, FAR, LAST = PEERS[0], PEERS[3], PEERS[5], PEERS[7]
NOW = 1_000_000


def make(me: Contact, *knows: Contact, root: Contact | None = None) -> Tree:
    return Tree(APP, me, lambda key: closer(knows, me.id, key), OverlaySettings(), random.Random(1), root)


def sent(effects: list[Effect], kind: type) -> list[Contact]:
    return [effect.to for effect in effects if isinstance(effect, Send) and isinstance(effect.message, kind)]


def test_joins_the_next_hop_and_hangs_under_it() -> None:
    tree = make(FAR, MIDDLE)
    assert sent(tree.join(True, None, NOW), Join) == [MIDDLE]
    up = tree.on_accept(MIDDLE, Accept(APP, tree.epoch), NOW)
    assert up == [ParentUp(MIDDLE, tree.epoch)]
    assert tree.view().role == "member"
    assert tree.on_accept(MIDDLE, Accept(APP, tree.epoch), NOW) == []
    check(tree)


def test_an_accept_of_an_older_join_is_given_back() -> None:
    tree = make(FAR, NEAR, MIDDLE)
    tree.join(True, None, NOW)
    old = tree.epoch
    effects = tree.on_tick(NOW + 1_000, 0, 0)
    assert [e for e in effects if isinstance(e, Suspect)] == [Suspect(NEAR)]
    assert sent(effects, Join) == [MIDDLE]
    assert sent(tree.on_accept(NEAR, Accept(APP, old), NOW + 1_001), Unlink) == [NEAR]


def test_only_a_closer_node_or_the_recorded_root_adopts() -> None:
    tree = make(MIDDLE, NEAR)
    assert sent(tree.on_join(NEAR, Join(APP, 1, None), NOW), Redirect) == [NEAR]
    effects = tree.on_join(FAR, Join(APP, 1, None), NOW)
    assert sent(effects, Accept) == [FAR]
    assert ChildUp(FAR, 1) in effects
    assert sent(effects, Join) == [NEAR], "a forwarder joins too"
    root = make(LAST, root=LAST)
    assert sent(root.on_join(NEAR, Join(APP, 1, LAST.address), NOW), Redirect) == [NEAR], "not told yet"
    assert RootChanged(True) in root.join(False, LAST, NOW)
    assert sent(root.on_join(NEAR, Join(APP, 2, LAST.address), NOW), Accept) == [NEAR]
    check(root)


def test_joins_with_another_recorded_root_are_refused() -> None:
    tree = make(NEAR, root=LAST)
    assert sent(tree.on_join(FAR, Join(APP, 1, MIDDLE.address), NOW), Redirect) == [FAR]


@pytest.mark.parametrize("told", ["by its runtime", "by others"])
def test_whoever_refused_us_is_asked_at_once_when_it_is_the_root(told: str) -> None:
    """A root that hands over asks its successor too early, and is to ask again before the time of a refusal is over."""
    tree = make(NEAR, MIDDLE, root=NEAR)
    tree.join(True, NEAR, NOW, reign=1)
    assert sent(tree.join(True, NEAR, NOW, reign=1, rooted=False), Join) == []
    tree.search.strike(MIDDLE, tree.root, NOW)
    moved = tree.join(True, MIDDLE, NOW + 1, reign=2) if told == "by its runtime" else tree.move(MIDDLE, 2, NOW + 1)
    assert sent(moved, Join) == [MIDDLE]


def test_a_local_minimum_joins_the_recorded_root_and_never_becomes_it() -> None:
    tree = make(NEAR, root=LAST)
    assert sent(tree.join(True, LAST, NOW), Join) == [LAST]
    effects = tree.on_peer_lost(LAST, NOW)
    assert not sent(effects, Join)
    assert Lookup() not in effects
    assert sent(tree.on_tick(tree.deadline_ms + 2_000, 0, 0), Join) == [LAST]


def test_a_rendezvous_root_claims_only_after_a_lookup_and_yields_to_a_closer_node() -> None:
    tree = make(MIDDLE)
    assert tree.join(True, None, NOW) == [Lookup()]
    assert RootChanged(True) in tree.on_looked_up((MIDDLE, FAR), NOW)
    assert tree.view().role == "root"
    assert Lookup() in tree.on_tick(NOW + RECHECK_MS, 0, 0)
    effects = tree.on_looked_up((NEAR, MIDDLE), NOW + RECHECK_MS)
    assert RootChanged(False) in effects
    assert sent(effects, Join) == [NEAR]


def test_a_rendezvous_root_yields_when_the_table_learns_of_a_closer_node() -> None:
    knows: list[Contact] = []
    tree = Tree(APP, MIDDLE, lambda key: closer(knows, MIDDLE.id, key), OverlaySettings(), random.Random(1), None)
    tree.join(True, None, NOW)
    tree.on_looked_up((MIDDLE,), NOW)
    knows.append(NEAR)
    assert sent(tree.on_contacts_changed(NOW), Join) == [NEAR]


def test_redirects_are_followed_only_closer_or_to_the_recorded_root() -> None:
    tree = make(FAR, MIDDLE)
    tree.join(True, None, NOW)
    assert sent(tree.on_redirect(MIDDLE, Redirect(APP, tree.epoch, NEAR.address), NOW), Join) == [NEAR]
    assert not sent(tree.on_redirect(NEAR, Redirect(APP, tree.epoch, LAST.address), NOW), Join)
    tree = make(FAR, MIDDLE, root=LAST)
    tree.join(True, LAST, NOW)
    assert sent(tree.on_redirect(MIDDLE, Redirect(APP, tree.epoch, LAST.address), NOW), Join) == [LAST]


@pytest.mark.parametrize("how", ["lost", "unlink", "lease"])
def test_a_lost_parent_is_replaced(how: str) -> None:
    tree = make(LAST, MIDDLE, FAR)
    tree.join(True, None, NOW)
    tree.on_accept(MIDDLE, Accept(APP, tree.epoch), NOW)
    if how == "lost":
        effects = tree.on_peer_lost(MIDDLE, NOW + 1)
        assert sent(effects, Join) == [FAR]
    elif how == "unlink":
        effects = tree.on_unlink(MIDDLE, Unlink(APP, tree.epoch), NOW + 1)
        assert sent(effects, Join) == [MIDDLE]
    else:
        effects = tree.on_tick(NOW + tree.edges.lease_ms, 0, 0)
        assert sent(effects, Join) == [FAR]
    assert ParentDown() in effects
    check(tree)


def test_silent_children_are_dropped_and_heartbeats_keep_them() -> None:
    tree = make(NEAR)
    tree.on_join(FAR, Join(APP, 1, None), NOW)
    tree.on_join(LAST, Join(APP, 1, None), NOW)
    assert tree.on_heartbeat(FAR, Heartbeat(APP, 1, False, 0, 0), NOW + tree.edges.heartbeat_ms) == []
    end = NOW + tree.edges.lease_ms
    assert ChildDown(LAST) not in tree.on_tick(end - 1, 0, 0)
    effects = tree.on_tick(end, 0, 0)
    assert ChildDown(LAST) in effects
    assert ChildDown(FAR) not in effects
    assert sent(tree.on_heartbeat(LAST, Heartbeat(APP, 1, False, 0, 0), end + 1), Unlink) == [LAST]


def test_an_older_join_is_ignored_and_a_newer_one_replaces_the_edge() -> None:
    tree = make(NEAR)
    tree.on_join(FAR, Join(APP, 5, None), NOW)
    assert tree.on_join(FAR, Join(APP, 4, None), NOW) == []
    assert ChildUp(FAR, 5) not in tree.on_join(FAR, Join(APP, 5, None), NOW)
    assert ChildUp(FAR, 6) in tree.on_join(FAR, Join(APP, 6, None), NOW)
    assert tree.on_unlink(FAR, Unlink(APP, 5), NOW) == []
    assert tree.on_unlink(FAR, Unlink(APP, 6), NOW) == [ChildDown(FAR)]


def test_epochs_rise_over_a_restart() -> None:
    tree = make(FAR, NEAR)
    tree.join(True, None, NOW)
    again = make(FAR, NEAR)
    again.join(True, None, NOW + 1)
    assert again.epoch > tree.epoch


def test_an_idle_forwarder_leaves() -> None:
    tree = make(MIDDLE, NEAR)
    tree.on_join(FAR, Join(APP, 1, None), NOW)
    tree.on_accept(NEAR, Accept(APP, tree.epoch), NOW)
    tree.on_peer_lost(FAR, NOW)
    settings = OverlaySettings()
    now = NOW
    while tree.view().role != "out":
        now += 500
        tree.on_heartbeat(NEAR, Heartbeat(APP, tree.epoch, True, 0, 0), now)
        tree.on_tick(now, 0, 0)
        assert now < NOW + settings.linger_ms + 2_000
    assert now >= NOW + settings.linger_ms


def test_a_member_goes_up_to_a_grandparent_with_room_once_the_tree_is_built() -> None:
    tree = make(FAR, MIDDLE)
    tree.join(True, None, NOW)
    tree.on_accept(MIDDLE, Accept(APP, tree.epoch, NEAR.address), NOW)
    old = tree.epoch
    room = Heartbeat(APP, old, True, 0, 0, 1, NEAR.address, room=True)
    assert tree.on_heartbeat(MIDDLE, room, NOW + CLIMB_AFTER_MS - 1) == []
    effects = tree.on_heartbeat(MIDDLE, room, NOW + CLIMB_AFTER_MS)
    assert Send(MIDDLE, Unlink(APP, old)) in effects
    assert ParentDown() in effects
    assert sent(effects, Join) == [NEAR]
    check(tree)
    assert tree.on_heartbeat(MIDDLE, room, NOW + 2 * CLIMB_AFTER_MS) == [Send(MIDDLE, Unlink(APP, old))], "gone already"
    tree.on_accept(NEAR, Accept(APP, tree.epoch), NOW + 2 * CLIMB_AFTER_MS)
    assert tree.view().parent == NEAR


def test_leaving_keeps_serving_children_and_the_root_dissolves_its_tree() -> None:
    tree = make(MIDDLE, NEAR)
    tree.join(True, None, NOW)
    tree.on_accept(NEAR, Accept(APP, tree.epoch), NOW)
    tree.on_join(FAR, Join(APP, 1, None), NOW)
    assert tree.leave(NOW) == []
    root = make(MIDDLE, root=MIDDLE)
    root.join(True, MIDDLE, NOW)
    root.on_join(FAR, Join(APP, 1, MIDDLE.address), NOW)
    effects = root.leave(NOW)
    assert sent(effects, Unlink) == [FAR]
    assert RootChanged(False) in effects
    assert root.view().role == "out"
