"""Root groups under crashes, broken links and changing members: one history, nothing promised lost."""

from __future__ import annotations

import contextlib
import random

import pytest
from msgspec.structs import replace

from elf.overlay.errors import NotJoinedError
from elf.overlay.group.effects import Save, Tell
from elf.overlay.group.machine import RootGroup
from elf.overlay.group.messages import Entry, GroupAppend, GroupAppended, Kind, Place, Seat
from elf.overlay.group.state import GroupState, Role
from elf.overlay.ids import Contact
from tests.overlay.group.world import APP, World


def grown(count: int, seed: int, crash_between: float = 0.0) -> World:
    """Return a world whose first `count` members have a vote."""
    world = World(count + 2, seed)
    first = world.members[0]
    assert first.group is not None
    listeners = [Seat(m.name, m.contact.address, m is first) for m in world.members[:count]]
    first.run(first.group.change(listeners, world.now_ms))
    world.settle(lambda: all(m.group is not None for m in world.members[:count]))
    voters = [m.seat for m in world.members[:count]]
    followers, group = first.group.followers, first.group
    world.settle(lambda: all(followers.has(seat.agent, group.decided) for seat in voters[1:]))
    first.run(first.group.change(voters, world.now_ms))
    world.settle(lambda: all(m.disk is not None and list(m.disk.seats) == voters for m in world.members[:count]))
    world.crash_between = crash_between
    return world


def heal(world: World) -> None:
    """Let everybody come back and demand that a command is applied everywhere."""
    world.crash_between = 0.0
    world.cuts.clear()
    for member in world.members:
        if not member.is_up:
            member.start()
    world.settle(lambda: world.leader() is not None, 60_000)
    for _ in range(40):
        world.propose()
        for _ in range(400):
            world.step()
        leader = world.leader()
        if leader is None or leader.group is None or leader.disk is None:
            continue
        agents = {seat.agent for seat in leader.group.log.seats}
        inside = [m for m in world.members if m.name in agents]
        last = b"%d" % world.proposed
        if all(m.disk is not None and m.disk.applied and m.disk.applied[-1][1] == last for m in inside):
            return
    raise AssertionError("the group does not agree after the faults")


def test_a_member_alone_leads_at_once_and_decides_without_a_log() -> None:
    world = World(1, 1)
    world.propose()
    only = world.members[0]
    assert only.disk is not None
    assert [body for _, body in only.disk.applied] == [b"1"]
    assert only.disk.entries == []


@pytest.mark.parametrize("count", [2, 3, 5])
def test_members_that_join_fetch_a_copy_and_follow(count: int) -> None:
    world = grown(count, 7)
    for _ in range(5):
        world.propose()
    world.settle(lambda: all(m.disk is not None and len(m.disk.applied) == 5 for m in world.members[:count]))


def test_the_nearest_of_the_others_leads_when_the_leader_is_lost() -> None:
    world = grown(5, 3)
    first = world.leader()
    assert first is not None
    world.propose()
    world.crash(first)
    world.settle(lambda: (second := world.leader()) is not None and second is not first)
    world.propose()
    heal(world)
    assert first.group is not None and first.group.role is not Role.LEADER


def test_a_leader_that_is_cut_off_decides_nothing() -> None:
    world = grown(3, 5)
    first = world.leader()
    assert first is not None and first.disk is not None
    others = [m for m in world.members if m is not first]
    for other in others:
        world.cuts |= {(first.contact.address, other.contact.address), (other.contact.address, first.contact.address)}
        world.break_link(first.contact.address, other.contact.address)
    before = len(first.disk.applied)
    world.propose()
    world.settle(lambda: any(m.leads for m in others))
    assert len(first.disk.applied) == before
    assert first.group is not None and not first.group.view(world.now_ms).quorate
    heal(world)


def test_a_large_command_travels_in_parts() -> None:
    world = grown(3, 2)
    leader = world.leader()
    assert leader is not None and leader.group is not None
    _, effects = leader.group.propose(b"x" * (9 << 20), world.now_ms)
    leader.run(effects)
    world.settle(lambda: all(m.disk is not None and m.disk.applied for m in world.members[:3]))


def test_a_member_far_behind_fetches_a_copy() -> None:
    world = grown(3, 4)
    away = next(m for m in world.members[:3] if m is not world.leader())
    world.crash(away)
    leader = world.leader()
    assert leader is not None and leader.group is not None
    for _ in range(12):
        _, effects = leader.group.propose(b"x" * (4 << 20), world.now_ms)
        leader.run(effects)
        world.settle(lambda: not any(world.wires.values()))
    assert leader.group.log.start.index > 5, "the leader has let old entries go"
    heal(world)


def test_a_leader_hands_over() -> None:
    world = grown(3, 6)
    leader = world.leader()
    assert leader is not None and leader.group is not None
    heir = next(m for m in world.members[:3] if m is not leader)
    world.settle(lambda: not any(world.wires.values()))
    leader.run(leader.group.hand_over(heir.name, world.now_ms))
    world.settle(lambda: heir.leads)
    heal(world)


def test_an_operator_can_let_the_last_member_go_on_alone() -> None:
    world = grown(3, 8)
    last = next(m for m in world.members[:3] if m is not world.leader())
    for member in world.members[:3]:
        if member is not last:
            world.crash(member)
    for _ in range(500):
        world.step()
    assert last.group is not None and not last.leads
    last.run(last.group.force(world.now_ms))
    assert last.leads
    world.propose()
    assert last.disk is not None and last.disk.applied


