"""Where the successor of an agent that lost its disk begins."""

from __future__ import annotations

import pytest

from elf.overlay.contract import NEVER, Absence, RollupState, RosterEntry, Verdict
from elf.overlay.rollup.succession import BOTH, COUNTED, MISSING, OPEN, brought_through, counted_through, fate_of
from tests.overlay.harness import Machine, World
from tests.overlay.rollup.test_exactly_once import heal


@pytest.mark.parametrize(
    ("entry", "through"),
    [
        (RosterEntry(NEVER), 9),
        (RosterEntry(3), 9),
        (RosterEntry(9), None),
        (RosterEntry(NEVER, (Absence(4, 6),)), 9),
        (RosterEntry(NEVER, (Absence(4, 6), Absence(7, 9))), 7),
        (RosterEntry(NEVER, (Absence(4, 7), Absence(7, 9, named=False))), 4),
        (RosterEntry(4, (Absence(4, 9),)), None),
        (RosterEntry(NEVER, (Absence(NEVER, 9),)), None),
        (RosterEntry(NEVER, (Absence(4, 6),), until=6), 4),
    ],
)
def test_the_gap_begins_after_the_last_interval_that_was_counted(entry: RosterEntry, through: int | None) -> None:
    assert counted_through(entry, 9) == through


def test_a_successor_begins_after_what_was_counted_of_the_lost_one_and_not_later() -> None:
    account = RosterEntry(NEVER, (Absence(4, 9),))
    rollup = RollupState(committed=9, roster={"a": account, "b": RosterEntry(9)})
    assert brought_through(rollup, "a", 9) == 4, "the rest of its intervals was never counted"
    assert brought_through(rollup, "b", 9) == NEVER
    assert brought_through(rollup, "a", 10) == 10, "a commit on its way may hold it"
    assert brought_through(rollup, "c", 7) == 7, "whoever is off the roster has what excluding said"


@pytest.mark.parametrize(
    ("entry", "run", "fate"),
    [
        (RosterEntry(NEVER), (3, 9), COUNTED),
        (RosterEntry(NEVER), (3, 10), OPEN),
        (RosterEntry(5), (NEVER, 5), MISSING),
        (RosterEntry(5), (4, 6), BOTH),
        (RosterEntry(NEVER, (Absence(4, 6), Absence(6, 8, named=False))), (4, 8), MISSING),
        (RosterEntry(NEVER, (Absence(4, 6), Absence(6, 8))), (5, 7), MISSING),
        (RosterEntry(NEVER, (Absence(4, 6), Absence(7, 8))), (4, 8), BOTH),
        (RosterEntry(NEVER, (Absence(4, 6),)), (6, 9), COUNTED),
        (RosterEntry(NEVER, (Absence(4, 6),)), (3, 9), BOTH),
        (RosterEntry(NEVER, until=6), (6, 8), MISSING),
        (None, (3, 9), MISSING),
    ],
)
def test_what_became_of_a_run(entry: RosterEntry | None, run: tuple[int, int], fate: str) -> None:
    roster = {} if entry is None or entry.until is not None else {"a": entry}
    retired = {"a": entry} if entry is not None and entry.until is not None else {}
    assert fate_of(RollupState(9, roster, retired), "a", *run) == fate


class Asking(Machine):
    """A member that asks the root's disk about each verdict."""

    world: AskingWorld

    def heed(self, verdict: Verdict) -> None:
        root = self.world.machines[self.world.root or 0].store.state
        assert root is not None
        said = fate_of(root, self.name, verdict.previous, verdict.through)
        self.world.asked[said] = self.world.asked.get(said, 0) + 1
        # The root's disk may still have an absence that was acknowledged since.
        assert said in ((MISSING,) if verdict.missing else (COUNTED, BOTH)), (verdict, root)
        super().heed(verdict)


class AskingWorld(World):
    def __init__(self, count: int, seed: int) -> None:
        self.asked: dict[str, int] = {}
        super().__init__(count, seed, root=0)

    def new_machine(self, index: int) -> Machine:
        return Asking(self, index)


@pytest.mark.parametrize("seed", range(20))
def test_the_root_stands_by_every_verdict_whatever_falls(seed: int) -> None:
    world = AskingWorld(3 + seed % 5, seed)
    world.crash_at_commit, world.retirements, world.replicas = 0.05, 0.001, 0.2
    world.start()
    sealed = dict.fromkeys(range(len(world.machines)), 0)
    for _ in range(4_000):
        world.step()
        index = world.rng.choice(sorted(sealed))
        if world.machines[index].app is not None and world.rng.random() < 0.05:
            sealed[index] += 1
            world.produce(world.machines[index], sealed[index])
        if world.rng.random() < 0.002:
            world.crash(world.rng.choice(world.machines))
        if world.rng.random() < 0.002:
            world.cut(*world.rng.sample(range(len(world.machines)), 2))
    heal(world)
    assert world.asked[COUNTED] > world.asked.get(BOTH, 0) and OPEN not in world.asked
