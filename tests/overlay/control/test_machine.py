from __future__ import annotations

import heapq
import itertools
import random

import pytest

from elf.overlay import messages
from elf.overlay.contract import CONTROL_BYTES_MAX, ORIGIN, ControlEntry, ControlState, LogEntry, Mark
from elf.overlay.control import log as control_log
from elf.overlay.control.machine import PENDING_MAX, TERM_BITS, TERM_MAX, Control
from elf.overlay.effects import ChildDown, ChildUp, Deliver, Effect, ParentDown, ParentUp, RootChanged, Send
from elf.overlay.errors import NotJoinedError, OverlayError
from elf.overlay.ids import Contact
from elf.overlay.messages import ControlAsk, ControlEntries, ControlSeen, Unlink
from tests.overlay.control.world import APP, ControlWorld
from tests.sweep.runtime import handled

NOW = 1_000_000
UP, DOWN, OTHER = (Contact.at("10.0.0.1", port) for port in (1, 2, 3))


def sent(effects: list[Effect], kind: type) -> list[messages.TreeMessage]:
    return [effect.message for effect in effects if isinstance(effect, Send) and isinstance(effect.message, kind)]


def handed(effects: list[Effect]) -> list[ControlEntry]:
    return [effect.entry for effect in effects if isinstance(effect, Deliver)]


def make_root(*bodies: bytes, state: ControlState | None = None, now_ms: int = NOW) -> tuple[Control, list[Effect]]:
    root = Control(APP, random.Random(1))
    effects = root.enrol(state) + root.on_edge(RootChanged(True), now_ms)
    for body in bodies:
        effects += root.append(body, now_ms)[1]
        effects += root.on_delivered(handed(effects)[-1].mark)
    return root, effects


def entries(*marks: Mark) -> tuple[LogEntry, ...]:
    return tuple(LogEntry(mark, b"%d" % mark.position) for mark in marks)


# ---- the root


def test_an_entry_goes_down_only_when_the_roots_runtime_has_it() -> None:
    root, _ = make_root()
    root.on_edge(ChildUp(DOWN, 5), NOW)
    root.on_message(DOWN, ControlAsk(APP, 5, ORIGIN), NOW)
    position, effects = root.append(b"reset", NOW)
    [entry] = handed(effects)
    assert (position, entry.body, entry.skipped, entry.retain_above) == (1, b"reset", False, ORIGIN)
    assert not sent(effects, ControlEntries)
    assert root.append(b"pause", NOW) == (2, [])
    effects = root.on_delivered(entry.mark)
    assert sent(effects, ControlEntries) == [ControlEntries(APP, 5, ORIGIN, (LogEntry(entry.mark, b"reset"),))]
    assert [later.body for later in handed(effects)] == [b"pause"]
    assert root.on_delivered(entry.mark) == [], "an old answer changes nothing"


def test_only_a_root_speaks_and_within_limits() -> None:
    node = Control(APP, random.Random(1))
    with pytest.raises(NotJoinedError):
        node.append(b"x", NOW)
    root, _ = make_root()
    for body in (b"", bytes(CONTROL_BYTES_MAX + 1)):
        with pytest.raises(OverlayError, match="1 to"):
            root.append(body, NOW)
    for _ in range(PENDING_MAX):
        root.append(b"x", NOW)
    with pytest.raises(OverlayError, match="wait to become durable"):
        root.append(b"x", NOW)


def test_a_restarted_root_offers_what_it_stored_and_goes_on_in_a_higher_term() -> None:
    first, effects = make_root(b"a", b"b")
    state = ControlState()
    for entry in handed(effects):
        state = handled(state, entry)
    again, effects = make_root(b"c", state=state, now_ms=NOW - 500)
    again.on_edge(ChildUp(DOWN, 5), NOW)
    effects = again.on_message(DOWN, ControlAsk(APP, 5, ORIGIN), NOW)
    [message] = sent(effects, ControlEntries)
    assert isinstance(message, ControlEntries)
    assert [entry.body for entry in message.entries] == [b"a", b"b", b"c"]
    assert message.entries[2].mark.term > message.entries[1].mark.term == first.log.last.term


