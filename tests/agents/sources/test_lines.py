from __future__ import annotations

import bz2
import gzip
import lzma
import zlib
from unittest.mock import patch

import lz4.frame
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from elf.agents.sources import lines as lines_module
from elf.agents.sources.counters import Oddities
from elf.agents.sources.format import make_format, parse_chunk
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


#: What files begin with that somebody might take for compressed, packed, or in another encoding.
MAGIC = [b"\x1f\x8b", b"\x28\xb5\x2f\xfd", b"\x78\x01", b"x^", b"\x78\x9c", b"\x78\xda", b"BZh9", b"PK\x03\x04"]
MAGIC += [b"\xfd7zXZ\0", b"\x04\x22\x4d\x18", b"\xef\xbb\xbf", b"\xff\xfe", b"\xfe\xff", b"PAR1", b"\x01", b""]
ACCESS = b'192.0.2.7 - - [26/Nov/2026:09:00:00 +0000] "GET /a HTTP/1.1" 200 5 "-" "c"'
PACKED = [pack(ACCESS + b"\n" + ACCESS) for pack in (gzip.compress, zlib.compress, bz2.compress, lzma.compress)]
PACKED += [lz4.frame.compress(ACCESS + b"\n")]
ODD_LINES = st.builds(
    lambda front, rest: front + rest,
    st.sampled_from(MAGIC),
    st.sampled_from([b"", ACCESS, b'{"ts": 1790000000, "a": 1}', *PACKED]) | st.binary(max_size=20),
)
#: One of each kind there is.
FORMATS = ["json", "combined", "common", '$remote_addr [$time_iso8601] "$request" $status $request_time', "%h %{X}i %t"]


@given(st.lists(ODD_LINES, max_size=6).map(b"\n".join) | st.binary(max_size=99))
@example(zlib.compress(b"9\n" * 5_000))
def test_as_many_rows_as_lines_whatever_these_begin_with(data: bytes) -> None:
    for whole in (clean(data).data, data.rpartition(b"\n")[0] + b"\n"):
        rows, bad_encoding = split(whole)
        assert rows.to_list() == whole.decode("utf-8", "replace").split("\n")[:-1]
        assert bad_encoding <= rows.len()


@pytest.mark.parametrize("format", FORMATS)
@given(
    chunk=st.lists(ODD_LINES, max_size=6).map(b"\n".join) | st.binary(max_size=99), word=st.sampled_from(["", "GET"])
)
@example(chunk=zlib.compress(b"9\n" * 5_000).replace(b"\n", b""), word="")
def test_every_line_is_read_once_and_comes_to_one_end(format: str, chunk: bytes, word: str) -> None:
    parsed = parse_chunk(make_format(format), chunk, {}, [[word]])
    counters = parsed.counters
    assert counters.read == chunk.count(b"\n") + (chunk[-1:] not in (b"", b"\n"))
    assert counters.read == counters.parsed + counters.rejected + counters.filtered and counters.balanced
    assert counters.parsed == parsed.events.height


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
