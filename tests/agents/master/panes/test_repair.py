"""What a damaged disk has lost of a job's past is named in every window over it, and no other window changes."""

import pathlib
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from elf.agents.completeness.label import Label
from elf.agents.jobs.plan import Plan
from elf.agents.master.panes import merged, totals
from elf.agents.master.panes.repair import holes, stand_ins
from elf.agents.master.results import Span
from elf.agents.store.database import Database
from elf.agents.store.panes import Kind, Panes
from elf.agents.wire.positions import Json
from elf.overlay.contract import NEVER
from tests.agents.master.panes.test_history import PLANS, Fed
from tests.agents.plans import CUMULATIVE, plan_of

Damage = tuple[Kind, int, str]


@pytest.fixture
def database(tmp_path: pathlib.Path) -> Iterator[Database]:
    opened = Database(tmp_path / "state.db")
    yield opened
    opened.close()


def label(previous: int, through: int) -> Label:
    return Label(previous, through, 2)


@pytest.mark.parametrize(
    ("labels", "expired", "committed", "expected"),
    [
        ([], NEVER, NEVER, []),
        ([], NEVER, 5, [(NEVER, 5)]),
        ([label(NEVER, 2), label(2, 3)], NEVER, 3, []),
        ([label(2, 3)], 2, 3, []),
        ([label(2, 3)], NEVER, 3, [(NEVER, 2)]),
        ([label(NEVER, 2), label(4, 5)], NEVER, 7, [(2, 4), (5, 7)]),
        ([], 4, 4, []),
    ],
)
def test_commits_that_no_label_speaks_of_are_found(
    labels: list[Label], expired: int, committed: int, expected: list[tuple[int, int]]
) -> None:
    assert holes(labels, expired, committed) == expected


def test_a_hole_is_filled_pane_by_pane() -> None:
    filled = [(one.previous, one.through) for one in stand_ins((2, 9), [1, 4, 6, 9, 12], 3)]
    assert filled == [(2, 4), (4, 6), (6, 9)]
    assert all(one.damaged and one.expected == 3 for one in stand_ins((NEVER, 9), [], 3))


def strike(database: Database, plan: Plan, kind: Kind, interval: int, how: str) -> None:
    at = (plan.definition.app_id, kind, interval)
    with database.transaction() as sql:
        if how == "gone":
            sql.execute("DELETE FROM history WHERE app = ? AND kind = ? AND interval = ?", at)
        else:
            sql.execute("UPDATE history SET block = x'00' || block WHERE app = ? AND kind = ? AND interval = ?", at)


def ask(fed: Fed, first: int, length: int) -> Json:
    return fed.master.windows.result(Span(first * 2_000, (first + length) * 2_000), None, None, str).completeness


kinds, hows = st.sampled_from([Kind.LABEL, Kind.PANE, Kind.TOTAL, Kind.MERGED]), st.sampled_from(["gone", "flip"])
strikes = st.lists(st.tuples(kinds, st.integers(0, 11), hows), min_size=1, max_size=4)


@pytest.mark.parametrize("name", ["inverse", "none"])
@settings(max_examples=20, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(struck=strikes, late=st.integers(0, 11))
def test_a_window_over_lost_panes_says_so_and_all_others_are_exact(
    tmp_path_factory: pytest.TempPathFactory,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    struck: list[Damage],
    late: int,
) -> None:
    monkeypatch.setattr(totals, "PANES_MIN", 1)
    database = Database(tmp_path_factory.mktemp("state") / "state.db")
    try:
        fed = Fed(PLANS[name], Panes(database))
        for interval in range(12):
            fed.commit(1, [(interval * 2_000, product, interval) for product in "ab"])
        for kind, interval, how in struck:
            # Blocks of two panes and of four.
            at = merged.name_of(1 + interval % 2, interval // 4) if kind is Kind.MERGED else interval
            strike(database, fed.plan, kind, at, how)
        fed.restart()
        for repeat in range(2):
            unlabelled = {interval for kind, interval, _ in struck if kind is Kind.LABEL}
            lost = {interval for kind, interval, _ in struck if kind in (Kind.LABEL, Kind.PANE)}
            # Read by commits, too: late rows for a lost pane, and a pane of its own.
            fed.commit(1, [(late * 2_000, "a", 1), ((12 + repeat) * 2_000, "b", 1)])
            for first, length in [*((first, 1) for first in range(12)), (0, 12), (3, 6)]:
                said = ask(fed, first, length)
                window = set(range(first, first + length))
                assert not said["gaps"] or lost & window
                assert said["gaps"] or not unlabelled & window
                if said["gaps"]:
                    assert said["status"] == "final_incomplete"
                else:
                    fed.check(name, first, length)
            fed.restart()
    finally:
        database.close()


def test_the_only_pane_of_a_cumulative_job_begins_anew(database: Database) -> None:
    plan = plan_of(CUMULATIVE)
    fed = Fed(plan, Panes(database))
    for _ in range(3):
        fed.commit(1, [(0, "a", 1)])
    for kind in (Kind.PANE, Kind.LABEL):
        strike(database, plan, kind, 0, "flip")
        fed.restart()
        result = fed.master.windows.result(None, None, None, str)
        assert (result.rows, result.completeness["gaps"]) == ([], 1)
        fed.commit(1, [(0, "b", 1)])
        result = fed.master.windows.result(None, None, None, str)
        assert [row["product"] for row in result.rows] == ["b"]
        assert result.completeness["gaps"] == 1
        strike(database, plan, Kind.PANE, 0, "gone")


def test_a_doubt_labels_every_window_up_to_a_time_once(database: Database) -> None:
    fed = Fed(PLANS["none"], Panes(database))
    for interval in range(4):
        fed.commit(1, [(interval * 2_000, "a", 1)])
    for _ in range(2):
        fed.master.doubt(10_000)
        fed.restart()
    for interval in range(4, 8):
        fed.commit(1, [(interval * 2_000, "a", 1)])
    assert [ask(fed, first, 1)["gaps"] for first in range(8)] == [1] * 6 + [0] * 2
