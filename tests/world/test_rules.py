"""Each rule of exactness taken away from the shipped agents in turn: the World must see it (docs/ROLLUP.md)."""

from __future__ import annotations

import asyncio
import dataclasses
import sqlite3
from collections.abc import Callable, Sequence
from typing import Any

import msgspec
import pytest

from elf.agents.completeness.label import Label
from elf.agents.completeness.lacks import GONE, Lacks
from elf.agents.jobs.versions import Version, Versions
from elf.agents.language.own_functions import Admits
from elf.agents.master import windows
from elf.agents.master.panes.labels import Labels
from elf.agents.publications import amendment
from elf.agents.store import groups
from elf.agents.store.checkpoints import Checkpoints
from elf.agents.wire.changes import Amend
from elf.agents.wire.records import JobRecord
from elf.agents.worker.state import Snapshot, SourceState, WorkerState
from elf.agents.worker.worker import Worker
from elf.overlay.contract import Verdict
from elf.overlay.group.effects import Save
from elf.overlay.group.followers import Followers
from tests.overlay.group import test_rules as group
from tests.overlay.rollup import test_rules as rollup
from tests.world import leadership, trials
from tests.world.checkers import check_labels
from tests.world.trials import Run
from tests.world.truth import LOGGED, JobPlan, Truth
from tests.world.work import Work
from tests.world.world import World

Patch = pytest.MonkeyPatch


def without_retention(patch: Patch) -> None:
    """M4: an agent drops what it sealed once it was leapt over, instead of bringing it later."""

    def settle(self: Worker, verdict: Verdict, snapshots: Sequence[Snapshot]) -> None:
        original(self, msgspec.structs.replace(verdict, missing=False), ())

    original = Worker.settle
    patch.setattr(Worker, "settle", settle)


def without_one_transaction(patch: Patch) -> None:
    """How far lines were read is not written with what was made of them."""

    def write(self: Checkpoints, source: SourceState, workers: Sequence[WorkerState]) -> None:
        known = self.source(source.source)
        original(self, source if known is None else msgspec.structs.replace(source, positions=known.positions), workers)

    original = Checkpoints.write
    patch.setattr(Checkpoints, "write", write)


def without_names(patch: Patch) -> None:
    """The master forgets whom a pane lacks."""

    def joined(self: Labels, first: int, last: int) -> list[Label]:
        return [msgspec.structs.replace(label, missing=()) for label in original(self, first, last)]

    original = Labels.joined
    patch.setattr(Labels, "joined", joined)


def without_gaps(patch: Patch) -> None:
    """An agent says nothing of lines that may have vanished unread."""
    patch.setattr(Worker, "note_gap", lambda self, after_ms, before_ms: None)


def without_those_that_began_late(patch: Patch) -> None:
    """The master forgets who had not all of a window."""

    def lacks_of_window(*told: Any) -> Lacks:
        return original(*told).only(*GONE)

    original = windows.lacks_of_window
    patch.setattr(windows, "lacks_of_window", lacks_of_window)


Remove = Callable[[Patch], None]
#: The rules, a seed of the World that has shown each, and how long faults have to come.
NEEDED: list[tuple[Remove, int, float]] = [
    (without_retention, 1, 20.0),
    (without_one_transaction, 1, 20.0),
    (without_names, 1, 20.0),
    (without_gaps, 5, 20.0),
    (rollup.without_m2, 1, 20.0),
    (rollup.without_m4_at_the_root, 4, 20.0),
    (rollup.without_m5, 1, 20.0),
    (rollup.without_m7, 4, 40.0),
    (rollup.without_m8, 4, 20.0),
    (group.without_a_majority, 4, 20.0),
]
#: Seeds that are tried where that one does not show it any more.
SEEDS = range(1, 6)


@pytest.mark.parametrize(("remove", "shown", "seconds"), NEEDED, ids=lambda given: getattr(given, "__name__", ""))
def test_a_rule_that_is_missing_is_missed(remove: Remove, shown: int, seconds: float, monkeypatch: Patch) -> None:
    remove(monkeypatch)
    monkeypatch.setattr(trials, "SETTLE_S", 20.0)
    assert any(trials.play(seed, 5, trials.Options(seconds=seconds)).failures for seed in (shown, *SEEDS))


async def _published_among_lines(world: World, run: Run) -> None:
    """All agents have read lines of a job's first window when they hear of the job."""
    truth = Truth()
    work = Work(world, truth, seed=3)
    await world.start()
    await trials.meet(world, world.hosts)
    await work.publish(world.hosts[0], JobPlan(name="other", source=LOGGED, size_ms=2_000))
    for tenths in range(300):
        for host in world.hosts:
            work.log(host, 1)
        if tenths == 105:
            await work.publish(world.hosts[1], JobPlan(name="each", source=LOGGED, size_ms=10_000))
        await asyncio.sleep(0.1)
    await asyncio.sleep(15)
    await work.ask_for_all()
    await work.end()
    run.failures += check_labels(truth)


@pytest.mark.parametrize("is_forgotten", [False, True])
def test_who_began_within_a_window_is_missed_in_it(is_forgotten: bool, monkeypatch: Patch) -> None:
    if is_forgotten:
        without_those_that_began_late(monkeypatch)
    run = trials.run_course(Run(seed=1, agents=3), _published_among_lines, f"among-{is_forgotten}-")
    assert bool(run.failures) is is_forgotten, run.line()


def without_majorities(patch: Patch) -> None:
    """M3: what a leader alone has on its disk is decided."""
    patch.setattr(Followers, "decided", lambda self, saved, seats: saved)


def without_entries_on_disk(patch: Patch) -> None:
    """A member says that it has an entry, and does not keep it."""

    def save(tree: bytes, save: Save, applied: int, sql: sqlite3.Connection) -> None:
        original(tree, dataclasses.replace(save, entries=()), applied, sql)

    original = groups._save
    patch.setattr(groups, "_save", save)


def without_the_one_before(patch: Patch) -> None:
    """A version follows whichever is the newest, although it names another one."""

    def following(job: JobRecord, versions: Versions, request: Amend, now_ms: int, admits: Admits | None) -> Version:
        return original(job, versions, msgspec.structs.replace(request, expected=None), now_ms, admits)

    original = amendment.next_version
    patch.setattr(amendment, "next_version", following)


#: Rules of the root group, and a seed of the attack on leadership that has shown each.
NEEDED_TO_LEAD: list[tuple[Remove, int]] = [
    (without_majorities, 6),
    (without_entries_on_disk, 6),
    (without_the_one_before, 1),
]


@pytest.mark.parametrize(("remove", "shown"), NEEDED_TO_LEAD, ids=lambda given: getattr(given, "__name__", ""))
def test_a_rule_of_leading_that_is_missing_is_missed(remove: Remove, shown: int, monkeypatch: Patch) -> None:
    remove(monkeypatch)
    seeds = (shown, *SEEDS)
    assert any("block" in failure for seed in seeds for failure in leadership.play_chain(seed).failures)
