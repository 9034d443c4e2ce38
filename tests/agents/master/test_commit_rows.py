"""What a commit brings finds the panes of its intervals, also where versions of the job change within its run."""

from __future__ import annotations

import contextlib
import pathlib
import tempfile
from collections.abc import Iterator, Sequence

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from elf.agents.jobs.versions import Compiled, Version, Versions
from elf.agents.master.master import Master
from elf.agents.master.results import Span
from elf.agents.store.database import Database
from elf.agents.store.panes import Panes
from elf.agents.worker.paos import Paos
from elf.agents.worker.payload import Notes, pack
from elf.cbt import PaoSchema
from elf.overlay.contract import NEVER, Commit, RollupState, RosterEntry
from elf.overlay.group.messages import Place
from tests.agents.plans import CUMULATIVE, events, plan_of

OLD = plan_of()
NEW = plan_of("SELECT product, max(cents) AS most FROM clicks GROUP BY product, window(ts, '4 seconds', '2 seconds')")
#: 2 counts from 15 on; from 18 on nothing is counted, and from 20 on by 2 again.
VERSIONS = Versions(
    [
        Compiled(Version(number=1, definition=OLD.definition), OLD),
        Compiled(Version(number=2, definition=NEW.definition, what="update", since=15, begins=15, pao_kind=2), NEW),
        Compiled(Version(number=3, definition=NEW.definition, what="pause", since=18, begins=15, pao_kind=2), NEW),
        Compiled(Version(number=4, definition=NEW.definition, what="resume", since=20, begins=15, pao_kind=2), NEW),
    ]
)
#: The end of a longer pause.
LATER = Version(number=4, definition=NEW.definition, what="resume", since=30, begins=15, pao_kind=2)
Row = tuple[int, str, int]


class Told:
    """A master of one agent, which has told that it counts by each version in time."""

    def __init__(self, versions: Versions, store: Panes) -> None:
        store.create(versions.newest.plan.definition.app_id, b"job", b"")
        self.versions, self.store, self.master = versions, store, Master(versions, store, None)

    def commit(self, through: int, *rows: Row, is_idle: bool = False) -> None:
        """Commit rows (interval, product, cents), each as the version of its interval makes PAOs of it.

        `is_idle`: nobody has anything to say.
        """
        state, interval_ms = self.master.state, OLD.interval_ms
        parts = [
            (found.version.pao_kind, found.plan.reduce(events([(interval * interval_ms, product, cents)])))
            for interval, product, cents in rows
            for found in [self.versions.at(interval)]
        ]
        since = {version.number: version.since for version, _ in self.versions.all if version.is_told}
        payload = pack(Notes(since={"w1": since}), Paos(parts))
        rollup = RollupState(through, {"w1": RosterEntry(admitted=NEVER)})
        commit = Commit(state.rollup.committed, through, None if is_idle else payload, ("w1",), (), rollup)
        self.master.commit(commit, Place(1, state.applied.index + 1))

    def restart(self) -> None:
        """Begin again with what is on disk."""
        self.master = Master(self.versions, self.store, self.store.masters()[0][2])

    def ask(self, interval: int, last: int | None = None) -> tuple[list[object], str, int]:
        """Rows, status and void intervals of a window."""
        end = interval if last is None else last
        span = Span(interval * OLD.interval_ms, (end + 1) * OLD.interval_ms)
        result = self.master.windows.result(span, None, None, str)
        known = result.completeness
        return [tuple(row.values()) for row in result.rows], known["status"], known["void"]


@pytest.fixture
def store(tmp_path: pathlib.Path) -> Iterator[Panes]:
    database = Database(tmp_path / "state.db")
    yield Panes(database)
    database.close()


@pytest.mark.parametrize("restarts", [False, True])
def test_a_run_over_changes_becomes_panes_of_one_version_each(store: Panes, restarts: bool) -> None:
    told = Told(VERSIONS, store)
    told.commit(12, (12, "a", 1))
    told.commit(22, (13, "a", 3), (14, "b", 5), (16, "a", 7), (22, "a", 9))
    assert [(label.previous, label.through) for label in told.master._history.labels.all()][1:] == [
        (12, 14),
        (14, 17),
        (17, 19),
        (19, 22),
    ]
    told.commit(23, (14, "b", 6), (17, "a", 8), (21, "c", 4))
    if restarts:
        told.restart()
        told.commit(24, (24, "a", 1))
    assert told.ask(13) == ([("a", 1, 3)], "final", 0), "its pane has changed, elsewhere"
    assert told.ask(13, 14) == ([("b", 2, 11), ("a", 1, 3)], "revised", 0)
    assert told.ask(15, 17) == ([("a", 8)], "revised", 0)
    assert told.ask(14, 15) == ([], "final_incomplete", 0), "it reaches back beyond where its version begins"
    assert told.ask(18) == ([], "final_incomplete", 1), "one interval of the pause"
    assert told.ask(17, 22) == ([("a", 9), ("c", 4)], "final_incomplete", 2)
    assert told.ask(20, 22) == ([("a", 9), ("c", 4)], "revised", 0)