def test_a_root_that_lost_its_log_tells_those_who_are_ahead_of_it() -> None:
    root, _ = make_root()
    root.on_edge(ChildUp(DOWN, 5), NOW)
    theirs = Mark((NOW + 99_000) << TERM_BITS, 7)
    effects = root.on_message(DOWN, ControlAsk(APP, 5, theirs), NOW)
    [entry] = handed(effects)
    assert entry.body == b""
    assert entry.mark > theirs
    assert root.on_message(DOWN, ControlSeen(APP, 5, theirs), NOW) == [], "said once"
    effects = root.on_delivered(entry.mark)
    child = Control(APP, random.Random(1))
    child.enrol(ControlState(theirs))
    child.on_edge(ParentUp(UP, 5), NOW)
    [message] = sent(effects, ControlEntries)
    assert isinstance(message, ControlEntries)
    [skipped] = handed(child.on_message(UP, message, NOW))
    assert skipped.skipped
    assert skipped.retain_above is None
    assert root.on_message(DOWN, ControlSeen(APP, 5, Mark(TERM_MAX, 1)), NOW) == [], "no term to believe"


def test_a_root_deposed_with_an_entry_half_stored_counts_it_as_handled() -> None:
    root, _ = make_root(b"a")
    [entry] = handed(root.append(b"b", NOW)[1])
    root.on_edge(RootChanged(False), NOW)
    root.on_edge(ParentUp(UP, 9), NOW)
    effects = root.on_delivered(entry.mark)
    assert sent(effects, ControlEntries) == []
    assert sent(effects, ControlSeen) == [ControlSeen(APP, 9, entry.mark)]
    assert root.delivered == entry.mark


def test_a_root_goes_on_after_an_entry_that_its_runtime_refuses() -> None:
    """The runtime's group has another leader: nobody decides the entry, and none must wait for it for ever."""
    root, _ = make_root(b"a")
    [entry] = handed(root.append(b"b", NOW)[1])
    root.on_edge(RootChanged(False), NOW)
    root.on_edge(ParentUp(UP, 9), NOW)
    assert handed(root.on_refused(entry.mark)) == []
    later = Mark(entry.mark.term + 1, 2)
    after = root.log.last
    effects = root.on_message(UP, ControlEntries(APP, 9, after, entries(later)), NOW)
    assert [told.mark for told in handed(effects)] == [later]
    assert root.on_refused(entry.mark) == [], "twice is once"


def test_a_new_root_begins_with_what_its_group_decided_although_less_came_by_the_tree() -> None:
    node = Control(APP, random.Random(1))
    node.enrol(None)
    node.on_edge(ParentUp(UP, 4), NOW)
    one, two, three = Mark(1, 1), Mark(1, 2), Mark(1, 3)
    node.on_message(UP, ControlEntries(APP, 4, ORIGIN, entries(one)), NOW)
    node.on_delivered(one)
    decided = ControlState(one, ORIGIN, tuple(entries(one, two, three)))
    effects = node.enrol(decided) + node.on_edge(ParentDown(), NOW) + node.on_edge(RootChanged(True), NOW)
    assert [told.mark for told in handed(effects)] == [two], "what it has not heeded itself it does now"
    node.on_edge(ChildUp(DOWN, 5), NOW)
    [down] = sent(node.on_message(DOWN, ControlAsk(APP, 5, one), NOW), ControlEntries)
    assert [told.mark for told in down.entries] == [two, three]
    node.on_delivered(two)
    node.on_delivered(three)
    [said] = handed(node.append(b"x", NOW)[1])
    assert said.mark.position == 4


# ---- the others


