"""Rows of PAOs of one key width, and the merge that everything in the buffer tree comes down to.

Sort by the keys' order, find equal neighbours, reduce each run of them: three steps over whole columns. Sorting moves
one 64-bit number a row, the order in its upper bits and the row's number in its lower ones. Long runs are merged range
by range, so that what is unpacked at a time stays small, and in the processor's cache.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt
import polars as pl

from elf.cbt import columns
from elf.cbt.columns import Columns, Index, Words
from elf.cbt.native import argument, kernels
from elf.cbt.words import ORDER_BITS, ORDER_MASK, ROWS_MAX

#: A state column: numbers as an array, strings and binaries as a series.
State = npt.NDArray[Any] | pl.Series
#: Merges the state columns of rows in key order, one PAO for each run that begins at the given places.
Reduce = Callable[[list[State], Index], list[State]]

#: Rows that are merged at a time.
STEP_ROWS = 16_384
#: Rows that are sorted in less time than it takes to wake threads for them.
FEW_ROWS = 4_096
_NUMBER = np.uint64(ROWS_MAX - 1)
_LEAST = -(2**63)
#: Parts of so many rows and words are read out together: each costs what a thousand rows do.
_SHORT_ROWS, NARROW_WORDS = 2_048, 16


class Rows(msgspec.Struct, eq=False):
    """PAOs whose keys have one width.

    Attributes:
        words: the keys.
        order: place of each key in the tree's order, shape (rows,).
        states: each of length rows.
    """

    words: Columns
    order: Words
    states: list[State]

    def __len__(self) -> int:
        return len(self.order)

    @property
    def width(self) -> int:
        """Words of a key."""
        return columns.width(self.words)

    def slice(self, start: int, end: int) -> Rows:
        """Rows from start to end, as views."""
        if start == 0 and end >= len(self):
            return self
        words = [word[start:end] for word in self.words]
        return Rows(words, self.order[start:end], [state[start:end] for state in self.states])

    def take(self, rows: Index) -> Rows:
        """The rows of these numbers."""
        words = [columns.take(word, rows) for word in self.words]
        return Rows(words, self.order[rows], [_taken(state, rows) for state in self.states])

    def cut(self, bounds: Sequence[int]) -> list[Rows]:
        """Cut sorted rows at the lowest order of each part but the first."""
        places = [0, *np.searchsorted(self.order, np.array(bounds, dtype=np.uint64)).tolist(), len(self)]
        return [self.slice(start, end) for start, end in itertools.pairwise(places)]

    def split(self, most: int) -> Iterator[Rows]:
        """Cut sorted rows into even parts of about at most so many rows, never between keys of equal order."""
        return (part for part in self.cut(self.even_bounds(-(-len(self) // most))) if len(part))

    def even_bounds(self, pieces: int) -> list[int]:
        """Lowest orders that cut sorted rows into about so many parts of about the same size."""
        if pieces <= 1 or not len(self):
            return []
        # Each once; they ascend already.
        return [*dict.fromkeys(self.order[np.arange(1, pieces) * len(self) // pieces].tolist())]


class Ranked(msgspec.Struct, eq=False):
    """Rows in any order, and their numbers in the order of keys.

    Attributes:
        words: the keys.
        packed: sorted; each row's order, with its number in the lower bits.
        states: of the rows.
        distinct: how many orders there are: about as many as keys.
    """

    words: Columns
    packed: Words
    states: list[State]
    distinct: int


def rank(parts: Sequence[Rows]) -> Ranked:
    """Sort rows' numbers by their keys' order. O(rows log rows).

    Args:
        parts: at least one, together at most `ROWS_MAX` rows; unchanged until the last range is merged.
    """
    words, packed, states = _joined(parts)
    packed, distinct = sorted_orders(packed)
    return Ranked(words, packed, states, distinct)


def sorted_orders(packed: Words) -> tuple[Words, int]:
    """Sort rows' orders with their numbers in the lower bits, perhaps in place; also tell how many orders there are."""
    if kernels is not None:
        kernels.sort_packed(packed)
    elif packed.size > FEW_ROWS:
        # Polars sorts many integers three times as fast as NumPy, but wakes its threads for few.
        packed = pl.Series(packed).sort().to_numpy()
    else:
        packed.sort()
    steps = packed[1:] ^ packed[:-1]
    steps >>= np.uint64(64 - ORDER_BITS)
    return packed, 1 + int(np.count_nonzero(steps))


