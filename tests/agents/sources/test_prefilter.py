"""The raw pre-filter against Python's `in`, line by line."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from agents.sources.prefilter import Prefilter

WORDS = st.sampled_from(["a", "ab", "abc", "bc", "\u00e9", "x\ny", ""])
LINES = st.lists(st.text(alphabet="abc\u00e9 ", max_size=8), max_size=8)


@given(LINES, st.lists(st.lists(WORDS, max_size=3), min_size=1, max_size=3), st.sampled_from([None, "c"]))
def test_it_keeps_the_lines_that_have_all_words_of_some_job(
    lines: list[str], jobs: list[list[str]], escape: str | None
) -> None:
    prefilter = Prefilter(jobs, escape)
    demands = [[word for word in words if word] for words in jobs]
    assert prefilter.active == all(demands)
    if not prefilter.active:
        return
    data = "".join(line + "\n" for line in lines).encode()
    # An escape can hide any text, so a line that has one is wanted whatever else it has.
    expected = [
        line
        for line in lines
        if any(all(word in line for word in words) for words in demands) or (escape is not None and escape in line)
    ]
    kept, skipped, bad_encoding = prefilter.keep(data)
    assert kept == "".join(line + "\n" for line in expected).encode()
    assert (skipped, bad_encoding) == (len(lines) - len(expected), 0)
