"""Any window of a job's past, from panes or from running totals, equals a direct computation over all rows taken in."""

from __future__ import annotations

import pathlib
from collections import Counter, defaultdict
from collections.abc import Iterator

import msgspec
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from elf.agents.completeness.label import Label
from elf.agents.jobs.plan import Plan
from elf.agents.master.master import Master
from elf.agents.master.panes import frames, key_orders, merged, totals, totals_store
from elf.agents.master.panes.history import History
from elf.agents.master.panes.past import Change
from elf.agents.master.results import Span
from elf.agents.store.database import Database
from elf.agents.store.panes import Kind, Panes
from elf.agents.worker.payload import Notes, pack
from elf.cbt import encode, merging
from elf.overlay.contract import NEVER, Commit, RollupState
from elf.overlay.group.messages import Place
from tests.agents.plans import CUMULATIVE, events, plan_of

WINDOW = "window(ts, '4 seconds', '2 seconds')"
QUERIES = {
    "inverse": f"SELECT product, count(*) AS n, sum(cents) AS s FROM clicks GROUP BY product, {WINDOW}",
    "nulls": f"SELECT product, sum(cents) AS s FROM clicks GROUP BY product, {WINDOW}",
    "sets": f"SELECT product, count(DISTINCT cents) AS n FROM clicks GROUP BY product, {WINDOW}",
    "none": f"SELECT product, count(*) AS n, max(cents) AS s FROM clicks GROUP BY product, {WINDOW}",
    "sketch": f"SELECT product, approx_count_distinct(cents) AS n FROM clicks GROUP BY product, {WINDOW}",
}
PLANS = {name: plan_of(query) for name, query in QUERIES.items()}
#: Jobs that soon let panes go, by whether their aggregates have an inverse.
SHORT = {name: plan_of(QUERIES[name], options='retain = "24s"') for name in ("inverse", "none")}
Row = tuple[int, str | None, int | None]


