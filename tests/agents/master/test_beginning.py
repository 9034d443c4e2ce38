"""A chain begins where all agents have all events, once and for all; no label claims more than that."""

from __future__ import annotations

import contextlib
import pathlib
import tempfile
from collections.abc import Iterator
from typing import NamedTuple

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from elf.agents.errors import ExpiredError
from elf.agents.jobs.versions import Compiled, Version, Versions
from elf.agents.master.beginning import BEGINS_MS_MAX, first_interval
from elf.agents.master.panes.history import History
from elf.agents.worker.payload import Notes
from elf.overlay.contract import NEVER, Commit, RollupState
from tests.agents.master.chains import SIZE, Edge, Root, chained, plan_of, rows_of

VERSIONS = Versions.of(plan_of())
#: The last interval that a chain may begin with: the job was published at 0, and its intervals are seconds.
LATEST = BEGINS_MS_MAX // 1_000 + 1


def commit_of(previous: int, through: int) -> Commit:
    return Commit(previous, through, None, (), (), RollupState(committed=through))


@pytest.mark.parametrize(
    ("known", "previous", "told", "begins"),
    [
        (NEVER, NEVER, {}, NEVER),
        (NEVER, NEVER, {"w1": 5, "w2": 7}, 7),
        (7, 6, {"w3": 9}, 9),  # nothing of the chain is counted yet
        (7, 6, {"w3": 5}, 7),
        (7, 7, {"w3": 9}, 7),
        (NEVER, 3, {"w3": 9}, NEVER),  # it counts since ever
        (NEVER, NEVER, {"w1": 5, "ahead": LATEST + 1}, 5),
        (NEVER, NEVER, {"w1": LATEST}, LATEST),
    ],
)
def test_it_begins_with_the_latest_that_is_told_before_anything_is_counted(
    known: int, previous: int, told: dict[str, int], begins: int
) -> None:
    assert first_interval(known, commit_of(previous, 30), told, VERSIONS) == begins


@given(
    steps=st.lists(
        st.tuples(st.integers(1, 9), st.dictionaries(st.sampled_from("abc"), st.integers(-5, 99))), max_size=9
    )
)
def test_it_only_ever_moves_on_and_not_once_it_is_counted(steps: list[tuple[int, dict[str, int]]]) -> None:
    begins = previous = NEVER
    for length, told in steps:
        through = length if previous == NEVER else previous + length
        now = first_interval(begins, commit_of(previous, through), told, VERSIONS)
        assert begins <= now <= LATEST
        assert now == begins or previous == NEVER or previous < begins
        begins, previous = now, through


class Agent(NamedTuple):
    """What one agent has: all events from an interval on (None: all there are), and the commit that first has it."""

    partial_before: int | None
    heard: int


EDGES = st.tuples(st.integers(0, 24), st.sampled_from("abcd"), st.sampled_from("abcd"))
EVENTS = st.tuples(EDGES, st.integers(0, 2), st.booleans())  # and whose, and whether of an interval that it has in part
AGENTS = st.builds(Agent, st.one_of(st.none(), st.integers(0, 14), st.just(LATEST + 9)), st.integers(0, 4))


