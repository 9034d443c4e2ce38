"""Looking for bytes where texts lie finds what looking into each text finds, and in whole columns nothing else."""

from __future__ import annotations

import polars as pl
from hypothesis import given
from hypothesis import strategies as st

from elf.agents.sources.privacy.marks import marks_held

#: Long and short texts, and lengths that are bytes looked for.
texts = st.one_of(
    st.none(),
    st.text(st.sampled_from("ab=%\u013d\0é"), max_size=15),
    st.sampled_from(["x" * 37, "y" * 61, "z" * 200, "w" * 12, "v" * 13, "u" * 12 + "=", "%" + "t" * 70]),
)


@given(st.lists(texts, max_size=12), st.integers(0, 12), st.integers(0, 12))
def test_marks_are_never_missed(values: list[str | None], begin: int, cut: int) -> None:
    whole = pl.Series(values, dtype=pl.String)
    apart = pl.concat([whole[:cut], whole[cut:]], rechunk=False)
    for column in (whole, apart, whole[begin:], apart[begin:], whole.gather(range(len(values))[::-1])):
        has = any("=" in value or "%" in value for value in column if value is not None)
        assert marks_held(column, b"=%") or not has


def test_a_column_without_marks_is_known_to_have_none() -> None:
    values = ["a" * size for size in (0, 1, 12, 13, 37, 61, 200)]
    for marked, expected in (("", False), ("=", True), ("b" * 12 + "%", True)):
        assert bool(marks_held(pl.Series([*values, None, marked]), b"=%")) == expected


def test_the_text_of_other_columns_does_not_count_where_it_is_much() -> None:
    lines = pl.Series([f"{number} {'=' * 100} a path that is long" for number in range(100)])
    paths = lines.str.extract(r"(a path.*)$")
    assert not marks_held(paths, b"=%")