@pytest.fixture
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let small panes make totals, too."""
    monkeypatch.setattr(totals, "PANES_MIN", 1)


@pytest.fixture
def store(tmp_path: pathlib.Path) -> Iterator[Panes]:
    database = Database(tmp_path / "state.db")
    yield Panes(database)
    database.close()


def direct(name: str, rows: list[Row]) -> set[tuple[object, ...]]:
    """Compute what a query says of some rows."""
    groups: dict[str | None, list[int | None]] = defaultdict(list)
    for _, product, cents in rows:
        groups[product].append(cents)
    found: set[tuple[object, ...]] = set()
    for product, values in groups.items():
        present = [value for value in values if value is not None]
        total = sum(present) if present else None
        match name:
            case "inverse":
                found.add((product, len(values), total))
            case "nulls":
                found.add((product, total))
            case "sets" | "sketch":  # of five values a sketch is exact
                found.add((product, len(set(present))))
            case _:
                found.add((product, len(values), max(present, default=None)))
    return found


class Fed:
    """A master that is fed commits, and all rows that it took in."""

    def __init__(self, plan: Plan, store: Panes) -> None:
        self.plan, self.store, self.rows, self.through = plan, store, list[Row](), -1
        store.create(plan.definition.app_id, b"job", b"")
        self.master = Master(plan, store, None)

    def commit(self, steps: int, rows: list[Row], interval_ms: int = 2_000) -> None:
        previous, self.through = self.through, self.through + steps
        taken = [row for row in rows if row[0] // interval_ms <= self.through]
        payload = pack(Notes(), self.plan.reduce(events(taken))) if taken else None
        state = RollupState(committed=self.through)
        commit = Commit(previous if previous >= 0 else NEVER, self.through, payload, (), (), state)
        self.master.commit(commit, Place(1, self.master.state.applied.index + 1))
        # What is no longer retained when it comes is in no result.
        self.rows += [row for row in taken if row[0] // interval_ms > self.master.state.expired]

    def restart(self) -> None:
        ((_, _, state),) = self.store.masters()
        self.master = Master(self.plan, self.store, state)

    def check(self, name: str, first: int, length: int) -> None:
        span = Span(first * 2_000, (first + length) * 2_000)
        inside = [row for row in self.rows if span.start_ms <= row[0] < span.end_ms]
        result = self.master.windows.result(span, None, None, str)
        assert {tuple(row.values()) for row in result.rows} == direct(name, inside)


values = st.tuples(
    st.integers(0, 60_000),
    st.sampled_from([None, "", *"abc", "a" * 30, "b" * 300]),
    st.sampled_from([None, 0, 1, -1, 5]),
)
scripts = st.lists(st.tuples(st.integers(1, 2), st.lists(values, max_size=6)), min_size=1, max_size=25)


@pytest.mark.parametrize("name", QUERIES)
@settings(max_examples=40)
@given(
    script=scripts,
    amended=st.integers(0, 3),
    panes_min=st.sampled_from([1, 4]),
    rows_max=st.sampled_from([3, 1 << 20]),
    order_max=st.sampled_from([2, 1 << 12]),
    restart=st.booleans(),
)
def test_any_window_equals_a_direct_computation(
    tmp_path_factory: pytest.TempPathFactory,
    name: str,
    script: list[tuple[int, list[Row]]],
    amended: int,
    panes_min: int,
    rows_max: int,
    order_max: int,
    restart: bool,
) -> None:
    """Late rows of all ages, totals that are amended, dropped, made again, or begun anew, orders too; restarts."""
    database = Database(tmp_path_factory.mktemp("state") / "state.db")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(totals, "AMENDED_MAX", amended)
        patch.setattr(totals, "PANES_MIN", panes_min)
        patch.setattr(totals_store, "ROWS_MAX", rows_max)
        patch.setattr(merged, "ROWS_MIN", panes_min)
        patch.setattr(key_orders, "ROWS_MIN", order_max)
        patch.setattr(key_orders, "ROWS_SHARE_MAX", min(order_max, 8))
        patch.setattr(merging, "WAITING_ROWS", 4)
        patch.setattr(frames, "CACHE_BYTES", 500)
        patch.setattr(frames, "PLACED_CACHE_BYTES", 100)
        try:
            fed = Fed(PLANS[name], Panes(database))
            for number, (steps, rows) in enumerate(script):
                fed.commit(steps, rows)
                if restart and number % 7 == 3:
                    fed.restart()
            for first in range(0, fed.through + 1, 3):
                for length in (1, 2, 5, fed.through + 1 - first):
                    fed.check(name, first, length)
        finally:
            database.close()


@pytest.mark.parametrize("name", SHORT)
@settings(max_examples=30)
@given(script=scripts, restart=st.booleans(), empty=st.integers(0, 5))
def test_any_window_still_retained_equals_a_direct_computation(
    tmp_path_factory: pytest.TempPathFactory, name: str, script: list[tuple[int, list[Row]]], restart: bool, empty: int
) -> None:
    """Panes and what is made of them go; rows that come too late for their pane are counted; runs without rows grow."""
    database = Database(tmp_path_factory.mktemp("state") / "state.db")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(totals, "PANES_MIN", 1)
        patch.setattr(merged, "ROWS_MIN", 4)
        try:
            fed = Fed(SHORT[name], Panes(database))
            for number, (steps, rows) in enumerate(script):
                if number % 7 < empty:
                    fed.commit(steps, [])
                fed.commit(steps, rows)
                if restart and number % 5 == 3:
                    fed.restart()
            for first in range(max(0, fed.master.state.expired + 1), fed.through + 1):
                for length in (1, 3, fed.through + 1 - first):
                    fed.check(name, first, length)
        finally:
            database.close()


@pytest.mark.usefixtures("often")
def test_long_windows_are_made_of_two_totals(store: Panes, monkeypatch: pytest.MonkeyPatch) -> None:
    fed = Fed(PLANS["inverse"], store)
    for interval in range(60):
        fed.commit(1, [(interval * 2_000, product, 1) for product in "abcd"])
    app = fed.plan.definition.app_id
    assert store.intervals(app, Kind.TOTAL) == list(range(60)), "every pane has as many rows as the totals"
    fed.restart()
    read: list[tuple[Kind, int]] = []
    block = store.block

    def watched(app: bytes, kind: Kind, interval: int) -> bytes:
        read.append((kind, interval))
        return block(app, kind, interval)

    monkeypatch.setattr(store, "block", watched)
    fed.check("inverse", 3, 50)
    assert read == [(Kind.TOTAL, 52), (Kind.TOTAL, 2)]


@pytest.mark.usefixtures("often")
def test_totals_of_what_is_no_longer_retained_go(store: Panes) -> None:
    fed = Fed(plan_of(QUERIES["inverse"], options='retain = "20s"'), store)
    for interval in range(40):
        fed.commit(1, [(interval * 2_000, "a", 1)])
    app = fed.plan.definition.app_id
    assert store.intervals(app, Kind.PANE) == store.intervals(app, Kind.LABEL) == store.intervals(app, Kind.TOTAL)
    assert len(store.intervals(app, Kind.PANE)) == 11
    fed.check("inverse", 30, 9)


def test_a_disk_that_fails_changes_nothing(store: Panes, monkeypatch: pytest.MonkeyPatch) -> None:
    fed = Fed(PLANS["inverse"], store)
    fed.commit(1, [(0, "a", 1)])

    def full(*_: object) -> None:
        raise OSError("disk full")

    with monkeypatch.context() as patch:
        patch.setattr(store, "committing", lambda *_: full)
        with pytest.raises(OSError):
            fed.commit(1, [(2_000, "a", 1), (0, "b", 1)])
    fed.through -= 1
    fed.check("inverse", 0, 2)
    fed.commit(1, [(2_000, "a", 1), (0, "b", 1)])
    fed.check("inverse", 0, 2)


@pytest.mark.parametrize("query", [QUERIES["inverse"], CUMULATIVE])
def test_panes_of_an_older_release_are_taken_over(store: Panes, query: str) -> None:
    plan = plan_of(query)
    app, rows = plan.definition.app_id, plan.reduce(events([(0, "a", 1), (100, "b", 2)]))
    store.create(app, b"job", b"")
    frame = rows.with_columns(pl.lit(0, pl.Int64).alias("interval"))
    old = msgspec.msgpack.encode((Label(NEVER, 0, 1), encode(frame)))
    store.replace(app, {(Kind.LABELLED_PANE, 0): old}, [])
    for _ in range(2):
        history = History(plan, store)
        assert history.pane(0).sort("k0").equals(frame.sort("k0")) and history.labels[0] == Label(NEVER, 0, 1)
        assert store.intervals(app, Kind.LABELLED_PANE) == []


def test_a_total_is_never_made_at_a_pane_whose_run_may_still_grow(
    store: Panes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A late row of the run's part before the mark would be in the total and, with the pane, in the next one again."""
    monkeypatch.setattr(totals, "PANES_MIN", 2)
    fed = Fed(PLANS["inverse"], store)
    for interval in range(10):
        fed.commit(1, [(interval * 2_000, "a", 1)] if interval in (0, 1) else [])
    fed.commit(1, [(2 * 2_000, "a", 1), (20_000, "a", 1)])
    for interval in range(11, 20):
        fed.commit(1, [(interval * 2_000, "a", 1)])
    for first in range(20):
        for last in range(first, 20):
            fed.check("inverse", first, last - first + 1)


