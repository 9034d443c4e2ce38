"""Comparing rows: what counts as equal, and how each kind of disagreement is named."""

from __future__ import annotations

import math
from typing import Any

import pytest

from elf.offline.verify.compare import TIE, compare, read_cell
from elf.offline.verify.rows import OfflineRows, close

NAMES = ("product", "n", "mean")
TYPES = ("string", "bigint", "double")


def offline(*rows: tuple[Any, ...], limit: int | None = None, keys: tuple[int, ...] = (0,)) -> OfflineRows:
    """Rows ordered by `n`, descending."""
    return OfflineRows(NAMES, TYPES, keys, list(rows), [(row[1],) for row in rows], limit)


def published(*rows: tuple[Any, ...]) -> list[dict[str, Any]]:
    return [dict(zip(NAMES, row, strict=True)) for row in rows]


A, B, C, D = ("a", 9, 1.5), ("b", 7, None), ("c", 7, 2.0), ("d", 7, 0.0)


def kinds(rows: list[dict[str, Any]], against: OfflineRows) -> list[str]:
    return [difference.kind for difference in compare(NAMES, rows, against)[0]]


def test_equal_rows_agree_and_doubles_nearly() -> None:
    assert compare(NAMES, published(A, B, C), offline(A, B, C)) == ([], [])
    assert kinds(published(("a", 9, 1.5 * (1 + 1e-12))), offline(A)) == []
    assert kinds(published(("a", 9, 1.5 * (1 + 1e-8))), offline(A)) == ["cell"]


def test_a_differing_cell_is_named() -> None:
    (difference,), _ = compare(NAMES, published(A, ("b", 8, None)), offline(A, B))
    assert (difference.kind, difference.key, difference.column) == ("cell", {"product": "b"}, "n")
    assert (difference.online, difference.offline) == (8, 7)


def test_null_is_not_zero_and_true_is_not_one() -> None:
    assert kinds(published(("b", 7, 0.0)), offline(B)) == ["cell"]
    assert kinds(published(("b", None, None)), offline(B)) == ["cell"]
    assert kinds(published(("b", True, None)), offline(("b", 1, None))) == ["cell"]
    assert kinds(published((None, 7, None)), offline((None, 7, None))) == []
    assert kinds(published(("None", 7, None)), offline((None, 7, None))) == ["missing_offline", "missing_online"]


def test_rows_on_one_side_only() -> None:
    differences, _ = compare(NAMES, published(A, C), offline(A, B))
    assert [(each.kind, each.key) for each in differences] == [
        ("missing_offline", {"product": "c"}),
        ("missing_online", {"product": "b"}),
    ]
    assert differences[0].online == {"product": "c", "n": 7, "mean": 2.0}


def test_a_row_twice_is_one_too_many() -> None:
    assert kinds(published(A, A), offline(A)) == ["missing_offline"]


def test_equal_order_keys_may_stand_in_any_order_others_not() -> None:
    assert kinds(published(A, C, B), offline(A, B, C)) == []
    differences, _ = compare(NAMES, published(B, A, C), offline(A, B, C))
    assert [(each.kind, each.key) for each in differences] == [("order", {"product": "a"})]


@pytest.mark.parametrize("rows", [(A, B), (A, C), (A, D)])
def test_any_row_that_ties_at_the_cut_will_do(rows: tuple[tuple[Any, ...], ...]) -> None:
    assert compare(NAMES, published(*rows), offline(A, B, C, D, limit=2)) == ([], [TIE])


def test_the_cut_excuses_nothing_else() -> None:
    against = offline(A, B, C, D, limit=2)
    assert kinds(published(A), against) == ["missing_online"]
    assert kinds(published(B, C), against) == ["missing_online"]
    assert kinds(published(A, ("x", 7, 1.0)), against) == ["missing_offline", "missing_online"]
    assert kinds(published(A, B, C), against) == ["order"]
    assert kinds(published(A, ("c", 7, 2.5)), against) == ["cell"]


def test_rows_without_keys_are_a_multiset() -> None:
    against = offline(A, B, B, C, keys=())
    assert kinds(published(A, B, B, C), against) == []
    assert kinds(published(A, B, C), against) == ["missing_online"]
    assert kinds(published(A, B, B, ("c", 7, 2.1)), against) == ["missing_offline", "missing_online"]


def test_other_columns_are_one_difference() -> None:
    differences, _ = compare(("product", "n"), [], offline(A))
    assert [(each.kind, each.online, each.offline) for each in differences] == [
        ("columns", ["product", "n"], list(NAMES))
    ]


@pytest.mark.parametrize(
    ("value", "kind", "cell"),
    [
        ("1970-01-01T00:00:01.5Z", "timestamp", 1_500_000),
        ("1970-01-01T00:00:01", "timestamp", 1_000_000),
        (1_500, "timestamp", 1_500_000),
        ("2026-01-02", "date", 20_455),
        ("+55969-09-28", "date", 19_723_000),
        ("+55969-09-28T00:00:00.000001Z", "timestamp", 1_704_067_200_000_000_001),
        (2, "double", 2.0),
        (2, "decimal(3,1)", 2.0),
        ("Infinity", "double", math.inf),
        ("soon", "timestamp", "soon"),
        (None, "double", None),
        (7, "bigint", 7),
    ],
)
def test_cells_of_the_result_are_read_by_type(value: Any, kind: str, cell: Any) -> None:
    assert read_cell(value, kind) == cell


def test_nan_equals_nan() -> None:
    assert close((read_cell("NaN", "double"),), (math.nan,))
    assert not close((math.nan,), (1.0,))
