"""Each result of a job that reads its last one follows from the one before: through late data, expiry and restarts."""

from __future__ import annotations

import contextlib
import pathlib
import tempfile
from collections.abc import Iterator
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from elf.agents.errors import ExpiredError, JobError, JobSpecError
from elf.agents.jobs.plan import compile_job
from elf.agents.jobs.versions import Compiled, Version, Versions, check_change, compile_versions
from elf.agents.language import iteration
from elf.agents.master import chain
from elf.agents.master.backfill import check_load
from elf.agents.master.commands import Load
from elf.agents.master.results import Span
from elf.agents.store.panes import Kind
from elf.agents.worker.paos import Paos
from elf.agents.worker.payload import Notes, pack
from elf.overlay.contract import NEVER, Commit, RollupState, RosterEntry
from elf.overlay.group.messages import Place
from tests.agents.master.chains import COLUMNS, LABELS, SIZE, Edge, Root, chained, edges, plan_of, rows_of


@pytest.fixture
def root(tmp_path: pathlib.Path) -> Iterator[Root]:
    found = Root(tmp_path, plan_of())
    yield found
    found.close()


NODES = st.sampled_from("abcd")
STEPS = st.tuples(
    st.integers(1, 3),  # how many intervals the commit closes
    st.lists(st.tuples(st.integers(-9, 3), NODES, NODES), max_size=4),  # events: seconds from the last commit's end
    st.booleans(),  # a restart after it
)


@settings(max_examples=12, deadline=None)
@given(steps=st.lists(STEPS, min_size=1, max_size=8), ask=st.booleans())
def test_results_are_the_chain_of_all_windows_or_say_that_they_may_not_be(
    steps: list[tuple[int, list[Edge], bool]], ask: bool
) -> None:
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        root, through, exact = stack.enter_context(contextlib.closing(Root(pathlib.Path(folder), plan_of()))), 9, True
        for count, drawn, restarts in steps:
            through += count
            rows = [(max(0, min(through, through + 1 - count + at)), a, b) for at, a, b in drawn]
            base = root.masters[0].state.base
            expired = root.masters[0].windows.expired
            fixed = expired + 1 if base is None else base.end_ms // 1_000
            exact = exact and all(at >= fixed for at, _, _ in rows)
            root.commit(through, rows)
            if restarts:
                root.restart()
            if ask or count == 2:
                for end in root.answerable():
                    found = root.result(end)
                    truth = chained(root.rows, end)
                    complete = found.completeness["status"] in ("final", "revised")
                    assert complete == exact, "nothing is missing but what came after the base was fixed"
                    if complete:
                        assert rows_of(found) == truth, f"window that ends at {end}"
                        assert found.converged == (truth != {} and truth == chained(root.rows, end - 1))
        # The copy that was never asked has come to the same base, and to the same results.
        first, second = root.masters
        assert first.state.base == second.state.base
        for end in root.answerable():
            assert root.result(end) == root.result(end, 1)


def test_late_data_changes_all_later_windows_and_followers_hear_of_it(root: Root) -> None:
    root.retaining(20_000)
    for through in range(4):
        root.commit(through, [(through, "b", "c"), (through, "c", "d")])
    master = root.masters[0]
    assert [rows_of(root.result(end)) for end in (1, 2, 3)] == [
        {"c": "b", "d": "c"}, {"c": "b", "d": "b"}, {"c": "b", "d": "b"},
    ]  # fmt: skip
    assert [root.result(end).converged for end in (1, 2, 3)] == [False, False, True]
    before = master.windows.edition
    root.commit(4, [(1, "a", "b"), (4, "b", "c"), (4, "c", "d")], notes=Notes(late=1))
    assert [rows_of(root.result(end)) for end in (1, 2, 3, 4, 5)] == [chained(root.rows, end) for end in range(1, 6)]
    assert rows_of(root.result(4)) == {"b": "a", "c": "a", "d": "a"}
    spans, changed, closed = master.windows.news(before, 4_000, 20)
    assert [span.end_ms for span in changed.spans] == [2_000, 3_000, 4_000], "not only those that hold the event"
    assert [span.end_ms for span in closed.spans] == [5_000] and len(spans) == 4
    assert [root.result(end).completeness["revision"] for end in (1, 2, 4)] == [0, 1, 1]
    # Also windows that no longer hold it: they follow from those that do.
    for through in range(5, 8):
        root.commit(through, [(through, "c", "d")])
    before = master.windows.edition
    root.commit(8, [(3, "a", "c")])
    _, changed, _ = master.windows.news(before, 8_000, 20)
    assert [span.end_ms for span in changed.spans] == [4_000, 5_000, 6_000, 7_000, 8_000]