def reduced(ranked: Ranked, reduce: Reduce) -> Iterator[Rows]:
    """Merge ranked rows into one PAO a key, range by range. O(rows)."""
    packed = ranked.packed
    at = 0
    while at < packed.size:
        end = at + STEP_ROWS
        if end < packed.size:
            end = int(np.searchsorted(packed, packed[end] & ORDER_MASK))
            if end <= at:
                end = int(np.searchsorted(packed, packed[at] | _NUMBER, side="right"))
        yield _reduced(ranked.words, packed[at:end], ranked.states, reduce)
        at = end


def sort(parts: Sequence[Rows], reduce: Reduce) -> Iterator[Rows]:
    """Sort and merge rows in any order into one PAO a key, range by range. O(rows log rows)."""
    return reduced(rank(parts), reduce)


def merge(parts: Sequence[Rows], reduce: Reduce) -> Iterator[Rows]:
    """Merge sorted rows into one PAO a key, range by range. O(rows log parts).

    Args:
        parts: at least one, together at most `ROWS_MAX` rows.
        reduce: how equal keys' states merge.
    """
    if len(parts) == 1 and 0 < len(parts[0]) <= STEP_ROWS:
        yield parts[0]
        return
    longest = max(parts, key=len)
    # Orders are as good as random, so what cuts one part evenly does so with all.
    bounds = longest.even_bounds(-(-sum(map(len, parts)) // STEP_ROWS))
    for pieces in zip(*(part.cut(bounds) for part in parts), strict=True):
        filled = [piece for piece in pieces if len(piece)]
        if len(filled) > 1:
            words, packed, states = _joined(filled)
            packed.sort(kind="stable")
            yield _reduced(words, packed, states, reduce)
        else:
            yield from filled


def together(parts: Sequence[Rows]) -> list[Rows]:
    """Put neighbours that are few and narrow into one, as wide as the widest: to read out, not to merge. O(rows)."""
    found: list[Rows] = []
    for few, group in itertools.groupby(parts, lambda part: len(part) <= _SHORT_ROWS and part.width <= NARROW_WORDS):
        own = list(group)
        found += [_side_by_side(own)] if few and len(own) > 1 else own
    return found


def _side_by_side(parts: Sequence[Rows]) -> Rows:
    widest = max(part.width for part in parts)
    # What is missing behind the text of a key is what pads it.
    padded = [[*part.words, *[columns.constant(0, len(part))] * (widest - part.width)] for part in parts]
    return Rows(
        [columns.join(word) for word in zip(*padded, strict=True)],
        np.concatenate([part.order for part in parts]),
        [_joined_states(state) for state in zip(*(part.states for part in parts), strict=True)],
    )


def subtract(rows: Iterator[Rows], earlier: Iterator[Rows], reduce: Reduce) -> Iterator[Rows]:
    """Take PAOs of an earlier time out of later ones. O(rows + earlier).

    Args:
        rows: as `merge` yields them: sorted, each order in one part only.
        earlier: likewise.
        reduce: adds up states, which are numbers.

    Yields:
        Sorted rows, without those whose states are all zero now.
    """
    streams = [rows, _negated(earlier)]
    heads = [next(stream, None) for stream in streams]
    while filled := [head for head in heads if head is not None]:
        bound = min(int(head.order[-1]) for head in filled) + 1
        ready: list[Rows] = []
        for number, head in enumerate(heads):
            if head is not None:
                done, rest = head.cut([bound])
                ready += [done] if len(done) else []
                heads[number] = rest if len(rest) else next(streams[number], None)
        for part in merge(ready, reduce):
            changed = np.flatnonzero(np.any([state != 0 for state in part.states], axis=0))
            if changed.size:
                yield part.take(changed)


def _negated(stream: Iterator[Rows]) -> Iterator[Rows]:
    for rows in stream:
        if any(state.dtype == np.int64 and (state == _LEAST).any() for state in rows.states):
            raise OverflowError(f"a sum of {_LEAST} has no inverse in 64 bits")
        yield Rows(rows.words, rows.order, [np.negative(state) for state in rows.states])


def _joined(parts: Sequence[Rows]) -> tuple[Columns, Words, list[State]]:
    """Put rows one after the other; their order is packed with their numbers."""
    packed = numbered(np.concatenate([part.order for part in parts]))
    words = [columns.join(word) for word in zip(*(part.words for part in parts), strict=True)]
    return words, packed, [_joined_states(state) for state in zip(*(part.states for part in parts), strict=True)]


def numbered(packed: Words) -> Words:
    """Put rows' numbers into the lower bits of their orders, in place.

    Raises:
        ValueError: they are too many for one merge.
    """
    if packed.size > ROWS_MAX:
        raise ValueError(f"{packed.size} rows are more than one merge takes ({ROWS_MAX})")
    for start in range(0, packed.size, STEP_ROWS):
        part = packed[start : start + STEP_ROWS]
        part |= np.arange(start, start + part.size, dtype=np.uint64)
    return packed


def _joined_states(parts: Sequence[State]) -> State:
    if len(parts) == 1:
        return parts[0]
    if isinstance(parts[0], pl.Series):
        return pl.concat(parts)  # type: ignore[type-var]
    return np.concatenate(parts)


def _reduced(words: Columns, packed: Words, states: list[State], reduce: Reduce) -> Rows:
    """Bring the rows of one sorted range together."""
    if kernels is not None and not any(map(columns.is_wide, words)):
        starts = np.empty(packed.size, dtype=np.int64)
        count = kernels.first_rows([argument(word) for word in words], packed, starts)
        if count >= 0:
            return _gathered(words, packed, states, starts[:count], reduce)
    numbers = (packed & _NUMBER).view(np.int64)
    order = packed & ORDER_MASK
    own = [columns.take(word, numbers) for word in words]
    close = order[1:] == order[:-1]
    same = _same(own, close)
    if (close != same).any():
        _untangle(words, order, numbers, np.flatnonzero(close != same))
        own = [columns.take(word, numbers) for word in words]
        same = _same(own, close)
    taken = [_taken(state, numbers) for state in states]
    if not same.any():
        return Rows(own, order, taken)
    first = np.ones(order.size, dtype=bool)
    np.logical_not(same, out=first[1:])
    starts = np.flatnonzero(first)
    return Rows([columns.take(word, starts) for word in own], order[starts], reduce(taken, starts))


def _gathered(words: Columns, packed: Words, states: list[State], starts: Index, reduce: Reduce) -> Rows:
    """Bring the rows of one sorted range together, whose keys begin at `starts`."""
    assert kernels is not None
    distinct = starts.size == packed.size
    own: Columns = []
    for word in words:
        if columns.is_constant(word):
            own.append(columns.constant(word[0], starts.size))
        else:
            own.append(np.empty(starts.size, dtype=np.uint64))
            kernels.take(argument(word), packed, None if distinct else starts, own[-1])
    taken: list[State] = []
    for state in states:
        if isinstance(state, pl.Series) or state.itemsize < 8:
            taken.append(_taken(state, (packed & _NUMBER).view(np.int64)))
        else:
            values = np.empty(packed.size, dtype=state.dtype)
            kernels.take(argument(state), packed, None, values)
            taken.append(values)
    if distinct:
        return Rows(own, packed & ORDER_MASK, taken)
    return Rows(own, packed[starts] & ORDER_MASK, reduce(taken, starts))


def _taken(state: State, rows: Index) -> State:
    return state.gather(rows) if isinstance(state, pl.Series) else state.take(rows)


def _same(words: Columns, close: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
    """Of sorted rows whose order is that of the row before, tell which have its key, too."""
    same = close
    for word in words if close.any() else ():
        if not columns.is_constant(word):
            equal = word[1:] == word[:-1]
            same = same & (equal.all(axis=1) if columns.is_wide(word) else equal)
    return same


def _untangle(words: Columns, order: Words, rows: Index, clashes: Index) -> None:
    """Sort, in place, the rows whose order is that of a clash by their words, so that equal keys are neighbours."""
    places = np.flatnonzero(np.isin(order, order[clashes]))
    among = rows[places]
    ranked = np.lexsort([*(columns.sortable(columns.take(word, among)) for word in words), order[places]])
    rows[places] = among[ranked]
