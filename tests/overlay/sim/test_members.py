"""Simulated agents with the real root group: it grows, is led again, replaces members; its rules are needed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import msgspec
import pytest

from elf.overlay.contract import NEVER, Commit, RollupState
from elf.overlay.group.followers import Followers
from elf.overlay.group.messages import Kind, Place
from elf.overlay.ids import distance
from elf.overlay.sim import sweep
from elf.overlay.sim.agents import Cluster, Machine
from elf.overlay.sim.checkers import check_counted, check_settled
from elf.overlay.sim.copies import Copy, Count
from elf.overlay.sim.jobs import Job
from elf.overlay.sim.loop import SimLoop
from elf.overlay.sim.members import Member
from elf.overlay.sim.payloads import pack
from elf.overlay.sim.runtime import GroupDisk
from elf.overlay.sim.truth import Truth
from elf.overlay.sim.work import Work

Patch = pytest.MonkeyPatch


def simulate(scenario: Callable[[Cluster, Work], Coroutine[Any, Any, None]], count: int, seed: int = 1) -> None:
    """Let a job work on `count` agents with slow disks, and then a scenario befall it."""

    async def play(cluster: Cluster) -> None:
        cluster.job = Job(*cluster.keys(2))
        await cluster.grow(count)
        work = Work(cluster, cluster.job)
        working = cluster.loop.create_task(work.go_on(1_000.0, items=True))
        await cluster.wait(lambda: not unsettled(cluster, work), 30.0)
        await scenario(cluster, work)
        working.cancel()
        assert work.job.truth.wrong == []
        assert check_counted(work.log, work.due(), complete=False) == []

    loop = SimLoop(seed)
    loop.run(play(Cluster(loop, disk_ms=20, leap_after_ms=3_000)))
    assert loop.errors == []


def unsettled(cluster: Cluster, work: Work) -> list[str]:
    leader = work.leader
    return work.unsettled_group() + check_settled(cluster, work.app, leader.contact if leader is not None else None)


def leader(work: Work) -> Machine:
    found = work.leader
    assert found is not None
    return found


def voters(work: Work) -> set[str]:
    return {seat.agent for seat in work.log.seats if seat.votes}


@pytest.mark.parametrize(("count", "votes"), [(1, 1), (2, 1), (3, 3), (4, 3), (5, 5), (9, 5)])
def test_a_group_has_an_odd_number_of_votes_and_copies_that_are_alike(count: int, votes: int) -> None:
    async def scenario(cluster: Cluster, work: Work) -> None:
        await cluster.wait(lambda: len(voters(work)) == votes, 20.0)
        groups = [machine.runtime.group for machine in cluster.machines]
        await cluster.wait(lambda: sum(group.copy is not None for group in groups) == min(count, 5), 20.0)
        copies = [group.copy for group in groups if group.copy is not None]
        commits = len(work.log.commits)
        await cluster.wait(lambda: all(len(copy.commits) > commits for copy in copies), 20.0)
        least = min(len(copy.commits) for copy in copies)
        assert len({tuple(commit.through for commit in copy.commits[:least]) for copy in copies}) == 1

    simulate(scenario, count)


@pytest.mark.parametrize("silent", [False, True])
def test_when_the_leader_is_lost_results_flow_under_the_next_one(silent: bool) -> None:
    async def scenario(cluster: Cluster, work: Work) -> None:
        first, reigns = leader(work), work.job.reigns
        commits = len(work.log.commits)
        first.crash(silent=silent)
        await cluster.wait(lambda: len(work.log.commits) > commits + 3, 20.0)
        assert leader(work) is not first and work.job.reigns == reigns + 1
        first.come_back()
        await cluster.wait(lambda: not unsettled(cluster, work), 30.0)

    simulate(scenario, 7)


def test_a_leader_cut_off_with_a_minority_decides_nothing_more() -> None:
    async def scenario(cluster: Cluster, work: Work) -> None:
        first = leader(work)
        apart = {first.address, next(m.address for m in cluster.machines if m is not first)}
        cluster.loop.cut = lambda source, target: (source in apart) != (target in apart)
        through = work.log.applied.index
        await cluster.wait(lambda: work.leader is not first and work.log.applied.index > through + 5, 30.0)
        assert first.runtime.group.copy is not None and first.runtime.group.copy.applied.index <= through + 1
        cluster.loop.cut = None
        await cluster.wait(lambda: not unsettled(cluster, work), 60.0)
        assert not first.is_root

    simulate(scenario, 7)


def test_a_member_that_lost_its_disk_is_replaced_and_fetches_a_copy() -> None:
    async def scenario(cluster: Cluster, work: Work) -> None:
        lost = next(m for m in cluster.machines if m.runtime.name in voters(work) and not m.is_root)
        name = lost.runtime.name
        assert work.may_lose_disk(lost)
        lost.lose_disk()
        lost.come_back()
        await cluster.wait(lambda: name not in voters(work) and len(voters(work)) == 5, 60.0)
        await cluster.wait(lambda: not work.rest() or lost.runtime.enlisted, 30.0)
        assert lost.runtime.name != name and lost.runtime.enlisted

    simulate(scenario, 6)


def test_the_only_disks_left_are_not_to_be_lost() -> None:
    async def scenario(cluster: Cluster, work: Work) -> None:
        members = [machine for machine in cluster.machines if machine.runtime.name in voters(work)]
        for machine in members[:2]:
            assert work.may_lose_disk(machine)
            machine.lose_disk()
        assert not any(work.may_lose_disk(machine) for machine in members[2:])
        for machine in members[:2]:
            machine.come_back()
        await cluster.wait(lambda: work.may_lose_disk(members[2]), 90.0)

    simulate(scenario, 9)


def test_the_nearest_member_leads_once_all_is_quiet() -> None:
    async def scenario(cluster: Cluster, work: Work) -> None:
        def nearest() -> Machine:
            seats = [seat for seat in work.log.seats if seat.votes]
            return cluster.by_id[min(seats, key=lambda seat: distance(seat.contact.id, work.app)).contact.id]

        await cluster.wait(lambda: nearest().is_root, 60.0)
        await asyncio.sleep(20.0)
        assert leader(work) is nearest()

    simulate(scenario, 8)


def test_the_truth_sees_another_entry_at_a_place_and_a_hole() -> None:
    truth = Truth(Copy())
    truth.observe("a", Place(1, 2), Kind.TERM, b"")
    truth.observe("b", Place(1, 2), Kind.TERM, b"")
    assert truth.wrong == []
    truth.observe("b", Place(2, 2), Kind.TERM, b"")
    assert len(truth.wrong) == 1 and "another entry" in truth.wrong[0]
    truth.observe("c", Place(2, 4), Kind.TERM, b"")
    assert len(truth.wrong) == 2 and "something was lost" in truth.wrong[1]


def test_the_truth_sees_a_commit_at_once_that_says_somebody_is_in_it_who_is_not() -> None:
    def commit(number: int, payload: list[str], *reported: str) -> bytes:
        through, missing = number, tuple({"a", "b"} - set(reported))
        previous = NEVER if number == 1 else number - 1
        return msgspec.msgpack.encode(
            Count(Commit(previous, through, pack(payload), reported, missing, RollupState(through)))
        )

    truth = Truth(Copy())
    for number in (1, 2, 3):
        truth.seal("a", number - 1, number, [f"=a:1@{number}", f"a#{number}"])
        truth.seal("b", number - 1, number, [f"b#{number}"])
    truth.observe("a", Place(1, 2), Kind.COMMAND, commit(1, ["a#1", "b#1"], "a", "b"))
    truth.observe("a", Place(1, 3), Kind.COMMAND, commit(2, ["a#2"], "a"))
    assert truth.wrong == []
    truth.observe("a", Place(1, 4), Kind.COMMAND, commit(3, ["a#3"], "a", "b"))
    assert len(truth.wrong) == 1 and "lacks Counter({'b#3': 1})" in truth.wrong[0]


# ---- rules taken away: some seed must show it


def without_a_majority(patch: Patch) -> None:
    """A leader decides what it alone has: a deposed root commits (OVERLAY 6.4, M3)."""
    patch.setattr(Followers, "decided", lambda self, own, seats: own)


def without_votes_on_disk(patch: Patch) -> None:
    """A member forgets in a crash what it promised, and what it acknowledged."""
    original = GroupDisk.detached

    def detached(self: GroupDisk) -> GroupDisk:
        twin = original(self)
        self.term, self.vote, self.entries = 0, "", ()
        return twin

    patch.setattr(GroupDisk, "detached", detached)


def without_copies_of_new_leaders(patch: Patch) -> None:
    """A leader gives no copy before a majority has let it lead, which may be waiting for that copy."""
    original = Member.answer

    async def answer(self: Member, body: bytes) -> bytes | None:
        return await original(self, body) if self.leads or b"fetch" not in body else None

    patch.setattr(Member, "answer", answer)


#: With seeds that have shown each of them; others are tried when these do not any more.
MUTANTS = [
    (without_a_majority, (3, 2, *range(10, 40))),
    (without_votes_on_disk, (145, *range(10, 40))),
    (without_copies_of_new_leaders, (28, *range(10, 40))),
]


@pytest.mark.parametrize(("remove", "seeds"), MUTANTS, ids=lambda value: getattr(value, "__name__", ""))
def test_a_rule_that_is_taken_away_is_missed(
    remove: Callable[[Patch], None], seeds: tuple[int, ...], monkeypatch: Patch
) -> None:
    remove(monkeypatch)
    assert any(sweep.run("faults", seed).failures for seed in seeds)
