"""The raw pre-filter against Python's `in`, line by line."""

from __future__ import annotations

from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elf.agents.sources import lines as lines_module
from elf.agents.sources.counters import Oddities
from elf.agents.sources.lines import clean, line_ends
from elf.agents.sources.prefilter import Prefilter

WORDS = st.sampled_from(["a", "ab", "abc", "bc", "\u00e9", "x\ny", ""])
LINES = st.lists(st.text(alphabet="abc\u00e9 ", max_size=8), max_size=8)


@given(LINES, st.lists(st.lists(WORDS, max_size=3), min_size=1, max_size=3), st.sampled_from([None, "c"]))
def test_it_keeps_the_lines_that_have_all_words_of_some_job(
    lines: list[str], jobs: list[list[str]], escape: str | None
) -> None:
    prefilter = Prefilter(jobs, escape)
    demands = [[word for word in words if word] for words in jobs]
    assert prefilter.active == all(demands)
    data = "".join(line + "\n" for line in lines).encode()
    if not prefilter.active:
        assert prefilter.keep(clean(data, prefilter.word)).data == data
        return
    # An escape can hide any text, so a line that has one is wanted whatever else it has.
    expected = [
        line
        for line in lines
        if any(all(word in line for word in words) for words in demands) or (escape is not None and escape in line)
    ]
    kept = prefilter.keep(clean(data, prefilter.word))
    assert kept.data == "".join(line + "\n" for line in expected).encode()
    assert kept.ends.tolist() == line_ends(kept.data).tolist()
    assert (kept.filtered, kept.oddities) == (len(lines) - len(expected), Oddities())


RAW = st.lists(st.sampled_from([b"needle", b"need", b"le", b"\xff", b"\xc3\xa9", b"{", b" ", b"\xef"]), max_size=9)


@given(st.lists(RAW.map(b"".join), max_size=12), st.sampled_from([["needle"], ["needle", "le"], ["le"]]))
def test_looking_with_the_line_ends_and_after_them_is_the_same(lines: list[bytes], words: list[str]) -> None:
    prefilter = Prefilter([words], None)
    data = b"".join(line + b"\n" for line in lines)
    repaired = [line.decode("utf-8", "replace").encode() for line in lines]
    expected = [line for line in repaired if all(word.encode() in line for word in words)]
    bad_encoding = sum(before != after for before, after in zip(lines, repaired, strict=True))
    for pieces in (1, 20, 1 << 20):
        with patch.object(lines_module, "PIECE_BYTES", pieces):
            for chunk in (clean(data, prefilter.word), clean(data)):
                kept = prefilter.keep(chunk)
                assert kept.data == b"".join(line + b"\n" for line in expected)
                assert kept.ends.tolist() == line_ends(kept.data).tolist()
                assert kept.filtered == len(lines) - len(expected)
                assert kept.oddities == Oddities(bad_encoding=bad_encoding)


@pytest.mark.parametrize(
    ("jobs", "escape", "word"),
    [
        ([["ab", "needle"]], None, "needle"),
        ([["ab"]], None, ""),  # it may be everywhere
        ([["needle"], ["thread"]], None, ""),
        ([["needle"]], "\\u", ""),
        ([["needle\r"]], None, ""),
        ([["needle"], []], None, ""),
        ([], None, ""),
    ],
)
def test_which_word_is_looked_for_with_the_line_ends(jobs: list[list[str]], escape: str | None, word: str) -> None:
    assert Prefilter(jobs, escape).word == word
