from __future__ import annotations

from unittest.mock import patch

from hypothesis import given
from hypothesis import strategies as st

from elf.agents.sources import lines as lines_module
from elf.agents.sources.counters import Oddities
from elf.agents.sources.lines import LINE_BYTES_MAX, clean, line_ends, split, valid_utf8

TEXTS = st.lists(st.text(st.characters(exclude_characters="\n\r\0", exclude_categories=["Cs"]), max_size=12))


@given(TEXTS)
def test_split(texts: list[str]) -> None:
    data = "".join(f"{text}\n" for text in texts).encode()
    lines, bad_encoding = split(data)
    assert lines.to_list() == texts
    assert bad_encoding == 0


@given(st.lists(st.binary(max_size=6).map(lambda line: line.replace(b"\n", b"").replace(b"\r", b"")), max_size=6))
def test_split_repairs_what_is_no_utf8(lines: list[bytes]) -> None:
    texts, bad_encoding = split(b"".join(line + b"\n" for line in lines))
    assert texts.to_list() == [line.decode("utf-8", "replace") for line in lines]
    assert bad_encoding == sum(line.decode("utf-8", "replace").encode() != line for line in lines)


@given(st.binary(max_size=300))
def test_line_ends(data: bytes) -> None:
    for text in (data, data * 3_000):
        assert line_ends(text).tolist() == [place for place, byte in enumerate(text) if byte == 10]


@given(st.lists(st.integers(0, 200), max_size=20), st.integers(0, 200))
def test_line_ends_across_scans(lengths: list[int], rest: int) -> None:
    data = b"".join(b"x" * length + b"\n" for length in lengths) + b"x" * rest
    with patch.object(lines_module, "_SCAN_BYTES", 128):
        assert line_ends(data).tolist() == [place for place, byte in enumerate(data) if byte == 10]


def test_what_is_repaired() -> None:
    lines = clean(b"\xef\xbb\xbfa\r\n\0\0\0b\n\xef\xbb\xbfc\r\r\nlast")
    assert lines.data == b"a\nb\nc\nlast\n"
    assert lines.oddities == Oddities(nul_bytes=3)
    assert valid_utf8(b"a\xff\nb\n") == ("a\ufffd\nb\n".encode(), 1)


@given(
    st.lists(st.sampled_from([b"a", b"word", b"\n", b"\r", b"\0", b"\xef\xbb\xbf", b"\xff", b"\t"]), max_size=30).map(
        b"".join
    )
)
def test_a_word_looked_for_on_the_way_changes_nothing_else(chunk: bytes) -> None:
    for text in (chunk, b"line\n" * 10 + chunk):
        lines, searched = clean(text), clean(text, "word")
        assert lines.having is None
        assert lines.ends.tolist() == line_ends(lines.data).tolist()
        assert (searched.data, searched.ends.tolist()) == (lines.data, lines.ends.tolist())
        assert (searched.huge, searched.oddities) == (lines.huge, lines.oddities)
        if searched.having is not None:
            expected = [number for number, line in enumerate(searched.data.split(b"\n")) if b"word" in line]
            assert sorted(set(searched.having.tolist())) == expected


def test_huge_lines_are_taken_out_and_cut_at_a_character() -> None:
    longest = b"y" * LINE_BYTES_MAX + b"\n"
    huge = b"x" * (LINE_BYTES_MAX - 1) + "é".encode() + b"x" * 3 * LINE_BYTES_MAX + b"\n"
    lines = clean(longest + huge + b"a\n" + huge + longest)
    assert lines.data == longest + b"a\n" + longest
    assert lines.huge == (b"x" * (LINE_BYTES_MAX - 1),) * 2
    assert lines.oddities == Oddities(truncated=2)
