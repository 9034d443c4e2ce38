"""What is new of one master for a follower: windows, how many older ones there are beside, and their results."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from typing import NamedTuple

import msgspec

from elf.agents.errors import ExpiredError
from elf.agents.language.query import Window
from elf.agents.master.master import Master
from elf.agents.master.results import Json, Result, Span

#: Windows a follower is sent at a time when many closed (a backlog) or changed at once; older ones can be asked for.
FOLLOW_WINDOWS_MAX = 20


class Rest(msgspec.Struct, frozen=True):
    """A run of windows that a follower is not sent one by one, and how many there are."""

    span: Span
    count: int


class Announced(NamedTuple):
    """News of a master: the edition that they are of, how far that is, windows to be sent, and those that are not.

    `rests`: older windows that changed or closed too, by the word that results have for them.
    """

    edition: int
    through_ms: int | None
    spans: list[Span | None]
    rests: Mapping[str, Rest]


def announced(master: Master, edition: int, after_ms: int, other: Window | None = None) -> Announced:
    """Return what is new to a follower; called in a thread, for it may wait.

    Args:
        master: of the job.
        edition: what the follower knows; see `Master.news`.
        after_ms: up to where it has been sent all windows that closed.
        other: the windows of a job that reads this one.
    """
    now, through_ms = master.edition, master.through_ms
    spans, changed, closed = master.news(edition, after_ms, FOLLOW_WINDOWS_MAX, other)
    named = (("also_revised", changed), ("also_closed", closed))
    rests = {name: Rest(batch.rest, batch.rest_count) for name, batch in named if batch.rest is not None}
    return Announced(now, through_ms, spans, rests)


def news_with_results(
    master: Master, edition: int, after_ms: int, names: Callable[[str], str], render: Callable[[Result], Json]
) -> tuple[int, list[Json]]:
    """Return the master's edition now, and the results that it brings; see `announced`.

    Args:
        master: of the job.
        edition: what the follower knows.
        after_ms: up to where it has been sent all windows that closed.
        names: turns an agent id into a name for people.
        render: turns a result into what is sent.
    """
    news = announced(master, edition, after_ms)
    results: list[Json] = []
    for span in news.spans:
        # A commit that came since may have made it expire: there is nothing to tell of it any more.
        with contextlib.suppress(ExpiredError):
            results.append(render(master.result(span, None, None, names)))
    if results:
        results[0] |= rests_told(news.rests)
    return news.edition, results


def rests_told(rests: Mapping[str, Rest]) -> Json:
    """Say how many older windows there are that a follower is not sent one by one, as the API has it."""
    return {
        name: {"start_ms": rest.span.start_ms, "end_ms": rest.span.end_ms, "windows": rest.count}
        for name, rest in rests.items()
    }
