"""Each rule of a changing job taken away from the shipped decisions in turn: a job that is changed must show it."""

from __future__ import annotations

import pathlib
from collections.abc import Callable, Mapping, Sequence

import polars as pl
import pytest
from msgspec.structs import replace

from elf.agents.completeness.lacks import Lack
from elf.agents.jobs.versions import Version, Versions
from elf.agents.master import contents, window_lacks
from elf.agents.master.version_uptake import NEVER_YET, Since, begun
from elf.agents.store.database import Database
from elf.agents.store.panes import Panes
from elf.agents.wire.records import JobRecord
from elf.agents.worker.worker import Worker
from elf.cbt.codec import PaoDecodeError
from elf.overlay.contract import NEVER
from tests.agents import changed
from tests.agents.changed import ChangedWorld
from tests.agents.plans import plan_of
from tests.agents.publications.test_changed import QUERY, WINDOWS, play

Patch = pytest.MonkeyPatch


def without_leaving_stale_rows_out(patch: Patch) -> None:
    """A master counts whatever rows come."""

    def counted(kind: int, frame: pl.DataFrame, versions: Versions) -> pl.DataFrame:
        return frame

    patch.setattr(contents, "_counted", counted)


def without_keeping_what_is_committed(patch: Patch) -> None:
    """A version counts since when its master has proposed, be that committed or not."""
    original = changed.with_version

    def with_version(job: JobRecord, version: Version, committed: int) -> JobRecord | None:
        return original(job, version, NEVER)

    patch.setattr(changed, "with_version", with_version)


def without_a_look_at_what_was_read(patch: Patch) -> None:
    """An agent says that it counts by a version since that begins, whatever it has read before."""
    original = Worker.adopt
    patch.setattr(Worker, "adopt", lambda self, versions, unread: original(self, versions, None))


def without_the_kind_of_a_later_version(patch: Patch) -> None:
    """A label asks who counts by the version of an interval, and not since when PAOs are of that one's kind."""

    def mutant(since: Since, agents: Mapping[str, int], versions: Versions, first: int, last: int) -> Sequence[Lack]:
        now = versions.at(last).version
        return begun(
            since if now.is_told else {now.pao_kind: dict.fromkeys(agents, NEVER)}, agents, versions, first, last
        )

    patch.setattr(window_lacks, "begun", mutant)


def without_boundaries(patch: Patch) -> None:
    """A commit's intervals lie in one pane, whatever versions count them."""
    patch.setattr(Versions, "boundaries", lambda self, after, through: [])


def without_those_who_have_not_said(patch: Patch) -> None:
    """A label takes whoever has not said since when it counts by a version for one that does."""

    def mutant(since: Since, agents: Mapping[str, int], versions: Versions, first: int, last: int) -> Sequence[Lack]:
        return [lack for lack in begun(since, agents, versions, first, last) if lack.last != NEVER_YET - 1]

    patch.setattr(window_lacks, "begun", mutant)


def without_beginning_anew(patch: Patch) -> None:
    """Windows go on with the intervals before, although a version's PAOs are of another kind, or it was a reset."""
    original = changed.with_version

    def with_version(job: JobRecord, version: Version, committed: int) -> JobRecord | None:
        made = original(job, version, committed)
        assert made is not None
        newest = replace(made.versions[-1], begins=job.history[-1].begins)
        return replace(made, versions=(*made.versions[:-1], newest))

    patch.setattr(changed, "with_version", with_version)


Remove = Callable[[Patch], None]
#: The rules, a seed that has shown each, and how often an agent works in it: seldom is many intervals at once.
NEEDED: list[tuple[Remove, int, float]] = [
    (without_leaving_stale_rows_out, 3, 0.05),
    (without_keeping_what_is_committed, 7, 0.05),
    (without_a_look_at_what_was_read, 1, 0.05),
    (without_the_kind_of_a_later_version, 1, 0.05),
    (without_those_who_have_not_said, 1, 0.05),
    (without_boundaries, 1, 0.002),
    (without_beginning_anew, 1, 0.05),
]
#: Seeds that are tried where that one does not show it any more.
SEEDS = range(1, 9)


def is_missed(folder: pathlib.Path, seed: int, pumps: float) -> bool:
    """Tell whether a seed shows that something is wrong, if only by PAOs that do not fit together."""
    plan = plan_of(QUERY.format(more="", where="", window=WINDOWS[0]), lateness_ms=1_000)
    database = Database(folder / f"{seed}.db")
    world = ChangedWorld(plan, Panes(database), 3 + seed % 3, seed)
    try:
        play(world, 5_000, pumps)
    except (pl.exceptions.ColumnNotFoundError, PaoDecodeError):
        return True
    finally:
        database.close()
    return bool(world.wrong)


@pytest.mark.parametrize(("remove", "shown", "pumps"), NEEDED, ids=lambda given: getattr(given, "__name__", ""))
def test_a_rule_that_is_missing_is_missed(
    tmp_path: pathlib.Path, remove: Remove, shown: int, pumps: float, monkeypatch: Patch
) -> None:
    remove(monkeypatch)
    assert any(is_missed(tmp_path, seed, pumps) for seed in (shown, *(each for each in SEEDS if each != shown)))


@pytest.mark.parametrize(("seed", "pumps"), sorted({(shown, pumps) for _, shown, pumps in NEEDED}))
def test_with_all_rules_nothing_is_seen(tmp_path: pathlib.Path, seed: int, pumps: float) -> None:
    assert not is_missed(tmp_path, seed, pumps)
