"""What lacking events may do to a cell."""

from __future__ import annotations

from typing import Any

import pytest

from elf.offline.verify.bounds import Bounds, Limits
from elf.offline.verify.report import Difference
from elf.offline.verify.rows import OfflineRows, RowsPlan

QUERY = """SELECT k, count(*) AS n, sum(x) AS s, min(x) AS low, avg(x) FILTER (WHERE x > 0) AS mean, sum(x) / 2 AS half
FROM t GROUP BY k, window(ts, '10 seconds')"""
NAMES = ("k", "n", "s", "low", "mean", "half")
ROWS = OfflineRows(NAMES, ("string", "bigint", "bigint", "bigint", "double", "double"), (0,), [], [], None)
#: count(*); then n; s, min, max; low; mean, min, max
FULL = (9, 9, 30, 1, 8, 1, 4.0, 1, 8)
LEAST = (4, 4, 12, 2, 5, 2, 3.5, 2, 5)


def limits(least: tuple[Any, ...] | None = LEAST, full: tuple[Any, ...] = FULL, repeats: bool = False) -> Limits:
    bounds = Bounds(RowsPlan(QUERY))
    assert len(bounds.aggregates) == len(full)
    return Limits(bounds, {(0, "a"): full}, {} if least is None else {(0, "a"): least}, repeats)


def cell(column: str, online: Any) -> Difference:
    return Difference(kind="cell", key={"k": "a"}, column=column, online=online, offline=0)


@pytest.mark.parametrize(
    ("column", "online", "allowed"),
    [
        ("n", 4, True),
        ("n", 9, True),
        ("n", 3, False),
        ("n", 10, False),
        ("s", 12, True),
        ("s", 31, False),
        ("low", 1, True),
        ("low", 3, False),
        ("low", None, False),
        ("mean", 7.5, True),
        ("mean", 8.1, False),
        ("half", 10.0, False),
        ("n", "many", False),
    ],
)
def test_cells_lie_between_what_is_sure_and_everything(column: str, online: Any, allowed: bool) -> None:
    assert limits().allow(cell(column, online), 0, ROWS, cut=False) is allowed


def test_sums_of_both_signs_have_no_bounds() -> None:
    mixed = (*FULL[:3], -5, *FULL[4:])
    assert not limits(full=mixed).allow(cell("s", 20), 0, ROWS, cut=False)
    negative = (9, 9, -30, -8, -1, *FULL[5:])
    falling = limits((4, 4, -12, -5, -2, *LEAST[5:]), negative)
    assert falling.allow(cell("s", -20), 0, ROWS, cut=False)
    assert not falling.allow(cell("s", -31), 0, ROWS, cut=False)


def test_a_row_may_be_absent_if_nothing_of_it_is_sure_or_it_was_cut_off() -> None:
    absent = Difference(kind="missing_online", key={"k": "a"}, offline={})
    assert limits(None).allow(absent, 0, ROWS, cut=False)
    assert not limits().allow(absent, 0, ROWS, cut=False)
    assert limits().allow(absent, 0, ROWS, cut=True)
    assert not limits(FULL).allow(absent, 0, ROWS, cut=True), "nothing of it is lacking"


def test_a_row_more_has_to_be_possible_in_all_its_cells() -> None:
    row = {"k": "a", "n": 5, "s": 20, "low": 2, "mean": 3.0}
    rows = OfflineRows(NAMES[:5], ROWS.types[:5], (0,), [], [], 10)
    more = Difference(kind="missing_offline", key={"k": "a"}, online=row)
    assert limits().allow(more, 0, rows, cut=True)
    assert not limits().allow(more, 0, rows, cut=False), "without LIMIT or HAVING Spark would have it"
    worse = Difference(kind="missing_offline", key={"k": "a"}, online=row | {"n": 10})
    assert not limits().allow(worse, 0, rows, cut=True)
    unknown = Difference(kind="missing_offline", key={"k": "b"}, online=row | {"k": "b"})
    assert not limits().allow(unknown, 0, rows, cut=True), "no agent has an event of it"


def test_events_that_may_count_twice_make_counts_larger_only() -> None:
    twice = limits(FULL, repeats=True)
    assert twice.allow(cell("n", 12), 0, ROWS, cut=False) and twice.allow(cell("s", 44), 0, ROWS, cut=False)
    assert not twice.allow(cell("n", 8), 0, ROWS, cut=False)
    assert not twice.allow(cell("low", 0), 0, ROWS, cut=False)


def test_order_and_columns_are_never_explained() -> None:
    assert not limits(None).allow(Difference(kind="order", key={"k": "a"}), 0, ROWS, cut=True)
