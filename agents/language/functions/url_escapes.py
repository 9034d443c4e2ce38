"""Taking the escapes out of URLs as java.net.URLDecoder does, a column at a time.

Rubbish costs no more than what is right: a broken escape makes a text null, bytes that are no UTF-8 become U+FFFD, and
neither is looked for by trying. Of hexadecimal digits only those of ASCII are known; Java takes those of all scripts.
"""

from __future__ import annotations

import re

import nanoarrow
import numpy as np
import numpy.typing as npt
import polars as pl

_PERCENT, _PLUS, _SPACE = b"%+ "
_NONE, _MINUS = -256, -1
#: What a byte is worth as the second digit of an escape, and as its first: there Java takes a sign, `-` before 0 only.
_LOW = np.full(256, _NONE, dtype=np.int64)
for _digit in "0123456789abcdefABCDEF":
    _LOW[ord(_digit)] = int(_digit, 16)
_HIGH = np.where(_LOW >= 0, _LOW * 16, _NONE)
_HIGH[_PLUS], _HIGH[ord("-")] = 0, _MINUS
#: Half a surrogate pair, which Java takes for one character that is wrong, and Python for several.
_SURROGATE = re.compile(rb"\xed[\xa0-\xbf][\x80-\xbf]?")

Ints = npt.NDArray[np.int64]


def decode(texts: pl.Series) -> pl.Series:
    """Return texts with `%41` and `+` decoded; null where an escape is broken."""
    escaped = texts.str.contains("%", literal=True).fill_null(False).arg_true()
    plain = texts.str.replace_all("+", " ", literal=True)
    return plain.scatter(escaped, _decoded(texts.gather(escaped))) if escaped.len() else plain


def _decoded(texts: pl.Series) -> pl.Series:
    """Decode texts, at least one, each of which has a `%`."""
    data = texts.str.join("").cast(pl.Binary).item()
    ends = texts.str.len_bytes().cum_sum().to_numpy().astype(np.int64)
    # So that an escape at the very end is looked at like all others.
    text = np.frombuffer(data + b"\0\0", np.uint8)
    places = np.flatnonzero(text == _PERCENT)
    rows = np.searchsorted(ends, places, side="right")
    high, low = _HIGH[text[places + 1]], _LOW[text[places + 2]]
    values = np.where(high == _MINUS, np.where(low == 0, 0, _NONE), high + low)
    whole = (values >= 0) & (places + 2 < ends[rows])
    broken = np.bincount(rows[~whole], minlength=len(ends)) > 0
    # Of a text that is null in the end nothing counts; its places stay, so that others keep theirs.
    places, rows, values = places[whole], rows[whole], values[whole]
    out = np.where(text == _PLUS, np.uint8(_SPACE), text)
    out[places] = values
    kept = np.ones(len(out), dtype=np.bool_)
    kept[places + 1] = kept[places + 2] = kept[-2:] = False
    ends = ends - 2 * np.cumsum(np.bincount(rows, minlength=len(ends)))
    beyond = np.bincount(rows[values >= 0x80], minlength=len(ends)) > 0
    made = _texts(out[kept], ends, beyond | broken)
    return made.to_frame().select(pl.when(pl.Series(~broken)).then(pl.first())).to_series()


def _texts(data: npt.NDArray[np.uint8], ends: Ints, doubtful: npt.NDArray[np.bool_]) -> pl.Series:
    """Cut bytes into texts; those of doubtful rows may be no UTF-8."""
    bounds = np.append(0, ends)
    whole = data.tobytes()
    if not _is_utf8(whole, data, bounds[:-1]):
        places = np.flatnonzero(doubtful)
        spans = zip(bounds[places].tolist(), bounds[places + 1].tolist(), strict=True)
        repaired = pl.Series([_repaired(whole[begin:end]) for begin, end in spans], dtype=pl.String)
        clean = np.where(np.repeat(doubtful, np.diff(bounds)), np.uint8(_SPACE), data)
        return _column(clean, bounds).scatter(places, repaired)
    return _column(data, bounds)


def _is_utf8(whole: bytes, data: npt.NDArray[np.uint8], begins: Ints) -> bool:
    """Tell whether each text is UTF-8: all of them together are, and none begins in the middle of a character.

    A character whose bytes are the end of one text and the beginning of the next is in neither.
    """
    if np.any(data[begins[begins < len(data)]] & 0xC0 == 0x80):
        return False
    try:
        whole.decode()
    except UnicodeDecodeError:
        return False
    return True


def _column(data: npt.NDArray[np.uint8], bounds: Ints) -> pl.Series:
    layout = nanoarrow.large_string()
    return pl.Series(nanoarrow.c_array_from_buffers(layout, len(bounds) - 1, [None, bounds, data], null_count=0))


def _repaired(text: bytes) -> str:
    if b"\xed" in text:
        text = _SURROGATE.sub(b"\xef\xbf\xbd", text)
    return text.decode("utf-8", "replace")
