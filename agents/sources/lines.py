"""Bytes to clean lines: encoding, NUL runs, byte order marks, line ends and huge lines.

What the formats get is valid UTF-8 without NUL and carriage returns at line ends, every line at most `LINE_BYTES_MAX`
bytes and ended by a newline. Each repair is counted. The usual chunk is clean already, and this is found out with few
passes over it: memory traffic is what parsing at this speed waits for.
"""

from __future__ import annotations

import msgspec
import nanoarrow
import numpy as np
import numpy.typing as npt
import polars as pl

from elf.agents.sources.counters import Oddities
from elf.agents.sources.native import SweepKernels, built_for_sweeps

#: Longest line that is parsed whole. Longer ones are cut here (and flagged): a line of 100 MB must not end the agent.
LINE_BYTES_MAX = 1 << 20

#: Flags are looked at as words of words: eight times eight.
_WORDS_BYTES = 64
#: Scanned at a time: so little that what a scan writes stays near the processor, and so much that calls do not show; a
#: multiple of the above.
_SCAN_BYTES = 2 << 20

#: Lines are mostly longer than this.
_USUAL_LINE_BYTES = 64

#: Polars looks at text in pieces of at least so many bytes: a column of one row would be copied again and again.
PIECE_BYTES = 1 << 20

_BOM = b"\xef\xbb\xbf"
#: Carriage return: no byte up to this one but the newline is common in logs, so one look finds line ends, NUL and it.
_LAST_ODD = 13


Ends = npt.NDArray[np.int64]
_KERNELS = built_for_sweeps()


class Lines(msgspec.Struct, frozen=True):
    """A chunk of whole lines, and apart from them the huge ones, cut to `LINE_BYTES_MAX`.

    Attributes:
        data: the lines.
        ends: where in the data each line's newline is.
        huge: the huge ones.
        oddities: what was repaired.
        having: which lines have the word that was looked for; None if it was not.
        is_utf8: the lines are known to be valid UTF-8.
    """

    data: bytes
    ends: Ends
    huge: tuple[bytes, ...] = ()
    oddities: Oddities = Oddities()
    having: Ends | None = None
    is_utf8: bool = False


def clean(chunk: bytes, word: str = "") -> Lines:
    """Repair what is not a plain line of text, except for its encoding, which `valid_utf8` sees to.

    Args:
        chunk: whole lines; the last newline may be missing.
        word: a word, without control characters, to be looked for on the way if the lines turn out to be plain.
    """
    if chunk and not chunk.endswith(b"\n"):
        chunk += b"\n"
    ends, is_utf8 = _plain_ends(chunk)
    if ends is None:
        return _repaired(chunk)
    return Lines(chunk, ends, is_utf8=is_utf8, having=_having(chunk, ends, word) if word and chunk else None)


def _having(chunk: bytes, ends: Ends, word: str) -> Ends | None:
    """Find the lines that have a word, each as often as it has it; None if the chunk is no valid UTF-8."""
    begins = bounds(ends, PIECE_BYTES)
    try:
        pieces = rows(chunk, begins, pl.Binary()).cast(pl.String)
    except pl.exceptions.ComputeError:
        return None
    found = pieces.to_frame().select_seq(pl.col(pieces.name).str.find_many([word])).to_series()
    places = [part.to_numpy() + begin for part, begin in zip(found, begins, strict=False)]
    return np.searchsorted(ends, np.concatenate(places))


def _plain_ends(chunk: bytes) -> tuple[Ends | None, bool]:
    """Return where lines end that need no repair, but maybe of their encoding; None if some may need one.

    Also tells whether the encoding is known to need none.
    """
    if _KERNELS is not None:
        ends, is_plain, is_utf8 = _swept(_KERNELS, chunk)
        return (ends if is_plain else None), is_utf8
    places = _places(chunk, _LAST_ODD, b"\n")
    return (places if places is not None and _are_plain(chunk, places) else None), False


def _are_plain(chunk: bytes, ends: Ends) -> bool:
    """Tell whether lines without NUL and carriage returns have no byte order marks either, and none is huge."""
    if not ends.size:
        return True
    first = ends[:-1] + 1
    marked = chunk[0] == _BOM[0] or bool((np.frombuffer(chunk, np.uint8)[first] == _BOM[0]).any())
    return not marked and max(int(ends[0]), int((ends[1:] - first).max(initial=0))) <= LINE_BYTES_MAX


