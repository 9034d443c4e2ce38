"""Each rule of exactness taken away from the shipped agents in turn: the World must see it (docs/ROLLUP.md)."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec
import pytest

from elf.agents.completeness.label import Label
from elf.agents.master import master
from elf.agents.master.panes.labels import Labels
from elf.agents.store.checkpoints import Checkpoints
from elf.agents.worker.state import Snapshot, SourceState, WorkerState
from elf.agents.worker.worker import Worker
from elf.overlay.contract import Verdict
from tests.overlay.group import test_rules as group
from tests.overlay.rollup import test_rules as rollup
from tests.world import trials

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
    patch.setattr(master, "lacking", lambda known, partial_before, first, last: [])


Remove = Callable[[Patch], None]
#: The rules, and a seed of the World that has shown each.
NEEDED: list[tuple[Remove, int]] = [
    (without_retention, 1),
    (without_one_transaction, 1),
    (without_names, 1),
    (without_gaps, 2),
    (without_those_that_began_late, 2),
    (rollup.without_m2, 1),
    (rollup.without_m4_at_the_root, 4),
    (rollup.without_m8, 1),
    (group.without_a_majority, 4),
]
#: Seeds that are tried where that one does not show it any more.
SEEDS = range(1, 6)


@pytest.mark.parametrize(("remove", "shown"), NEEDED, ids=lambda given: getattr(given, "__name__", ""))
def test_a_rule_that_is_missing_is_missed(remove: Remove, shown: int, monkeypatch: Patch) -> None:
    remove(monkeypatch)
    monkeypatch.setattr(trials, "SETTLE_S", 30.0)
    assert any(trials.play(seed).failures for seed in (shown, *SEEDS))
