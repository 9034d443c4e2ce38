"""Times in which a job's intervals are of one length, and which windows can be had of them. Pure.

A version may make intervals longer or shorter. Windows that end before it are then those of the versions before, for
others are not made of whole intervals there.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from elf.agents.errors import ExpiredError, JobError
from elf.agents.jobs.plan import Plan
from elf.agents.jobs.versions import Versions
from elf.agents.language.durations import duration
from elf.agents.language.instants import instant
from elf.agents.language.query import Window
from elf.agents.master.results import Span


class Epoch(NamedTuple):
    """Event times, half-open, with intervals of one length, and the job as it counts the last of them."""

    start_ms: int
    until_ms: int
    plan: Plan


def epochs(versions: Versions, last: int) -> list[Epoch]:
    """Return the epochs of the versions that count intervals up to `last`, ascending; mostly there is only one."""
    found: list[Epoch] = []
    for run in versions.runs():
        if run.first > last:
            break
        start_ms, until_ms = run.span_ms
        if found and found[-1].plan.numbering == run.plan.numbering:
            start_ms = found.pop().start_ms
        found.append(Epoch(start_ms, until_ms, run.plan))
    return found


def latest(found: Sequence[Epoch], through_ms: int, other: Window | None = None) -> Span | None:
    """Return the last window that ends by an event time, a job's own or another; None if it has none."""
    for epoch in reversed(found):
        window = other or epoch.plan.window
        if window is None:
            return None
        end_ms = window.ended_by(min(through_ms, epoch.until_ms))
        if end_ms > epoch.start_ms or epoch is found[0]:
            return Span(end_ms - window.size_ms, end_ms)
    raise AssertionError("there is a first epoch")


def check_whole(versions: Versions, span: Span) -> None:
    """Refuse a window that is cut through an interval where it ends; of before a change of their length it has nothing.

    Raises:
        JobError: which windows there are.
    """
    interval_ms = versions.at(versions.within(span.start_ms, span.end_ms)[1]).plan.interval_ms
    if span.start_ms % interval_ms or span.end_ms % interval_ms:
        raise JobError(
            f"a window of this job is made of whole intervals of {duration(interval_ms)}, "
            f"aligned to 1970-01-01T00:00Z; {instant(span.start_ms)}/{instant(span.end_ms)} is not"
        )


def check_retained(versions: Versions, span: Span, expired: int) -> None:
    """Refuse a window that begins with an interval up to `expired`.

    Raises:
        ExpiredError: from when on there are windows.
    """
    if versions.number(span.start_ms) <= expired:
        oldest = instant(versions.end_ms(expired))
        raise ExpiredError(f"the window begins before {oldest}, the oldest event time that this job still retains")
