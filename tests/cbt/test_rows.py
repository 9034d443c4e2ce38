"""Merging: one PAO a key, in the order of keys, however rows are cut into parts and whatever orders collide."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable, Iterator

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import elf.cbt.rows
from elf.cbt.aggregates import Merge
from elf.cbt.reducing import reducer
from elf.cbt.rows import Rows, merge, sort, subtract, together
from elf.cbt.words import ORDER_MASK, KeyLayout

REDUCE = reducer(["n"], [Merge(("n",), "sum")])
Pairs = list[tuple[int, int]]
pairs = st.lists(st.tuples(st.integers(0, 30), st.integers(-3, 3)), min_size=1, max_size=40)
parts = st.lists(pairs, min_size=1, max_size=5)
#: How many different orders the keys have.
spreads = st.sampled_from([1, 2, 7, 1000])


def rows(values: Pairs, spread: int = 1000) -> Rows:
    keys = np.array([key for key, _ in values], dtype=np.uint64)
    order = (keys * np.uint64(0x9E3779B97F4A7C15) >> np.uint64(40)) % np.uint64(spread) << np.uint64(30)
    wide = np.column_stack([keys, np.zeros_like(keys)])
    return Rows([keys, wide], order & ORDER_MASK, [np.array([n for _, n in values], dtype=np.int64)])


def content(stream: Iterable[Rows]) -> dict[int, int]:
    """What sorted parts hold; asserts that they are sorted, and have a key once."""
    found = list(stream)
    order = np.concatenate([part.order for part in found]) if found else np.zeros(0, dtype=np.uint64)
    assert (order[1:] >= order[:-1]).all()
    assert all(left.order[-1] < right.order[0] for left, right in itertools.pairwise(found)), "an order is cut"
    keys = [int(key) for part in found for key in part.words[0]]
    assert len(set(keys)) == len(keys)
    return dict(zip(keys, [int(n) for part in found for n in part.states[0]], strict=True))


def total(values: Iterable[Pairs]) -> dict[int, int]:
    counter: Counter[int] = Counter()
    for key, n in itertools.chain.from_iterable(values):
        counter[key] += n
    return dict(counter)


@pytest.fixture(autouse=True, scope="module", params=[16_384, 4])
def step(request: pytest.FixtureRequest) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(elf.cbt.rows, "STEP_ROWS", request.param)
        yield


@settings(max_examples=80)
@given(parts, spreads)
def test_sort_merges_rows_in_any_order(values: list[Pairs], spread: int) -> None:
    assert content(sort([rows(part, spread) for part in values], REDUCE)) == total(values)


@settings(max_examples=80)
@given(parts, spreads)
def test_merge_merges_sorted_rows(values: list[Pairs], spread: int) -> None:
    ready = [part for each in values for part in sort([rows(each, spread)], REDUCE)]
    assert content(merge(ready, REDUCE)) == total(values)


@settings(max_examples=80)
@given(pairs, pairs, spreads)
def test_subtract_leaves_what_came_in_between(later: Pairs, earlier: Pairs, spread: int) -> None:
    streams = [sort([rows(each, spread)], REDUCE) for each in (later, earlier)]
    found = content(subtract(streams[0], streams[1], REDUCE))
    wanted = total([later, [(key, -n) for key, n in earlier]])
    assert found == {key: n for key, n in wanted.items() if n}


def test_subtract_from_nothing_and_nothing() -> None:
    some = [rows([(1, 5)])]
    assert content(subtract(iter(some), iter([]), REDUCE)) == {1: 5}
    assert content(subtract(iter([]), iter(some), REDUCE)) == {1: -5}
    assert content(subtract(iter([]), iter([]), REDUCE)) == {}


@settings(max_examples=80)
@given(pairs, spreads, st.integers(1, 9))
def test_split_never_parts_equal_orders(values: Pairs, spread: int, most: int) -> None:
    ready = list(sort([rows(values, spread)], REDUCE))
    pieces = [piece for part in ready for piece in part.split(most)]
    assert content(pieces) == total([values])
    if spread == 1000 and len(ready) == 1:
        assert max(map(len, pieces)) <= 2 * most


def test_cut_takes_a_bound_to_the_right() -> None:
    (ready,) = sort([rows([(key, 1) for key in range(4)])], REDUCE)
    order = ready.order.tolist()
    assert [len(part) for part in ready.cut([order[1], order[1] + 1, order[3]])] == [1, 1, 1, 1]
    assert [len(part) for part in ready.cut([0, 2**63])] == [0, 4, 0]
    assert [len(part) for part in ready.cut([])] == [4]


def test_slices_are_views_and_takes_are_copies() -> None:
    ready = rows([(key, key) for key in range(10)])
    assert np.shares_memory(ready.slice(2, 5).words[1], ready.words[1])
    assert not np.shares_memory(ready.take(np.arange(10)).words[1], ready.words[1])
    assert ready.width == 3


def test_more_rows_than_a_merge_takes_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(elf.cbt.rows, "ROWS_MAX", 5)
    with pytest.raises(ValueError, match="6 rows are more than one merge takes"):
        list(sort([rows([(key, 1) for key in range(6)])], REDUCE))


def test_few_narrow_rows_are_put_together_as_wide_as_the_widest() -> None:
    layout = KeyLayout((("interval", pl.Int64()), ("a", pl.String()), ("b", pl.String())))
    keys = [("", None), ("x" * 30, "é"), (None, "y" * 90), ("日本" * 9, "z" * 20), ("w" * 900, "")]
    frame = pl.DataFrame(
        [(1, *key) for key in keys], {"interval": pl.Int64, "a": pl.String, "b": pl.String}, orient="row"
    )
    parts = [
        Rows(words, layout.order(words), [np.arange(len(words[0]), dtype=np.int64)])
        for _, words in layout.encode(frame)
    ]
    assert len(parts) > 3
    joined = together(parts)
    assert len(joined) == 2
    assert sum(map(len, joined)) == len(keys)
    decoded = [row for rows in joined for row in pl.DataFrame(layout.decode(rows.words)).rows()]
    apart = [row for rows in parts for row in pl.DataFrame(layout.decode(rows.words)).rows()]
    assert decoded == apart
    assert [n for rows in joined for n in rows.order] == [n for rows in parts for n in rows.order]
    assert [n for rows in joined for n in rows.states[0]] == [n for rows in parts for n in rows.states[0]]
