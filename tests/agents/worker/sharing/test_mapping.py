"""Workers that map a frame of events once: those of a job's parts, and those of jobs that make the same PAOs.

Parts hold together what one worker would, each key in one part.
"""

from __future__ import annotations

import collections
from collections.abc import Collection

import msgspec
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from elf.agents.jobs.plan import Plan
from elf.agents.jobs.versions import Compiled, Version, Versions
from elf.agents.worker.sharing.event_frame import EventFrame
from elf.agents.worker.sharing.mapping import Together, takers
from elf.agents.worker.sharing.workers import Workers
from elf.agents.worker.worker import Worker
from elf.cbt import BufferTree
from elf.overlay.contract import Verdict
from tests.agents.plans import WINDOWED, events, opened, plan_of

TREES = 3
WIDE = WINDOWED.replace("sum(cents) AS cents", "sum(cents) AS cents, approx_count_distinct(cents) AS different")
WHOLE = plan_of(WIDE)


def part_plans(query: str = WIDE, options: str = "") -> list[Plan]:
    whole = plan_of(query, options=f"trees = {TREES}\n{options}")
    definitions = [msgspec.structs.replace(whole.definition, part=part) for part in range(TREES)]
    return [msgspec.structs.replace(whole, definition=definition) for definition in definitions]


PLANS = part_plans()
frames = st.lists(
    st.lists(
        st.tuples(st.integers(0, 30_000), st.none() | st.sampled_from("abcdefgh"), st.none() | st.integers(0, 50)),
        max_size=20,
    ),
    max_size=5,
)


def crew(*workers: Worker) -> Workers:
    return Workers({bytes([at]): worker for at, worker in enumerate(workers)})


def insert(workers: Workers, frame: pl.DataFrame) -> None:
    workers.insert(frame)
    workers.take_in()


def rows_of(worker: Worker) -> collections.Counter[tuple[object, ...]]:
    found: collections.Counter[tuple[object, ...]] = collections.Counter()
    for snapshot in worker.seal(10**9):
        if snapshot.payload is not None:
            found.update(opened(snapshot.payload, worker.plan)[1].rows())
    return found


@given(frames)
@settings(max_examples=60)
def test_parts_hold_together_what_one_worker_holds(told: list[list[tuple[int, str | None, int | None]]]) -> None:
    one, parts = Worker(WHOLE, "w1"), [Worker(plan, "w1") for plan in PLANS]
    kin = crew(*parts)
    for frame in told:
        one.insert(events(frame))
        insert(kin, events(frame))
    held = [rows_of(part) for part in parts]
    keys = [{row[1] for row in rows} for rows in held]
    assert sum(held, collections.Counter()) == rows_of(one)
    assert all(not keys[left] & keys[right] for left in range(TREES) for right in range(left))


def test_events_are_mapped_once_for_all_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    mapped = 0
    mapping = Plan.mapped

    def counted(plan: Plan, frame: pl.DataFrame) -> pl.DataFrame:
        nonlocal mapped
        mapped += 1
        return mapping(plan, frame)

    lone = Worker(plan_of(), "w1", tree=b"lone")
    monkeypatch.setattr(Plan, "mapped", counted)
    insert(crew(*(Worker(plan, "w1") for plan in PLANS), lone), events([(0, "a", 1), (1, "b", 2)]))
    assert mapped == 2


def groups(*plans: Plan) -> list[list[int]]:
    """Put workers of plans together, and return by their numbers which are mapped together."""
    workers = [Worker(plan, "w1") for plan in plans]
    found = list(takers(workers, EventFrame(events([(0, "a", 1)]))))
    assert all(isinstance(each, Together) for each in found)
    return sorted(sorted(map(workers.index, each.workers)) for each in found if isinstance(each, Together))


def test_what_makes_the_same_paos_is_mapped_together_whatever_else_differs() -> None:
    wide = WIDE.replace("ORDER BY n DESC, product", "HAVING count(*) > 1 LIMIT 3").replace("'4 sec", "'8 sec")
    other = plan_of(wide, lateness_ms=9_000, options='semantics = "at-most-once"\nstraggler = "void"')
    renamed = msgspec.structs.replace(other.definition, name="other", creator="else")
    shown = WIDE.replace("SELECT product,", "SELECT upper(product) AS product,")
    assert groups(WHOLE, plan_of(shown)) == [[0, 1]], "the key is the column, in both"
    alike = [WHOLE, *PLANS, msgspec.structs.replace(other, definition=renamed)]
    assert groups(*alike) == [[0, 1, 2, 3, 4]]
    longer = part_plans(WIDE.replace("'2 seconds'", "'4 seconds'"))
    assert groups(*alike, *longer) == [[0, 1, 2, 3, 4], [5, 6, 7]], "intervals of another length"