@settings(max_examples=15, deadline=None)
@given(
    agents=st.tuples(AGENTS, AGENTS, AGENTS),
    events=st.lists(EVENTS, max_size=14),
    first=st.integers(1, 10),
    lengths=st.lists(st.integers(1, 3), min_size=4, max_size=8),
    retain_ms=st.sampled_from([6_000, 60_000]),
)
@example(
    agents=(Agent(4, 0), Agent(None, 0), Agent(6, 0)),
    events=[((at, "abcd"[at % 4], "abcd"[(at + 1) % 4]), at % 3, True) for at in range(24)],
    first=4,
    lengths=[3, 3, 3, 3],
    retain_ms=60_000,
)
def test_what_is_called_complete_is_the_chain_of_all_events_since_it_began(
    agents: tuple[Agent, ...], events: list[tuple[Edge, int, bool]], first: int, lengths: list[int], retain_ms: int
) -> None:
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        root = stack.enter_context(contextlib.closing(Root(pathlib.Path(folder), plan_of(retain_ms=retain_ms))))
        waiting, through, previous = list(events), first, NEVER
        for number, length in enumerate([0, *lengths]):
            through += length
            before = root.masters[0].state
            feed(root, agents, waiting, number, previous, through)
            begins = root.masters[0].state.begins
            counted = before.rollup.committed >= before.begins and number > 0
            assert begins == before.begins or not counted, "what was answered stays true"
            if number % 2:
                root.restart()
            previous = through
        assert root.masters[0].state.begins == root.masters[1].state.begins == begins
        starts = [NEVER if each.partial_before is None else each.partial_before for each in agents]
        prompt = retain_ms == 60_000 and all(each.heard == 0 for each in agents) and max(starts) <= LATEST
        assert not prompt or begins == max(starts)
        for end in range(SIZE, through + 2):
            try:
                found = root.result(end)
            except ExpiredError:
                continue
            complete = found.completeness["status"] in ("final", "revised")
            if complete:
                assert max(starts) <= begins <= end - SIZE
                assert rows_of(found) == chained([edge for edge, _, _ in events], end, begins)
            assert complete or not prompt or end - SIZE < begins, "nobody is named for nothing"
            assert found == root.result(end, 1)


def feed(
    root: Root,
    agents: tuple[Agent, ...],
    waiting: list[tuple[Edge, int, bool]],
    number: int,
    previous: int,
    through: int,
) -> None:
    """Commit what those have that have heard of the job by a commit, and had not brought."""
    here = [at for at, agent in enumerate(agents) if agent.heard <= number]
    brought = [event for event in waiting if event[1] in here and event[0][0] <= through]
    waiting[:] = [event for event in waiting if event not in brought]
    rows = []
    for edge, at, early in brought:
        start = agents[at].partial_before
        if start is None or edge[0] >= start or (early and edge[0] == start - 1):
            rows.append(edge)
    new = [at for at in here if agents[at].heard == number]
    told = {f"w{at}": start for at in new if (start := agents[at].partial_before) is not None}
    settles = {f"w{at}": ((NEVER, previous),) for at in new} if number else {}
    roster = tuple(f"w{at}" for at in range(len(agents)))
    missing = tuple(agent for at, agent in enumerate(roster) if at not in here)
    root.commit(through, rows, missing, Notes(partial_before=told, settles=settles), roster)


@pytest.fixture
def root(tmp_path: pathlib.Path) -> Iterator[Root]:
    found = Root(tmp_path, plan_of())
    yield found
    found.close()


def test_a_job_on_a_source_that_is_being_read_begins_cleanly_by_itself(root: Root) -> None:
    rows: list[Edge] = [(at, "b", "c") for at in range(30)] + [(9, "a", "b"), (12, "a", "b")]
    for through in range(9, 30):
        told = Notes(partial_before={"w1": 9, "w2": 11}) if through < 11 else Notes()
        root.commit(through, [edge for edge in rows if edge[0] == through or edge[0] < through == 9], notes=told)
        found = root.result(through + 1)
        if through < 11:
            assert rows_of(found) == {}, "of what not all of them have, nothing is counted"
        else:
            assert rows_of(found) == chained(rows, through + 1, 11)
        whole = through + 1 - SIZE >= 11
        assert found.completeness["status"] == ("final" if whole else "final_incomplete"), through
        assert found.completeness["missing"] == ([] if whole else ["w1", "w2"])
        if through in (10, 14, 26):
            root.restart()
    assert root.masters[0].state.base is not None and root.masters[0].versions.newest.version.begins == 11
    # Who joins in the middle of a source is still named, in all that is still there.
    root.commit(30, [], notes=Notes(partial_before={"w3": 31}), roster=("w1", "w2", "w3"))
    root.restart()
    for end in root.answerable():
        assert root.result(end).completeness["missing"] == ["w3"]


