"""Bytes to clean lines: encoding, NUL runs, byte order marks, line ends and huge lines.

What the formats get is valid UTF-8 without NUL and carriage returns at line ends, every line at most `LINE_BYTES_MAX`
bytes and ended by a newline. Each repair is counted. The usual chunk is clean already, and this is found out with few
passes over it: memory traffic is what parsing at this speed waits for.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import polars as pl

from agents.sources.counters import Oddities

#: Longest line that is parsed whole. Longer ones are cut here (and flagged): a line of 100 MB must not end the agent.
LINE_BYTES_MAX = 1 << 20

#: Flags are looked at as words of words: eight times eight.
_WORDS_BYTES = 64
#: Scanned at a time, so that what a scan writes stays in the processor's near memory; a multiple of the above.
_SCAN_BYTES = 1 << 20

_BOM = b"\xef\xbb\xbf"


@dataclass(frozen=True, slots=True)
class Lines:
    """A chunk of whole lines, and apart from them the huge ones, cut to `LINE_BYTES_MAX`."""

    data: bytes
    huge: tuple[bytes, ...]
    oddities: Oddities


def clean(chunk: bytes) -> Lines:
    """Repair what is not a plain line of text, except for its encoding, which `split` and `valid_utf8` see to."""
    if chunk and not chunk.endswith(b"\n"):
        chunk += b"\n"
    # Looking for one byte is fifty times faster than for two: most chunks never get to the second look.
    nul_bytes = chunk.count(0) if 0 in chunk else 0
    if nul_bytes:
        chunk = chunk.translate(None, b"\0")
    if _BOM[0] in chunk and _BOM in chunk:
        chunk = chunk.removeprefix(_BOM).replace(b"\n" + _BOM, b"\n")
    if b"\r" in chunk:
        chunk = chunk.replace(b"\r\n", b"\n")
        if b"\r\n" in chunk:
            chunk = b"\n".join(line.rstrip(b"\r") for line in chunk.split(b"\n"))
    chunk, huge = _without_huge(chunk)
    repaired = [valid_utf8(line) for line in huge]
    return Lines(
        data=chunk,
        huge=tuple(line for line, _ in repaired),
        oddities=Oddities(len(huge), sum(bad for _, bad in repaired), nul_bytes),
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


def valid_utf8(data: bytes) -> tuple[bytes, int]:
    """Replace invalid UTF-8 by U+FFFD; returns the text and the number of lines that had some."""
    with contextlib.suppress(UnicodeDecodeError):
        data.decode()
        return data, 0
    repaired = data.decode("utf-8", "replace").encode()
    # No repair adds or removes a newline, so the lines still correspond.
    pairs = zip(data.split(b"\n"), repaired.split(b"\n"), strict=True)
    return repaired, sum(before != after for before, after in pairs)


def line_ends(data: bytes) -> npt.NDArray[np.int64]:
    """Return the places of all newlines, ascending."""
    text = np.frombuffer(data, np.uint8)
    scratch = np.zeros(min(_SCAN_BYTES, -(-len(data) // _WORDS_BYTES) * _WORDS_BYTES), dtype=np.bool_)
    ends = [_ends_in(text[begin : begin + _SCAN_BYTES], scratch) + begin for begin in range(0, len(text), _SCAN_BYTES)]
    return np.concatenate(ends) if ends else np.empty(0, dtype=np.int64)


def _ends_in(text: npt.NDArray[np.uint8], scratch: npt.NDArray[np.bool_]) -> npt.NDArray[np.int64]:
    """Find the newlines in a part: the 64 bytes and in them the eight that hold one, if none hold two of them."""
    is_end = np.equal(text, 10, out=scratch[: len(text)])
    scratch[len(text) :] = False
    eights = scratch.view("<u8")
    some = eights != 0
    hits = _only_hits(some.view("<u8"))
    hits = np.flatnonzero(some) if hits is None else hits
    ends = _only_within(eights[hits])
    return np.flatnonzero(is_end) if ends is None else hits * 8 + ends


def _only_hits(words: npt.NDArray[np.uint64]) -> npt.NDArray[np.int64] | None:
    """Return the places of the flags in words of eight flags; None if a word has two."""
    hits = np.flatnonzero(words != 0)
    within = _only_within(words[hits])
    return None if within is None else hits * 8 + within


def _only_within(words: npt.NDArray[np.uint64]) -> npt.NDArray[np.int64] | None:
    """Return the place of the flag in each of these words, which have at least one; None if one has two."""
    if (words & (words - np.uint64(1))).any():
        return None
    # A word with its byte k set is 2 ** 8k: multiplied by this constant, its top byte is k.
    return ((words * np.uint64(0x0001020304050607)) >> np.uint64(56)).astype(np.int64)


def split(data: bytes) -> tuple[pl.Series, int]:
    """Split lines into a text column, one row a line, and the number of rows that were no valid UTF-8.

    The CSV reader is by far the fastest splitter at hand (13 M lines a second), and checks the encoding on the way:
    one column, no quoting, and a separator that does not occur.
    """
    if not data:
        return pl.Series("raw", [], dtype=pl.String), 0
    if b"\x01" not in data and not data.startswith(_BOM):  # which the reader would take off
        with contextlib.suppress(pl.exceptions.ComputeError):
            # raise_if_empty would copy the data to see whether there are any.
            frame = pl.read_csv(
                data,
                separator="\x01",
                quote_char=None,
                has_header=False,
                schema={"raw": pl.String},
                raise_if_empty=False,
            )
            return frame["raw"].fill_null("") if frame["raw"].has_nulls() else frame["raw"], 0
    text, bad_encoding = valid_utf8(data)
    return pl.Series("raw", text.decode().split("\n")[:-1], dtype=pl.String), bad_encoding


def join(lines: pl.Series) -> bytes:
    """Join lines to bytes again, each ended by a newline; the inverse of `split`."""
    # As bytes right away: a Python text in between would be decoded and encoded again.
    text: bytes = lines.str.join("\n").cast(pl.Binary).item()
    return text + b"\n" if lines.len() else b""
