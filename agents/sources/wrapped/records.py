"""Records of texts that were written in parts: which belong together, and what they are together. Pure.

The parts of one stream follow each other, with those of another between them. A record ends with the part that says so,
or with the one that makes it longer than a line may be: memory is bounded whatever somebody writes.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import polars as pl

from elf.agents.sources.lines import LINE_BYTES_MAX

#: A record has at most so many parts; whoever cuts lines does so behind some KiB, so that few are enough.
PARTS_MAX = 1_024
Bools = npt.NDArray[np.bool_]
Ints = npt.NDArray[np.int64]


class Records(NamedTuple):
    """Records, in the order of their last parts.

    Attributes:
        texts: all parts of each together.
        last: of each the row of its last part.
        sizes: how many parts each has.
        is_whole: whether the last part of each ends it.
    """

    texts: pl.Series
    last: Ints
    sizes: Ints
    is_whole: Bools


def join_parts(texts: pl.Series, streams: pl.Series, is_end: Bools) -> Records:
    """Put parts together; O(parts).

    Args:
        texts: of each part.
        streams: whose it is.
        is_end: whether it ends its record.
    """
    rows = np.arange(len(is_end))
    if is_end.all():
        return Records(texts, rows, np.ones(len(rows), np.int64), is_end)
    lengths = texts.str.len_bytes().to_numpy().astype(np.int64)
    codes = np.unique(streams.fill_null("").to_numpy(), return_inverse=True)[1]
    groups, count = np.empty(len(rows), np.int64), 0
    is_end = is_end.copy()
    for code in range(int(codes.max()) + 1):
        own = np.flatnonzero(codes == code)
        numbers = _numbers(is_end[own])
        if np.bincount(numbers, lengths[own]).max() > LINE_BYTES_MAX or np.bincount(numbers).max() > PARTS_MAX:
            is_end[own[cut_places(lengths[own].tolist(), is_end[own].tolist())]] = True
            numbers = _numbers(is_end[own])
        groups[own] = numbers + count
        count += int(numbers[-1]) + 1
    last = np.zeros(count, np.int64)
    np.maximum.at(last, groups, rows)
    joined = pl.DataFrame({"text": texts, "group": groups}).group_by("group").agg(pl.col("text").str.join(""))
    order = np.argsort(last)
    together = joined.sort("group")["text"].gather(order).alias(texts.name)
    return Records(together, last[order], np.bincount(groups, minlength=count)[order], is_end[last[order]])


def cut_places(lengths: Iterable[int], ends: Iterable[bool]) -> list[int]:
    """Return the parts of a stream with which records become too long, so that they end there."""
    found, total, count = list[int](), 0, 0
    for place, (length, is_end) in enumerate(zip(lengths, ends, strict=True)):
        total, count = total + length, count + 1
        is_cut = total > LINE_BYTES_MAX or count > PARTS_MAX
        if is_cut:
            found.append(place)
        if is_end or is_cut:
            total = count = 0
    return found


def _numbers(is_end: Bools) -> Ints:
    """Number the records that the parts of a stream belong to."""
    return np.append(0, np.cumsum(is_end)[:-1])
