"""Simulated jobs that several agents change at the same time; rules taken away, each of which some seed misses."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Coroutine, Mapping, Sequence

import pytest
from msgspec.structs import replace

from elf.overlay.contract import NEVER, Commit
from elf.overlay.sim import copies, runtime, sweep, versions
from elf.overlay.sim.agents import Cluster
from elf.overlay.sim.changing import ask
from elf.overlay.sim.checkers import check_counted
from elf.overlay.sim.copies import Copy
from elf.overlay.sim.jobs import Amend, Job
from elf.overlay.sim.loop import SimLoop
from elf.overlay.sim.payloads import Row
from elf.overlay.sim.versions import Version
from elf.overlay.sim.work import Work

Patch = pytest.MonkeyPatch
Versions = tuple[Version, ...]


def simulate(scenario: Callable[[Cluster, Work], Coroutine[object, object, None]], count: int = 5) -> None:
    """Let a job work on `count` agents, and then a scenario befall it."""

    async def play(cluster: Cluster) -> None:
        cluster.job = Job(*cluster.keys(2))
        await cluster.grow(count)
        work = Work(cluster, cluster.job)
        working = cluster.loop.create_task(work.go_on(1_000.0, items=True))
        await cluster.wait(lambda: len(work.log.commits) > 2 and not work.unsettled_group(), 30.0)
        await scenario(cluster, work)
        working.cancel()
        assert work.job.truth.wrong == work.wrong_versions(complete=True) == []
        assert check_counted(work.log, work.due(), complete=False) == []

    loop = SimLoop(1)
    loop.run(play(Cluster(loop, disk_ms=20, leap_after_ms=3_000)))
    assert loop.errors == []


def test_five_that_race_for_one_number_get_it_one_after_the_other() -> None:
    async def scenario(cluster: Cluster, work: Work) -> None:
        rng = random.Random(1)
        asked = [Amend("reset", machine.runtime.name, expected=0) for machine in cluster.machines]
        made = await asyncio.gather(
            *(m.task(ask(m, work.job, request, rng)) for m, request in zip(cluster.machines, asked, strict=True))
        )
        answered = {version.asked: version.since for version in work.log.versions[1:]}
        assert answered == {
            request.asked: since for request, since in zip(asked, made, strict=True) if since is not None
        }
        assert len(answered) > 1, "whoever came too late asked again"
        last = work.log.versions[-1]
        await cluster.wait(lambda: work.log.rollup.committed >= last.since, 20.0)
        assert work.log.emptied == sorted({version.since for version in work.log.versions[1:]})
        assert not work.missing() and not work.superseded, "two intervals are time enough"
        workers = [machine.runtime for machine in cluster.machines if work.app in machine.trees]
        assert len(workers) > 3 and all(worker.versions == work.log.versions for worker in workers)

    simulate(scenario)


def test_whoever_hears_of_a_version_too_late_is_named_until_it_counts_by_it() -> None:
    async def scenario(cluster: Cluster, work: Work) -> None:
        late = next(m for m in cluster.machines if work.app in m.trees and not m.is_root)
        leader = work.leader
        assert leader is not None
        # Snapshots get through, records do not.
        adopt = runtime.Runtime.adopt

        def deaf(self: runtime.Runtime, known: Versions, unread: int | None) -> None:
            if self is not late.runtime or work.log.rollup.committed > known[-1].since + 3:
                adopt(self, known, unread)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(runtime.Runtime, "adopt", deaf)
            since = await leader.task(ask(leader, work.job, Amend("update", "once"), random.Random(1)))
            assert since is not None
            name = late.runtime.name
            await cluster.wait(lambda: work.log.rollup.committed > since + 4, 20.0)
            heard = late.heard
            assert heard is not None
            late.call(late.runtime.adopt, heard.versions, late.runtime.unread)
            await cluster.wait(lambda: not work.missing(), 20.0)
        first = late.runtime.unread
        assert first is not None and work.log.since[1][name] > since + 3
        stale = [row for row in work.log.superseded if row.item.startswith(f"{name}#")]
        assert stale and all(since <= row.interval < work.log.since[1][name] for row in stale)
        named = {row.interval: work.log.late(work.log.commits[-1], row.interval) for row in stale}
        assert all(names == {name} for names in named.values())

    simulate(scenario)


# ---- rules taken away: some seed must show it


def without_leaving_stale_rows_out(patch: Patch) -> None:
    """A master counts whatever rows come."""

    def count_row(self: Copy, row: Row) -> None:
        self.rows.append(row)
        self.window.append(row.item)

    patch.setattr(Copy, "_count_row", count_row)


def without_keeping_what_is_committed(patch: Patch) -> None:
    """A version counts since when its master has proposed, be that committed or not."""
    original = copies.with_version
    patch.setattr(copies, "with_version", lambda known, version, committed: original(known, version, NEVER))


def without_numbers(patch: Patch) -> None:
    """A version counts also when another one has taken its number: it gets the next one."""
    original = copies.with_version

    def with_version(known: Versions, version: Version, committed: int) -> Versions | None:
        number = known[-1].number + 1
        kind = known[-1].kind if version.what == "touch" else number
        return original(known, replace(version, number=number, kind=kind), committed)

    patch.setattr(copies, "with_version", with_version)


def without_a_look_at_what_was_read(patch: Patch) -> None:
    """An agent says that it counts by a version since that begins, whatever it has read before."""
    patch.setattr(runtime, "taken_up", lambda since, old, known, unread: versions.taken_up(since, old, known, None))


def without_the_kind_of_a_later_version(patch: Patch) -> None:
    """A label asks who counts by the version of an interval, and not since when rows are as that one's are."""

    def late(self: Copy, commit: Commit, interval: int) -> set[str]:
        agents, version = (
            {*commit.reported, *commit.missing, *self.rollup.roster},
            versions.version_at(self.versions, interval),
        )
        return versions.late(self.versions, self.since, agents, interval) if version.is_told else set()

    patch.setattr(Copy, "late", late)


def without_those_who_left(patch: Patch) -> None:
    """A label names of those only who are expected now."""

    def late(self: Copy, commit: Commit, interval: int) -> set[str]:
        return versions.late(self.versions, self.since, self.rollup.roster, interval)

    patch.setattr(Copy, "late", late)


def without_boundaries(patch: Patch) -> None:
    """An agent seals rows of several kinds in one snapshot."""
    none: Sequence[int] = ()
    patch.setattr(runtime, "boundaries", lambda *_: none)


#: With seeds that have shown each of them, others if these do not any more, and what is then wrong.
MUTANTS: Mapping[Callable[[Patch], None], tuple[tuple[int, ...], str]] = {
    without_leaving_stale_rows_out: ((1, *range(2, 30)), "has rows of the kinds"),
    without_keeping_what_is_committed: ((1, *range(2, 30)), "has rows of the kinds"),
    without_numbers: ((5, *range(1, 30)), "versions answer one question"),
    without_a_look_at_what_was_read: ((1, *range(2, 30)), "no label says so"),
    without_the_kind_of_a_later_version: ((11, *range(1, 60)), "no label says so"),
    without_those_who_left: ((4, *range(1, 60)), "no label says so"),
    without_boundaries: ((7, *range(1, 60)), "in one snapshot"),
}


@pytest.mark.parametrize("remove", MUTANTS, ids=lambda remove: remove.__name__)
def test_a_rule_that_is_taken_away_is_missed(remove: Callable[[Patch], None], monkeypatch: Patch) -> None:
    remove(monkeypatch)
    seeds, wrong = MUTANTS[remove]
    assert any(wrong in text for seed in seeds for text in sweep.run("faults", seed).failures)
