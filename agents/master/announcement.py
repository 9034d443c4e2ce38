"""What is new of one master for a follower: windows, how many older ones there are beside, and their results."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping

import msgspec

from elf.agents.errors import ExpiredError
from elf.agents.language.query import Window
from elf.agents.master.emission import Batch
from elf.agents.master.results import Result, Span
from elf.agents.master.windows import Windows
from elf.agents.wire.positions import Json
from elf.agents.wire.records import JobRecord

#: Windows a follower is sent at a time when many closed (a backlog) or changed at once; older ones can be asked for.
FOLLOW_WINDOWS_MAX = 20


class Rest(msgspec.Struct, frozen=True):
    """A run of windows that a follower is not sent one by one, and how many there are."""

    span: Span
    count: int


class Told(msgspec.Struct, frozen=True, kw_only=True):
    """What is new of one master: windows that closed, changed, or are due while open, and how far it is."""

    job: JobRecord
    edition: int
    through_ms: int | None
    spans: list[Span | None] = []
    #: Older windows that changed or closed too, by the word that results have for them.
    rests: Mapping[str, Rest] = {}


def told_of(job: JobRecord, windows: Windows, edition: int, after_ms: int, other: Window | None = None) -> Told:
    """Return what is new to a follower; called in a thread, for it may wait.

    Args:
        job: as it is.
        windows: of the job, at its master.
        edition: what the follower knows; see `Windows.news`.
        after_ms: up to where it has been sent all windows that closed.
        other: the windows of a job that reads this one.
    """
    now, through_ms = windows.edition, windows.through_ms
    spans, changed, closed = windows.news(edition, after_ms, FOLLOW_WINDOWS_MAX, other)
    return Told(job=job, edition=now, through_ms=through_ms, spans=spans, rests=_rests(changed, closed))


def _rests(changed: Batch, closed: Batch) -> Mapping[str, Rest]:
    named = (("also_revised", changed), ("also_closed", closed))
    return {name: Rest(batch.rest, batch.rest_count) for name, batch in named if batch.rest is not None}


def news_with_results(
    windows: Windows, edition: int, after_ms: int, names: Callable[[str], str], render: Callable[[Result], Json]
) -> tuple[int, list[Json]]:
    """Return the master's edition now, and the results that it brings; see `told_of`.

    `names` turns an agent id into a name for people, `render` a result into what is sent.
    """
    now = windows.edition
    spans, changed, closed = windows.news(edition, after_ms, FOLLOW_WINDOWS_MAX)
    results: list[Json] = []
    for span in spans:
        # A commit that came since may have made it expire: there is nothing to tell of it any more.
        with contextlib.suppress(ExpiredError):
            results.append(render(windows.result(span, None, None, names)))
    if results:
        results[0] |= rests_told(_rests(changed, closed))
    return now, results


def rests_told(rests: Mapping[str, Rest]) -> Json:
    """Say how many older windows there are that a follower is not sent one by one, as the API has it."""
    return {
        name: {"start_ms": rest.span.start_ms, "end_ms": rest.span.end_ms, "windows": rest.count}
        for name, rest in rests.items()
    }
