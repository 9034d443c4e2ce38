"""Blocks: rows of every key width and kind of state come back from their bytes."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from elf.cbt import columns
from elf.cbt.blocks import BlockFormat
from elf.cbt.rows import Rows, State
from elf.cbt.settings import CODECS, Codec
from elf.cbt.words import KeyLayout

LAYOUT = KeyLayout((("interval", pl.Int64()), ("k", pl.String()), ("n", pl.Int64()), ("l", pl.String())))
STATES: dict[str, tuple[pl.DataType, list[object]]] = {
    "count": (pl.Int64(), [1, 2, 2**62]),
    "signed": (pl.Int64(), [-(2**63), 2**63 - 1, 0]),
    "day": (pl.Date(), [-1, 0, 19_000]),
    "ratio": (pl.Float64(), [0.1, float("nan"), float("-inf")]),
    "flag": (pl.Boolean(), [0, 1, 1]),
    "word": (pl.String(), ["", "\0é", "w" * 5000]),
    "raw": (pl.Binary(), [b"", b"\xff\0", b"r" * 500]),
}
FORMAT = BlockFormat(LAYOUT, tuple(dtype for dtype, _ in STATES.values()))


def state(dtype: pl.DataType, values: list[object], count: int) -> State:
    values = (values * count)[:count]
    if dtype in (pl.String(), pl.Binary()):
        return pl.Series(values, dtype=dtype)
    kind = np.float64 if dtype.is_float() else np.uint8 if dtype == pl.Boolean else np.int64
    return np.array(values, dtype=kind)


def rows(count: int, size: int) -> Rows:
    frame = pl.DataFrame(
        {
            "interval": [28_000_000] * count,
            "k": [None if n % 5 == 4 else f"{n:03}" + "x" * (size - 3 - n % 2) for n in range(count)],
            "n": [None if n % 3 else n for n in range(count)],
            "l": ["" if n % 5 else "é" for n in range(count)],
        },
        schema=dict(LAYOUT.columns),
    )
    words = max((words for _, words in LAYOUT.encode(frame)), key=lambda words: len(words[0]))
    count = len(words[0])
    return Rows(words, LAYOUT.order(words), [state(dtype, values, count) for dtype, values in STATES.values()])


def plain(part: Rows) -> list[list[object]]:
    states = [list(each) if isinstance(each, pl.Series) else each.tobytes() for each in part.states]
    return [np.column_stack(part.words).tolist(), part.order.tolist(), states]


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("count", [1, 2, 300])
@pytest.mark.parametrize("size", [5, 16, 40, 500, 513, 3000])
def test_rows_come_back(codec: Codec, count: int, size: int) -> None:
    made = rows(count, size)
    form = BlockFormat(LAYOUT, FORMAT.states, codec)
    found = form.unpack(form.pack(made))
    assert plain(found) == plain(made)
    assert found.width == made.width
    assert [type(each) for each in found.states] == [type(each) for each in made.states]


@given(st.lists(st.text("aé", max_size=40) | st.none(), min_size=1, max_size=40))
def test_texts_of_any_sizes_come_back(texts: list[str | None]) -> None:
    layout = KeyLayout((("interval", pl.Int64()), ("k", pl.String())))
    frame = pl.DataFrame({"interval": [5] * len(texts), "k": texts}, schema=dict(layout.columns))
    form = BlockFormat(layout, ())
    for _, words in layout.encode(frame):
        made = Rows(words, layout.order(words), [])
        assert plain(form.unpack(form.pack(made))) == plain(made)


def test_words_that_few_texts_reach_take_little() -> None:
    layout = KeyLayout((("interval", pl.Int64()), ("k", pl.String())))

    def packed(long: int) -> int:
        texts = [f"{n:08}" + "x" * 8 * (n < long) for n in range(800)]
        frame = pl.DataFrame({"interval": [5] * 800, "k": texts}, schema=dict(layout.columns))
        ((_, words),) = layout.encode(frame)
        return len(BlockFormat(layout, (), "none").pack(Rows(words, layout.order(words), [])))

    assert packed(80) < packed(0) + 80 * 8 + 800 + 100
    assert packed(0) < 5_000


def test_slices_of_rows_pack_as_they_are() -> None:
    for size in (16, 1000):
        made = rows(200, size)
        part = made.slice(50, 120)
        assert plain(FORMAT.unpack(FORMAT.pack(part))) == plain(part)
        assert plain(FORMAT.unpack(FORMAT.pack(made.take(np.arange(3))))) == plain(made.slice(0, 3))


def test_blocks_of_any_codec_are_read_with_any_other() -> None:
    made = rows(100, 16)
    for codec in CODECS:
        assert plain(FORMAT.unpack(BlockFormat(LAYOUT, FORMAT.states, codec).pack(made))) == plain(made)


def test_a_block_is_never_larger_for_being_compressed() -> None:
    noise = np.random.default_rng(0).integers(0, 2**64, (1, 300), dtype=np.uint64)
    layout = KeyLayout((("interval", pl.Int64()), ("k", pl.String())))
    words = [columns.constant(0, 1), np.array([2401], dtype=np.uint64), noise]
    sizes = [len(BlockFormat(layout, (), codec).pack(Rows(words, layout.order(words), []))) for codec in CODECS]
    assert max(sizes) == sizes[CODECS.index("none")] < 2500


def test_an_ordinary_key_and_its_count_take_some_bytes() -> None:
    layout = KeyLayout((("interval", pl.Int64()), ("k", pl.String())))
    keys = [f"{n * 7919 % 10**7:08}" for n in range(1000)]
    ((_, words),) = layout.encode(pl.DataFrame({"interval": [7] * 1000, "k": keys}))
    data = BlockFormat(layout, (pl.Int64(),)).pack(Rows(words, layout.order(words), [np.ones(1000, dtype=np.int64)]))
    assert len(data) < 5 * 1000
