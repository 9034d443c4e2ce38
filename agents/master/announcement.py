"""What a follower of one master is sent: the results of the windows that are new to it."""

from __future__ import annotations

import contextlib
from collections.abc import Callable

import msgspec

from elf.agents.errors import ExpiredError
from elf.agents.master.emission import note_rest
from elf.agents.master.master import Master
from elf.agents.wire.positions import Json

#: Windows a follower is sent at a time when many closed (a backlog) or changed at once; older ones can be asked for.
FOLLOW_WINDOWS_MAX = 20


def news_with_results(
    master: Master,
    edition: int,
    after_ms: int,
    names: Callable[[str], str],
    render: Callable[[msgspec.Struct], Json],
) -> tuple[int, list[Json]]:
    """Return the master's edition now, and the results that it brings; called in a thread, for it may wait.

    Args:
        master: of the job.
        edition: what the follower knows; see `Master.news`.
        after_ms: up to where it has been sent all windows that closed.
        names: turns an agent id into a name for people.
        render: turns a result into what is sent.
    """
    now = master.edition
    spans, changed, closed = master.news(edition, after_ms, FOLLOW_WINDOWS_MAX)
    results: list[Json] = []
    for span in spans:
        # A commit that came since may have made it expire: there is nothing to tell of it any more.
        with contextlib.suppress(ExpiredError):
            results.append(render(master.result(span, None, None, names)))
    if results:
        note_rest(results, changed, closed)
    return now, results
