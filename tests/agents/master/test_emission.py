"""What followers are sent, against a walk over all windows; and a follower's last word on a window is the truth."""

from __future__ import annotations

import asyncio
import pathlib
from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from elf.agents.errors import JobSpecError
from elf.agents.jobs.parts import Part
from elf.agents.language.query import Window
from elf.agents.master.emission import closed, is_due, revised, still_open
from elf.agents.master.results import Span
from elf.agents.results.follower import Following
from elf.agents.results.gatherer import Gathering
from elf.agents.store.database import Database
from elf.agents.store.panes import Panes
from elf.agents.wire.catalogue import Catalogue
from elf.agents.wire.positions import Json, Position
from elf.agents.wire.questions import Follow
from elf.agents.worker.payload import Notes, pack
from elf.overlay.contract import NEVER, Commit, RollupState, RosterEntry
from elf.overlay.group.messages import Place
from tests.agents.master.panes.test_history import Fed
from tests.agents.plans import CUMULATIVE, plan_of

windows = st.sampled_from([Window(4, 4), Window(6, 2), Window(3, 1), Window(2, 6), Window(5, 2), Window(7, 3)])
runs = st.lists(st.tuples(st.integers(-10, 60), st.integers(1, 12)).map(lambda run: (run[0], sum(run))), max_size=4)


@given(windows, runs, st.integers(-20, 10), st.integers(0, 60), st.integers(1, 5))
def test_windows_that_changed_are_those_that_hold_a_change(
    window: Window, changes: list[tuple[int, int]], since_ms: int, until_ms: int, most: int
) -> None:
    # They begin at multiples of the slide, as Spark's do.
    starts = (number * window.slide_ms for number in range(-120, 120))
    spans = [Span(start, start + window.size_ms) for start in starts]
    expected = [
        span
        for span in spans
        if since_ms <= span.start_ms
        and span.end_ms <= until_ms
        # Of windows with gaps between them a change may lie in none, and is told of the next.
        and any(start < span.end_ms and span.start_ms < end for start, end in changes)
    ]
    found = revised(window, changes, since_ms, until_ms, most)
    if window.slide_ms <= window.size_ms:
        assert found.spans == expected[-most:]
        rest = expected[:-most]
        assert found.rest_count == len(rest)
        assert found.rest == (Span(rest[0].start_ms, rest[-1].end_ms) if rest else None)
    else:
        assert {*expected} <= {*found.spans} or found.rest is not None


@given(windows, st.integers(-10, 60), st.integers(0, 60), st.integers(1, 5))
def test_windows_that_closed_are_the_newest_ones(window: Window, after_ms: int, through_ms: int, most: int) -> None:
    found = closed(window, after_ms, through_ms, most)
    starts = [start for start in range(-80, 61) if start % window.slide_ms == 0]
    spans = [Span(start, start + window.size_ms) for start in starts if after_ms < start + window.size_ms <= through_ms]
    assert found.spans == spans[-most:]
    rest = spans[:-most]
    assert found.rest_count == len(rest)
    assert found.rest == (Span(rest[0].start_ms, rest[-1].end_ms) if rest else None)


def test_what_is_open_and_when_it_is_due() -> None:
    assert still_open(Window(6, 2), 8) == Span(4, 10) and still_open(Window(4, 4), 9) == Span(8, 12)
    assert still_open(Window(4, 4), 8) is None, "nothing of it yet"
    assert still_open(Window(5, 2), 8) == Span(4, 9)
    assert not is_due(None, 0, 10) and is_due(5, None, 2) and is_due(5, 4, 5) and not is_due(5, 5, 9)


def test_how_often_to_emit_has_to_fit_the_window() -> None:
    query = "SELECT count(*) AS n FROM clicks GROUP BY window(ts, '60 seconds', '30 seconds')"
    assert plan_of(query).interval_ms == 30_000
    assert plan_of(query, options='emit_every = "5s"').interval_ms == 5_000
    assert plan_of(query, options='emit_every = "10s"\ninterval = "2s"').interval_ms == 2_000
    for every in ("7s", "30s", "60s"):
        with pytest.raises(JobSpecError, match="has to divide 30000 ms"):
            plan_of(query, options=f'emit_every = "{every}"')
    with pytest.raises(JobSpecError, match=r"does not divide .* and emit_every"):
        plan_of(query, options='emit_every = "5s"\ninterval = "10s"')
    assert plan_of(CUMULATIVE, options='emit_every = "3s"').interval_ms == 3_000
    with pytest.raises(JobSpecError, match="does not divide emit_every"):
        plan_of(CUMULATIVE, options='emit_every = "5s"\ninterval = "2s"')


#: Windows that a follower is sent one by one, of those that changed and of those that closed.
MOST = 20


