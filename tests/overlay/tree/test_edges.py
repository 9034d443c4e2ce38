from __future__ import annotations

from elf.overlay.contract import OverlaySettings
from elf.overlay.effects import ChildDown, Effect, ParentDown, Send
from elf.overlay.ids import Contact
from elf.overlay.messages import Accept, Drop, Heartbeat, Unlink
from elf.overlay.tree.edges import EDGE_BEATS, LEASE_BEATS, Edges

APP = bytes(20)
ME, ABOVE, HIGHER, ONE, TWO = (Contact.at("10.0.0.1", port) for port in range(1, 6))
NOW = 1_000_000


def make() -> Edges:
    edges = Edges(APP, ME, OverlaySettings())
    edges.set_parent(ABOVE, Accept(APP, 3, HIGHER.address), NOW)
    edges.add_child(ONE, 1, 0, NOW)
    edges.add_child(TWO, 2, 4, NOW)
    edges.tell(0, 0)
    assert edges.beat(0, 0, NOW) == [], "what was just agreed on need not be confirmed"
    return edges


def beats(effects: list[Effect]) -> list[tuple[Contact, Heartbeat]]:
    return [(e.to, e.message) for e in effects if isinstance(e, Send) and isinstance(e.message, Heartbeat)]


def test_edges_speak_seldom_and_all_at_once() -> None:
    edges = make()
    assert edges.heartbeat_ms == EDGE_BEATS * 500
    spoken = []
    for now_ms in range(NOW, NOW + 20_000, 50):
        said = beats(edges.beat(0, 0, now_ms))
        if said:
            assert [to for to, _ in said] == [ONE, TWO, ABOVE]
            spoken.append(now_ms)
    assert len(spoken) == 4
    other = Edges(bytes([1] * 20), ME, OverlaySettings())
    other.beat(0, 0, NOW)
    edges.beat(0, 0, NOW + 20_000)
    other.beat(0, 0, NOW + 20_000)
    assert other.beat_ms == edges.beat_ms, "in all trees of a node at the same time"


def test_a_heartbeat_carries_the_load_and_below_the_grandparent() -> None:
    said = dict(beats(make().beat(7, 5, NOW + 5_000)))
    assert said[ABOVE] == Heartbeat(APP, 3, False, 0, 5, 2, None)
    assert said[ONE] == Heartbeat(APP, 1, True, 7, 5, 2, ABOVE.address)


def test_children_hear_whether_their_grandparent_has_room() -> None:
    edges = make()

    def room(now_ms: int) -> bool:
        return dict(beats(edges.beat(0, 0, now_ms)))[ONE].room

    assert not room(NOW + 5_000), "a parent that has not said how many children it has may be full"
    edges.on_heartbeat(ABOVE, Heartbeat(APP, 3, True, 0, 0, 7), NOW)
    assert room(NOW + 10_000)
    edges.on_heartbeat(ABOVE, Heartbeat(APP, 3, True, 0, 0, 8), NOW)
    assert not room(NOW + 15_000)
    edges.become_root()
    assert not room(NOW + 20_000)


def test_children_hear_at_once_what_is_new_and_only_once() -> None:
    edges = make()
    assert edges.tell(0, 0) == []
    assert [to for to, _ in beats(edges.tell(7, 5))] == [ONE, TWO]
    assert edges.tell(7, 5) == []
    assert [beat.committed for _, beat in beats(edges.tell(7, 6))] == [6, 6]
    edges.lose_parent()
    assert edges.tell(7, 6) == []
    edges.set_parent(HIGHER, Accept(APP, 4), NOW)
    assert [beat.grandparent for _, beat in beats(edges.tell(7, 6))] == [HIGHER.address] * 2
    edges.add_child(Contact.at("10.0.0.1", 9), 1, 0, NOW)
    assert [to.port for to, _ in beats(edges.tell(7, 6))] == [9], "a new child hears of the root's term"


def test_what_a_verdict_told_is_not_said_again() -> None:
    edges = make()
    edges.tell(7, 5)
    edges.has_heard(ONE, 7, 6)
    assert [to for to, _ in beats(edges.tell(7, 6))] == [TWO]
    edges.has_heard(HIGHER, 7, 6)


def test_while_no_root_is_known_there_is_nothing_to_tell() -> None:
    edges = Edges(APP, ME, OverlaySettings())
    edges.add_child(ONE, 1, 0, NOW)
    assert edges.tell(0, -(1 << 62)) == []
    assert edges.tell(0, 3) == []


def test_heartbeats_renew_leases_and_bring_loads_and_grandparents() -> None:
    edges = make()
    later = NOW + LEASE_BEATS * edges.heartbeat_ms - 1
    assert edges.on_heartbeat(ONE, Heartbeat(APP, 1, False, 0, 0, 9), later) == []
    assert edges.children[ONE.id].load == 9
    assert edges.on_heartbeat(ABOVE, Heartbeat(APP, 3, True, 0, 0, 1, TWO.address), later) == []
    assert edges.grandparent == TWO
    assert edges.expire_children(later + 1) == [Send(TWO, Unlink(APP, 2)), ChildDown(TWO)]
    assert set(edges.children) == {ONE.id}


def test_heartbeats_on_unknown_edges_are_answered_with_unlink() -> None:
    edges = make()
    for sender, beat in (
        (ONE, Heartbeat(APP, 2, False, 0, 0)),
        (ABOVE, Heartbeat(APP, 2, True, 0, 0)),
        (ONE, Heartbeat(APP, 1, True, 0, 0)),
        (HIGHER, Heartbeat(APP, 3, True, 0, 0)),
    ):
        assert edges.on_heartbeat(sender, beat, NOW) == [Send(sender, Unlink(APP, beat.epoch))]


def test_who_dissolves_his_edges_hands_his_children_to_his_parent_who_hears_first() -> None:
    edges = make()
    above = ABOVE.address
    assert edges.dissolve() == [
        Send(ABOVE, Unlink(APP, 3)),
        ParentDown(),
        Send(ONE, Drop(APP, 1, above)),
        ChildDown(ONE),
        Send(TWO, Drop(APP, 2, above)),
        ChildDown(TWO),
    ]
    assert edges.parent is None
    assert edges.children == {}
    edges.add_child(ONE, 5, 0, NOW)
    assert edges.dissolve() == [Send(ONE, Unlink(APP, 5)), ChildDown(ONE)]
