"""Blocks merged by the kernel: the tree holds what it does where NumPy merges rows, whatever keys and states are."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from elf.cbt.aggregates import AggregateOverflow, aggregate
from elf.cbt.blocks import BlockFormat
from elf.cbt.hashing import mix64
from elf.cbt.schema import PaoSchema
from elf.cbt.settings import TreeSettings
from elf.cbt.tree import BufferTree
from elf.cbt.words import ORDER_MASK, KeyLayout
from tests.cbt.checks import check
from tests.cbt.counting import COUNTS, TINY, counts
from tests.cbt.kernels import built, without_kernels

MIXED = PaoSchema(
    keys=(("k", pl.String()), ("n", pl.Int64()), ("l", pl.String())),
    aggregates=(
        ("a0", aggregate("count")),
        ("a1", aggregate("min", pl.Float64())),
        ("a2", aggregate("max", pl.Int64())),
        ("a3", aggregate("bool_or", pl.Boolean())),
    ),
)
INTEGERS = PaoSchema(keys=(("k", pl.Int64()),), aggregates=(("a0", aggregate("count")),))
LONG = ["", "a", "é" * 9, "w" * 15, "w" * 40, "w" * 200]
texts = st.none() | st.sampled_from(LONG) | st.text(max_size=12)
keys = st.tuples(texts, st.none() | st.integers(-3, 3) | st.just(2**40), st.sampled_from(LONG[:4]))
doubles = st.sampled_from([0.0, -1.5, float("inf"), float("nan"), 1e300])
states = st.tuples(st.integers(0, 9), st.integers(0, 1), doubles, st.integers(-(2**63), 2**63 - 1), st.booleans())


def mixed(rows: Sequence[tuple[tuple[object, ...], tuple[object, ...]]]) -> pl.DataFrame:
    """A frame of these keys and states; a flag goes with each value."""
    columns = [
        name for name, dtype in MIXED.columns.items() if name not in ("interval", "k", "n", "l") and dtype != pl.Boolean
    ]
    data: dict[str, list[object]] = {name: [] for name in MIXED.columns}
    for key, (count, interval, least, most, flag) in rows:
        row: dict[str, object] = dict(zip(("k", "n", "l"), key, strict=True)) | {"interval": interval}
        values = iter((count, least, most))
        row |= {name: next(values, 0) for name in columns}
        for name in data:
            data[name].append(row.get(name, flag))
    return pl.DataFrame(data, schema=MIXED.columns)


def rows_of(tree: BufferTree, schema: PaoSchema) -> list[tuple[object, ...]]:
    """What a tree holds, as text, since NaN is not equal to itself."""
    return sorted((tuple(map(repr, row)) for frame in tree.flush() for row in frame.iter_rows()), key=repr)


def filled(frames: Sequence[pl.DataFrame], schema: PaoSchema, settings: TreeSettings = TINY) -> BufferTree:
    tree = BufferTree(schema, settings)
    for frame in frames:
        tree.insert(frame)
    tree.compact()
    check(tree)
    return tree


SMALL = TreeSettings(root_rows=4, node_rows=8, leaf_rows=6, block_rows=3, fan_out=3)


@given(st.lists(st.lists(st.tuples(keys, states), min_size=1, max_size=12), min_size=1, max_size=6))
def test_the_tree_holds_what_it_holds_without_the_kernel(drawn: list[list[tuple[tuple[object, ...], ...]]]) -> None:
    frames = [mixed([(row[0], row[1]) for row in rows]) for rows in drawn]
    assert MIXED.fusing(BlockFormat(MIXED.format.layout, tuple(MIXED.states.values()))) is not None
    found = rows_of(filled(frames, MIXED, SMALL), MIXED)
    with pytest.MonkeyPatch.context() as patch:
        without_kernels(patch)
        assert rows_of(filled(frames, MIXED, SMALL), MIXED) == found


def unmixed(hashed: int) -> int:
    """The inverse of `mix64`."""
    every = 2**64

    def unshifted(value: int, shift: int) -> int:
        found = value
        for _ in range(64 // shift + 1):
            found = value ^ found >> shift
        return found

    value = unshifted(hashed, 31) * pow(0x94D049BB133111EB, -1, every) % every
    return unshifted(unshifted(value, 27) * pow(0xBF58476D1CE4E5B9, -1, every) % every, 30)


def colliding(count: int, order: int = 0xABCDE00000000000) -> list[int]:
    """So many integers whose keys have one place in the tree's order: hashes that differ in lower bits, undone."""
    every, factor = 2**64, 0x9E3779B97F4A7C15
    found = []
    for low in range(count):
        value = unmixed(order | low)
        value ^= value >> 29 ^ value >> 58
        # Two words, of which the first, the nulls, is 0.
        begun = 2 * factor % every
        begun ^= begun >> 29
        key = value * pow(factor, -1, every) % every ^ begun
        found.append(key - every if key >= 2**63 else key)
    return found


def integers(values: Sequence[int]) -> pl.DataFrame:
    return pl.DataFrame({"interval": 0, "k": values, "a0_n": 1}, schema=INTEGERS.columns)


@pytest.mark.parametrize("count", [2, 16, 17, 300])
def test_keys_whose_places_collide_are_all_there(count: int) -> None:
    values = colliding(count)
    words = KeyLayout((("interval", pl.Int64()), ("k", pl.Int64()))).encode(integers(values))
    orders = [INTEGERS.format.layout.order(columns) for _, columns in words]
    assert {int(order) for order in orders[0]} == {(0xABCDE00000000000 ^ int(mix64(np.zeros(1, np.uint64))[0]))}
    assert int(orders[0][0]) & ~int(ORDER_MASK) == 0
    others = list(range(500))
    tree = filled([integers([*values[at::5], *others[at::5]]) for _ in range(3) for at in range(5)], INTEGERS)
    found = {key: n for frame in tree.flush() for _, key, n in frame.iter_rows()}
    assert found == dict.fromkeys([*values, *others], 3)


def test_a_sum_that_leaves_64_bits_is_an_error_that_names_its_column() -> None:
    with pytest.raises(AggregateOverflow, match="a0_n"):
        filled([counts([f"{n}" for n in range(40)], 2**62) for _ in range(3)], COUNTS)


def test_a_sum_may_leave_64_bits_on_its_way() -> None:
    values = (2**62, 2**62, -(2**62), -5)
    frames = [counts(["k", *(f"{part} {n}" for n in range(30))], value) for part, value in enumerate(values)]
    tree = filled([pl.concat(frames)], COUNTS, TreeSettings(root_rows=100))
    assert {n for frame in tree.flush() for _, key, n in frame.iter_rows() if key == "k"} == {2**62 - 5}


@given(
    st.lists(st.binary(max_size=60), min_size=1, max_size=4), st.integers(1, 4), st.integers(0, 3), st.integers(0, 6)
)
def test_any_bytes_are_merged_or_refused(blocks: list[bytes], width: int, head: int, kind: int) -> None:
    shape = (1 + min(head, width - 1), 1 + min(head + 1, width - 1), width, bytes([kind]))
    header = np.array([3, width], dtype="<u4").tobytes()
    try:
        written = built().merge_blocks(
            [memoryview(header + block) for block in blocks], shape, np.array([2**63], np.uint64), 2
        )
    except ValueError as error:
        assert "not blocks" in str(error) or "such a shape" in str(error)
    else:
        assert written is None or all(rows > 0 for _, _, rows, _ in written)
