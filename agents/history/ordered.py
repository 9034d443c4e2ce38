"""A mapping that can be walked in the order of its keys, for the many that hold little.

A `SortedDict` takes 1.6 kB before anything is in it, and each copy of a job's past has several.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, MutableMapping
from typing import TypeVar

from sortedcontainers import SortedList

V = TypeVar("V")


class Ordered(MutableMapping[int, V]):
    """Values by whole numbers, which it iterates over ascending; changes are O(log n)."""

    __slots__ = ("_keys", "_values")

    def __init__(self, entries: Mapping[int, V]) -> None:
        self._values = dict(entries)
        self._keys: SortedList[int] = SortedList(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __contains__(self, key: object) -> bool:
        return key in self._values

    def __getitem__(self, key: int) -> V:
        return self._values[key]

    def __setitem__(self, key: int, value: V) -> None:
        if key not in self._values:
            self._keys.add(key)
        self._values[key] = value

    def __delitem__(self, key: int) -> None:
        del self._values[key]
        self._keys.remove(key)

    def __iter__(self) -> Iterator[int]:
        return iter(self._keys)

    def __reversed__(self) -> Iterator[int]:
        keys: Iterator[int] = reversed(self._keys)
        return keys

    def first(self) -> int:
        """Return the least key; there has to be one."""
        return int(self._keys[0])

    def last(self) -> int:
        """Return the greatest key; there has to be one."""
        return int(self._keys[-1])

    def irange(self, minimum: int | None = None, maximum: int | None = None, *, reverse: bool = False) -> Iterator[int]:
        """Yield the keys from one to another, both included; without the one or the other, to that end."""
        keys: Iterator[int] = self._keys.irange(minimum, maximum, reverse=reverse)
        return keys