def test_a_node_passes_entries_on_before_its_own_runtime_is_done() -> None:
    node = Control(APP, random.Random(1))
    node.enrol(None)
    assert sent(node.on_edge(ParentUp(UP, 4), NOW), ControlAsk) == [ControlAsk(APP, 4, ORIGIN)]
    node.on_edge(ChildUp(DOWN, 5), NOW)
    node.on_edge(ChildUp(OTHER, 6), NOW)
    node.on_message(DOWN, ControlAsk(APP, 5, ORIGIN), NOW)
    one, two = Mark(1, 1), Mark(1, 2)
    effects = node.on_message(UP, ControlEntries(APP, 4, ORIGIN, entries(one)), NOW)
    assert sent(effects, ControlEntries) == [ControlEntries(APP, 5, ORIGIN, entries(one))]
    assert [entry.mark for entry in handed(effects)] == [one]
    effects = node.on_message(UP, ControlEntries(APP, 4, one, entries(two)), NOW)
    assert sent(effects, ControlEntries) == [ControlEntries(APP, 5, one, entries(two))]
    assert handed(effects) == [], "the runtime is busy"
    assert [entry.mark for entry in handed(node.on_delivered(one))] == [two]
    effects = node.on_message(OTHER, ControlAsk(APP, 6, one), NOW)
    assert sent(effects, ControlEntries) == [ControlEntries(APP, 6, one, entries(two))]
    assert node.on_message(OTHER, ControlAsk(APP, 6, ORIGIN), NOW) == [], "an edge begins once"


def test_what_does_not_fit_its_edge_is_refused() -> None:
    node = Control(APP, random.Random(1))
    node.on_edge(ParentUp(UP, 4), NOW)
    one = ControlEntries(APP, 4, ORIGIN, entries(Mark(1, 1)))
    assert node.on_message(OTHER, one, NOW) == []
    assert node.on_message(UP, ControlEntries(APP, 3, ORIGIN, one.entries), NOW) == []
    assert node.on_message(DOWN, ControlAsk(APP, 5, ORIGIN), NOW) == [Send(DOWN, Unlink(APP, 5))]
    node.on_edge(ChildUp(DOWN, 5), NOW)
    assert node.on_message(DOWN, ControlSeen(APP, 4, ORIGIN), NOW) == [Send(DOWN, Unlink(APP, 4))]
    node.on_edge(ChildDown(DOWN), NOW)
    node.on_edge(ParentDown(), NOW)
    assert node.on_message(UP, one, NOW) == []
    assert node.log.last == ORIGIN


def test_a_forwarder_keeps_entries_for_others_and_bothers_no_runtime() -> None:
    node = Control(APP, random.Random(1))
    node.on_edge(ParentUp(UP, 4), NOW)
    assert handed(node.on_message(UP, ControlEntries(APP, 4, ORIGIN, entries(Mark(1, 1))), NOW)) == []
    assert [entry.mark for entry in handed(node.enrol(None))] == [Mark(1, 1)]
    node.withdraw()
    node.on_delivered(Mark(1, 1))
    assert handed(node.on_message(UP, ControlEntries(APP, 4, Mark(1, 1), entries(Mark(1, 2))), NOW)) == []


def test_a_parent_that_is_behind_its_child_waits_and_a_deposed_history_is_cut_off() -> None:
    node = Control(APP, random.Random(1))
    node.on_edge(ParentUp(UP, 4), NOW)
    node.on_message(UP, ControlEntries(APP, 4, ORIGIN, entries(Mark(1, 1))), NOW)
    node.on_edge(ChildUp(DOWN, 5), NOW)
    effects = node.on_message(DOWN, ControlAsk(APP, 5, Mark(1, 3)), NOW)
    assert sent(effects, ControlSeen) == [ControlSeen(APP, 4, Mark(1, 3))]
    assert sent(effects, ControlEntries) == []
    run = ControlEntries(APP, 4, Mark(1, 1), entries(Mark(1, 2), Mark(1, 3), Mark(1, 4)))
    effects = node.on_message(UP, run, NOW)
    assert sent(effects, ControlEntries) == [ControlEntries(APP, 5, Mark(1, 3), entries(Mark(1, 4)))]
    effects = node.on_message(UP, ControlEntries(APP, 4, Mark(1, 2), entries(Mark(2, 3))), NOW)
    assert sent(effects, ControlEntries) == [ControlEntries(APP, 5, Mark(1, 2), entries(Mark(2, 3)))]
    assert [entry.mark for entry in node.log.entries] == [Mark(1, 1), Mark(1, 2), Mark(2, 3)]


# ---- random schedules


