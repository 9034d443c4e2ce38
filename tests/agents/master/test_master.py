"""A master answers any window exactly, labels it honestly, and comes back from disk as it was."""

import concurrent.futures
import pathlib
import threading
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from elf.agents.errors import ExpiredError, JobError
from elf.agents.jobs.plan import Plan
from elf.agents.language.instants import instant
from elf.agents.language.query import Window
from elf.agents.master.master import Master
from elf.agents.master.results import Span
from elf.agents.master.spans import expired_ms, oldest_ms
from elf.agents.store.database import Database
from elf.agents.store.panes import Kind, Panes
from elf.agents.store.shared_transactions import Steps, Write
from elf.agents.wire.positions import Json
from elf.agents.worker.payload import Notes, pack
from elf.overlay.contract import NEVER, Commit, RollupState, RosterEntry
from elf.overlay.group.messages import Place
from tests.agents.plans import CUMULATIVE, events, plan_of

PLAN = plan_of()


@pytest.fixture
def store(tmp_path: pathlib.Path) -> Iterator[Panes]:
    database = Database(tmp_path / "state.db")
    yield Panes(database)
    database.close()


class Root:
    """Feeds a master as the overlay would."""

    def __init__(self, store: Panes, plan: Plan = PLAN) -> None:
        self.plan, self.store = plan, store
        store.create(plan.definition.app_id, b"job", b"")
        self.master = Master(plan, store, None)

    def commit(
        self,
        through: int,
        rows: list[tuple[int, str]],
        missing: tuple[str, ...] = (),
        notes: Notes | None = None,
        agents: tuple[str, ...] = ("w1", "w2"),
    ) -> None:
        self.store.finish(self.committing(through, rows, missing, notes, agents))

    def committing(
        self,
        through: int,
        rows: list[tuple[int, str]],
        missing: tuple[str, ...] = (),
        notes: Notes | None = None,
        agents: tuple[str, ...] = ("w1", "w2"),
    ) -> Steps:
        previous = self.master.state.rollup.committed
        roster = {agent: RosterEntry(admitted=NEVER) for agent in agents}
        frame = self.plan.reduce(events([(ts, product, 1) for ts, product in rows]))
        state = RollupState(committed=through, roster=roster)
        reported = tuple(agent for agent in roster if agent not in missing)
        commit = Commit(previous, through, pack(notes or Notes(), frame), reported, tuple(missing), state)
        return self.master.committing(commit, Place(1, self.master.state.applied.index + 1))

    def restart(self) -> None:
        ((_, _, state),) = self.store.masters()
        self.master = Master(self.plan, self.store, state)

    def ask(self, span: Span | None, key: str | None = None, limit: int | None = None) -> Json:
        result = self.master.result(span, key, limit, str.upper)
        return {"rows": result.rows, **result.completeness}


def test_windows_begin_at_multiples_of_the_slide_as_those_of_spark() -> None:
    window = Window(5_000, 2_000)
    assert [window.ended_by(at_ms) for at_ms in (6_999, 7_000, 8_999, 9_000, -1)] == [
        5_000,
        7_000,
        7_000,
        9_000,
        -1_000,
    ]


def test_the_latest_window_is_the_last_closed_one(store: Panes) -> None:
    root = Root(store)
    root.commit(0, [(0, "a"), (1_000, "b"), (1_500, "b")])
    root.commit(1, [(2_000, "a"), (2_500, "a")])
    assert root.master.latest() == Span(0, 4_000)
    answer = root.ask(Span(0, 4_000))
    assert answer["rows"] == [{"product": "a", "n": 3, "cents": 3}, {"product": "b", "n": 2, "cents": 2}]
    assert (answer["status"], answer["expected"], answer["reported"]) == ("final", 2, 2)
    assert root.ask(Span(0, 4_000), key="b")["rows"] == [{"product": "b", "n": 2, "cents": 2}]
    assert len(root.ask(Span(0, 4_000), limit=1)["rows"]) == 1
    assert root.ask(Span(2_000, 6_000))["status"] == "open"
    assert root.master.news(-1, 0, 9)[0] == [Span(-2_000, 2_000), Span(0, 4_000)]


