"""A master labels honestly what commits bring, and comes back from disk as it was."""

import pathlib
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from elf.agents.master.results import Span
from elf.agents.store.database import Database
from elf.agents.store.panes import Kind, Panes
from elf.agents.worker.payload import Notes
from elf.overlay.contract import NEVER
from tests.agents.master.roots import Root
from tests.agents.plans import CUMULATIVE, plan_of


@pytest.fixture
def store(tmp_path: pathlib.Path) -> Iterator[Panes]:
    database = Database(tmp_path / "state.db")
    yield Panes(database)
    database.close()


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


def test_windows_say_of_how_many_lines_some_were_rejected_and_that_these_are_too_many(store: Panes) -> None:
    root = Root(store)
    root.commit(0, [(0, "a")], notes=Notes(rejected=1, lines=200))
    root.commit(1, [(2_000, "a")], notes=Notes(rejected=3, lines=50, misread=True))
    for through in (2, 3):
        root.commit(through, [(2_000 * through, "a")])
    answers = [root.ask(Span(start_ms, start_ms + 4_000)) for start_ms in (0, 2_000, 4_000, -2_000)]
    said = [(each["rejected"], each.get("rejected_of"), each["status"], each.get("causes")) for each in answers]
    assert said == [
        (4, 250, "final_incomplete", ["lines"]),
        (3, 50, "final_incomplete", ["lines"]),
        (0, None, "final", None),
        (1, 200, "final", None),
    ]


def test_windows_that_lack_agents_which_read_nothing_say_that_nobody_knows_their_lines(store: Panes) -> None:
    root = Root(store)
    unread = frozenset({"w2"})
    root.master.windows.unread = lambda: unread
    root.commit(0, [(0, "a")])
    root.commit(1, [(2_000, "a")], missing=("w2",))
    root.commit(2, [(4_000, "a")], missing=("w1",))
    # The last one is open: it waits for both.
    said = [root.ask(Span(start_ms, start_ms + 2_000)) for start_ms in (0, 2_000, 4_000, 6_000)]
    assert [(each["status"], each.get("causes")) for each in said] == [
        ("final", None),
        ("final_incomplete", ["format"]),
        ("final_incomplete", None),
        ("open", ["format"]),
    ]
    unread = frozenset()
    assert "causes" not in root.ask(Span(2_000, 4_000))


def test_values_that_do_not_fit_are_named_in_every_window_that_they_can_have_changed(store: Panes) -> None:
    root = Root(store)
    root.commit(0, [(0, "a")])
    root.commit(1, [(2_000, "a")], notes=Notes(mistyped={"cents": ((1, 1, 2),)}))
    root.commit(2, [(4_000, "a")])
    lacking = {"status": "final_incomplete", "causes": ["types"], "mistyped": {"cents": 2}, "revision": 0}
    for start_ms in (0, 2_000):
        answer = root.ask(Span(start_ms, start_ms + 4_000))
        assert {name: answer[name] for name in lacking} == lacking
    assert root.ask(Span(-2_000, 2_000))["status"] == "final"
    edition = root.master.windows.edition
    # Late ones, whose rows a filter may have left out, and some of what the commit does not close.
    root.commit(3, [], notes=Notes(mistyped={"cents": ((0, 0, 1), (0, 1, 4), (9, 9, 1)), "product": ((1, 1, 1),)}))
    root.restart()
    answers = [root.ask(Span(start_ms, start_ms + 4_000)) for start_ms in (-2_000, 0, 2_000, 4_000)]
    assert [each.get("mistyped") for each in answers] == [
        {"cents": 5},
        {"cents": 11, "product": 1},
        {"cents": 6, "product": 1},
        {"cents": 1},
    ], "runs of several intervals count in each"
    assert [each["revision"] for each in answers] == [1, 2, 1, 0]
    assert {each["status"] for each in answers} == {"final_incomplete"}
    changed = root.master.windows.news(edition, 6_000, 9)[0]
    assert [span.start_ms for span in changed if span is not None][:3] == [-2_000, 0, 2_000], "followers are told"


def test_values_that_do_not_fit_count_from_the_beginning_without_a_window(store: Panes) -> None:
    root = Root(store, plan_of(CUMULATIVE))
    root.commit(0, [(0, "a")], notes=Notes(mistyped={"product": ((0, 0, 2),)}))
    root.commit(1, [(2_000, "a")], notes=Notes(mistyped={"product": ((0, 1, 1),)}, rejected=5, lines=9, misread=True))
    root.commit(2, [(4_000, "a")])
    answer = root.ask(None)
    assert (answer["mistyped"], answer["causes"]) == ({"product": 3}, ["lines", "types"])
    assert (answer["rejected"], answer["rejected_of"], answer["revision"]) == (5, 9, 0)


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