def test_what_a_pane_lacks_all_later_results_lack_until_the_job_is_reset(root: Root) -> None:
    root.commit(0, [(0, "a", "b")])
    root.commit(1, [(1, "b", "c")], missing=("w2",))
    for through in range(2, 20):
        root.commit(through, [(through, "b", "c")])
        if through % 5 == 0:
            root.restart()
        completeness = root.result(through + 1).completeness
        assert (completeness["missing"], completeness["status"]) == (["w2"], "final_incomplete")
    versions = root.masters[0].versions
    definition = replace(root.plan.definition, version=2)
    anew = Version(number=2, definition=definition, what="reset", since=21, begins=21, pao_kind=2)
    both = Versions([*versions.all, Compiled(anew, compile_job(definition, COLUMNS))])
    for master in root.masters:
        master.adopt(both)
    root.plan = both.newest.plan
    for through in range(20, 40):
        rows = [(through, "b", "c")] if through < 21 else [(through, "c", "d"), (through, "d", "e")]
        notes = Notes(since={"w1": {2: 21}, "w2": {2: 21}} if through > 20 else {})
        roster = {agent: RosterEntry(admitted=NEVER) for agent in ("w1", "w2")}
        payload = pack(notes, Paos([(2 if through > 20 else 0, root.plan.reduce(edges(rows)))]))
        root.index += 1
        for master in root.masters:
            state = RollupState(committed=through, roster=roster)
            commit = Commit(through - 1, through, payload, tuple(roster), (), state)
            master.commit(commit, Place(1, root.index))
        if through == 22:
            assert rows_of(root.result(22)) == {"d": "c", "e": "d"}, "nothing is known of before"
            assert rows_of(root.result(23)) == {"d": "c", "e": "c"}
            assert rows_of(root.result(21)) == {"c": "b"}, "and what was before is what it was"
            assert root.result(21).completeness["missing"] == ["w2"]
        if through > 25:
            assert root.result(through + 1).completeness["status"] == "final"
            root.restart()


def test_who_began_late_stays_named_when_it_has_left(root: Root) -> None:
    root.commit(0, [(0, "a", "b")])
    for through in range(1, 20):
        notes = Notes(partial_before={"w2": 4}) if through == 4 else Notes()
        root.commit(through, [(through, "b", "c")], notes=notes, roster=("w1", "w2") if through < 9 else ("w1",))
        if through % 6 == 0:
            root.restart()
        if through > 4:
            completeness = root.result(through + 1).completeness
            assert (completeness["missing"], completeness["status"]) == (["w2"], "final_incomplete"), through


def test_an_event_that_is_too_late_for_the_base_is_a_gap_in_all_that_follows(root: Root) -> None:
    for through in range(12):
        root.commit(through, [(through, "b", "c")])
    base = root.masters[0].state.base
    assert base is not None and base.end_ms == 8_000 and base.lacks == 0
    before = root.masters[0].windows.edition
    root.commit(12, [(0, "a", "b"), (12, "b", "c")])
    assert root.result(13).completeness["gaps"] == 1
    changed = root.masters[0].windows.news(before, 12_000, 20)[1]
    assert [span.end_ms for span in changed.spans] == [10_000, 11_000, 12_000], "they were final to followers"
    root.commit(13, [(7, "a", "b"), (13, "b", "c")])
    root.restart()
    assert root.result(14).completeness | {"gaps": 2, "status": "final_incomplete"} == root.result(14).completeness
    with pytest.raises(ExpiredError):
        root.result(9)