def test_a_key_that_can_be_none_is_refused(store: Panes) -> None:
    query = "SELECT cents, count(*) AS n FROM clicks GROUP BY cents, window(ts, '4 seconds', '2 seconds')"
    root = Root(store, plan_of(query))
    root.commit(1, [(0, "a")])
    assert root.ask(Span(0, 4_000), key="01")["rows"] == [{"cents": 1, "n": 1}]
    with pytest.raises(JobError, match=r"the first group key, cents, holds whole numbers \(BIGINT\), and 'a' is none"):
        root.ask(Span(0, 4_000), key="a")


def test_a_missing_agent_is_named_until_its_data_comes(store: Panes) -> None:
    root = Root(store)
    root.commit(0, [(0, "a")], missing=("w2",))
    root.commit(1, [(2_000, "a")])
    assert root.ask(Span(0, 4_000)) | {"rows": 0} == {
        "rows": 0, "expected": 2, "reported": 1, "missing": ["W2"], "late": 0, "shed": 0, "rejected": 0,
        "gaps": 0, "void": 0, "revision": 0, "status": "final_incomplete", "semantics": "exactly-once",
    }  # fmt: skip
    root.commit(2, [(500, "b")], notes=Notes(settles={"w2": ((NEVER, 0),)}))
    answer = root.ask(Span(0, 4_000))
    assert (answer["status"], answer["missing"], answer["revision"]) == ("revised", [], 2)
    assert {row["product"]: row["n"] for row in answer["rows"]} == {"a": 2, "b": 1}


def test_rejected_lines_are_counted_where_the_commit_is_that_brings_them(store: Panes) -> None:
    root = Root(store)
    root.commit(0, [(0, "a")], notes=Notes(rejected=3))
    root.commit(1, [(2_000, "a")], notes=Notes(rejected=1))
    root.commit(2, [(4_000, "a")])
    answers = [root.ask(Span(start_ms, start_ms + 4_000)) for start_ms in (0, 2_000)]
    assert [answer["rejected"] for answer in answers] == [4, 1]
    assert {answer["status"] for answer in answers} == {"final"}, "a bad line does not make results incomplete"


def test_an_interval_that_lacks_anybody_is_void_for_everybody(store: Panes) -> None:
    root = Root(store, plan_of(options='straggler = "void"'))
    root.commit(0, [(0, "a")])
    root.commit(2, [(1_000, "a"), (2_000, "b"), (4_000, "b")], missing=("w2",))
    root.commit(3, [(2_500, "b"), (6_000, "c")])
    root.restart()
    answer = root.ask(Span(0, 4_000))
    assert answer["rows"] == [{"product": "a", "n": 2, "cents": 2}], "the late row of interval 0 counts"
    assert (answer["status"], answer["void"], answer["missing"]) == ("final_incomplete", 1, ["W2"])
    answer = root.ask(Span(4_000, 8_000))
    assert [row["product"] for row in answer["rows"]] == ["c"], "and the late one of interval 1 does not"
    assert root.ask(Span(6_000, 10_000))["void"] == 0


def test_what_a_crash_may_have_lost_is_named(store: Panes) -> None:
    root = Root(store, plan_of(options='semantics = "at-most-once"'))
    for through in range(5):
        root.commit(through, [(2_000 * through, "a")], notes=Notes(lost={"w2": ((1, 2),)} if through > 2 else {}))
    root.restart()
    asked = [root.ask(Span(2_000 * first, 2_000 * first + 4_000)) for first in (0, 1, 2, 3)]
    assert [answer["missing"] for answer in asked] == [[], ["W2"], ["W2"], []]
    assert asked[1]["status"] == "final_incomplete"
    assert asked[0]["semantics"] == "at-most-once"
    assert root.master.state.lost == {"w2": ((1, 2),)}


def test_agents_that_came_in_the_middle_are_missing_from_earlier_windows(store: Panes) -> None:
    root = Root(store)
    root.commit(3, [(6_000, "a")], notes=Notes(partial_before={"w2": 3}))
    assert root.ask(Span(4_000, 8_000))["missing"] == ["W2"]
    root.commit(4, [])
    assert root.ask(Span(6_000, 10_000))["status"] == "final"