def test_old_logs_that_nobody_had_read_are_counted_from_their_first_line_on(root: Root) -> None:
    rows: list[Edge] = [(at, "b", "c") for at in range(30)] + [(0, "a", "b")]
    root.retaining(60_000)
    root.commit(29, rows)
    assert root.masters[0].state.begins == NEVER
    assert rows_of(root.result(2)) == chained(rows, 2) != {}
    assert root.result(30).completeness["status"] == "final"
    # Others that hear of the job only now have read theirs.
    root.commit(30, [(30, "b", "c")], notes=Notes(partial_before={"w2": 12}))
    assert root.masters[0].state.begins == NEVER and root.result(31).completeness["missing"] == ["w2"]
    assert rows_of(root.result(2)) == chained(rows, 2)


def test_rows_of_before_cost_nothing_and_are_no_gap_when_they_come_late(root: Root) -> None:
    root.commit(9, [(9, "a", "b")], notes=Notes(partial_before={"w1": 9, "w2": 9}))
    for through in range(10, 30):
        root.commit(through, [(through, "b", "c"), (3, "a", "b")], notes=Notes(late=1))
    found = root.result(30)
    assert (found.completeness["status"], found.completeness["revision"]) == ("final", 0)
    assert root.masters[0].state.too_late == 0


def test_another_version_moves_no_beginning(root: Root) -> None:
    rows: list[Edge] = [(at, "b", "c") for at in range(40)] + [(11, "a", "b")]
    root.commit(9, rows[:10], notes=Notes(partial_before={"w1": 9, "w2": 11}))
    definition = replace(root.plan.definition, version=2)
    paused = Version(number=2, definition=definition, what="pause", since=20)
    resumed = replace(paused, number=3, definition=replace(definition, version=3), what="resume", since=22)
    given = [*VERSIONS.all, *(Compiled(each, root.plan) for each in (paused, resumed))]
    for master in root.masters:
        master.adopt(Versions(given))
    for through in range(10, 30):
        notes = Notes(since={"w1": {3: 22}, "w2": {3: 22}} if through == 22 else {})
        root.commit(through, [edge for edge in rows if edge[0] == through and through not in (20, 21)], notes=notes)
        root.restart()
    assert [each.version.begins for each in root.masters[0].versions.all] == [11, 11, 11]
    found = root.result(30)
    assert rows_of(found) == chained([edge for edge in root.rows if edge[0] > 8], 30, 11)
    assert (found.completeness["missing"], found.completeness["void"]) == ([], 2), "the pause, and nothing else"


def test_a_commit_that_is_not_durable_has_not_begun_anything(root: Root, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise OSError("no space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(History, "writing", refuse)
        with pytest.raises(OSError, match="no space"):
            root.commit(9, [(9, "a", "b")], notes=Notes(partial_before={"w1": 11}))
    assert root.masters[0].versions.newest.version.begins == NEVER == root.masters[0].state.begins
    root.commit(9, [(9, "a", "b")], notes=Notes(partial_before={"w1": 10}))
    assert root.masters[0].versions.newest.version.begins == 10 == root.masters[0].state.begins


def test_a_job_that_does_not_read_its_last_result_begins_as_ever(tmp_path: pathlib.Path) -> None:
    query = "SELECT dst AS node, min(src) AS label FROM edges GROUP BY dst, window(ts, '4 seconds', '1 second')"
    with contextlib.closing(Root(tmp_path, plan_of(query))) as root:
        root.commit(9, [(at, "a", "b") for at in range(10)], notes=Notes(partial_before={"w1": 9, "w2": 11}))
        assert root.masters[0].state.begins == NEVER
        assert rows_of(root.result(10)) == {"b": "a"} and root.result(10).completeness["missing"] == ["w1", "w2"]
