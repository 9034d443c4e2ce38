"""The root's buffer: rows of any values come back as they were put in, from as little memory as they need."""

from __future__ import annotations

import numpy as np
import polars as pl
from hypothesis import given
from hypothesis import strategies as st

from elf.cbt import columns
from elf.cbt.columns import Columns, Words
from elf.cbt.root import RootBuffer
from elf.cbt.rows import Rows
from elf.cbt.words import ORDER_MASK

#: Values that need 1, 2, 4 and 8 bytes.
VALUES = st.sampled_from([0, 1, 255, 256, 65_535, 65_536, 2**32 - 1, 2**32, 2**63, 2**64 - 1])
PARTS = st.lists(st.lists(st.tuples(VALUES, VALUES, VALUES), min_size=1, max_size=5), min_size=1, max_size=6)


def order(words: Columns) -> Words:
    """A place for each key."""
    return words[0].astype(np.uint64) & ORDER_MASK


def buffer_of(rows: int) -> RootBuffer:
    return RootBuffer(rows, order)


def rows(values: list[tuple[int, int, int]]) -> Rows:
    word, other, state = np.array(values, dtype=np.uint64).reshape(-1, 3).T.copy()
    names = pl.Series([str(each) for each in state], dtype=pl.String)
    return Rows([columns.simplified(word), word ^ other], order([word]), [state.view(np.int64), names])


def plain(part: Rows) -> list[list[object]]:
    return [list(each) for each in [*part.words, part.order, *part.states]]


@given(PARTS)
def test_rows_come_back(parts: list[list[tuple[int, int, int]]]) -> None:
    buffer = buffer_of(8)
    for _ in range(2):
        for part in parts:
            buffer.append(rows(part).words, rows(part).states)
        found = buffer.rows()
        assert plain(found) == plain(rows([each for part in parts for each in part]))
        assert [word.dtype for word in [*found.words, found.order]] == [np.uint64] * 3
        buffer.clear()
        assert not len(buffer)


def test_columns_take_the_bytes_that_their_values_need() -> None:
    def held(largest: int) -> int:
        buffer = buffer_of(1_000)
        values = np.arange(1_000, dtype=np.uint64)
        values[0] = largest
        buffer.append([columns.constant(7, 1_000), values], [np.ones(1_000, np.int64)])
        return buffer.memory_bytes

    # One column has an only value, and the states' are all alike without being known to be.
    assert [held(largest) - 1_000 for largest in (999, 2**16, 2**32)] == [2_000, 4_000, 8_000]


def test_what_was_forgotten_takes_no_memory_but_for_the_numbers_to_come() -> None:
    buffer = buffer_of(1_000)
    for _ in range(3):
        count = 500
        values = np.arange(count, dtype=np.uint64)
        buffer.append([values], [pl.Series([f"{'x' * 1_000}{number}" for number in range(count)])])
        assert buffer.memory_bytes > 1_000 * count
        held = buffer.rows()
        buffer.clear()
        assert buffer.memory_bytes < 10 * count
        assert held.states[0][-1].endswith("x499"), "good until the next append"
