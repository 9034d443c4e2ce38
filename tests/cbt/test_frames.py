"""Frames to rows and back; what is not a PAO frame is refused before anything is taken."""

from __future__ import annotations

import datetime

import numpy as np
import polars as pl
import pytest
from polars.testing import assert_frame_equal

from elf.cbt.frames import FrameFormat
from elf.cbt.words import KeyLayout

STATES: dict[str, pl.DataType] = {
    "n": pl.Int64(),
    "small": pl.Int32(),
    "x": pl.Float64(),
    "flag": pl.Boolean(),
    "day": pl.Date(),
    "at": pl.Datetime("us"),
    "word": pl.String(),
    "raw": pl.Binary(),
}
FORMAT = FrameFormat(KeyLayout((("interval", pl.Int64()), ("k", pl.String()), ("i", pl.Int32()))), STATES)
DAY = datetime.date(9999, 12, 31)


def frame(keys: list[str | None]) -> pl.DataFrame:
    count = len(keys)
    columns = {
        "interval": list(range(count)),
        "k": keys,
        "i": [None if n % 2 else -n for n in range(count)],
        "n": [2**63 - 1 - n for n in range(count)],
        "small": [-(2**31) + n for n in range(count)],
        "x": [float("nan")] * count,
        "flag": [n % 3 == 0 for n in range(count)],
        "day": [DAY] * count,
        "at": [datetime.datetime(1, 1, 1)] * count,
        "word": ["w" * (n % 30) for n in range(count)],
        "raw": [bytes([n % 256]) * n for n in range(count)],
    }
    return pl.DataFrame(columns, schema={**dict(FORMAT.layout.columns), **STATES})


def back(given: pl.DataFrame) -> pl.DataFrame:
    return pl.concat([FORMAT.to_frame(rows) for rows in FORMAT.to_rows(given)]).sort("interval")


def test_frames_come_back() -> None:
    given = frame(["a", None, "", "é" * 300, "b" * 17, "\0" * 9])
    FORMAT.validate(given)
    assert_frame_equal(back(given), given)
    assert_frame_equal(back(given[1::2]), given[1::2])
    chunked = pl.concat([given[:2], given[:0], given[2:]], rechunk=False)
    assert_frame_equal(back(chunked), given)


def test_a_frame_without_rows_gives_none() -> None:
    assert list(FORMAT.to_rows(frame([]))) == []
    assert FORMAT.widths([frame([])]) == {}


def test_rows_share_no_memory_with_the_frame() -> None:
    given = pl.DataFrame({"interval": [0] * 3, "n": [1, 2, 3]})
    form = FrameFormat(KeyLayout((("interval", pl.Int64()),)), {"n": pl.Int64()})
    (rows,) = form.to_rows(given)
    (state,) = rows.states
    assert isinstance(state, np.ndarray)
    assert not np.shares_memory(state, given["n"].to_numpy())


def test_rows_are_sorted_by_the_width_of_their_keys() -> None:
    widths = FORMAT.widths([frame(["a", "b" * 17]), frame(["c", "d" * 700])])
    assert {width: sum(map(len, parts)) for width, parts in widths.items()} == {6: 2, 7: 1, 100: 1}


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (pl.col("k").cast(pl.Categorical), "the frame's columns are .*Categorical.*, the schema's .*String"),
        (pl.lit("1").alias("n"), "the frame's columns are"),
        (pl.lit(1).alias("more"), "the frame's columns are"),
        (pl.lit(None, dtype=pl.Float64).alias("x"), "column 'x' has nulls"),
        (pl.lit(None, dtype=pl.Int64).alias("interval"), "column 'interval' has nulls"),
    ],
)
def test_other_frames_are_refused(change: pl.Expr, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        FORMAT.validate(frame(["a"]).with_columns(change))
    with pytest.raises(ValueError, match="the frame's columns are"):
        FORMAT.validate(frame(["a"]).drop("raw"))
