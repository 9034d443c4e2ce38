"""What the buffer tree promises, promise by promise; `test_tree_machine` holds all of them together against a dict."""

from __future__ import annotations

import itertools
import pathlib
import threading
from collections.abc import Callable, Iterable

import msgspec
import numpy as np
import polars as pl
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import elf.cbt.tree
from elf.cbt import columns
from elf.cbt.aggregates import AggregateOverflow, aggregate
from elf.cbt.schema import PaoSchema
from elf.cbt.settings import TreeSettings
from elf.cbt.spill import SpillCorrupt, SpillError
from elf.cbt.tree import BufferTree
from elf.cbt.words import KeyLayout
from tests.cbt.checks import check, statistics_of
from tests.cbt.counting import COUNTS, TINY, content, counts
from tests.cbt.kernels import without_kernels


def names(count: int, start: int = 0) -> list[str]:
    return [f"key {number}" for number in range(start, start + count)]


def tree(frames: Iterable[pl.DataFrame], settings: TreeSettings = TINY) -> BufferTree:
    made = BufferTree(COUNTS, settings)
    for frame in frames:
        made.insert(frame)
    return made


def many(count: int, step: int = 10) -> Iterable[pl.DataFrame]:
    return (counts(names(step, start)) for start in range(0, count, step))


def test_inserts_are_deferred() -> None:
    made = tree([counts(names(10))])
    figures = statistics_of(made)
    assert (figures.pending_rows, figures.blocks, figures.depth) == (10, 0, 1)
    assert content(made.flush()) == dict.fromkeys(names(10), 1)


def test_leaves_split_and_the_tree_grows_level_by_level() -> None:
    made = BufferTree(COUNTS, TINY)
    depths = []
    for frame in many(2000):
        made.insert(frame)
        depths.append(statistics_of(made).depth)
    check(made)
    assert depths == sorted(depths)
    assert set(depths) >= {1, 2, 3, 4}
    figures = statistics_of(made)
    assert figures.pending_rows + figures.buffered_rows + figures.run_rows == 2000
    assert figures.leaves > figures.nodes > figures.depth
    assert figures.packed_bytes <= figures.memory_bytes
    assert figures.spilled_bytes == 0


def test_the_same_keys_again_do_not_make_it_grow() -> None:
    made = tree(many(500))
    before = statistics_of(made).leaves
    for _ in range(10):
        for frame in many(500):
            made.insert(frame)
    assert content(made.flush()) == dict.fromkeys(names(500), 11)
    assert statistics_of(made).leaves <= 2 * before


def test_empty_keeps_the_shape_that_was_needed() -> None:
    made = tree(many(2000))
    before = statistics_of(made)
    made.empty()
    after = statistics_of(made)
    assert (after.pending_rows, after.buffered_rows, after.run_rows, after.blocks) == (0, 0, 0, 0)
    assert before.leaves / 4 < after.leaves <= before.leaves
    assert made.snapshot().height == 0


def test_empty_after_a_much_smaller_batch_merges_leaves() -> None:
    made = tree(many(2000))
    made.empty()
    made.insert(counts(names(20)))
    made.empty()
    figures = statistics_of(made)
    assert (figures.leaves, figures.nodes, figures.depth) == (1, 0, 1)
    for frame in many(2000):
        made.insert(frame)
    check(made)
    assert content(made.flush()) == dict.fromkeys(names(2000), 1)