def test_small_panes_make_totals_too(store: Panes) -> None:
    fed = Fed(PLANS["inverse"], store)
    for interval in range(40):
        fed.commit(1, [(interval * 2_000, "a", 1)])
    assert store.intervals(fed.plan.definition.app_id, Kind.TOTAL) == [0, 8, 16, 24, 32]
    fed.check("inverse", 1, 38)


@pytest.mark.usefixtures("often")
def test_damaged_totals_are_made_anew_and_never_served(store: Panes) -> None:
    fed = Fed(PLANS["inverse"], store)
    for interval in range(12):
        fed.commit(1, [(interval * 2_000, product, 1) for product in "abcd"])
    app = fed.plan.definition.app_id
    for mark in (10, 11):
        store.replace(app, {(Kind.TOTAL, mark): b"damaged"}, [])
    fed.restart()
    assert store.intervals(app, Kind.TOTAL) == [], "the last one is read at the start"
    fed.commit(1, [(24_000, "a", 1)])
    fed.commit(1, [(26_000, product, 1) for product in "ab"])
    fed.check("inverse", 0, 14)
    store.replace(app, {(Kind.TOTAL, 12): b"damaged"}, [])
    fed.restart()
    fed.check("inverse", 0, 14)
    fed.commit(1, [(0, "a", 1), (25_000, "b", 1)])
    fed.check("inverse", 0, 14)


@pytest.mark.usefixtures("often")
def test_a_sum_over_all_time_may_leave_its_range_while_no_window_does(store: Panes) -> None:
    fed = Fed(PLANS["inverse"], store)
    most = 2**62
    for interval in range(8):
        fed.commit(1, [(interval * 2_000, "a", most if interval % 4 == 0 else 1), (interval * 2_000, "b", 1)])
    for first, length in ((0, 4), (1, 5), (3, 2)):
        fed.check("inverse", first, length)


