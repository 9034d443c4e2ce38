"""Long runs of records or log entries, cut so that each part fits into one message.

Owns the cutting only; how large a message may be, whoever sends it decides. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Protocol, TypeVar


class Bodied(Protocol):
    """What is counted by its body."""

    @property
    def body(self) -> bytes:
        """The only part of any size."""
        ...


T = TypeVar("T", bound=Bodied)


def batches(items: Iterable[T], bytes_max: int) -> Iterator[tuple[T, ...]]:
    """Yield the items in order, as many at a time as have `bytes_max` in their bodies; a larger one goes alone."""
    batch: list[T] = []
    size_bytes = 0
    for item in items:
        if batch and size_bytes + len(item.body) > bytes_max:
            yield tuple(batch)
            batch, size_bytes = [], 0
        batch.append(item)
        size_bytes += len(item.body)
    if batch:
        yield tuple(batch)