class Followed:
    """Asks a master without an overlay between; refuses to wait."""

    def __init__(self, fed: Fed) -> None:
        self.fed = fed
        self.following = Following(self._ask, Gathering(self._ask, Catalogue()))

    async def _ask(self, key: str, question: Any, timeout_ms: int) -> tuple[Any, list[str]]:
        assert isinstance(question, Follow)
        windows = self.fed.master.windows
        if question.edition == windows.edition:
            raise EOFError
        spans, changed, closed = windows.news(question.edition, question.after_ms, MOST)
        results = [msgspec.to_builtins(windows.result(span, None, None, str)) for span in spans]
        for batch in (changed, closed):
            assert batch.rest is None or len(batch.spans) == MOST, "each is sent while there is room"
        if changed.rest is not None:
            results[0]["also_revised"] = changed.rest
        if closed.rest is not None:
            results[0]["also_closed"] = closed.rest
        return {"edition": windows.edition, "results": results}, []


class Follower:
    """Reads what there is, as often as it is told to, through connections that may break."""

    def __init__(self, fed: Fed) -> None:
        self.followed = Followed(fed)
        self.position: Position | None = None
        self.sent: list[Json] = []

    def read(self, at_most: int = 1_000) -> None:
        asyncio.run(self._read(at_most))

    async def _read(self, at_most: int) -> None:
        stream: AsyncIterator[Any] = self.followed.following.results(Part("c", "n"), self.position)
        try:
            for _ in range(at_most):
                result, self.position = await anext(stream)
                self.sent.append(result)
        except EOFError:
            pass


rows = st.tuples(st.integers(0, 40_000), st.sampled_from("ab"), st.integers(0, 3))
steps = st.lists(
    st.tuples(st.integers(1, 2), st.lists(rows, max_size=3), st.booleans(), st.sampled_from([0, 1, 1_000])), max_size=20
)
JOBS = {
    "tumbling": plan_of("SELECT product, count(*) AS n FROM clicks GROUP BY product, window(ts, '4 seconds')"),
    "hopping": plan_of(
        "SELECT product, max(cents) AS n FROM clicks GROUP BY product, window(ts, '6 seconds', '2 seconds')"
    ),
    "early": plan_of(
        "SELECT product, sum(cents) AS n FROM clicks GROUP BY product, window(ts, '8 seconds')",
        options='emit_every = "2s"',
    ),
}


@pytest.mark.parametrize("name", JOBS)
@settings(max_examples=30)
@given(script=steps)
def test_what_a_follower_was_sent_last_of_a_window_is_what_the_window_says(
    tmp_path_factory: pytest.TempPathFactory, name: str, script: list[tuple[int, list[tuple[int, str, int]], bool, int]]
) -> None:
    """Late data, restarts of the master, followers that fall behind or come back in the midst of an answer."""
    plan = JOBS[name]
    assert plan.window is not None
    database = Database(tmp_path_factory.mktemp("state") / "state.db")
    try:
        fed = Fed(plan, Panes(database))
        follower = Follower(fed)
        follower.read()
        fed.commit(1, [(0, "a", 1)], plan.interval_ms)
        for number, (forward, events, restart, read) in enumerate(script):
            fed.commit(forward, events, plan.interval_ms)
            if restart and number % 3 == 0:
                fed.restart()
            follower.read(read)
        follower.read()
        follower.read()
        final: dict[int, Json] = {}
        skipped: set[int] = set()
        for result in follower.sent:
            end_ms = result["window"]["end_ms"]
            is_open = result["completeness"]["status"] == "open"
            assert is_open == (result["through_ms"] is None or end_ms > result["through_ms"])
            if not is_open:
                final[end_ms] = result
            # What changed of long ago, or closed while nobody listened, is told in one; what was sent of it is void.
            for rest in (result[name] for name in ("also_closed", "also_revised") if name in result):
                ends = range(rest.start_ms + plan.window.size_ms, rest.end_ms + 1, plan.window.slide_ms)
                assert end_ms not in ends, "each is sent or told of, not both"
                skipped.update(ends)
                for each in ends:
                    final.pop(each, None)
        ends = range(0, (fed.master.windows.through_ms or 0) + 1, plan.window.slide_ms)
        assert {*final} | skipped >= {*ends} - {0}, "all that closed"
        for end_ms, result in final.items():
            span = Span(result["window"]["start_ms"], end_ms)
            now = msgspec.to_builtins(fed.master.windows.result(span, None, None, str))
            assert (result["rows"], result["completeness"]) == (now["rows"], now["completeness"])
    finally:
        database.close()


@pytest.fixture
def store(tmp_path: pathlib.Path) -> Any:
    database = Database(tmp_path / "state.db")
    yield Panes(database)
    database.close()


def test_a_follower_is_sent_each_window_once_and_again_when_it_changes(store: Panes) -> None:
    fed = Fed(JOBS["tumbling"], store)
    follower = Follower(fed)
    for interval in range(4):
        fed.commit(1, [(interval * 4_000, "a", 1)], 4_000)
        follower.read()
    fed.commit(1, [(0, "b", 1)], 4_000)
    fed.commit(1, [], 4_000)
    follower.read()
    told = [(r["window"]["end_ms"], r["completeness"]["status"]) for r in follower.sent]
    assert told == [
        *((end_ms, "final") for end_ms in (4_000, 8_000, 12_000, 16_000)),
        (4_000, "revised"),
        (20_000, "final"),
        (24_000, "final"),
    ]


