"""Small frames wait together, a bounded number of rows of them, and hold no more text than their own."""

from __future__ import annotations

import polars as pl

from elf.cbt import strings
from elf.cbt.waiting import Waiting


def frame(*keys: str | None) -> pl.DataFrame:
    return pl.DataFrame({"k": pl.Series(keys, dtype=pl.String), "n": pl.Series(range(len(keys)), dtype=pl.Int64)})


def test_frames_come_out_in_their_order_and_once() -> None:
    waiting = Waiting(100)
    assert waiting.take() is None
    assert waiting.add(frame("a", None))
    assert waiting.add(frame())
    assert waiting.add(frame("", "b" * 20))
    assert len(waiting) == 4
    taken = waiting.take()
    assert taken is not None
    assert taken.rows() == [("a", 0), (None, 1), ("", 0), ("b" * 20, 1)]
    assert (len(waiting), waiting.take()) == (0, None)


def test_columns_may_come_in_any_order() -> None:
    waiting = Waiting(100)
    assert waiting.add(frame("a"))
    assert waiting.add(frame("b").select("n", "k"))
    taken = waiting.take()
    assert taken is not None
    assert taken.rows() == [("a", 0), ("b", 0)]


def test_what_would_be_too_much_is_not_taken() -> None:
    waiting = Waiting(4)
    assert waiting.add(frame("a", "b"))
    assert not waiting.add(frame("c", "d"))
    assert not Waiting(1).add(frame("a"))
    assert len(waiting) == 2
    assert not Waiting(1 << 20).add(frame(*["a"] * 5_000))


def test_a_few_rows_of_a_large_frame_do_not_hold_its_text() -> None:
    large = frame(*(f"a path that is long {number}" for number in range(10_000)))
    waiting = Waiting(100)
    waiting.add(large[500:503])
    taken = waiting.take()
    assert taken is not None
    assert taken["k"].to_list() == large["k"][500:503].to_list()
    sizes = strings.sizes(taken["k"])
    view, _ = strings._chunk(taken["k"])
    held = sum(view.buffer(number).size_bytes for number in range(2, view.n_buffers - 1))
    assert held == int(sizes.sum())


def test_memory_is_that_of_the_rows() -> None:
    waiting = Waiting(100)
    assert waiting.memory_bytes == 0
    waiting.add(frame("a" * 100, "b"))
    assert 100 < waiting.memory_bytes < 1_000
