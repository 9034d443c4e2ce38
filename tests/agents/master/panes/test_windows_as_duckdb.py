"""Tumbling, hopping and cumulative windows, revised by late events, against DuckDB over all rows that came."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import duckdb
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from elf.agents.master.panes import merged, totals
from elf.agents.master.results import Span
from elf.agents.store.database import Database
from elf.agents.store.panes import Panes
from tests.agents.master.panes.test_history import Fed, Row
from tests.agents.plans import plan_of

SUMS = "count(*) AS n, sum(cents) AS s, count(DISTINCT cents) AS d"
#: A plan each for aggregates with an inverse and without.
ANY = "min(cents) AS low, max(cents) AS high, avg(CAST(cents AS DOUBLE)) AS mean, count(DISTINCT cents) AS d"
SHAPES = {"tumbling": (4, 4), "hopping": (6, 2), "sliding": (10, 1), "cumulative": None}


def query_of(outputs: str, shape: tuple[int, int] | None) -> str:
    window = "" if shape is None else f", window(ts, '{shape[0]} seconds', '{shape[1]} seconds')"
    return f"SELECT product, {outputs} FROM clicks GROUP BY product{window}"


PLANS = {
    (kind, outputs): plan_of(query_of(outputs, shape), options='interval = "2s"' if shape is None else "")
    for kind, shape in SHAPES.items()
    for outputs in (SUMS, ANY)
}


@pytest.fixture(scope="module")
def base() -> Iterator[duckdb.DuckDBPyConnection]:
    """One for all examples: to open it takes longer than what an example asks of it."""
    with duckdb.connect(config={"threads": 1}) as base:
        yield base


def as_duckdb(
    base: duckdb.DuckDBPyConnection, rows: list[Row], outputs: str, spans: Sequence[Span | None]
) -> list[list[tuple[Any, ...]]]:
    """Return what DuckDB finds in each span; None for all time."""
    base.execute("CREATE OR REPLACE TABLE clicks (ts_ms BIGINT, product VARCHAR, cents BIGINT)")
    # One statement for all rows: a statement a row takes longer than everything else here.
    lists = [[row[place] for row in rows] for place in range(3)]
    base.execute("INSERT INTO clicks SELECT unnest(?::BIGINT[]), unnest(?::VARCHAR[]), unnest(?::BIGINT[])", lists)
    found = []
    for span in spans:
        where = "" if span is None else f"WHERE ts_ms >= {span.start_ms} AND ts_ms < {span.end_ms}"
        found.append(base.execute(f"SELECT product, {outputs} FROM clicks {where} GROUP BY product").fetchall())
    return found


def ordered(rows: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    return sorted(rows, key=lambda row: (row[0] is None, row[0] or ""))


def same(found: list[tuple[Any, ...]], expected: list[tuple[Any, ...]]) -> bool:
    def equal(left: Any, right: Any) -> bool:
        both = isinstance(left, float) and isinstance(right, float)
        return math.isclose(left, right, rel_tol=1e-12) if both else bool(left == right)

    pairs = zip(ordered(found), ordered(expected), strict=True)
    return len(found) == len(expected) and all(
        equal(*values) for left, right in pairs for values in zip(left, right, strict=True)
    )


class Late(Fed):
    """Remembers also which commits changed which intervals after theirs."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.changes: list[int] = []

    def take(self, steps: int, rows: list[Row]) -> None:
        interval_ms, before = self.plan.interval_ms, self.through
        self.commit(steps, rows, interval_ms)
        # The first commit holds whatever came before it.
        late = {row[0] // interval_ms for row in rows if row[0] // interval_ms <= before} if before >= 0 else set()
        self.changes += sorted(late)

    def revisions(self, span: Span) -> int:
        """How often late rows changed the window."""
        first, last = span.start_ms // self.plan.interval_ms, span.end_ms // self.plan.interval_ms - 1
        return sum(first <= change <= last for change in self.changes)


rows = st.tuples(
    st.integers(0, 30_000), st.sampled_from([None, "a", "b", "c"]), st.sampled_from([None, 0, 3, -5, 2**40])
)
scripts = st.lists(st.tuples(st.integers(1, 4), st.lists(rows, max_size=6)), min_size=1, max_size=10)


@pytest.mark.parametrize(("kind", "outputs"), PLANS, ids=lambda value: value.split("(")[0])
@settings(max_examples=12)
@given(script=scripts, restart=st.booleans())
def test_every_window_is_what_duckdb_says(
    tmp_path_factory: pytest.TempPathFactory,
    base: duckdb.DuckDBPyConnection,
    kind: str,
    outputs: str,
    script: list[tuple[int, list[Row]]],
    restart: bool,
) -> None:
    """The windows of the job, and longer ones over any run of panes; after a restart, too."""
    plan = PLANS[kind, outputs]
    database = Database(tmp_path_factory.mktemp("state") / "state.db")
    try:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(totals, "PANES_MIN", 1)
            patch.setattr(merged, "ROWS_MIN", 2)
            fed = Late(plan, Panes(database))
            for steps, some in script:
                fed.take(steps, some)
            if restart:
                fed.restart()
            spans: list[Span | None] = [None]
            if plan.window is not None:
                size_ms, slide_ms, step_ms = plan.window.size_ms, plan.window.slide_ms, plan.interval_ms
                through_ms = (fed.through + 1) * step_ms
                spans = [Span(end - size_ms, end) for end in range(slide_ms, through_ms + 1, slide_ms)]
                spans += [Span(0, through_ms), Span(step_ms, max(through_ms, 2 * step_ms))]
            for span, expected in zip(spans, as_duckdb(base, fed.rows, outputs, spans), strict=True):
                result = fed.master.windows.result(span, None, None, str)
                found = [tuple(row.values()) for row in result.rows]
                assert same(found, expected)
                if span is not None:
                    revision = result.completeness["revision"]
                    assert revision == fed.revisions(span)
                    if span.end_ms <= fed.through * plan.interval_ms:
                        assert result.completeness["status"] == ("revised" if revision else "final")
    finally:
        database.close()


def test_rows_later_than_what_is_retained_are_counted_and_in_no_window(
    tmp_path_factory: pytest.TempPathFactory, base: duckdb.DuckDBPyConnection
) -> None:
    database = Database(tmp_path_factory.mktemp("state") / "state.db")
    try:
        plan = plan_of(query_of(SUMS, (4, 4)), options='retain = "40s"')
        fed = Late(plan, Panes(database))
        for interval in range(30):
            fed.take(1, [(interval * 4_000, "a", 1)])
        for late_ms, counted, revision in ((100_000, 0, 1), (0, 1, 1), (4_000, 2, 1), (100_000, 2, 2)):
            fed.take(1, [(late_ms, "b", 1)])
            fed.restart()
            assert fed.master.state.too_late == counted
            result = fed.master.windows.result(Span(100_000, 104_000), None, None, str)
            assert result.completeness["revision"] == revision
        span = Span(84_000, 120_000)
        found = [tuple(row.values()) for row in fed.master.windows.result(span, None, None, str).rows]
        assert same(found, *as_duckdb(base, fed.rows, SUMS, [span])) and len(fed.rows) == 32
    finally:
        database.close()