FILTERED = "SELECT product, count(*) AS n FROM clicks WHERE cents > 1 GROUP BY product, window(ts, '2 seconds')"


@pytest.mark.parametrize(
    "query",
    [
        FILTERED.replace("> 1", "> 2"),
        FILTERED.replace("WHERE cents > 1 ", ""),
        FILTERED.replace("count(*)", "count(cents)"),
        FILTERED.replace("product,", "upper(product) AS p,", 1).replace("BY product", "BY p"),
        FILTERED.replace("GROUP BY product", "GROUP BY product, cents"),
        FILTERED.replace("count(*) AS n", "count(*) AS n, max(cents) AS most"),
    ],
)
def test_what_makes_other_paos_is_not_mapped_together(query: str) -> None:
    assert groups(plan_of(FILTERED), plan_of(query)) == [[0], [1]]


def test_equal_filters_are_evaluated_once_and_only_those(monkeypatch: pytest.MonkeyPatch) -> None:
    filtered: list[bytes | None] = []
    wanted = Plan.wanted

    def noted(plan: Plan, frame: pl.DataFrame, columns: Collection[str] = ()) -> pl.DataFrame:
        filtered.append(plan.filter_key)
        return wanted(plan, frame, columns)

    queries = [
        FILTERED,
        FILTERED.replace("cents > 1", "(Cents > 1)").replace("count(*) AS n", "max(product) AS last"),
        "SELECT count(*) AS n FROM clicks AS c WHERE c.cents > 1 GROUP BY window(ts, '3 seconds')",
        FILTERED.replace("> 1", "> 2"),
        FILTERED.replace("WHERE cents > 1 ", ""),
    ]
    plans = [plan_of(query) for query in queries]
    together, apart = crew(*(Worker(plan, "w1") for plan in plans)), [Worker(plan, "w1") for plan in plans]
    frame = events([(0, "a", 1), (1, "b", 2), (5_000, None, 3), (7_000, "c", None)])
    with monkeypatch.context() as patch:
        patch.setattr(Plan, "wanted", noted)
        insert(together, frame)
    assert len(filtered) == 3 and len(set(filtered)) == 3
    for worker in apart:
        worker.insert(frame)
    assert [rows_of(worker) for worker in together.values()] == [rows_of(worker) for worker in apart]


def test_an_event_that_a_shared_filter_fails_on_is_left_out_of_all_jobs_with_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    wanted = Plan.wanted

    def fails(plan: Plan, frame: pl.DataFrame, columns: Collection[str] = ()) -> pl.DataFrame:
        if plan.filter_key is not None and (frame["cents"] == 13).any():
            raise pl.exceptions.ComputeError("13")
        return wanted(plan, frame, columns)

    monkeypatch.setattr(Plan, "wanted", fails)
    queries = [FILTERED, FILTERED.replace("count(*)", "max(cents)"), FILTERED.replace("WHERE cents > 1 ", "")]
    workers = [Worker(plan_of(query), "w1") for query in queries]
    insert(crew(*workers), events([(0, "a", 2), (4_000, "a", 13), (5_000, "a", 3)]))
    assert [worker.progress.gaps for worker in workers] == [((2, 2),), ((2, 2),), ()]
    assert [sorted(rows_of(worker)) for worker in workers] == [
        [(0, "a", 1), (2, "a", 1)],
        [(0, "a", True, 2), (2, "a", True, 3)],
        [(0, "a", 1), (2, "a", 2)],
    ]


def test_each_part_drops_what_its_own_verdicts_drop() -> None:
    parts = [Worker(plan, "w1") for plan in part_plans(options='straggler = "drop"')]
    kin = crew(*parts)
    insert(kin, events([(0, name, 1) for name in "abcdefgh"]))
    (snapshot,) = parts[1].seal(2_000)
    parts[1].settle(Verdict(-1, 0, missing=True, named=True), [snapshot])
    insert(kin, events([(1_000, name, 1) for name in "abcdefgh"] + [(2_000, name, 1) for name in "abcdefgh"]))
    intervals = [sorted({row[0] for row in rows_of(part)}) for part in parts]
    assert intervals == [[0, 1], [1], [0, 1]]