def test_who_came_in_the_middle_of_a_window_stays_named_when_it_has_left(store: Panes) -> None:
    root = Root(store)
    root.commit(3, [(6_000, "a")], notes=Notes(partial_before={"w2": 3}))
    for through, agents in ((4, ("w1", "w2")), (5, ("w1",))):
        root.commit(through, [], agents=agents)
        asked = root.ask(Span(4_000, 8_000))
        assert (asked["missing"], asked["status"]) == (["W2"], "final_incomplete")
    root.restart()
    assert root.ask(Span(4_000, 8_000))["missing"] == ["W2"]
    assert root.ask(Span(6_000, 10_000))["status"] == "final"


def test_a_truncated_log_makes_a_window_incomplete(store: Panes) -> None:
    root = Root(store)
    root.commit(1, [(0, "a")], notes=Notes(gaps=((0, 2),)))
    for start_ms, gaps in ((-4_000, 0), (0, 1), (4_000, 1), (6_000, 0)):
        assert root.ask(Span(start_ms, start_ms + 4_000))["gaps"] == gaps
    assert root.ask(Span(0, 4_000))["status"] == "final_incomplete"


def test_a_query_without_window_counts_on(store: Panes) -> None:
    root = Root(store, plan_of(CUMULATIVE))
    root.commit(0, [(0, "a")], missing=("w2",))
    root.commit(5, [(11_000, "a"), (11_000, "b")], notes=Notes(settles={"w2": ((NEVER, 0),)}))
    root.restart()
    answer = root.ask(None)
    assert sorted((row["product"], row["n"]) for row in answer["rows"]) == [("a", 2), ("b", 1)]
    assert (answer["status"], answer["missing"]) == ("open", [])


def test_who_missed_two_commits_of_one_pane_is_named_until_both_are_brought(store: Panes) -> None:
    root = Root(store)
    root.commit(0, [(0, "a")])
    root.commit(1, [], missing=("w2",))
    root.commit(2, [], missing=("w2",))
    assert [label.through for label in root.master._history.labels.all()] == [0, 2], "an idle job has one pane for both"
    root.commit(3, [(4_000, "b")], notes=Notes(settles={"w2": ((1, 2),)}))
    assert root.ask(Span(2_000, 6_000))["missing"] == ["W2"]
    root.restart()
    root.commit(4, [(2_000, "b")], notes=Notes(settles={"w2": ((0, 1),)}))
    assert root.ask(Span(2_000, 6_000))["status"] == "revised"
    assert root.master.state.owing == {}


def test_a_total_names_an_agent_until_all_that_it_missed_is_there(store: Panes) -> None:
    root = Root(store, plan_of(CUMULATIVE))
    root.commit(0, [(0, "a")], missing=("w2",))
    root.commit(1, [(11_000, "a")], missing=("w2",))
    root.commit(2, [(11_000, "b")], notes=Notes(settles={"w2": ((0, 1),)}))
    assert root.ask(None)["missing"] == ["W2"]
    root.commit(3, [(0, "b")], notes=Notes(settles={"w2": ((NEVER, 0),)}))
    assert root.ask(None)["missing"] == []


def test_windows_no_longer_retained_are_refused_not_answered_wrongly(store: Panes) -> None:
    root = Root(store, plan_of(options='retain = "10s"'))
    assert (oldest_ms(root.master), expired_ms(root.master)) == (None, None)
    for through in range(20):
        root.commit(through, [(through * 2_000, "a")])
        if through == 2:
            assert (oldest_ms(root.master), expired_ms(root.master)) == (0, None)
    since_ms = expired_ms(root.master)
    assert since_ms == oldest_ms(root.master) and since_ms is not None
    assert root.ask(Span(since_ms, since_ms + 4_000))["rows"][0]["n"] == 2
    with pytest.raises(JobError, match=f"before {instant(since_ms)}, "):
        root.ask(Span(since_ms - 2_000, since_ms + 2_000))
    assert root.ask(Span(36_000, 40_000))["rows"][0]["n"] == 2
    with pytest.raises(ExpiredError, match="retains"):
        root.ask(Span(0, 4_000))
    root.commit(20, [(0, "a")])
    assert root.master.state.too_late == 1


