"""Bytes to clean lines: encoding, NUL runs, byte order marks, line ends and huge lines; then the raw pre-filter.

What leaves `clean` is valid UTF-8 without NUL and carriage returns at line ends, every line at most `LINE_BYTES_MAX`
bytes and ended by a newline. Each repair is counted. The usual chunk is clean already and costs a few scans.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from operator import and_, or_

import numpy as np
import polars as pl

from agents.sources.counters import Oddities

#: Longest line that is parsed whole. Longer ones are cut here (and flagged): a line of 100 MB must not end the agent.
LINE_BYTES_MAX = 1 << 20

_BOM = b"\xef\xbb\xbf"


@dataclass(frozen=True, slots=True)
class Lines:
    """A cleaned chunk: `count` lines in `data`, and apart from them the huge ones, cut to `LINE_BYTES_MAX`."""

    data: bytes
    count: int
    huge: tuple[bytes, ...]
    oddities: Oddities


def clean(chunk: bytes) -> Lines:
    """Repair what is not a plain line of text; cost: a few scans of the chunk when there is nothing to repair."""
    if chunk and not chunk.endswith(b"\n"):
        chunk += b"\n"
    # Looking for one byte is ten times faster than for two: most chunks never get to the second look.
    nul_bytes = chunk.count(0) if 0 in chunk else 0
    if nul_bytes:
        chunk = chunk.translate(None, b"\0")
    if _BOM[0] in chunk and _BOM in chunk:
        chunk = chunk.removeprefix(_BOM).replace(b"\n" + _BOM, b"\n")
    if b"\r" in chunk:
        chunk = chunk.replace(b"\r\n", b"\n")
    chunk, huge = _without_huge(chunk)
    chunk, bad_encoding = _utf8(chunk)
    decoded = [_utf8(line) for line in huge]
    return Lines(
        data=chunk,
        count=int(np.count_nonzero(np.frombuffer(chunk, np.uint8) == 10)),
        huge=tuple(line for line, _ in decoded),
        oddities=Oddities(
            truncated=len(huge),
            bad_encoding=bad_encoding + sum(bad for _, bad in decoded),
            nul_bytes=nul_bytes,
        ),
    )


def _without_huge(chunk: bytes) -> tuple[bytes, list[bytes]]:
    """Take lines longer than the cap out of the chunk, each cut to the cap at a character's bound."""
    huge: list[bytes] = []
    kept: list[bytes] = []
    copied = begin = 0
    while len(chunk) - begin > LINE_BYTES_MAX + 1:
        # The last line end within reach; without one the line that begins here is too long.
        end = chunk.rfind(b"\n", begin, begin + LINE_BYTES_MAX + 1)
        if end < 0:
            end = chunk.index(b"\n", begin)
            kept.append(chunk[copied:begin])
            huge.append(_cut(chunk[begin : begin + LINE_BYTES_MAX + 1]))
            copied = end + 1
        begin = end + 1
    return (b"".join([*kept, chunk[copied:]]), huge) if huge else (chunk, huge)


def _cut(line: bytes) -> bytes:
    """Cut a line to the cap without splitting a UTF-8 sequence that was whole."""
    end = LINE_BYTES_MAX
    while end > LINE_BYTES_MAX - 4 and line[end] & 0xC0 == 0x80:
        end -= 1
    return line[:end]


def _utf8(data: bytes) -> tuple[bytes, int]:
    """Replace invalid UTF-8 by U+FFFD; returns the text and the number of lines that had some."""
    if data.isascii():
        return data, 0
    if pl.Series([data], dtype=pl.Binary).cast(pl.String, strict=False).null_count() == 0:
        return data, 0
    repaired = data.decode("utf-8", "replace").encode()
    # No repair adds or removes a newline, so the lines still correspond.
    pairs = zip(data.split(b"\n"), repaired.split(b"\n"), strict=True)
    return repaired, sum(before != after for before, after in pairs)


def split(data: bytes, count: int) -> pl.Series:
    """Split clean lines into a text column, one row a line; an empty line is an empty text.

    The CSV reader is by far the fastest splitter at hand (13 M lines a second): one column, no quoting, and a
    separator that does not occur.
    """
    if count == 0:
        return pl.Series("raw", [], dtype=pl.String)
    if b"\x01" not in data:
        frame = pl.read_csv(
            data,
            separator="\x01",
            quote_char=None,
            has_header=False,
            schema={"raw": pl.String},
        )
        if frame.height == count:
            return frame["raw"].fill_null("")
    return pl.Series("raw", data.decode().split("\n")[:count], dtype=pl.String)


def join(lines: pl.Series) -> bytes:
    """Join lines to bytes again, each ended by a newline; the inverse of `split`."""
    text: str = lines.str.join("\n").item()
    return f"{text}\n".encode() if lines.len() else b""


def prefilter(lines: Lines, literals: Sequence[Sequence[str]]) -> tuple[bytes, int]:
    """Keep the lines that some job may want; returns them and how many were skipped.

    `literals` has one entry a job: texts that all must occur in a line for that job to want it. A line with a
    backslash can hide a text in an escape, so it is kept.
    """
    if not literals or not all(literals) or lines.count == 0:
        return lines.data, 0
    raw = pl.col("raw")
    wanted = reduce(or_, (reduce(and_, (raw.str.contains(word, literal=True) for word in words)) for words in literals))
    if b"\\" in lines.data:
        wanted |= raw.str.contains("\\", literal=True)
    kept = split(lines.data, lines.count).to_frame().filter(wanted)["raw"]
    return join(kept), lines.count - kept.len()