def test_an_event_that_cannot_be_mapped_is_left_out_of_all_parts_and_they_say_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    mapping = Plan.mapped

    def fails(plan: Plan, frame: pl.DataFrame) -> pl.DataFrame:
        if (frame["cents"] == 13).any():
            raise ValueError("13")
        return mapping(plan, frame)

    monkeypatch.setattr(Plan, "mapped", fails)
    parts = [Worker(plan, "w1") for plan in PLANS]
    kin = crew(*parts)
    insert(kin, events([(0, "a", 1), (4_000, "a", 13), (5_000, "b", 2)]))
    assert all(part.progress.gaps == ((2, 2),) for part in parts)
    assert sum(row[3] for part in parts for row in rows_of(part) if row[2] is None) == 2


def test_a_part_that_cannot_take_events_says_so_and_the_others_keep_theirs(monkeypatch: pytest.MonkeyPatch) -> None:
    parts = [Worker(plan, "w1") for plan in PLANS]
    kin = crew(*parts)
    insert_in = BufferTree.insert

    def fails(tree: BufferTree, frame: pl.DataFrame) -> None:
        if "c" in frame["k0"].to_list():
            raise OverflowError("too much")
        insert_in(tree, frame)

    monkeypatch.setattr(BufferTree, "insert", fails)
    insert(kin, events([(0, name, 1) for name in "abcdefgh"]))
    failed = [part for part in parts if part.progress.gaps]
    assert len(failed) == 1 and failed[0].progress.gaps == ((0, 0),)
    assert {row[1] for part in parts if part is not failed[0] for row in rows_of(part)} < set("abdefgh")


def test_parts_that_rest_do_not_count_and_ask_for_no_column(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each part is stopped from an interval of its own on, and resumed."""
    parts = [Worker(plan, "w1") for plan in PLANS]
    for at, (part, plan) in enumerate(zip(parts, PLANS, strict=True)):
        published = Version(number=1, definition=plan.definition)
        stop = Version(number=2, definition=plan.definition, what="stop", since=2 + at, ends_ms=9)
        part.adopt(Versions([Compiled(published, plan), Compiled(stop, plan)]), 0)
    kin = crew(*parts)
    insert(kin, events([(2_000 * interval, name, 1) for interval in range(6) for name in "abcdefgh"]))
    held = [rows_of(part) for part in parts]
    assert [sorted({row[0] for row in rows}) for rows in held] == [[0, 1], [0, 1, 2], [0, 1, 2, 3]]
    assert all(part.plans == [] and part.counts_nothing for part in parts), "10**9 ms later nothing is retained"
    monkeypatch.setattr(Plan, "mapped", lambda plan, frame: pytest.fail("nobody wants it"))
    insert(kin, events([(10**9, "a", 1)]).drop("cents"))


def test_parts_take_their_own_keys_of_a_frame_that_two_versions_count() -> None:
    """Both kinds of PAOs of it: of the intervals before the change, and of those since."""
    other = part_plans(WIDE.replace("FROM clicks", "FROM clicks WHERE cents > 1"))
    parts = [Worker(plan, "w1") for plan in PLANS]
    for part, old, new in zip(parts, PLANS, other, strict=True):
        definition = msgspec.structs.replace(new.definition, version=2)
        published = Version(number=1, definition=old.definition)
        update = Version(number=2, definition=definition, what="update", since=2, begins=2, pao_kind=2)
        part.adopt(Versions([Compiled(published, old), Compiled(update, new)]), 0)
    kin = crew(*parts)
    insert(kin, events([(2_000 * interval, name, 2) for interval in range(4) for name in "abcdefgh"]))
    found = [
        [(kind, *row[:2]) for kind, frame in part.open.snapshot().parts for row in frame.rows() if row[2] is None]
        for part in parts
    ]
    expected = [(kind, at, name) for kind, ats in ((0, (0, 1)), (2, (2, 3))) for at in ats for name in "abcdefgh"]
    assert sorted(row for rows in found for row in rows) == expected
    keys = [{name for _, _, name in rows} for rows in found]
    assert all(not keys[left] & keys[right] for left in range(TREES) for right in range(left))


def test_what_several_jobs_demand_of_a_line_is_demanded_once() -> None:
    query = FILTERED.replace("cents > 1", "product = '{}'")
    plans = [plan_of(query.format(product)) for product in ("kite", "kite", "train", "kite")]
    workers = crew(*(Worker(plan, "w1") for plan in plans))
    assert workers.literals == [("kite",), ("train",)]
    assert [each.columns for each in workers.parsings({})] == [plans[0].columns]