def test_flush_goes_by_width_then_hash_in_bounded_frames(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(elf.cbt.tree, "FLUSH_ROWS", 50)
    texts = [name + "-" * padding for name in names(200) for padding in (0, 20, 700)]
    made = tree([counts(texts[start::7]) for start in range(7)])
    frames = list(made.flush())
    assert max(frame.height for frame in frames) <= 50
    layout = COUNTS.format.layout
    encoded = [words for frame in frames for _, words in layout.encode(frame)]
    places = [(columns.width(words), order) for words in encoded for order in layout.order(words).tolist()]
    assert places == sorted(places)
    assert {width for width, _ in places} == {4, 6, 98}
    assert content(frames) == dict.fromkeys(texts, 1)


def test_flush_order_does_not_depend_on_the_order_of_inserts() -> None:
    frames = list(many(700))
    assert tree(frames).snapshot().equals(tree(reversed(frames)).snapshot())


def test_a_flush_shows_the_moment_of_its_call() -> None:
    made = tree(many(300))
    flush = made.flush()
    first = next(flush)
    made.insert(counts(names(300), 5))
    made.empty()
    assert content([first, *flush]) == dict.fromkeys(names(300), 1)


def test_difference_is_what_came_in_between() -> None:
    # The paper's section 3.1: PAO15 - PAO5 is what the ten minutes after the first five brought.
    pao5, pao15 = tree(many(300)), tree(many(300))
    later = counts(names(100, 250), 3)
    pao15.insert(later)
    pao15.insert(counts(["x" * 1000]))
    assert content(pao15.difference(pao5)) == {**dict.fromkeys(names(100, 250), 3), "x" * 1000: 1}
    assert content(pao5.difference(pao15)) == {**dict.fromkeys(names(100, 250), -3), "x" * 1000: -1}
    assert content(pao15.difference(pao15)) == {}
    assert content(pao5.flush()) == dict.fromkeys(names(300), 1)


def test_there_is_no_difference_without_an_inverse() -> None:
    schema = PaoSchema(keys=(), aggregates=(("a0", aggregate("max")), ("a1", aggregate("count"))))
    with pytest.raises(ValueError, match=r"^no difference without an inverse: max$"):
        BufferTree(schema).difference(BufferTree(schema))


@pytest.mark.parametrize("bound", [100_000, 400_000])
def test_memory_stays_near_its_bound(bound: int, tmp_path: pathlib.Path) -> None:
    sizes = TreeSettings(root_rows=512, node_rows=1024, leaf_rows=1024, block_rows=256)
    capped = BufferTree(COUNTS, msgspec.structs.replace(sizes, memory_bytes_max=bound, spill_folder=tmp_path))
    most = 0
    for start in range(0, 100_000, 2000):
        capped.insert(counts([f"{number * 2654435761 % 2**32:x} {number}" for number in range(start, start + 2000)]))
        most = max(most, statistics_of(capped).memory_bytes)
    figures = statistics_of(capped)
    # Beside the bound: the rows of the root, the free pages of the arena.
    assert most < 1.5 * bound + 150_000
    assert figures.spilled_bytes > figures.packed_bytes - bound > 0
    assert sum(frame.height for frame in capped.flush()) == 100_000
    capped.close()
    assert not list(tmp_path.glob("*.spill"))


def test_a_tree_that_lost_rows_says_so_until_it_is_emptied() -> None:
    made = tree([counts(["a", "b"], 2**62)])
    with pytest.raises(AggregateOverflow, match="a0_n"):
        for _ in range(20):
            made.insert(counts(["a", "c"], 2**62))
    for ask in (
        made.snapshot,
        lambda: check(made),
        lambda: made.insert(counts(["d"])),
        lambda: made.insert(COUNTS.empty()),
    ):
        with pytest.raises(AggregateOverflow, match="a0_n"):
            ask()
    made.empty()
    made.insert(counts(["d"]))
    assert content(made.flush()) == {"d": 1}


def test_the_extremes_of_a_sum_are_no_overflow() -> None:
    made = tree([counts(["a", "b"], [2**63 - 1, -(2**63)]), counts(["a", "b"], [-(2**63), 2**63 - 1])])
    assert content(made.flush()) == {"a": -1, "b": -1}


def test_frames_that_are_refused_do_no_damage() -> None:
    made = tree([counts(["a"])])
    for bad in (counts(["b"]).with_columns(pl.col("k").cast(pl.Categorical)), counts(["b"]).drop("a0_n")):
        with pytest.raises(ValueError, match="the frame's columns are"):
            made.insert(bad)
    assert content(made.flush()) == {"a": 1}


def test_a_flush_of_a_closed_tree_says_that_it_is_closed(tmp_path: pathlib.Path) -> None:
    made = tree(many(1000), msgspec.structs.replace(TINY, memory_bytes_max=1000, spill_folder=tmp_path))
    flush = made.flush()
    next(flush)
    made.close()
    made.close()
    assert not list(tmp_path.iterdir())
    with pytest.raises(SpillError, match="the tree is closed") as caught:
        list(flush)
    assert not isinstance(caught.value, SpillCorrupt)


@pytest.mark.parametrize("bits", [0, 2])
def test_keys_that_collide_cost_time_but_no_truth(bits: int, monkeypatch: pytest.MonkeyPatch) -> None:
    real, mask = KeyLayout.order, np.uint64(2**64 - 2 ** (64 - bits)) if bits else np.uint64(0)
    without_kernels(monkeypatch)
    monkeypatch.setattr(KeyLayout, "order", lambda layout, words: real(layout, words) & mask)
    keys = [*names(300), *("w" * 600 + name for name in names(30))]
    made = tree(counts(keys[start::10], 2) for _, start in itertools.product(range(3), range(10)))
    check(made)
    assert content(made.flush()) == dict.fromkeys(keys, 6)


@given(st.binary(min_size=1, max_size=64), st.integers(1, 60))
@example(b"A3LM5fdMeg0_XBNk0b14Z>=>NP_`C8Jk0CUmeIK", 25)
def test_leaves_split_evenly_where_some_places_hold_several_keys(drawn: bytes, count: int) -> None:
    real, places = KeyLayout.order, np.frombuffer(drawn, np.uint8).astype(np.uint64) << np.uint64(56)
    with pytest.MonkeyPatch.context() as patch:
        without_kernels(patch)
        patch.setattr(KeyLayout, "order", lambda layout, words: places[real(layout, words) % np.uint64(len(places))])
        settings = TreeSettings(root_rows=4, node_rows=4, leaf_rows=2, block_rows=1, fan_out=3)
        made = tree([counts(names(count)), counts(names(5, count))], settings)
        check(made)
        assert content(made.flush()) == dict.fromkeys(names(count + 5), 1)


def test_long_keys_are_keys() -> None:
    keys = ["x" * (1 << 20), "x" * (1 << 20) + "y", "\0" * 5000, "\0" * 5001, "", None, "é" * 10_000]
    made = tree([counts([key]) for key in keys * 2] + [counts(keys)])
    check(made)
    assert content(made.flush()) == dict.fromkeys(keys, 3)


def test_keys_of_many_widths_share_a_tree() -> None:
    keys = ["a" * size for size in range(0, 3000, 3)]
    made = tree([counts(keys), counts(keys[::-1])])
    check(made)
    assert content(made.flush()) == dict.fromkeys(keys, 2)


def test_a_schema_without_keys_counts_by_interval() -> None:
    schema = PaoSchema(keys=(), aggregates=COUNTS.aggregates)
    made = BufferTree(schema, TINY)
    for start in range(0, 200, 10):
        made.insert(pl.DataFrame({"interval": range(start, start + 20), "a0_n": [1] * 20}))
    check(made)
    assert sorted(made.snapshot().rows()) == [(n, 1 if n < 10 or n >= 200 else 2) for n in range(210)]


def test_frames_may_be_slices_filters_and_chunks_of_others(tmp_path: pathlib.Path) -> None:
    whole = counts([f"a name that lies in a buffer, number {number}" for number in range(200)])
    whole.write_ipc(tmp_path / "frame.arrow")
    even = pl.int_range(pl.len()) % 2 == 0
    kinds = {
        "slices": [whole.slice(start, 7) for start in range(0, 200, 7)],
        "filters": [whole.filter(even), whole.filter(~even)],
        "chunks": [pl.concat([whole[:0], *(whole[start : start + 3] for start in range(0, 200, 3))], rechunk=False)],
        "memory map": [pl.read_ipc(tmp_path / "frame.arrow", memory_map=True)],
        "empty frames": [whole[:0], whole, whole[:0]],
    }
    for kind, frames in kinds.items():
        made = tree(frames)
        check(made)
        assert content(made.flush()) == dict.fromkeys(whole["k"], 1), kind


def test_threads_insert_flush_and_empty_at_once(tmp_path: pathlib.Path) -> None:
    made = BufferTree(COUNTS, msgspec.structs.replace(TINY, memory_bytes_max=5000, spill_folder=tmp_path))
    wrong: list[BaseException] = []

    def often(times: int, work: Callable[[int], object]) -> None:
        try:
            for number in range(times):
                work(number)
        except BaseException as error:
            wrong.append(error)

    works = [
        (60, lambda number: made.insert(counts(names(30, number)))),
        (60, lambda number: made.insert(counts(names(30, 7 * number)))),
        (40, lambda _: content(made.flush())),
        (5, lambda _: made.empty()),
        (40, lambda _: statistics_of(made)),
    ]
    threads = [threading.Thread(target=often, args=each) for each in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
    check(made)
    made.close()


def test_inserts_of_several_threads_all_arrive() -> None:
    made = BufferTree(COUNTS, TINY)

    def insert() -> None:
        for start in range(40):
            made.insert(counts(names(20, start)))

    threads = [threading.Thread(target=insert) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(content(made.flush()).values()) == 4 * 40 * 20


def test_thousands_of_tiny_inserts_take_the_memory_of_their_keys() -> None:
    made = BufferTree(COUNTS)
    for number in range(3000):
        made.insert(counts([f"key {number % 10}"]))
    assert content(made.flush()) == {f"key {number}": 300 for number in range(10)}
    assert made.memory_bytes < 1 << 20
