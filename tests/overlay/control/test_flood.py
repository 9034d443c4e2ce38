"""Records end up equal everywhere: parts that were apart, agents that were away, limits, batches and lost messages."""

from __future__ import annotations

import random
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elf.overlay import messages
from elf.overlay.contract import Record
from elf.overlay.control import flood, records
from elf.overlay.control.flood import COMPARE_MS, Flood
from elf.overlay.control.records import RecordMap
from elf.overlay.effects import Apply, ChildDown, ChildUp, Effect, ParentDown, ParentUp, Send
from elf.overlay.errors import OverlayError
from elf.overlay.ids import Contact
from elf.overlay.messages import Compare, Digest, Records
from tests.overlay.harness import APP, Machine, World

NOW = 1_000_000
UP, DOWN, OTHER = (Contact.at("10.0.0.1", port) for port in (1, 2, 3))


def sent(effects: list[Effect], kind: type) -> list[tuple[Contact, messages.TreeMessage]]:
    return [(e.to, e.message) for e in effects if isinstance(e, Send) and isinstance(e.message, kind)]


def make() -> Flood:
    node = Flood(APP, random.Random(1))
    node.on_edge(ParentUp(UP, 1), NOW)
    node.on_edge(ChildUp(DOWN, 1), NOW)
    return node


def test_a_new_record_goes_over_all_edges_but_the_one_it_came_from() -> None:
    node = make()
    node.on_edge(ChildUp(OTHER, 1), NOW)
    record = Record("k", 1, b"x")
    effects = node.on_message(DOWN, Records(APP, (record,)))
    assert [to for to, _ in sent(effects, Records)] == [OTHER, UP]
    assert [effect.record for effect in effects if isinstance(effect, Apply)] == [record]
    assert node.on_message(UP, Records(APP, (record,))) == []
    assert node.add(record) == (False, [])
    for bad in (Record("", 1, b""), Record("k" * 257, 1, b""), Record("k", -1, b""), Record("k", 1 << 63, b"")):
        with pytest.raises(OverlayError, match="illegal key or version"):
            node.add(bad)
    with pytest.raises(OverlayError, match="262145 bytes, over 262144"):
        node.add(Record("k", 1, bytes(messages.RECORD_BYTES_MAX + 1)))
    node.on_edge(ChildDown(OTHER), NOW)
    node.on_edge(ParentDown(), NOW)
    assert node.on_message(UP, Digest(APP, (), True)) == [], "no neighbour any more"
    assert [to for to, _ in sent(node.add(Record("l", 1, b""))[1], Records)] == [DOWN]


def test_a_record_that_is_not_admitted_is_neither_held_nor_passed_on() -> None:
    asked: list[Record] = []

    def admits(record: Record) -> bool:
        asked.append(record)
        return record.body != b"lie"

    node = Flood(APP, random.Random(1), admits)
    node.on_edge(ParentUp(UP, 1), NOW)
    node.on_edge(ChildUp(DOWN, 1), NOW)
    lie, truth = Record("k", 9, b"lie"), Record("k", 1, b"truth")
    assert node.on_message(DOWN, Records(APP, (lie,))) == []
    effects = node.on_message(DOWN, Records(APP, (truth, lie)))
    assert [effect.record for effect in effects if isinstance(effect, Apply)] == [truth]
    assert node.map.all() == [truth]
    node.on_message(DOWN, Records(APP, (truth,)))
    assert asked == [lie, truth, lie], "what is not new is not asked about"
    node.map.forget("k")
    node.map.forget("l")
    assert (node.map.all(), node.map.summary) == ([], bytes(16))


def test_a_live_edge_compares_now_and_then_and_exchanges_only_on_a_difference() -> None:
    parent, child = make(), Flood(APP, random.Random(2))
    assert [message for _, message in sent(child.on_edge(ParentUp(UP, 1), NOW), Digest)] == [Digest(APP, (), True)]
    for record in (Record("a", 1, b"1"), Record("b", 1, b"2")):
        parent.add(record)
        child.add(record)
    due = child.deadline_ms
    assert due is not None
    assert NOW < due <= NOW + COMPARE_MS
    assert child.on_tick(due - 1) == []
    [(_, compare)] = sent(child.on_tick(due), Compare)
    assert child.deadline_ms == due + COMPARE_MS
    assert isinstance(compare, Compare)
    assert parent.on_message(DOWN, compare) == []
    parent.map.apply(Record("a", 2, b"3"))  # flooded, and lost on the way
    child.map.apply(Record("c", 1, b"4"))
    [(_, digest)] = sent(parent.on_message(DOWN, compare), Digest)
    assert isinstance(digest, Digest)
    effects = child.on_message(UP, digest)
    assert [type(message) for _, message in sent(effects, object)] == [Records, Digest]
    for _, message in sent(effects, object):
        assert isinstance(message, Records | Digest)
        for _, answer in sent(parent.on_message(DOWN, message), Records | Digest):
            assert isinstance(answer, Records)
            child.on_message(UP, answer)
    assert parent.map.all() == child.map.all()
    assert parent.map.summary == child.map.summary


def test_large_maps_travel_in_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flood, "BATCH_BYTES", 1_000)
    node = make()
    for index in range(10):
        node.map.apply(Record(f"{index}", 1, bytes(400)))
    batches = sent(node.on_message(DOWN, Digest(APP, (), False)), Records)
    assert len(batches) == 5
    other = make()
    for _, message in batches:
        assert isinstance(message, Records)
        other.on_message(UP, message)
    assert other.map.all() == node.map.all()


