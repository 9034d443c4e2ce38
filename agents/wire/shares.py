"""What the masters of a job's parts are asked; with those of `request` they are all questions there are."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, TypeAlias

import msgspec

from elf.agents.completeness.tallies import COLUMNS_MAX, Count
from elf.agents.jobs.orders import Order
from elf.agents.jobs.versions import VERSIONS_MAX, Version
from elf.agents.language.instants import EARLIEST_MS, LATEST_MS
from elf.overlay.contract import PAYLOAD_BYTES_MAX
from elf.overlay.fields import AppId, Interval

#: Most agents that are named as missing.
AGENTS_MAX = 10_000
#: Most rows of an answer; of a window and from one to the next (ms); a time (ms) that calendars know.
Limit: TypeAlias = Annotated[int, msgspec.Meta(ge=1, le=1 << 31)]
Length: TypeAlias = Annotated[int, msgspec.Meta(ge=1, le=1 << 53)]
EventTime: TypeAlias = Annotated[int, msgspec.Meta(ge=EARLIEST_MS, le=LATEST_MS)]
#: Of values that do not fit their columns' types: of at most so many columns, each so many runs of intervals.
LOADED_RUNS_MAX = 1_000
LoadedTallies: TypeAlias = Annotated[
    Mapping[
        Annotated[str, msgspec.Meta(max_length=1_024)],
        Annotated[tuple[tuple[Interval, Interval, Count], ...], msgspec.Meta(max_length=LOADED_RUNS_MAX)],
    ],
    msgspec.Meta(max_length=COLUMNS_MAX),
]


class AskShare(msgspec.Struct, frozen=True, tag_field="ask", tag="share"):
    """Answer one window of one part of a job; asked of the part's master. The answer is a `Shared` of `results.shares`.

    `span`: the window in ms, where known already; else `window` says which. `limit`: most rows. `version`: that by
    which the first part counts the window; a part that counts it by another one has no rows of it.
    """

    app: AppId
    window: str
    span: tuple[EventTime, EventTime] | None = None
    key: str | None = None
    limit: Limit | None = None
    version: int | None = None


class Watch(msgspec.Struct, frozen=True, tag_field="ask", tag="watch"):
    """Like `Follow`, of one part of a job; asked of the part's master. The answer, a `Told`, names windows only.

    `window`: (size_ms, slide_ms) of the windows that are named, closed ones only; None: the job's own.
    """

    app: AppId
    edition: int
    after_ms: int
    wait_ms: int
    window: tuple[Length, Length] | None = None


class Adopt(msgspec.Struct, frozen=True, tag_field="ask", tag="adopt"):
    """Go on as the first part of the job does; asked of the master of another part by the first one's.

    `publication`: of the job. `versions`: that the first part remembers, ascending. The answer is the number of the
    newest version that the part has then.
    """

    app: AppId
    publication: Annotated[str, msgspec.Meta(max_length=128)]
    versions: Annotated[tuple[Version, ...], msgspec.Meta(min_length=1, max_length=VERSIONS_MAX)]


class LoadIntervals(msgspec.Struct, frozen=True, tag_field="ask", tag="load"):
    """Take intervals as the archive has them into the panes of a part; asked of its master, as often as need be.

    `instance`: the publication they were computed for. The rest is as in `elf.agents.master.commands.Load`.
    `order`: of the job's creator, if it has one.
    """

    app: AppId
    instance: str
    first: Interval
    last: Interval
    block: Annotated[bytes, msgspec.Meta(max_length=PAYLOAD_BYTES_MAX)]
    missing: Annotated[tuple[str, ...], msgspec.Meta(max_length=AGENTS_MAX)] = ()
    mistyped: LoadedTallies = {}
    order: Order | None = None
