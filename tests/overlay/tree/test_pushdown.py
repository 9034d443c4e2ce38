"""A full node, a leaving parent, and what a peer may make a node do with Redirect and Drop."""

from __future__ import annotations

import random

import pytest

from elf.overlay.contract import OverlaySettings
from elf.overlay.effects import ChildDown, ChildUp, Effect, Lookup, ParentDown, ParentUp, RootChanged, Send
from elf.overlay.errors import OverlayError
from elf.overlay.ids import Contact, distance
from elf.overlay.messages import Accept, Drop, Heartbeat, Join, Reason, Redirect, Unlink
from elf.overlay.routing import closer
from elf.overlay.tree.machine import Role, Tree
from elf.overlay.tree.seeking import DOUBTS_MAX, REDIRECTS_MAX
from tests.overlay.tree.invariants import check

APP = bytes(20)
#: Ascending distance to APP: the first is closest.
PEERS = sorted((Contact.at("10.0.0.1", port) for port in range(1, 41)), key=lambda c: distance(c.id, APP))
NOW = 1_000_000


def make(me: Contact, *knows: Contact, root: Contact | None = None, fan_in_max: int = 2) -> Tree:
    settings = OverlaySettings(fan_in_max=fan_in_max)
    return Tree(APP, me, lambda key: closer(knows, me.id, key), settings, random.Random(1), root)


def attached(me: Contact, parent: Contact, grandparent: Contact | None = None, *knows: Contact) -> Tree:
    tree = make(me, parent, *knows)
    tree.join(True, None, NOW)
    tree.search.asked = parent
    tree.on_accept(parent, Accept(APP, tree.epoch, grandparent.address if grandparent else None), NOW)
    assert tree.parent is not None
    return tree


def said(effects: list[Effect]) -> list[tuple[Contact, object]]:
    return [(effect.to, effect.message) for effect in effects if isinstance(effect, Send)]


def joins(effects: list[Effect]) -> list[Contact]:
    return [effect.to for effect in effects if isinstance(effect, Send) and isinstance(effect.message, Join)]


# ---- the full node


def test_a_full_node_sends_on_to_the_least_loaded_closer_child_and_counts_it() -> None:
    tree = make(PEERS[0])
    tree.on_join(PEERS[3], Join(APP, 1, None, 1), NOW)
    tree.on_join(PEERS[5], Join(APP, 1, None, 0), NOW)
    for joiner, child in ((PEERS[8], PEERS[5]), (PEERS[9], PEERS[3]), (PEERS[10], PEERS[5])):
        assert said(tree.on_join(joiner, Join(APP, 1, None), NOW)) == [
            (joiner, Redirect(APP, 1, child.address, Reason.FULL))
        ]
    tree.on_heartbeat(PEERS[3], Heartbeat(APP, 1, False, 0, 0, 0), NOW)
    effects = tree.on_join(PEERS[11], Join(APP, 1, None), NOW)
    assert said(effects) == [(PEERS[11], Redirect(APP, 1, PEERS[3].address, Reason.FULL))]
    check(tree)


def test_a_full_node_gives_its_farthest_child_to_a_newcomer_closer_than_all() -> None:
    tree = make(PEERS[0])
    tree.on_join(PEERS[5], Join(APP, 7, None), NOW)
    tree.on_join(PEERS[9], Join(APP, 8, None), NOW)
    effects = tree.on_join(PEERS[2], Join(APP, 1, None), NOW)
    assert said(effects) == [(PEERS[2], Accept(APP, 1)), (PEERS[9], Drop(APP, 8, PEERS[2].address))]
    assert effects[1:] == [effects[1], ChildDown(PEERS[9]), ChildUp(PEERS[2], 1)]
    assert tree.children[PEERS[2].id].load == 1
    check(tree)


def test_a_known_child_is_never_sent_on() -> None:
    tree = make(PEERS[0])
    tree.on_join(PEERS[5], Join(APP, 7, None), NOW)
    tree.on_join(PEERS[9], Join(APP, 8, None), NOW)
    assert ChildUp(PEERS[9], 9) in tree.on_join(PEERS[9], Join(APP, 9, None), NOW)
    assert said(tree.on_join(PEERS[9], Join(APP, 9, None), NOW)) == [(PEERS[9], Accept(APP, 9))]
    assert len(tree.children) == 2