keys = st.sampled_from([f"{kind}/{letter}" for kind in ("job", "member") for letter in "abcdef"])
written = st.lists(st.builds(Record, keys, st.integers(0, 3), st.binary(max_size=3).map(lambda b: b * 3)), max_size=30)


@given(written, written, st.integers(0, 1 << 16))
def test_beyond_the_limits_all_maps_still_end_up_equal(ours: list[Record], theirs: list[Record], seed: int) -> None:
    rng = random.Random(seed)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(records, "RECORDS_MAX", 5)
        patch.setattr(records, "BODIES_BYTES_MAX", 24)
        one, two = RecordMap(), RecordMap()
        for record in ours:
            one.apply(record)
        for record in rng.sample(theirs, len(theirs)):
            two.apply(record)
        for _ in range(20):
            if one.summary == two.summary:
                break
            for record in one.newer_than(two.marks()):
                two.apply(record)
            for record in two.newer_than(one.marks()):
                one.apply(record)
        assert one.all() == two.all()
        assert one.summary == two.summary
        assert len(one.all()) <= 5
        assert sum(len(record.body) for record in one.all()) <= 24
        if len(one.all()) == 5:
            last = one.all()[-1].key
            assert not two.apply(Record("zzz", 9, b""))
            assert two.apply(Record("aaa", 1, b""))
            assert last not in [record.key for record in two.all()], "the greatest key gives way"


class LossyWorld(World):
    """A world whose links may lose single messages of records without anybody noticing, and with durable records."""

    def __init__(self, count: int, seed: int, *, root: int | None) -> None:
        super().__init__(count, seed, root=root)
        self.losing = 0.0
        self.disks: list[RecordMap] = [RecordMap() for _ in range(count)]
        self.carried: Counter[str] = Counter()

    def send(self, source: Machine, to: Contact, message: messages.TreeMessage) -> None:
        self.carried[type(message).__name__] += 1
        if not (isinstance(message, Records | Digest | Compare) and self.rng.random() < self.losing):
            super().send(source, to, message)

    def restart(self, machine: Machine) -> None:
        """Bring the records back as a runtime does, maybe after the edges came up."""
        super().restart(machine)
        for record in self.disks[machine.index].all():
            self.add(machine, record)

    def add(self, machine: Machine, record: Record) -> None:
        assert machine.app is not None
        self.disks[machine.index].apply(record)
        _, effects = machine.app.add_record(record)
        machine.run(effects)

    def write_down(self) -> None:
        """What a runtime was told is on its disk."""
        for machine in self.machines:
            if machine.app is not None:
                for record in machine.app.flood.map.all():
                    self.disks[machine.index].apply(record)

    def step(self) -> None:
        super().step()
        if self.rng.random() < 0.05:
            self.write_down()


def held(world: World) -> list[list[Record] | None]:
    return [machine.app.flood.map.all() if machine.app is not None else None for machine in world.machines]


@pytest.mark.parametrize("seed", range(24))
def test_records_end_up_equal_whatever_was_lost(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    limited = seed % 3 == 0
    monkeypatch.setattr(flood, "COMPARE_MS", 2_000)
    monkeypatch.setattr(flood, "BATCH_BYTES", 40)
    if limited:
        monkeypatch.setattr(records, "RECORDS_MAX", 12)
        monkeypatch.setattr(records, "BODIES_BYTES_MAX", 200)
    count = 3 + seed % 6
    world = LossyWorld(count, seed, root=seed % count if seed % 2 else None)
    world.start()
    world.losing = 0.2
    for _ in range(4_000):
        world.step()
        machine = world.rng.choice(world.machines)
        if machine.app is not None and world.rng.random() < 0.03:
            key = f"job/{world.rng.randrange(30)}"
            world.add(machine, Record(key, world.rng.randrange(1, 50), world.rng.randbytes(world.rng.randrange(20))))
        if world.rng.random() < 0.004:
            world.cut(*world.rng.sample(range(count), 2))
        if world.rng.random() < 0.002:
            world.crash(world.rng.choice(world.machines))
    world.losing = 0.0
    quiet = 0
    for _ in range(400):
        for _ in range(100):
            world.step()
        maps = held(world)
        quiet = quiet + 1 if None not in maps and all(one == maps[0] for one in maps) else 0
        if quiet == 5:
            break
    assert quiet == 5, "equal, and staying so"
    [first, *_] = held(world)
    assert first
    if limited:
        assert len(first) <= 12
    summaries = {machine.app.flood.map.summary for machine in world.machines if machine.app is not None}
    assert len(summaries) == 1


def test_an_idle_tree_compares_twice_a_minute_and_edge_and_says_nothing_else() -> None:
    world = LossyWorld(6, 7, root=0)
    world.start()
    for _ in range(6_000):
        world.step()
    world.add(world.machines[0], Record("job/a", 1, b"x"))
    for _ in range(2_000):
        world.step()
    before, begin_ms = world.carried.copy(), world.now_ms
    while world.now_ms < begin_ms + 60_000:
        world.step()
    spent = world.carried - before
    assert spent["Records"] == spent["Digest"] == 0
    assert 5 <= spent["Compare"] <= 15


def test_a_body_that_is_told_in_several_trees_is_held_once() -> None:
    one, two = RecordMap(), RecordMap()
    body = b"x" * records.SHARED_BYTES_MIN
    assert one.apply(Record("job/a", 1, body)) and two.apply(Record("job", 7, bytes(bytearray(body))))
    (first,), (second,) = one.all(), two.all()
    assert first.body is second.body
    assert second == Record("job", 7, body)
