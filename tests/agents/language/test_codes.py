"""Columns of codes say what columns of texts say."""

from __future__ import annotations

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from elf.agents.language.codes import Codes, alike, is_coded, looked_up, text_of, with_texts

TEXT = st.sampled_from(["", "a", "b", "\x00", "\u00e9", "a" * 20]) | st.text(max_size=3)
TEXTS = st.lists(st.none() | TEXT, max_size=20)


def _series(texts: list[str | None]) -> pl.Series:
    return pl.Series("c", texts, dtype=pl.String)


@given(st.lists(TEXTS, min_size=1, max_size=4))
def test_codes_are_texts(parts: list[list[str | None]]) -> None:
    codes = Codes()
    columns = [codes.of(_series(part)) for part in parts]
    for column, part in zip(columns, parts, strict=True):
        assert is_coded(column)
        assert text_of(column).to_list() == part
        assert text_of(column).name == "c"
    every = [text for part in parts for text in part]
    assert sorted(codes.texts) == sorted({text for text in every if text is not None})
    assert text_of(pl.concat(columns)).to_list() == every


@given(TEXTS)
def test_codes_whose_maker_is_gone_are_texts(texts: list[str | None]) -> None:
    column = Codes().of(_series(texts))
    assert text_of(column).to_list() == texts
    assert looked_up(column, pl.col("c") == "a").to_list() == (_series(texts) == "a").to_list()


@pytest.mark.parametrize(
    "expr", [pl.col("c") == "a", pl.col("c").is_null(), pl.col("c").is_in(["b", ""]), ~(pl.col("c") != "b")]
)
@given(TEXTS, TEXTS)
def test_what_is_looked_up_is_what_texts_give(expr: pl.Expr, texts: list[str | None], before: list[str | None]) -> None:
    codes = Codes()
    codes.of(_series(before))
    column = codes.of(_series(texts))
    assert looked_up(column, expr).to_list() == _series(texts).to_frame().select(expr).to_series().to_list()


@given(TEXTS, TEXTS)
def test_columns_of_several_makers_become_texts_where_they_meet(
    left: list[str | None], right: list[str | None]
) -> None:
    one, other = Codes(), Codes()
    frame = pl.DataFrame([one.of(_series(left))])
    met = {
        pl.String(): [frame, pl.DataFrame([other.of(_series(right))])],
        frame["c"].dtype: [frame, pl.DataFrame([one.of(_series(right))])],
    }
    for dtype, frames in met.items():
        stacked = pl.concat(alike(frames))
        assert stacked["c"].dtype == dtype
        assert with_texts(stacked)["c"].to_list() == left + right
    assert pl.concat(alike([frame, pl.DataFrame([_series(right)])]))["c"].to_list() == left + right


def test_only_named_columns_become_texts() -> None:
    frame = pl.DataFrame([Codes().of(_series(["a"])), Codes().of(_series(["b"])).alias("d")])
    assert with_texts(frame, ["d"]).schema["d"] == pl.String
    assert is_coded(with_texts(frame, ["d"])["c"])
    assert with_texts(frame).rows() == [("a", "b")]