def test_an_idle_job_does_not_pile_up_panes(store: Panes) -> None:
    root = Root(store)
    root.commit(0, [(0, "a")])
    for through in range(1, 50):
        root.commit(through, [])
    assert store.intervals(root.master.app, Kind.PANE) == store.intervals(root.master.app, Kind.LABEL) == [0, 49]
    root.commit(50, [(60_000, "b")])
    assert root.ask(Span(60_000, 64_000))["rows"][0]["product"] == "b", "a late row finds its interval in the run"
    assert root.ask(Span(0, 4_000))["status"] == "revised", "it shares the idle run's label: pessimistic, not wrong"
    assert root.ask(Span(-2_000, 2_000))["status"] == "final"


commits = st.lists(
    st.tuples(st.integers(1, 3), st.lists(st.tuples(st.integers(0, 30_000), st.sampled_from("abc")), max_size=6)),
    min_size=1,
    max_size=12,
)


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(commits, st.integers(0, 12), st.integers(1, 12), st.booleans())
def test_any_window_equals_a_direct_count(
    tmp_path_factory: pytest.TempPathFactory,
    script: list[tuple[int, list[tuple[int, str]]]],
    first: int,
    length: int,
    restart: bool,
) -> None:
    database = Database(tmp_path_factory.mktemp("state") / "state.db")
    try:
        root, through, accepted = Root(Panes(database)), -1, []
        for steps, rows in script:
            through += steps
            taken = [(ts, product) for ts, product in rows if ts // 2_000 <= through]
            root.commit(through, taken)
            accepted += taken
        if restart:
            root.restart()
        span = Span(first * 2_000, (first + length) * 2_000)
        inside = [product for ts, product in accepted if span.start_ms <= ts < span.end_ms]
        counts = {row["product"]: row["n"] for row in root.ask(span)["rows"]}
        assert counts == {product: inside.count(product) for product in set(inside)}
    finally:
        database.close()


def test_a_row_of_the_future_does_not_expire_the_past(store: Panes) -> None:
    root = Root(store)
    root.commit(0, [(0, "a")])
    root.commit(1, [(2_000, "a"), (400 * 86_400_000, "a")])
    root.commit(2, [(4_000, "a")])
    answer = root.ask(Span(0, 4_000))
    assert answer["rows"] == [{"product": "a", "n": 2, "cents": 2}]
    assert (answer["status"], answer["gaps"]) == ("final_incomplete", 1)
    assert root.ask(Span(4_000, 8_000))["gaps"] == 0


class WatchedLock:
    """A lock that tells that somebody wants it."""

    def __init__(self) -> None:
        self.lock, self.wanted = threading.Lock(), threading.Event()

    def __enter__(self) -> None:
        self.wanted.set()
        self.lock.acquire()

    def __exit__(self, *_: object) -> None:
        self.lock.release()


def test_a_window_that_expires_while_a_question_waits_is_refused_and_not_answered_by_half(
    store: Panes, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = Root(store, plan_of(options='retain = "8s"'))
    for number in range(9):
        root.commit(number, [(number * 2_000, "a")])
    oldest = (root.master.expired + 1) * 2_000
    span = Span(oldest, oldest + 4_000)
    assert root.ask(span)["rows"][0]["n"] == 2
    root.restart()
    lock = WatchedLock()
    monkeypatch.setattr(root.master, "_lock", lock)
    steps = root.committing(9, [(18_000, "a")])
    write = next(steps)
    lock.wanted.clear()
    with concurrent.futures.ThreadPoolExecutor() as threads:
        asked = threads.submit(root.ask, span)
        assert lock.wanted.wait(10)
        store.finish(durable(write, steps))
        with pytest.raises(ExpiredError, match="retains"):
            asked.result(10)


def durable(write: Write, steps: Steps) -> Steps:
    """Go on with steps that have begun."""
    yield write
    next(steps, None)