@pytest.mark.parametrize("seed", range(40))
def test_a_recorded_roots_entries_reach_everyone_in_order_without_a_gap(seed: int) -> None:
    world = ControlWorld(3 + seed % 8, seed, recorded=True)
    world.crash_when_stored = 0.02 * (seed % 2)
    for _ in range(6_000):
        world.step(faults=0.3)
    world.heal()
    world.peers[0].say()
    world.settle()
    world.check_end()
    assert world.skips == 0
    histories = [[(entry.mark, entry.body) for entry in peer.handled] for peer in world.peers]
    assert all(history == histories[0] for history in histories)
    assert len(histories[0]) > 5


@pytest.mark.parametrize("seed", range(60))
def test_changing_roots_never_repeat_or_reorder_and_say_what_was_missed(seed: int) -> None:
    world = ControlWorld(3 + seed % 8, 1_000 + seed, recorded=False, skewed=seed % 4 > 1)
    world.crash_when_stored = 0.02 * (seed % 2)
    for _ in range(6_000):
        world.step(faults=0.3)
    world.heal()
    world.check_end()
    world.peers[0].say()
    world.settle()
    world.check_end()


@pytest.mark.parametrize("seed", range(30))
def test_agents_away_for_longer_than_the_log_reaches_are_told(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(control_log, "CONTROL_ENTRIES_MAX", 5)
    monkeypatch.setattr(control_log, "CONTROL_LOG_BYTES_MAX", 60)
    world = ControlWorld(3 + seed % 8, 2_000 + seed, recorded=seed % 3 > 0, body_bytes_max=30)
    for _ in range(3_000):
        world.step(faults=0.5)
    away = world.peers[-1]
    world.crash(away.index)
    world.heal()
    for peer in world.peers:
        if peer.is_root:
            world.crash(away.index)
            for _ in range(12):
                peer.say()
                peer.handle()
    away.start()
    world.settle()
    world.check_end()
    root = world.peers[0].machine
    assert root is not None
    assert len(root.log.entries) <= 5
    assert sum(len(entry.body) for entry in root.log.entries[1:]) <= 60
    assert world.skips > 0


def test_a_schedule_is_the_same_for_the_same_seed() -> None:
    def run() -> list[list[ControlEntry]]:
        world = ControlWorld(7, 5, recorded=False)
        for _ in range(3_000):
            world.step(faults=0.3)
        return [peer.handled for peer in world.peers]

    assert run() == run()


# ---- the paper's figure


def test_1280_agents_are_notified_within_10_ms_and_nobody_sends_more_than_16_copies() -> None:
    count, fan_out, delay_us = 1_280, 16, 500
    contacts = [Contact.at("10.0.0.1", 1_000 + index) for index in range(count)]
    index_of = {contact.id: index for index, contact in enumerate(contacts)}
    nodes = [Control(APP, random.Random(index)) for index in range(count)]
    events: list[tuple[int, int, int, int, bytes | None]] = []
    order = itertools.count()
    copies = [0] * count
    notified = [0] * count

    def run(index: int, effects: list[Effect], now_us: int) -> None:
        for effect in effects:
            if isinstance(effect, Deliver):
                notified[index] = now_us
                run(index, nodes[index].on_delivered(effect.entry.mark), now_us)
            elif isinstance(effect, Send):
                copies[index] += isinstance(effect.message, ControlEntries)
                event = (now_us + delay_us, next(order), index, index_of[effect.to.id])
                heapq.heappush(events, (*event, messages.encode(effect.message)))

    def drain() -> None:
        while events:
            now_us, _, source, target, data = heapq.heappop(events)
            message = messages.decode(data or b"")
            assert isinstance(message, ControlAsk | ControlSeen | ControlEntries)
            run(target, nodes[target].on_message(contacts[source], message, now_us // 1000), now_us)

    for index, node in enumerate(nodes):
        run(index, node.enrol(None), 0)
        if index == 0:
            run(0, node.on_edge(RootChanged(True), 0), 0)
            continue
        parent = (index - 1) // fan_out
        run(parent, nodes[parent].on_edge(ChildUp(contacts[index], index), 0), 0)
        run(index, node.on_edge(ParentUp(contacts[parent], index), 0), 0)
    drain()
    begin_us = 10_000_000
    run(0, nodes[0].append(b"reset", begin_us // 1000)[1], begin_us)
    drain()
    assert max(notified) - begin_us <= 10_000
    assert min(notified) == begin_us
    assert max(copies) <= 16
    assert sum(copies) == count - 1
