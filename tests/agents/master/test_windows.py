"""Any window is answered exactly, or refused."""

import concurrent.futures
import pathlib
import threading
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from elf.agents.errors import ExpiredError, JobError
from elf.agents.language.instants import instant
from elf.agents.language.query import Window
from elf.agents.master.results import Span
from elf.agents.store.database import Database
from elf.agents.store.panes import Panes
from elf.agents.store.shared_transactions import Steps, Write
from tests.agents.master.roots import Root
from tests.agents.plans import plan_of


@pytest.fixture
def store(tmp_path: pathlib.Path) -> Iterator[Panes]:
    database = Database(tmp_path / "state.db")
    yield Panes(database)
    database.close()


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
    assert root.master.windows.latest() == Span(0, 4_000)
    answer = root.ask(Span(0, 4_000))
    assert answer["rows"] == [{"product": "a", "n": 3, "cents": 3}, {"product": "b", "n": 2, "cents": 2}]
    assert (answer["status"], answer["expected"], answer["reported"]) == ("final", 2, 2)
    assert root.ask(Span(0, 4_000), key="b")["rows"] == [{"product": "b", "n": 2, "cents": 2}]
    assert len(root.ask(Span(0, 4_000), limit=1)["rows"]) == 1
    assert root.ask(Span(2_000, 6_000))["status"] == "open"
    assert root.master.windows.news(-1, 0, 9)[0] == [Span(-2_000, 2_000), Span(0, 4_000)]


def test_a_key_that_can_be_none_is_refused(store: Panes) -> None:
    query = "SELECT cents, count(*) AS n FROM clicks GROUP BY cents, window(ts, '4 seconds', '2 seconds')"
    root = Root(store, plan_of(query))
    root.commit(1, [(0, "a")])
    assert root.ask(Span(0, 4_000), key="01")["rows"] == [{"cents": 1, "n": 1}]
    with pytest.raises(JobError, match=r"the first group key, cents, holds whole numbers \(BIGINT\), and 'a' is none"):
        root.ask(Span(0, 4_000), key="a")


def test_windows_no_longer_retained_are_refused_not_answered_wrongly(store: Panes) -> None:
    root = Root(store, plan_of(options='retain = "10s"'))
    assert (root.master.windows.oldest_ms, root.master.windows.expired_ms) == (None, None)
    for through in range(20):
        root.commit(through, [(through * 2_000, "a")])
        if through == 2:
            assert (root.master.windows.oldest_ms, root.master.windows.expired_ms) == (0, None)
    since_ms = root.master.windows.expired_ms
    assert since_ms == root.master.windows.oldest_ms and since_ms is not None
    assert root.ask(Span(since_ms, since_ms + 4_000))["rows"][0]["n"] == 2
    with pytest.raises(JobError, match=f"before {instant(since_ms)}, "):
        root.ask(Span(since_ms - 2_000, since_ms + 2_000))
    assert root.ask(Span(36_000, 40_000))["rows"][0]["n"] == 2
    with pytest.raises(ExpiredError, match="retains"):
        root.ask(Span(0, 4_000))
    root.commit(20, [(0, "a")])
    assert root.master.state.too_late == 1


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
    oldest = (root.master.windows.expired + 1) * 2_000
    span = Span(oldest, oldest + 4_000)
    assert root.ask(span)["rows"][0]["n"] == 2
    root.restart()
    lock = WatchedLock()
    monkeypatch.setattr(root.master.windows, "lock", lock)
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
