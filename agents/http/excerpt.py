"""Some of many lines of a kind: who publishes a thousand jobs that cannot run hides no other reason by that."""

from __future__ import annotations

import itertools
from collections.abc import Iterable

#: Told one by one.
TOLD_MAX = 16


def excerpt(lines: Iterable[str], kind: str) -> list[str]:
    """Return the first lines, and how many more there are of the kind that is named."""
    left = iter(lines)
    told = list(itertools.islice(left, TOLD_MAX))
    more = sum(1 for _ in left)
    return [*told, f"and {more} more: {kind}"] if more else told