@pytest.mark.parametrize("seed", range(8))
def test_members_that_operators_let_go_on_alone_at_once_come_to_one_history(seed: int) -> None:
    """What one of them decided is lost then, as whoever forces a group is told; but no two copies may ever differ."""
    world = grown(5, seed)
    world.settle(lambda: not any(world.wires.values()))
    alive = [member for member in world.members[:5] if member is not world.leader()][:2]
    for member in world.members:
        if member not in alive:
            world.crash(member)
    for one, body in zip(alive, (b"one", b"other"), strict=True):
        assert one.group is not None
        one.run(one.group.force(world.now_ms))
        one.run(one.group.propose(body, world.now_ms)[1])
    first, second = alive
    assert first.disk is not None and second.disk is not None
    # Each is asked into the other's group by its care; what was sent before that counts as little as it may.
    for one, other in ((first, second), (second, first)):
        group = one.group
        if group is not None and group.role is Role.LEADER:
            with contextlib.suppress(NotJoinedError):
                joined = Seat(other.name, other.contact.address, False)
                one.run(group.change([*group.log.seats, joined], world.now_ms))
    for _ in range(3_000):
        pair = next((pair for pair, wire in world.wires.items() if wire), None)
        if pair is not None:
            world.deliver(pair, world.wires[pair].popleft())
            continue
        world.now_ms += 100
        for member in alive:
            if member.group is not None and member.group.deadline_ms <= world.now_ms:
                member.run(member.group.on_tick(world.now_ms))
    assert first.disk.applied[-1:] == second.disk.applied[-1:]
    assert first.disk.applied == second.disk.applied
    assert sum(member.leads for member in alive) == 1


def test_new_members_are_on_disk_before_anybody_is_told_of_them() -> None:
    """Told first, they could go on without the only vote, which would lead alone again after falling in between."""
    seats = tuple(Seat(f"a{index}", f"10.0.0.1:{1000 + index}", index == 0) for index in range(3))
    group = RootGroup(APP, "a0", GroupState(term=1, applied=Place(1, 1), seats=seats), random.Random(1), 0)
    for effect in group.on_tick(1_000):
        if isinstance(effect, Save):
            group.on_saved(effect.after + len(effect.entries), 0)
    assert group.role is Role.LEADER
    for index in (1, 2):
        through = GroupAppended(APP, group.term, f"a{index}", True, group.log.last.index)
        group.on_message(Contact.at("10.0.0.1", 1000 + index), through, 0)
    effects = group.change([replace(seat, votes=True) for seat in seats], 0)
    assert [type(effect) for effect in effects] == [Save]
    told = [effect for effect in group.on_saved(group.log.last.index, 0) if isinstance(effect, Tell)]
    assert {tell.to.port for tell in told} == {1001, 1002}
    assert group.decided < group.log.last.index, "and it takes two of the three from here on"


def follower(*places: Place) -> RootGroup:
    """Return a member of three with these undecided entries after place (1, 1)."""
    seats = tuple(Seat(f"a{index}", f"10.0.0.1:{1000 + index}", True) for index in range(3))
    entries = tuple(Entry(place, Kind.COMMAND, b"old") for place in places)
    return RootGroup(
        APP, "a0", GroupState(term=1, applied=Place(1, 1), seats=seats, entries=entries), random.Random(1), 0
    )


def saves_of(group: RootGroup, term: int, *places: Place) -> list[tuple[int, int]]:
    """Append entries after place (1, 1) as leader a1; return what is to be saved: after which index, how many."""
    entries = tuple(Entry(place, Kind.COMMAND, b"new") for place in places)
    leader = Contact.at("10.0.0.1", 1001)
    effects = group.on_message(leader, GroupAppend(APP, term, "a1", "a0", Place(1, 1), entries, 0), 0)
    return [(effect.after, len(effect.entries)) for effect in effects if isinstance(effect, Save)]


def test_what_a_new_leader_puts_in_the_place_of_entries_is_saved_in_one_go() -> None:
    """Two writes, of the term and of the entries, would count entries as durable that the second takes away."""
    group = follower(Place(1, 2), Place(1, 3), Place(1, 4))
    assert saves_of(group, 2, Place(2, 2)) == [(1, 1)]
    group.on_saved(2, 0)
    assert group.saved == group.log.last.index == 2


def test_all_that_follows_an_entry_that_differs_is_replaced() -> None:
    """No honest log has the same place after another one; who says so must not tear a hole into ours."""
    group = follower(Place(1, 2), Place(2, 3))
    assert saves_of(group, 2, Place(2, 2), Place(2, 3), Place(2, 4)) == [(1, 3)]
    assert [entry.body for entry in group.log.entries] == [b"new"] * 3


def play(seed: int) -> None:
    """Let everything befall a group that a seed draws, then heal it."""
    world = grown(1 + seed % 5, seed, crash_between=0.002 if seed % 2 else 0.0)
    for _ in range(3_000):
        world.step()
        draw = world.rng.random()
        if draw < 0.03:
            world.propose()
        elif draw < 0.035:
            world.change()
        elif draw < 0.04:
            one, other = world.rng.sample(world.members, 2)
            pair = one.contact.address, other.contact.address
            world.cuts |= {pair, pair[::-1]}
            world.break_link(*pair)
        elif draw < 0.05 and world.cuts:
            world.cuts.clear()
        elif draw < 0.055:
            up = [m for m in world.members if m.is_up]
            if up:
                world.crash(world.rng.choice(up))
        elif draw < 0.065:
            for member in world.members:
                if not member.is_up:
                    member.start()
    heal(world)


@pytest.mark.parametrize("seed", range(60))
def test_one_history_under_faults_and_changing_members(seed: int) -> None:
    play(seed)
