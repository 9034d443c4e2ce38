"""What the masters of a job's parts are asked; with those of `agents.requests` they are all questions there are."""

from __future__ import annotations

from typing import Annotated

import msgspec

from overlay.messages import PAYLOAD_BYTES_MAX, Interval

#: Most agents that are named as missing.
AGENTS_MAX = 10_000


class Share(msgspec.Struct, frozen=True, tag_field="ask", tag="share"):
    """Answer one window of one part of a job; asked of the part's master. The answer is a `parts.shares.Shared`.

    `span`: the window in ms, where it is known already; else `window` says which. `limit`: most rows.
    """

    app: bytes
    window: str
    span: tuple[int, int] | None = None
    key: str | None = None
    limit: int | None = None


class Watch(msgspec.Struct, frozen=True, tag_field="ask", tag="watch"):
    """Like `Follow`, of one part of a job; asked of the part's master. The answer, a `Told`, names windows only."""

    app: bytes
    edition: int
    after_ms: int
    wait_ms: int


class LoadIntervals(msgspec.Struct, frozen=True, tag_field="ask", tag="load"):
    """Take intervals as the archive has them into the panes of a part; asked of its master, as often as need be.

    `instance`: the publication they were computed for. The rest is as in `agents.group.commands.Load`.
    """

    app: bytes
    instance: str
    first: Interval
    last: Interval
    block: Annotated[bytes, msgspec.Meta(max_length=PAYLOAD_BYTES_MAX)]
    missing: Annotated[tuple[str, ...], msgspec.Meta(max_length=AGENTS_MAX)] = ()