def _repaired(chunk: bytes) -> Lines:
    """Repair a chunk of whole lines."""
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
        ends=line_ends(chunk),
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
    if _is_utf8(data):
        return data, 0
    repaired = data.decode("utf-8", "replace").encode()
    # No repair adds or removes a newline, so the lines still correspond.
    pairs = zip(data.split(b"\n"), repaired.split(b"\n"), strict=True)
    return repaired, sum(before != after for before, after in pairs)


def valid_lines(data: bytes, ends: Ends) -> tuple[bytes, Ends, int]:
    """Replace invalid UTF-8 by U+FFFD in lines, or in rows that have newlines in them.

    Returns:
        The text, where the lines end in it, and how many lines had some.
    """
    repaired, count = valid_utf8(data)
    if not count:
        return data, ends, 0
    places = line_ends(repaired)
    return repaired, places if len(places) == len(ends) else places[np.searchsorted(line_ends(data), ends)], count


def _is_utf8(data: bytes) -> bool:
    if data.isascii():
        return True
    if _KERNELS is not None:
        return _KERNELS.is_utf8(data)
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


def line_ends(data: bytes) -> Ends:
    """Return the places of all newlines, ascending."""
    if _KERNELS is not None:
        return _swept(_KERNELS, data)[0]
    places = _places(data, 10)
    assert places is not None
    return places


def _places(data: bytes, last: int, only: bytes = b"") -> Ends | None:
    """Return the places of newlines: of the byte `last`, or, with `only`, of all bytes up to `last`.

    With `only`, None if one of these is another byte.
    """
    text = np.frombuffer(data, np.uint8)
    scratch = np.zeros(min(_SCAN_BYTES, -(-len(data) // _WORDS_BYTES) * _WORDS_BYTES), dtype=np.bool_)
    flag = np.less_equal if only else np.equal
    places = []
    for begin in range(0, len(text), _SCAN_BYTES):
        part = text[begin : begin + _SCAN_BYTES]
        flag(part, last, out=scratch[: len(part)])
        scratch[len(part) :] = False
        found = _flagged(scratch)
        if only and (part[found] != only[0]).any():
            return None
        places.append(found + begin)
    return np.concatenate(places) if places else np.empty(0, dtype=np.int64)


def _swept(kernels: SweepKernels, data: bytes) -> tuple[Ends, bool, bool]:
    """Return the places of all newlines, whether the lines are plain, and whether they are valid UTF-8."""
    ends = np.empty(len(data) // _USUAL_LINE_BYTES + 1, np.int64)
    count, is_plain, is_utf8 = kernels.sweep(data, LINE_BYTES_MAX, ends)
    if count > len(ends):
        ends = np.empty(count, np.int64)
        kernels.sweep(data, LINE_BYTES_MAX, ends)
    # A copy lets the room go that was not needed.
    return ends if count == len(ends) else ends[:count].copy(), is_plain, is_utf8


def _flagged(flags: npt.NDArray[np.bool_]) -> Ends:
    """Find the flags: the words of eight words and in them the words that hold one, if none hold two of them."""
    eights = flags.view("<u8")
    some = eights != 0
    hits = _only_hits(some.view("<u8"))
    hits = np.flatnonzero(some) if hits is None else hits
    ends = _only_within(eights[hits])
    return np.flatnonzero(flags) if ends is None else hits * 8 + ends


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


def bounds(ends: Ends, size: int) -> Ends:
    """Cut lines, of which there are some, into pieces: each ends with the line in which the next `size` bytes begin.

    Returns:
        Where they begin, and where the last one ends.
    """
    return np.append(0, ends + 1)[cuts(ends, size)]


def cuts(ends: Ends, size: int) -> Ends:
    """Return the numbers of the first lines of such pieces, and how many lines there are."""
    last = np.searchsorted(ends, np.arange(size, int(ends[-1]) + 1, size))
    places = np.concatenate([[0], last + 1, [len(ends)]])
    # They ascend. `np.unique` would load NumPy's masked arrays first, which takes 15 ms and 2 MB.
    return places[np.diff(places, prepend=-1) > 0]


def rows(data: bytes, bounds: Ends, kind: pl.DataType | None = None) -> pl.Series:
    """Make a column of the bytes from each bound to the next, without copying them.

    Args:
        data: valid UTF-8, unless the column is to be binary.
        bounds: one more than rows, ascending, from 0 to the end of the data.
        kind: the column's type; text unless given.
    """
    layout = nanoarrow.large_binary() if kind == pl.Binary else nanoarrow.large_string()
    return pl.Series(nanoarrow.c_array_from_buffers(layout, len(bounds) - 1, [None, bounds, data], null_count=0))
