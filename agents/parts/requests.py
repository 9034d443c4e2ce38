"""What the masters of a job's parts are asked; with those of `agents.requests` they are all questions there are."""

from __future__ import annotations

import msgspec


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
