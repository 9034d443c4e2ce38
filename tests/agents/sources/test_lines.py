from __future__ import annotations

import bz2
import gzip
import lzma
import random
import zlib
from unittest.mock import patch

import lz4.frame
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from elf.agents.sources import lines as lines_module
from elf.agents.sources.counters import Oddities
from elf.agents.sources.format import make_format, parse_chunk
from elf.agents.sources.lines import LINE_BYTES_MAX, clean, line_ends, valid_utf8

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


@pytest.mark.parametrize("size", [5, 100, 5_000])
def test_kernels_and_numpy_find_the_same_lines(size: int) -> None:
    rng = random.Random(size)
    alphabet = (
        *[b"x"] * 30,
        b"\n",
        b"\n",
        b"\r",
        b"\0",
        b"\t",
        b"\xef\xbb\xbf",
        "é€😀".encode(),
        b"\xff",
        b"\xed\xa0\x80",
    )
    for common in (32, 35, 40) * 30:
        chunk = b"".join(rng.choice(alphabet[:common]) for _ in range(rng.randint(0, size))) + b"\n"
        found = lines_module._plain_ends(chunk)[0], lines_module.line_ends(chunk), lines_module._is_utf8(chunk)
        with patch.object(lines_module, "_KERNELS", None):
            expected = lines_module._plain_ends(chunk)[0], lines_module.line_ends(chunk), lines_module._is_utf8(chunk)
        assert lines_module._KERNELS is not None
        for one, other in zip(found[:2], expected[:2], strict=True):
            assert (one is None) == (other is None)
            assert one is None or (other is not None and one.tolist() == other.tolist())
        assert found[2] == expected[2] == lines_module._plain_ends(chunk)[1]


def test_short_lines_and_the_longest_are_plain() -> None:
    for chunk, plain in (
        (b"\n" * 70_000, True),
        (b"x" * LINE_BYTES_MAX + b"\n", True),
        (b"x" * LINE_BYTES_MAX + b"x\n", False),
    ):
        assert (lines_module._plain_ends(chunk)[0] is not None) == plain
        assert len(line_ends(chunk)) == chunk.count(b"\n")


@pytest.mark.parametrize("text", ["é", "€", "😀", "\ud7ff", "\ue000", "\U0010ffff"])
def test_valid_utf8_is_what_python_says(text: str) -> None:
    whole = text.encode()
    for at in range(40):
        for damaged in (whole, whole[:-1], whole[1:], whole[:1] + whole, whole.replace(whole[:1], b"\xc1")):
            data = b"a" * at + damaged + b"\xc3\xa9" * 3 + b"b"
            assert lines_module._is_utf8(data) == _is_valid(data), data
            assert lines_module._plain_ends(data * 3)[1] == _is_valid(data * 3)


def _is_valid(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True