def test_enlisting_alone_changes_no_pane(store: Panes) -> None:
    history = History(PLANS["inverse"], store)
    store.create(PLANS["inverse"].definition.app_id, b"job", b"")
    history.write(b"state", Change())
    assert store.masters()[0][2] == b"state" and not history.labels


def test_long_windows_without_an_inverse_are_made_of_few_merged_panes(
    store: Panes, monkeypatch: pytest.MonkeyPatch
) -> None:
    fed = Fed(PLANS["none"], store)
    for interval in range(300):
        fed.commit(1, [(interval * 2_000, product, interval) for product in "abcd"])
    app = fed.plan.definition.app_id
    levels = Counter(merged.level_of(name) for name in store.intervals(app, Kind.MERGED))
    assert 250 < levels.total() - levels[0] < 300, "one for each pane but the first; the last come with the next commit"
    assert 290 < levels[0] < 300, "and one of its own, once there is an order of keys"
    assert len(store.intervals(app, Kind.ORDER)) == 1
    fed.restart()
    read: list[tuple[Kind, int]] = []
    block = store.block

    def watched(app: bytes, kind: Kind, interval: int) -> bytes:
        read.append((kind, interval))
        return block(app, kind, interval)

    monkeypatch.setattr(store, "block", watched)
    fed.check("none", 1, 290)
    assert len(read) <= 2 * 9 + 1
    fed.restart()
    read.clear()
    fed.check("none", 5, 289)
    assert {kind for kind, _ in read} == {Kind.MERGED, Kind.ORDER}, "no pane is read, whose keys take longest"


def test_late_rows_make_merged_panes_anew(store: Panes) -> None:
    fed = Fed(PLANS["none"], store)
    for interval in range(40):
        fed.commit(1, [(interval * 2_000, "a", interval)])
    app = fed.plan.definition.app_id
    before = store.intervals(app, Kind.MERGED)
    fed.commit(1, [(20_000, "a", 1_000)])
    holding = [name for name in before if merged.bounds_of(name)[0] <= 10 <= merged.bounds_of(name)[1]]
    assert len(holding) == 6 and not {*holding} & {*store.intervals(app, Kind.MERGED)}
    fed.check("none", 3, 30)
    for interval in range(41, 49):
        fed.commit(1, [(interval * 2_000, "a", 1)])
    assert {*holding} <= {*store.intervals(app, Kind.MERGED)}
    fed.check("none", 3, 30)


def test_damaged_merged_panes_are_made_anew_and_never_served(store: Panes) -> None:
    fed = Fed(PLANS["none"], store)
    for interval in range(40):
        fed.commit(1, [(interval * 2_000, "a", interval)])
    app = fed.plan.definition.app_id
    names = store.intervals(app, Kind.MERGED)
    store.replace(app, {(Kind.MERGED, name): b"damaged" for name in names}, [])
    fed.restart()
    fed.check("none", 0, 40)
    for interval in range(40, 56):
        fed.commit(1, [(interval * 2_000, "a", 1)])
    assert all(store.block(app, Kind.MERGED, name) != b"damaged" for name in names)
    fed.check("none", 0, 56)


