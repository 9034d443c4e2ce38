"""The lookup machine on drawn networks: it ends, finds the nearest living agents, and liars cost it little."""

from __future__ import annotations

import random
from collections.abc import Iterable

from hypothesis import given
from hypothesis import strategies as st

from elf.overlay.dht.lookup import ASKED_MAX, PARALLEL, Lookup
from elf.overlay.dht.table import by_distance
from elf.overlay.ids import Contact

AGENTS = [Contact.at(f"10.0.0.{index}", 4250) for index in range(1, 120)]


def drive(lookup: Lookup, knows: dict[Contact, list[Contact]], dead: Iterable[Contact], rng: random.Random) -> int:
    """Run a lookup to its end, answers in random order; return how many agents were asked."""
    asked, waiting, gone = 0, list[Contact](), set(dead)
    while True:
        fresh = lookup.to_ask()
        asked += len(fresh)
        waiting += fresh
        if not waiting:
            return asked
        if rng.random() < 0.1:
            lookup.on_stall()
            continue
        contact = waiting.pop(rng.randrange(len(waiting)))
        if contact in gone:
            lookup.on_failure(contact)
        else:
            lookup.on_answer(contact, knows[contact])


@given(st.integers(0, 2**32).map(random.Random), st.sampled_from([1, 3, 20]))
def test_finds_the_nearest_living_agents_when_everybody_knows_his_neighbours(rng: random.Random, width: int) -> None:
    dead = set(rng.sample(AGENTS[1:], 20))
    living = [agent for agent in AGENTS if agent not in dead]
    near = {a: by_distance(AGENTS, a.id)[:30] + rng.sample(AGENTS, 10) for a in AGENTS}
    key = rng.randbytes(20)
    lookup = Lookup(AGENTS[0], key, near[AGENTS[0]], width=width)
    drive(lookup, near, dead, rng)
    found = lookup.result()
    assert not dead.intersection(found)
    assert found == by_distance(found, key)
    if width > 1:
        assert found[0] == by_distance(living, key)[0]


def test_everybody_named_was_heard_of_but_the_dead_and_ourselves() -> None:
    asked, silent, named = AGENTS[1], AGENTS[2], AGENTS[3:9]
    lookup = Lookup(AGENTS[0], asked.id, [asked, silent], width=1)
    lookup.to_ask()
    lookup.on_answer(asked, [*named, AGENTS[0]])
    lookup.on_failure(silent)
    assert lookup.is_complete and lookup.heard() == [asked, *named]


def test_alone_we_find_ourselves() -> None:
    lookup = Lookup(AGENTS[0], bytes(20), [], width=3)
    assert lookup.to_ask() == []
    assert lookup.result() == [AGENTS[0]]


def test_everybody_dead_leaves_only_us() -> None:
    lookup = Lookup(AGENTS[0], bytes(20), AGENTS[1:10], width=3)
    drive(lookup, {}, AGENTS, random.Random(1))
    assert lookup.result() == [AGENTS[0]]


def test_few_are_asked_at_once_unless_they_stall() -> None:
    lookup = Lookup(AGENTS[0], bytes(20), AGENTS[1:30], width=20)
    first = lookup.to_ask()
    assert len(first) == PARALLEL
    assert lookup.to_ask() == []
    lookup.on_stall()
    second = lookup.to_ask()
    assert len(second) == PARALLEL and not set(first) & set(second)


def test_an_endless_stream_of_lies_ends() -> None:
    lookup, asked = Lookup(AGENTS[0], bytes(20), AGENTS[1:3], width=3), 0
    while asked <= ASKED_MAX and (fresh := lookup.to_ask()):
        for contact in fresh:
            asked += 1
            lookup.on_answer(contact, [Contact((100_000 - asked).to_bytes(20), "10.9.9.9", 1)])
    assert asked == ASKED_MAX


def test_the_dead_do_not_hide_the_living_behind_them() -> None:
    key = bytes(byte ^ 255 for byte in AGENTS[0].id)
    near = by_distance(AGENTS[1:], key)
    lookup = Lookup(AGENTS[0], key, near[:6], width=2)
    drive(lookup, {agent: [] for agent in AGENTS}, near[:4], random.Random(1))
    assert lookup.result() == near[4:6]


def test_whoever_is_not_among_the_nearest_need_not_be_waited_for() -> None:
    key = bytes(byte ^ 255 for byte in AGENTS[0].id)
    near = by_distance(AGENTS[1:], key)
    lookup = Lookup(AGENTS[0], key, near[3:6], width=2)
    silent, *others = lookup.to_ask()
    assert silent == near[3]
    for contact in others:
        lookup.on_answer(contact, near[:2])
    for contact in lookup.to_ask():
        assert not lookup.is_complete
        lookup.on_answer(contact, [])
    assert lookup.is_complete and lookup.result() == near[:2]


def test_a_suspect_is_asked_twice_and_then_passed_over() -> None:
    key = bytes(byte ^ 255 for byte in AGENTS[0].id)
    near = by_distance(AGENTS[1:], key)
    lookup = Lookup(AGENTS[0], key, near[:3], width=2)
    suspect, *others = lookup.to_ask()
    for contact in others:
        lookup.on_answer(contact, [])
    lookup.on_stall([suspect])
    assert not lookup.is_complete
    lookup.on_stall([suspect])
    for contact in lookup.to_ask():
        lookup.on_answer(contact, [])
    assert lookup.is_complete and lookup.result() == near[1:3]
    lookup.on_answer(suspect, [])
    assert lookup.result() == near[:2], "his late answer counts all the same"


def test_suspects_alone_are_waited_for_since_nobody_else_can_tell() -> None:
    lookup = Lookup(AGENTS[0], bytes(20), AGENTS[1:3], width=3)
    suspects = lookup.to_ask()
    for _ in range(3):
        lookup.on_stall(suspects)
    assert not lookup.is_complete