def test_a_window_of_a_job_that_was_idle_from_its_beginning_on_is_sent_again_when_it_changes(store: Panes) -> None:
    fed = Fed(JOBS["tumbling"], store)
    follower = Follower(fed)
    for _ in range(5):
        fed.commit(1, [], 4_000)
        follower.read()
    follower.sent.clear()
    fed.commit(1, [(6_000, "a", 1)], 4_000)
    follower.read()
    told = [(r["window"]["end_ms"], r["completeness"]["status"], len(r["rows"])) for r in follower.sent]
    assert (8_000, "revised", 1) in told and told[-1] == (24_000, "final", 0)


def test_who_reads_a_job_is_told_of_its_own_windows_and_of_none_that_is_open(store: Panes) -> None:
    fed, other = Fed(JOBS["early"], store), Window(4_000, 4_000)
    for interval in range(5):
        fed.commit(1, [(interval * 2_000, "a", 1)])
    assert fed.master.windows.news(-1, 10**18, 20, other)[0] == [Span(4_000, 8_000)]
    assert fed.master.windows.news(4, 4_000, 20, other)[0] == [Span(4_000, 8_000)]
    fed.commit(1, [(1_000, "a", 1)])
    assert fed.master.windows.news(5, 8_000, 20, other)[0] == [Span(0, 4_000), Span(8_000, 12_000)]


def test_an_open_window_is_sent_as_often_as_the_job_says(store: Panes) -> None:
    fed = Fed(JOBS["early"], store)
    follower = Follower(fed)
    follower.read()
    for interval in range(5):
        fed.commit(1, [(interval * 2_000, "a", 1)])
        follower.read()
    follower.sent = [result for result in follower.sent if result["through_ms"] is not None]
    told = [(r["window"]["end_ms"], r["completeness"]["status"], r["rows"][0]["n"]) for r in follower.sent]
    assert told == [*((8_000, "open", n) for n in (1, 2, 3)), (8_000, "final", 4), (16_000, "open", 1)]


def test_a_window_that_turns_out_to_lack_something_is_sent_again(store: Panes) -> None:
    fed = Fed(JOBS["tumbling"], store)
    follower = Follower(fed)
    follower.read()
    for interval in range(4):
        fed.commit(1, [(interval * 4_000, "a", 1)], 4_000)
        follower.read()
    notes = [Notes(gaps=((0, 1),)), Notes(lost={"w": ((1, 2),)}), Notes(lost={"w": ((1, 2),)})]
    for number, note in enumerate(notes, 4):
        state = RollupState(committed=number, roster={"w": RosterEntry(admitted=NEVER)})
        commit = Commit(number - 1, number, pack(note, fed.plan.schema.empty()), ("w",), (), state)
        fed.master.commit(commit, Place(1, fed.master.state.applied.index + 1))
    follower.sent.clear()
    follower.read()
    told = [(r["window"]["end_ms"], r["completeness"]["status"]) for r in follower.sent]
    again = [(end_ms, "final_incomplete") for end_ms in (4_000, 8_000, 12_000)]
    assert told == [*again, *((end_ms, "final") for end_ms in (20_000, 24_000, 28_000))]


def test_of_many_windows_that_change_the_older_ones_are_counted(store: Panes) -> None:
    fed = Fed(plan_of("SELECT count(*) AS n FROM clicks GROUP BY window(ts, '200 seconds', '2 seconds')"), store)
    follower = Follower(fed)
    for interval in range(150):
        fed.commit(1, [(interval * 2_000, "a", 1)])
    follower.read()
    fed.commit(1, [(2_000, "a", 1)])
    follower.sent.clear()
    follower.read()
    ends = [result["window"]["end_ms"] for result in follower.sent]
    assert ends == [*range(164_000, 203_000, 2_000), 302_000]
    assert follower.sent[0]["also_revised"] == Span(-196_000, 162_000)


def test_who_was_away_for_many_windows_is_told_how_many_are_not_sent(store: Panes) -> None:
    fed = Fed(JOBS["tumbling"], store)
    follower = Follower(fed)
    fed.commit(1, [(0, "a", 1)], 4_000)
    follower.read()
    for _ in range(23):
        fed.commit(1, [], 4_000)
    follower.sent.clear()
    follower.read()
    assert [result["window"]["end_ms"] for result in follower.sent] == [*range(20_000, 100_000, 4_000)]
    assert follower.sent[0]["also_closed"] == Span(4_000, 16_000)


def test_a_cumulative_job_is_emitted_with_every_interval_or_as_often_as_it_says(store: Panes) -> None:
    for options, expected in (("", 6), ('emit_every = "10s"\ninterval = "5s"', 4)):
        fed = Fed(plan_of(CUMULATIVE, options=options), store)
        interval_ms = fed.plan.interval_ms
        follower = Follower(fed)
        follower.read()
        for interval in range(5):
            fed.commit(1, [(interval * interval_ms, "a", 1)], interval_ms)
            follower.read()
        assert len(follower.sent) == expected
