"""What followers of a job are handed: results as JSON, each with the place to go on from after it. Pure."""

from __future__ import annotations

from typing import Any, NamedTuple

#: What `json` reads and writes of an object.
Json = dict[str, Any]
#: Where a follower of a job goes on: its master's edition (of a job with several trees those of all parts, of one that
#: reads others its own and theirs), and up to where all closed windows were sent (ms).
Position = tuple[int | tuple[int, ...], int]
#: A result, and where to go on after it.
Positioned = tuple[Json, Position]


class Told(NamedTuple):
    """A result as JSON, as an application is told it, and a tag that changes with it."""

    body: bytes
    tag: str
