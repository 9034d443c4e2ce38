"""Values of a result that cannot be said. Pure.

A sum that leaves its type, a set that has more values than it may, an aggregate in Python that fails. They are NULL
in the result, which then is incomplete; whose they are stands beside the label, and nobody else's values are touched.
What a result is made of stays exact: with the next window, or less data, the value is there again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

#: Of so many it is told whose they are; whoever can send values can make as many as there are keys.
TOLD_MAX = 10
_KEY_CHARS_MAX = 60


class Overflow(msgspec.Struct, frozen=True):
    """One value: what the query computes, the group keys that it is of, by their names, and why it is not there."""

    column: str
    key: dict[str, Any]
    why: str

    def __str__(self) -> str:
        keys = ", ".join(f"{name} = {_shown(value)}" for name, value in self.key.items())
        return f"{self.column}{f' of {keys}' if keys else ''} is not there: {self.why}"


class Overflows(msgspec.Struct, frozen=True):
    """All of a result: the first of them, and how many there are."""

    first: tuple[Overflow, ...] = ()
    count: int = 0

    @classmethod
    def joined(cls, parts: Sequence[Overflows]) -> Overflows:
        """Put those of parts of a result together."""
        first = tuple(each for part in parts for each in part.first)
        return cls(first[:TOLD_MAX], sum(part.count for part in parts))

    def sentences(self) -> list[str]:
        """Say whose they are, for people."""
        more = self.count - len(self.first)
        return [*map(str, self.first), *([f"and {more} more"] if more else [])]


NONE = Overflows()


def _shown(value: Any) -> str:
    text = "NULL" if value is None else repr(value) if isinstance(value, str) else str(value)
    return text if len(text) <= _KEY_CHARS_MAX else f"{text[: _KEY_CHARS_MAX - 3]}..."
