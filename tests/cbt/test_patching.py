"""Patching equals merging, wherever the few rows fall; colliding orders are left to the general merge."""

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from elf.cbt.aggregates import aggregate
from elf.cbt.patching import patch
from elf.cbt.rows import Rows, sort
from elf.cbt.schema import INTERVAL, PaoSchema
from elf.cbt.words import KeyLayout
from tests.cbt.kernels import without_kernels

SCHEMA = PaoSchema(
    keys=(("k", pl.Int64()),),
    aggregates=(
        ("a0", aggregate("count")),
        ("a1", aggregate("max", pl.String())),
        ("a2", aggregate("avg", pl.Float64())),
    ),
)


def rows_of(keys: list[int], seed: int) -> Rows:
    columns = {
        INTERVAL: pl.Series([0] * len(keys)),
        "k": pl.Series(keys, dtype=pl.Int64),
        "a0_n": pl.Series([seed] * len(keys)),
        "a1_has": pl.Series([True] * len(keys)),
        "a1_max": pl.Series([f"{key * seed}" for key in keys], dtype=pl.String),
        "a2_hi": pl.Series([float(seed * key) for key in keys], dtype=pl.Float64),
        "a2_lo": pl.Series([0.0] * len(keys)),
        "a2_n": pl.Series([key % 3 for key in keys], dtype=pl.Int64),
    }
    (rows,) = SCHEMA.format.to_rows(pl.DataFrame(columns).select(*SCHEMA.columns))
    (merged,) = sort([rows], SCHEMA.reduce)
    return merged


@given(st.sets(st.integers(0, 60), min_size=1), st.sets(st.integers(0, 80), min_size=1))
def test_patching_is_merging(many: set[int], few: set[int]) -> None:
    left, right = rows_of(sorted(many), 2), rows_of(sorted(few), 3)
    patched = patch(left, right, SCHEMA.reduce)
    assert patched is not None
    (merged,) = sort([left, right], SCHEMA.reduce)
    assert np.array_equal(patched.order, merged.order)
    assert SCHEMA.format.to_frame(patched).equals(SCHEMA.format.to_frame(merged))


@given(st.sets(st.integers(0, 60), min_size=1), st.sets(st.integers(0, 80), min_size=1))
def test_the_kernel_patches_as_numpy_does(many: set[int], few: set[int]) -> None:
    left, right = rows_of(sorted(many), 2), rows_of(sorted(few), 3)
    patched = patch(left, right, SCHEMA.reduce)
    with pytest.MonkeyPatch.context() as context:
        without_kernels(context)
        expected = patch(left, right, SCHEMA.reduce)
    assert patched is not None and expected is not None
    assert SCHEMA.format.to_frame(patched).equals(SCHEMA.format.to_frame(expected))


def test_keys_that_collide_are_for_the_general_merge(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(KeyLayout, "order", lambda layout, words: np.zeros(words[0].size, dtype=np.uint64))
    many = rows_of([1, 2, 3], 2)
    assert patch(many, rows_of([2], 3), SCHEMA.reduce) is None
    assert patch(many, rows_of([9], 3), SCHEMA.reduce) is None
    one = patch(rows_of([1], 2), rows_of([1], 3), SCHEMA.reduce)
    assert one is not None and SCHEMA.format.to_frame(one)["a0_n"].to_list() == [5]
    assert patch(rows_of([1], 2), rows_of([4], 3), SCHEMA.reduce) is None