def test_the_cap_holds_at_the_recorded_root_too() -> None:
    root = make(PEERS[20], root=PEERS[20])
    root.join(True, PEERS[20], NOW)
    for joiner in PEERS[:20]:
        root.on_join(joiner, Join(APP, 1, PEERS[20].address), NOW)
        check(root)
    assert len(root.children) == 2


@pytest.mark.parametrize("fan_in_max", [1, 0, 2_000])
def test_a_senseless_cap_is_refused(fan_in_max: int) -> None:
    with pytest.raises(OverlayError, match="fan_in_max"):
        OverlaySettings(fan_in_max=fan_in_max)


# ---- the dropped child


def test_a_dropped_child_goes_where_it_is_sent_then_back_then_to_the_others() -> None:
    tree = attached(PEERS[9], PEERS[3], None, PEERS[5])
    effects = tree.on_drop(PEERS[3], Drop(APP, tree.epoch, PEERS[4].address), NOW)
    assert ParentDown() in effects
    assert joins(effects) == [PEERS[4]]
    assert joins(tree.on_peer_lost(PEERS[4], NOW)) == [PEERS[3]]
    assert joins(tree.on_redirect(PEERS[3], Redirect(APP, tree.epoch, PEERS[4].address, Reason.FULL), NOW)) == [
        PEERS[5]
    ], "it still sends us to the dead one: not a second time"
    check(tree)


def test_a_stale_or_forged_drop_changes_nothing() -> None:
    tree = attached(PEERS[9], PEERS[3])
    assert tree.on_drop(PEERS[3], Drop(APP, tree.epoch - 1, PEERS[4].address), NOW) == []
    assert tree.on_drop(PEERS[2], Drop(APP, tree.epoch, PEERS[4].address), NOW) == []
    assert tree.role is Role.MEMBER


def test_a_drop_toward_a_farther_node_or_ourselves_is_not_followed() -> None:
    for to in (PEERS[12], PEERS[9]):
        tree = attached(PEERS[9], PEERS[3])
        assert joins(tree.on_drop(PEERS[3], Drop(APP, tree.epoch, to.address), NOW)) == [PEERS[3]]
        check(tree)


def test_a_drop_that_overtakes_its_accept_ends_the_edge_before_it_began() -> None:
    tree = make(PEERS[9], PEERS[3])
    tree.join(True, None, NOW)
    asked = tree.epoch
    assert joins(tree.on_drop(PEERS[3], Drop(APP, asked, PEERS[4].address), NOW)) == [PEERS[4]]
    assert said(tree.on_accept(PEERS[3], Accept(APP, asked), NOW)) == [(PEERS[3], Unlink(APP, asked))]
    check(tree)


def test_an_unlink_that_overtakes_its_accept_ends_the_edge_before_it_began() -> None:
    tree = make(PEERS[9], PEERS[3])
    tree.join(True, None, NOW)
    asked = tree.epoch
    assert tree.on_unlink(PEERS[3], Unlink(APP, asked), NOW) == [Lookup()]
    assert said(tree.on_accept(PEERS[3], Accept(APP, asked), NOW)) == [(PEERS[3], Unlink(APP, asked))]


# ---- redirects


def test_a_full_nodes_redirect_is_followed_and_it_may_be_asked_again() -> None:
    tree = make(PEERS[9], PEERS[3])
    tree.join(True, None, NOW)
    effects = tree.on_redirect(PEERS[3], Redirect(APP, tree.epoch, PEERS[6].address, Reason.FULL), NOW)
    assert joins(effects) == [PEERS[6]]
    assert joins(tree.on_peer_lost(PEERS[6], NOW)) == [PEERS[3]]


def test_a_redirect_from_somebody_we_did_not_ask_is_ignored() -> None:
    tree = make(PEERS[9], PEERS[3])
    tree.join(True, None, NOW)
    assert tree.on_redirect(PEERS[4], Redirect(APP, tree.epoch, PEERS[1].address), NOW) == []
    assert tree.on_redirect(PEERS[3], Redirect(APP, tree.epoch - 1, PEERS[1].address), NOW) == []


def test_peers_cannot_lead_us_in_circles_for_ever() -> None:
    tree = make(PEERS[30], PEERS[3])
    asked = joins(tree.join(True, None, NOW))
    effects: list[Effect] = []
    for _ in range(2 * REDIRECTS_MAX):
        if not asked:
            break
        to = PEERS[4] if asked[-1] == PEERS[3] else PEERS[3]
        effects = tree.on_redirect(asked[-1], Redirect(APP, tree.epoch, to.address, Reason.FULL), NOW)
        asked = joins(effects)
    assert effects == [Lookup()], "both are passed over now"