def test_an_idle_job_does_not_pile_up_panes(store: Panes) -> None:
    root = Root(store)
    root.commit(0, [(0, "a")])
    for through in range(1, 50):
        root.commit(through, [])
    assert store.intervals(root.master.app, Kind.PANE) == store.intervals(root.master.app, Kind.LABEL) == [0, 49]
    root.commit(50, [(60_000, "b")])
    assert root.ask(Span(60_000, 64_000))["rows"][0]["product"] == "b", "a late row finds its interval in the run"
    revised = {end_ms for end_ms in range(4_000, 100_000, 2_000) if root.ask(Span(end_ms - 4_000, end_ms))["revision"]}
    assert revised == {62_000, 64_000}, "others, which share the idle run's label, have not changed"
    assert root.ask(Span(-2_000, 2_000))["status"] == "final"


def test_a_row_of_the_future_does_not_expire_the_past(store: Panes) -> None:
    root = Root(store)
    root.commit(0, [(0, "a")])
    root.commit(1, [(2_000, "a"), (400 * 86_400_000, "a")])
    root.commit(2, [(4_000, "a")])
    answer = root.ask(Span(0, 4_000))
    assert answer["rows"] == [{"product": "a", "n": 2, "cents": 2}]
    assert (answer["status"], answer["gaps"]) == ("final_incomplete", 1)
    assert root.ask(Span(4_000, 8_000))["gaps"] == 0


LARGE = "SELECT product, count(*) AS n, sum(cents * 4611686018427387904) AS s FROM clicks GROUP BY product"


@pytest.mark.parametrize("window", ["", ", window(ts, '4 seconds', '2 seconds')"])
def test_a_sum_that_leaves_its_type_takes_nobody_s_rows_away_and_is_named(store: Panes, window: str) -> None:
    root = Root(store, plan_of(LARGE + window, options="" if window else 'interval = "2s"'))
    root.commit(1, [(0, "a"), (1_000, "b"), (2_500, "a")])
    span = Span(0, 4_000) if window else None
    answer = root.ask(span)
    assert sorted(answer["rows"], key=str) == [
        {"product": "a", "n": 2, "s": None},
        {"product": "b", "n": 1, "s": 2**62},
    ]
    assert answer["overflows"]["count"] == 1
    (first,) = answer["overflows"]["first"]
    assert first["key"] == {"product": "a"} and "64 bits" in first["why"]
    assert answer["status"] == ("final_incomplete" if window else "open")
    root.restart()
    assert root.ask(span) == answer and "overflows" not in root.ask(span, key="b")
    if window:
        assert "overflows" not in root.ask(Span(-2_000, 2_000))


#: Intervals that a commit goes on, and when late rows are of, of which each commit brings those of one interval.
followed = st.lists(st.tuples(st.integers(1, 6), st.none() | st.integers(-600, 40)), min_size=1, max_size=10)


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(followed, st.booleans())
def test_a_follower_is_told_of_each_window_that_late_rows_change_and_of_no_other(
    tmp_path_factory: pytest.TempPathFactory, script: list[tuple[int, int | None]], restart: bool
) -> None:
    database = Database(tmp_path_factory.mktemp("state") / "state.db")
    try:
        root, through = Root(Panes(database)), 20
        root.commit(through, [(through * 2_000, "a")])
        for steps, late in script:
            windows, rows = root.master.windows, list[tuple[int, str]]()
            edition, after_ms = windows.edition, windows.through_ms
            assert after_ms is not None
            if late is not None and late <= through:
                rows.append((late * 2_000, "b"))
            if steps == 1:
                rows.append(((through + 1) * 2_000, "c"))
            through += steps
            root.commit(through, rows)
            if restart:
                root.restart()
            spans, changed, closed = root.master.windows.news(edition, after_ms, 1_000)
            told = {span for span in spans if span is not None and span.end_ms <= after_ms}
            ends = [] if late is None or late * 2_000 >= after_ms else [(late + 1) * 2_000, (late + 2) * 2_000]
            assert told == {Span(end_ms - 4_000, end_ms) for end_ms in ends if end_ms <= after_ms} or restart
            assert {Span(end_ms - 4_000, end_ms) for end_ms in ends if end_ms <= after_ms} <= told
            assert changed.rest is None and closed.rest is None
            assert all(root.ask(span)["status"] == "revised" for span in told)
    finally:
        database.close()
