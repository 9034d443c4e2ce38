"""What people are told of a job that is stopped, and of one whose stop cannot be undone any more. Pure."""

from __future__ import annotations

from elf.agents.errors import StoppedError
from elf.agents.language.instants import clock_time
from elf.agents.wire.records import JobRecord


def stopped_error(job: JobRecord) -> StoppedError:
    """Return what answers a question for the results of a job that rests: that it does, and how to get it back."""
    key, ends_ms = job.definition.first.key, job.ends_ms
    assert ends_ms is not None
    why = f" ({job.why})" if job.why else ""
    return StoppedError(
        f"job {key} is stopped{why}; until {told_time(ends_ms)} `elf resume {key}` takes it up again with its windows, "
        "then it ends for good"
    )


def why_ended(ends_ms: int | None) -> str:
    """Say why a job is no more. `ends_ms`: until when it could have been resumed; None: it was stopped for good."""
    if ends_ms is None:
        return "it was stopped for good; publish it anew"
    return f"it was stopped, and could have been resumed until {told_time(ends_ms)}; publish it anew"


def told_time(at_ms: int) -> str:
    """Return a time of day for people, whole seconds, UTC."""
    return f"{clock_time(at_ms)} UTC"