def test_a_grant_of_a_root_that_is_not_the_root_any_more_is_given_back() -> None:
    tree = make(PEERS[5], root=PEERS[20])
    tree.join(True, PEERS[20], NOW)
    asked = tree.epoch
    assert joins(tree.join(True, PEERS[30], NOW)) == [PEERS[30]]
    assert said(tree.on_accept(PEERS[20], Accept(APP, asked), NOW)) == [(PEERS[20], Unlink(APP, asked))]
    check(tree)


# ---- repair and leaving


def test_the_grandparent_is_asked_first_when_the_parent_is_lost() -> None:
    tree = attached(PEERS[9], PEERS[5], PEERS[2], PEERS[6])
    assert joins(tree.on_peer_lost(PEERS[5], NOW)) == [PEERS[2]]
    assert joins(tree.on_peer_lost(PEERS[2], NOW)) == [PEERS[6]]


def test_a_grandparent_that_ranks_after_us_is_not_asked() -> None:
    tree = attached(PEERS[9], PEERS[5], PEERS[12], PEERS[6])
    assert joins(tree.on_peer_lost(PEERS[5], NOW)) == [PEERS[6]]


def test_news_of_the_grandparent_comes_with_heartbeats() -> None:
    tree = attached(PEERS[9], PEERS[5], PEERS[2], PEERS[6])
    tree.on_heartbeat(PEERS[5], Heartbeat(APP, tree.epoch, True, 0, 0, 1, PEERS[1].address), NOW)
    assert joins(tree.on_peer_lost(PEERS[5], NOW)) == [PEERS[1]]


def test_who_departs_hands_its_children_to_its_parent() -> None:
    tree = attached(PEERS[9], PEERS[5])
    tree.on_join(PEERS[12], Join(APP, 3, None), NOW)
    effects = tree.depart(NOW)
    assert said(effects) == [(PEERS[5], Unlink(APP, tree.epoch)), (PEERS[12], Drop(APP, 3, PEERS[5].address))]
    assert tree.role is Role.OUT
    child = attached(PEERS[12], PEERS[9])
    assert joins(child.on_drop(PEERS[9], Drop(APP, child.epoch, PEERS[5].address), NOW)) == [PEERS[5]]


# ---- the root


def test_a_closer_agent_that_answers_lookups_but_no_join_is_asked_again_before_a_claim() -> None:
    tree, found, now_ms = make(PEERS[5]), (PEERS[1], PEERS[5]), NOW
    assert tree.join(True, None, NOW) == [Lookup()]
    assert joins(tree.on_looked_up(found, now_ms)) == [PEERS[1]]
    for _ in range(DOUBTS_MAX):
        assert tree.on_peer_lost(PEERS[1], now_ms) == [Lookup()]
        assert tree.on_looked_up(found, now_ms) == []
        assert tree.search.retry_ms is not None
        now_ms = tree.search.retry_ms
        assert joins(tree.on_tick(now_ms, 0, 0)) == [PEERS[1]]
    assert tree.on_peer_lost(PEERS[1], now_ms) == [Lookup()]
    assert tree.on_looked_up(found, now_ms) == [RootChanged(True)]


def test_what_a_forwarder_learned_of_the_root_yields_to_the_runtime() -> None:
    tree = make(PEERS[5], PEERS[1])
    tree.on_join(PEERS[9], Join(APP, 1, PEERS[30].address), NOW)
    assert tree.root == PEERS[30]
    tree.join(True, None, NOW)
    assert tree.root is None
    assert said(tree.on_join(PEERS[10], Join(APP, 1, PEERS[30].address), NOW)) == [
        (PEERS[10], Redirect(APP, 1, None, Reason.ROOT_IS))
    ]


def test_a_new_recorded_root_takes_a_node_over() -> None:
    tree = make(PEERS[5], root=PEERS[20])
    tree.join(True, PEERS[20], NOW)
    tree.on_accept(PEERS[20], Accept(APP, tree.epoch), NOW)
    assert ParentUp(PEERS[20], tree.epoch) not in tree.join(True, PEERS[20], NOW)
    effects = tree.join(True, PEERS[30], NOW)
    assert said(effects)[0][0] == PEERS[20]
    assert joins(effects) == [PEERS[30]]
    check(tree)