def test_keys_that_never_come_twice_are_not_merged(store: Panes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(merged, "ROWS_MIN", 0)
    fed = Fed(PLANS["none"], store)
    for interval in range(20):
        fed.commit(1, [(interval * 2_000, f"{interval}-{each}", 1) for each in range(5)])
    app = fed.plan.definition.app_id
    assert not store.intervals(app, Kind.MERGED) and len(store.intervals(app, Kind.NOT_MERGED)) > 10
    fed.restart()
    fed.commit(1, [])
    fed.check("none", 2, 17)


def test_a_job_from_before_there_were_merged_panes_gets_them(store: Panes) -> None:
    """Not those of single panes: new blocks would have to wait for them."""
    fed = Fed(PLANS["none"], store)
    for interval in range(30):
        fed.commit(1, [(interval * 2_000, "a", 1)])
    app = fed.plan.definition.app_id
    names = {name for name in store.intervals(app, Kind.MERGED) if merged.level_of(name)}
    orders = store.intervals(app, Kind.ORDER)
    gone = [*((Kind.MERGED, name) for name in store.intervals(app, Kind.MERGED)), *((Kind.ORDER, n) for n in orders)]
    store.replace(app, {}, gone)
    fed.restart()
    for interval in range(30, 40):
        fed.commit(1, [(interval * 2_000, "a", 1)])
    assert names <= {*store.intervals(app, Kind.MERGED)}
    fed.check("none", 1, 38)


def test_merged_panes_with_keys_of_their_own_are_used_beside_others(
    store: Panes, monkeypatch: pytest.MonkeyPatch
) -> None:
    fed = Fed(PLANS["none"], store)
    with monkeypatch.context() as patch:
        patch.setattr(key_orders, "is_placeable", lambda _: False)  # as it was before there were orders
        fed.restart()
        for interval in range(21):
            fed.commit(1, [(interval * 2_000, product, interval) for product in "ab"])
    app = fed.plan.definition.app_id
    before = store.blocks(app, Kind.MERGED)
    assert len(before) > 10 and not store.intervals(app, Kind.ORDER)
    fed.restart()
    for interval in range(21, 45):
        fed.commit(1, [(interval * 2_000, product, interval) for product in "ac"])
    after = store.blocks(app, Kind.MERGED)
    assert store.intervals(app, Kind.ORDER) and all(after[name] == block for name, block in before.items())
    for first in range(0, 44, 3):
        fed.check("none", first, 44 - first)


def test_new_keys_of_a_pane_of_several_intervals_are_merged(store: Panes) -> None:
    """The newest panes are placed for a window although their keys are new; not those that have a key several times."""
    fed = Fed(PLANS["none"], store)
    for interval in range(20):
        fed.commit(1, [(interval * 2_000, product, interval) for product in "ab"])
    fed.commit(3, [(40_000 + 2_000 * each, product, each) for each in range(3) for product in "bc"])
    fed.commit(1, [(46_000, product, 9) for product in "cd"])
    for first in (3, 8, 16):
        fed.check("none", first, 24 - first)


def test_a_damaged_order_of_keys_costs_no_result(store: Panes) -> None:
    fed = Fed(PLANS["none"], store)
    for interval in range(40):
        fed.commit(1, [(interval * 2_000, "a", interval)])
    app = fed.plan.definition.app_id
    (order,) = store.intervals(app, Kind.ORDER)
    store.replace(app, {(Kind.ORDER, order): b"damaged"}, [])
    fed.restart()
    fed.check("none", 0, 40)
    for interval in range(40, 60):
        fed.commit(1, [(interval * 2_000, "a", interval)])
    fed.check("none", 0, 60)
    assert len(store.intervals(app, Kind.ORDER)) == 2, "another has begun"
    fed.restart()
    for first in (0, 1, 17, 33, 50):
        fed.check("none", first, 59 - first)


def test_orders_of_keys_that_nothing_is_placed_in_any_more_go(store: Panes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(key_orders, "ROWS_MIN", 4)
    monkeypatch.setattr(key_orders, "ROWS_SHARE_MAX", 1)
    fed = Fed(plan_of(QUERIES["none"], options='retain = "80s"'), store)
    app, most = fed.plan.definition.app_id, 0
    for interval in range(160):
        # Every 20 s other keys.
        fed.commit(1, [(interval * 2_000, f"{interval // 10}-{each}", interval) for each in range(4)])
        orders = store.intervals(app, Kind.ORDER)
        most = max(most, len(orders))
        begun = [order for order in orders if order > fed.master.state.expired]
        assert len(orders) <= len(begun) + 1, "the one before the first that has begun since may be in use"
    assert 3 <= most <= 8
    fed.check("none", 125, 30)


def test_an_order_of_keys_saves_disk(store: Panes, monkeypatch: pytest.MonkeyPatch) -> None:
    """Although panes are placed, too."""

    def bytes_made(is_placed: bool) -> int:
        with monkeypatch.context() as patch:
            if not is_placed:
                patch.setattr(key_orders, "is_placeable", lambda _: False)
            fed = Fed(PLANS["none"], store)
            for interval in range(33):
                # Some keys are lacking in each pane.
                keys = [f"product-{number:06}" for number in range(1_000) if (number * 7 + interval) % 50]
                fed.commit(1, [(interval * 2_000, key, number % 97) for number, key in enumerate(keys)])
        fed.check("none", 3, 28)
        blocks = [store.blocks(fed.plan.definition.app_id, kind) for kind in (Kind.MERGED, Kind.ORDER)]
        assert bool(blocks[1]) == is_placed
        return sum(len(block) for each in blocks for block in each.values())

    assert bytes_made(is_placed=True) < bytes_made(is_placed=False)