def test_only_own_closed_windows_are_answered(root: Root) -> None:
    assert root.masters[0].windows.result(root.masters[0].windows.latest(), None, None, str).rows == []
    root.commit(9, [(9, "a", "b")])
    for span, says in ((Span(5_000, 10_000), "own windows"), (Span(8_000, 12_000), "closed windows")):
        with pytest.raises(JobError, match=says):
            root.masters[0].windows.result(span, None, None, str)
    assert rows_of(root.masters[0].windows.result(Span(6_000, 10_000), "b", 1, str)) == {"b": "a"}
    assert root.masters[0].windows.result(Span(6_000, 10_000), "a", 1, str).rows == []


def test_a_result_that_is_too_large_is_an_error_until_windows_are_empty(
    root: Root, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(iteration, "ROWS_MAX", 2)
    for through in range(12):
        rows = [(through, "a", node) for node in "bcd"] if through == 1 else [(through, "a", "b")]
        root.commit(through, rows)
        if through == 7:
            root.restart()
    for end in (2, 9, 12):
        if end > root.masters[0].windows.expired + SIZE:
            with pytest.raises(JobError, match=r"3 rows of .* and one that is read again at most 2"):
                root.result(end)
    assert root.masters[0].state.base is not None and "3 rows" in root.masters[0].state.base.failed
    root.commit(20, [(20, "a", "b")])
    assert rows_of(root.result(21)) == {"b": "a"}


def test_what_cannot_be_computed_is_an_error_of_results_and_commits_go_on(
    root: Root, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> pl.DataFrame:
        raise pl.exceptions.ComputeError("no such value")

    monkeypatch.setattr(iteration, "join_frames", fail)
    for through in range(12):
        root.commit(through, [(through, "b", "c")])
    with pytest.raises(JobError, match="cannot be computed: no such value"):
        root.result(12)
    monkeypatch.undo()
    root.restart()
    with pytest.raises(JobError, match="no such value"):
        root.result(12)
    assert root.masters[0].state.base is not None and root.masters[0].state.base.failed


def test_a_chain_that_one_commit_makes_too_long_begins_anew_and_says_so(
    root: Root, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chain, "STEPS_MAX", 5)
    root.commit(30, [(at, "b", "c") for at in range(31)])
    assert root.result(31).completeness["gaps"] == 1
    assert root.result(31).completeness["status"] == "final_incomplete"


def test_copies_cut_a_chain_alike_whatever_they_were_asked_before(root: Root, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chain, "STEPS_MAX", 25)
    for through in range(4):
        root.commit(through, [(through, "a", "b"), (through, "b", "c")])
        root.result(through + 1)
    root.commit(30, [(at, "b", "c") for at in range(4, 31)])
    first, second = root.masters
    assert first.state.base is not None and first.state.base.lacks == 1
    assert first.state.base == second.state.base
    assert root.result(31) == root.result(31, 1)


def test_results_in_memory_are_bounded_in_bytes_too(root: Root, monkeypatch: pytest.MonkeyPatch) -> None:
    root.retaining(60_000)
    for through in range(40):
        root.commit(through, [(through, "a" * 1_000, "b")])
    before = root.result(5)
    monkeypatch.setattr(chain, "KEPT_BYTES", 8_000)
    root.restart()
    found = root.masters[0]._chain
    assert found is not None
    sizes = []
    step = found._step

    def noted(*of: Any) -> Any:
        sizes.append(sum(frame.estimated_size() for frame in found._kept.values()))
        return step(*of)

    monkeypatch.setattr(found, "_step", noted)
    assert root.result(40).converged and len(sizes) == 40
    assert max(sizes) <= 8_000 + 8_000 // 4 + 2_000
    assert root.result(5) == before


def test_a_damaged_base_is_a_gap_and_what_follows_is_still_answered(root: Root) -> None:
    for through in range(12):
        root.commit(through, [(through, "b", "c"), (through, "c", "d")])
    assert rows_of(root.result(12)) == {"c": "b", "d": "b"}
    for database in root.databases:
        with database.transaction() as sql:
            sql.execute("UPDATE history SET block = x'00' WHERE kind = ?", (int(Kind.LAST),))
    root.restart()
    found = root.result(12)
    assert found.completeness["gaps"] == 1 and set(rows_of(found)) == {"c", "d"}
    root.commit(12, [(12, "b", "c")])
    root.restart()
    assert root.result(13).completeness["gaps"] == 1


def test_numbers_texts_times_and_nulls_outlive_a_restart(tmp_path: pathlib.Path) -> None:
    query = """
    SELECT e.dst AS node, count(*) AS n, max(e.ts) AS at, avg(coalesce(r.a, 1.5D) / 2) AS a,
      max(CAST(e.ts AS DATE)) AS d, bool_or(r.n IS NULL) AS new, max(CASE WHEN e.src = 'b' THEN r.i ELSE 7 END) AS i
    FROM edges e LEFT JOIN last_result r ON e.src = r.node GROUP BY e.dst, window(ts, '4 seconds', '1 second')
    ORDER BY node
    """
    root = Root(tmp_path, plan_of(query))
    for through in range(14):
        root.commit(through, [(through, "b", "c"), (through, "c", "b")] if through % 7 else [])
    before = [root.result(end) for end in root.answerable()]
    root.restart()
    assert [root.result(end) for end in root.answerable()] == before
    assert before[-1].rows[0]["n"] == 4
    root.close()


def test_a_changed_query_and_loaded_intervals_are_refused(root: Root) -> None:
    root.commit(3, [(3, "a", "b")])
    master = root.masters[0]
    with pytest.raises(JobError, match="cannot be loaded"):
        check_load(master.versions, master.state, Load(0, 1, b"", ()))
    other = plan_of(LABELS.replace("min(", "max("))
    with pytest.raises(JobSpecError, match="reads its last result"):
        check_change(root.plan, other)
    typed = {name: kind.ddl for name, kind in COLUMNS.items()}
    definitions = [replace(each.definition, columns=typed, version=at) for at, each in ((1, root.plan), (9, other))]
    versions = [Version(number=each.version, definition=each) for each in definitions]
    with pytest.raises(JobSpecError, match="reads its last result otherwise"):
        compile_versions(versions)


SUMS = """
SELECT e.dst AS node, sum(CAST(e.src AS BIGINT)) AS s, max(CAST(r.s AS BIGINT)) AS before
FROM edges e LEFT JOIN last_result r ON e.dst = r.node GROUP BY e.dst, window(ts, '4 seconds', '1 second')
"""


@pytest.mark.parametrize("at", [1, 5])
@pytest.mark.parametrize("restart", [False, True])
def test_a_value_that_does_not_fit_takes_no_other_away_and_stays_in_labels(
    tmp_path: pathlib.Path, at: int, restart: bool
) -> None:
    root = Root(tmp_path, plan_of(SUMS, 6_000))
    try:
        for through in range(14):
            beyond = [(through, str(2**63 - 1), "evil"), (through, "1", "evil")]
            root.commit(through, [(through, "1", "good"), *(beyond if through == at else [(through, "1", "evil")])])
            if restart and through % 3 == 0:
                root.restart()
            end = through + 1
            found, also = root.result(end), root.result(end, 1)
            assert found == also
            good, evil = ({**row} for row in sorted(found.rows, key=lambda row: row["node"] != "good"))
            assert good["s"] == min(4, end) and (evil["s"] is None) == (at < end <= at + 4)
            told = found.completeness.get("overflows", {"count": 0, "first": []})
            assert told["count"] == (at < end <= at + 4)
            assert all(each["key"] == {"node": "evil"} for each in told["first"])
            # What follows rests on a result that lacked a value, as long as the chain goes on.
            assert (found.completeness["gaps"] > 0) == (end > at + 1)
            assert (found.completeness["status"] == "final") == (end <= at)
        first, second = root.masters
        assert first.state.base == second.state.base and first.state.base is not None and first.state.base.lacks
    finally:
        root.close()
