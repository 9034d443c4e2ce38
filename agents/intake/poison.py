"""What happens to a line or an event on which our own code fails: it is set aside and named; all others go on.

No log line may stop a source, whoever wrote it. The parser and the plans are meant to take any input; where one fails
nevertheless, the frame is halved until the poison is alone. A line is then rejected with the failure as its reason; an
event is left out of that job, and its interval's label says so.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Protocol

import polars as pl

from agents.jobs.plan import Plan
from agents.jobs.types import SqlType
from agents.sources.counters import REJECT_BYTES_MAX, Counters, Parsed
from agents.sources.format import Format

log = logging.getLogger(__name__)
#: A panic in Polars does not derive from Exception.
FAILURES = (Exception, pl.exceptions.PanicException)


class Taker(Protocol):
    """What takes events in: a worker, or those of a job's parts."""

    @property
    def plan(self) -> Plan:
        """The job."""

    def insert(self, events: pl.DataFrame) -> None:
        """Take in all of them; if this fails, none."""

    def note_gap(self, after_ms: int | None, before_ms: int) -> None:
        """Remember that events between two times are left out."""


def parse_whatever(
    format: Format,
    data: bytes,
    wanted: Mapping[str, SqlType],
    literals: Sequence[Sequence[str]],
    redacted: Callable[[str], str] = str,
) -> Iterator[Parsed]:
    """Parse whole lines, in one piece or in halves around what cannot be parsed; every line is in one counter.

    `redacted` is given what the failure said, which may quote the line, before it is logged.
    """
    try:
        yield format.parse(data, wanted, literals)
        return
    except MemoryError:
        raise
    except FAILURES as error:
        failure = error
    middle = data.rfind(b"\n", 0, len(data) // 2) + 1 or data.find(b"\n") + 1
    if 0 < middle < len(data):
        for half in (data[:middle], data[middle:]):
            yield from parse_whatever(format, half, wanted, literals, redacted)
        return
    log.error("a line cannot be parsed and is rejected: %s: %s", type(failure).__name__, redacted(str(failure)))
    reason = f"failure:{type(failure).__name__}"
    schema = {"ts": pl.Datetime("ms"), **{name: kind.dtype for name, kind in wanted.items()}}
    rejects = ((data[:REJECT_BYTES_MAX], reason),)
    yield Parsed(pl.DataFrame(schema=schema), Counters(read=1, rejected=1), rejects)


def insert_whatever(worker: Taker, events: pl.DataFrame) -> int:
    """Insert events, in one piece or in halves around those the job's expressions, or functions in them, fail on.

    Returns:
        How many are left out.
    """
    left_out: list[tuple[int, BaseException]] = []
    _insert(worker, events, left_out)
    if not left_out:
        return 0
    plan, failure = worker.plan, left_out[0][1]
    log.error(
        "job %s fails on %d of %d events, which it leaves out: %s: %s",
        *(plan.definition.key, len(left_out), events.height, type(failure).__name__, failure),
    )
    # One gap an interval is all that labels say; a function that fails on every event must not make thousands.
    gaps: dict[int, tuple[int, int]] = {}
    for at_ms, _ in left_out:
        first_ms, last_ms = gaps.get(at_ms // plan.interval_ms, (at_ms, at_ms))
        gaps[at_ms // plan.interval_ms] = min(first_ms, at_ms), max(last_ms, at_ms)
    for first_ms, last_ms in gaps.values():
        worker.note_gap(first_ms, last_ms)
    return len(left_out)


def _insert(worker: Taker, events: pl.DataFrame, left_out: list[tuple[int, BaseException]]) -> None:
    try:
        worker.insert(events)
        return
    except MemoryError:
        raise
    except FAILURES as error:
        failure = error
    if events.height > 1:
        middle = events.height // 2
        _insert(worker, events.head(middle), left_out)
        _insert(worker, events.slice(middle), left_out)
        return
    left_out.append((int(events["ts"].dt.epoch("ms")[0]), failure))
