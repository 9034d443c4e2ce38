"""A mapping that can be walked in the order of its keys, for the many that hold little.

A `SortedDict` takes 1.6 kB before anything is in it, and each copy of a job's past has several. Keys mostly come last
and go first, and moving those behind one of 100,000 takes 20 us; where many change at a time all are sorted once.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Collection, Iterator, Mapping, MutableMapping
from typing import TypeVar

V = TypeVar("V")

#: Keys that come or go one by one; with more at a time, all are sorted, which is quick where most are in order.
FEW = 16


class Ordered(MutableMapping[int, V]):
    """Values by whole numbers, which it iterates over ascending; changes are O(log n) and move the keys behind."""

    __slots__ = ("_keys", "_values")

    def __init__(self, entries: Mapping[int, V]) -> None:
        self._values = dict(entries)
        self._keys = sorted(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __contains__(self, key: object) -> bool:
        return key in self._values

    def __getitem__(self, key: int) -> V:
        return self._values[key]

    def __setitem__(self, key: int, value: V) -> None:
        if key not in self._values:
            insort(self._keys, key)
        self._values[key] = value

    def __delitem__(self, key: int) -> None:
        del self._values[key]
        del self._keys[bisect_left(self._keys, key)]

    def __iter__(self) -> Iterator[int]:
        return iter(self._keys)

    def __reversed__(self) -> Iterator[int]:
        return reversed(self._keys)

    def replace(self, changed: Mapping[int, V], gone: Collection[int]) -> None:
        """Add or replace values, then forget those of some keys, if they are there; O(all) at most."""
        if len(changed) + len(gone) <= FEW:
            for key, value in changed.items():
                self[key] = value
            for key in gone:
                self.pop(key, None)
            return
        self._values.update(changed)
        for key in gone:
            self._values.pop(key, None)
        self._keys = sorted(self._values)

    def first(self) -> int:
        """Return the least key; there has to be one."""
        return self._keys[0]

    def last(self) -> int:
        """Return the greatest key; there has to be one."""
        return self._keys[-1]

    def irange(self, minimum: int | None = None, maximum: int | None = None, *, reverse: bool = False) -> Iterator[int]:
        """Yield the keys from one to another, both included; without the one or the other, to that end."""
        begin = 0 if minimum is None else bisect_left(self._keys, minimum)
        end = len(self._keys) if maximum is None else bisect_right(self._keys, maximum)
        inside = range(begin, end)
        return (self._keys[index] for index in (reversed(inside) if reverse else inside))