def test_a_pause_is_one_pane_of_which_each_window_has_its_own_intervals(store: Panes) -> None:
    told = Told(Versions([*VERSIONS.all[:3], VERSIONS.all[3]._replace(version=LATER)]), store)
    told.commit(17, (17, "a", 7))
    for through in range(18, 23):
        told.commit(through, is_idle=True)
        assert [told.ask(each)[2] for each in range(18, through + 1)] == [1] * (through - 17), "as it was sent"
    labels = told.master._history.labels.all()
    assert [(label.previous, label.through, label.void) for label in labels[2:]] == [(17, 22, 5)]
    told.commit(31, (31, "a", 1))
    assert told.ask(19, 20) == ([], "final_incomplete", 2)
    assert told.ask(16, 18)[1:] == ("final_incomplete", 1) and told.ask(22, 31)[1:] == ("final_incomplete", 8)
    told.restart()
    assert told.ask(28, 31) == ([("a", 1)], "final_incomplete", 2) and told.ask(30, 31) == ([("a", 1)], "final", 0)


def test_a_total_begins_anew_with_other_paos_and_goes_on_over_a_pause(store: Panes) -> None:
    old = plan_of(CUMULATIVE, options='interval = "2s"')
    new = plan_of(CUMULATIVE.replace("FROM clicks", "FROM clicks WHERE cents > 2"), options='interval = "2s"')

    def version(number: int, what: str, since: int) -> Compiled:
        made = Version(number=number, definition=new.definition, what=what, since=since, begins=5, pao_kind=2)  # type: ignore[arg-type]
        return Compiled(made, new)

    versions = Versions(
        [
            Compiled(Version(number=1, definition=old.definition), old),
            version(2, "update", 5),
            version(3, "pause", 7),
            version(4, "resume", 9),
        ]
    )
    told = Told(versions, store)

    def total() -> tuple[Sequence[object], int]:
        result = told.master.windows.result(None, None, None, str)
        return [tuple(row.values()) for row in result.rows], result.completeness["void"]

    told.commit(4, (3, "a", 1), (4, "b", 9))
    assert total() == ([("a", 1), ("b", 1)], 0)
    told.commit(6, (4, "late", 9), (5, "a", 1), (6, "a", 3))
    assert total() == ([("a", 1)], 0)
    assert told.master.state.too_late == 1
    told.commit(8)
    told.restart()
    told.commit(10, (10, "a", 4), (6, "c", 9))
    assert total() == ([("a", 2), ("c", 1)], 2)


def test_a_storm_of_old_events_is_one_merge_of_their_pane(store: Panes, monkeypatch: pytest.MonkeyPatch) -> None:
    told, merged = Told(Versions.of(OLD), store), list[int]()
    told.commit(100_000, (100_000, "a", 1))
    told.commit(100_001, (100_001, "a", 1))
    merge = type(OLD.schema).merge

    def counted(schema: PaoSchema, frames: Sequence[pl.DataFrame]) -> pl.DataFrame:
        merged.append(sum(frame.height for frame in frames))
        return merge(schema, frames)

    rows = OLD.reduce(events([(at * OLD.interval_ms, "a", 1) for at in range(0, 60_000, 3)]))
    monkeypatch.setattr(type(OLD.schema), "merge", counted)
    state = told.master.state
    commit = Commit(
        100_001, 100_002, pack(Notes(late=rows.height), rows), ("w1",), (), replace(state.rollup, committed=100_002)
    )
    told.master.commit(commit, Place(1, state.applied.index + 1))
    monkeypatch.undo()
    assert sum(merged) <= 3 * rows.height, "N rows of N intervals are merged once, not one after the other"
    first = told.master._history.labels[100_000]
    assert (first.revision, len(first.changed_in)) == (1, 1), "more intervals than a label remembers are one run"
    assert told.ask(30) == ([("a", 1, 1)], "revised", 0) and told.ask(31)[0] == []
    assert told.ask(0, 59_999) == ([("a", 20_000, 20_000)], "revised", 0)


@given(
    st.lists(st.tuples(st.integers(0, 40), st.sampled_from("ab"), st.just(1)), max_size=12),
    st.lists(st.tuples(st.integers(0, 40), st.sampled_from("ab"), st.just(1)), min_size=1, max_size=30),
)
@settings(max_examples=40, deadline=None)
def test_late_rows_of_any_panes_are_counted_as_if_each_had_come_alone(before: list[Row], late: list[Row]) -> None:
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        databases = [Database(pathlib.Path(folder) / name / "state.db") for name in ("one", "each")]
        for database in databases:
            stack.callback(database.close)
        together, alone = (Told(Versions.of(OLD), Panes(each)) for each in databases)
        for told in (together, alone):
            for through in (9, 10, 20, 21, 40):
                told.commit(through, *(row for row in before if row[0] <= through), is_idle=through == 20)
        together.commit(100, *late, (90, "c", 1))
        for at, row in enumerate(late):
            alone.commit(41 + at, row)
        alone.commit(100, (90, "c", 1))
        for first in range(0, 41, 5):
            assert sorted(together.ask(first, first + 4)[0], key=str) == sorted(alone.ask(first, first + 4)[0], key=str)
        keys = [
            {label.through for label in told.master._history.labels.all() if label.revision}
            for told in (together, alone)
        ]
        assert keys[0] == keys[1]
