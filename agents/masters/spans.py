"""Which window of a job is meant by what a person asks for."""

from __future__ import annotations

from agents.errors import JobError
from agents.masters.master import Master
from agents.masters.results import Span
from agents.masters.windows import Last, Latest, parse_window


def resolve(master: Master, window: str) -> Span | None:
    """Turn the text of a window into whole intervals of this job.

    Raises:
        JobError: the job has no windows, or the window does not consist of whole intervals.
    """
    asked = parse_window(window)
    if isinstance(asked, Latest):
        return master.latest()
    if master.plan.window is None:
        raise JobError("this job has no window: it counts since it began; ask for `latest`")
    interval_ms = master.plan.interval_ms
    if isinstance(asked, Last):
        end_ms = master.through_ms or 0
        span = Span(end_ms - asked.length_ms, end_ms)
    else:
        span = Span(asked.start_ms, asked.end_ms)
    if span.start_ms % interval_ms or span.end_ms % interval_ms:
        raise JobError(
            f"a window of this job is made of whole intervals of {interval_ms} ms, aligned to 1970-01-01T00:00Z; "
            f"[{span.start_ms}, {span.end_ms}) is not"
        )
    return span
