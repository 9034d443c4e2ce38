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

from elf.agents.failures import FAILURES
from elf.agents.jobs.plan import Plan
from elf.agents.language.installed.calls import FunctionsStoppedError
from elf.agents.language.types import SqlType
from elf.agents.sources.carried import Carrying
from elf.agents.sources.counters import REJECT_BYTES_MAX, Counters, Parsed
from elf.agents.sources.format import Format
from elf.agents.sources.kept import Kept

log = logging.getLogger(__name__)


class Taker(Protocol):
    """What takes events in: a worker, or all that make the same of them."""

    @property
    def plan(self) -> Plan:
        """What they are mapped by."""

    @property
    def jobs(self) -> str:
        """Whose they are, for people."""

    def insert(self, events: pl.DataFrame) -> None:
        """Take in all of them; if this fails, none."""

    def note_gap(self, after_ms: int | None, before_ms: int) -> None:
        """Remember that events between two times are left out."""


def keep_whatever(
    format: Format,
    chunk: bytes,
    literals: Sequence[Sequence[str]],
    redacted: Callable[[str], str] = str,
    carried: Sequence[bytes] = (),
) -> Iterator[Kept]:
    """Keep the lines that jobs may want, in one piece or in halves around what the pre-filter fails on, which is kept.

    `redacted` is given what the failure said, which may quote the line, before it is logged.
    """
    try:
        yield format.keep(chunk, literals, carried)
        return
    except MemoryError:
        raise
    except FAILURES as error:
        failure = error
    middle = chunk.rfind(b"\n", 0, len(chunk) // 2) + 1 or chunk.find(b"\n") + 1
    if 0 < middle < len(chunk):
        halves = Carrying(format.carrier, carried)
        for half in (chunk[:middle], chunk[middle:]):
            yield from keep_whatever(format, half, literals, redacted, halves.before(half))
        return
    log.error("a line cannot be pre-filtered and is kept: %s: %s", type(failure).__name__, redacted(str(failure)))
    yield Kept.whole(chunk or b"".join(carried))


def parse_whatever(
    format: Format, lines: Kept, wanted: Mapping[str, SqlType], redacted: Callable[[str], str] = str
) -> Iterator[Parsed]:
    """Parse lines, in one piece or in halves around what cannot be parsed; every line is in one counter.

    `redacted` is as for `keep_whatever`.
    """
    try:
        yield format.parse(lines, wanted)
        return
    except MemoryError:
        raise
    except FAILURES as error:
        failure = error
    if lines.count > 1:
        for half in lines.halves():
            yield from parse_whatever(format, half, wanted, redacted)
        return
    log.error("a line cannot be parsed and is rejected: %s: %s", type(failure).__name__, redacted(str(failure)))
    reason = f"failure:{type(failure).__name__}"
    schema = {"ts": pl.Datetime("ms"), **{name: kind.dtype for name, kind in wanted.items() if name != "ts"}}
    text = (lines.data + b"".join(lines.huge))[:REJECT_BYTES_MAX]
    counters = Counters(
        read=lines.read,
        rejected=lines.count,
        filtered=lines.filtered,
        headers=lines.headers,
        parts=lines.rests,
    )
    yield Parsed(pl.DataFrame(schema=schema), counters, ((text, reason),) * lines.count, lines.oddities)


def insert_whatever(worker: Taker, events: pl.DataFrame) -> int:
    """Insert events, in one piece or in halves around those the job's expressions, or functions in them, fail on.

    Returns:
        How many are left out.
    """
    left_out: list[tuple[pl.Series, BaseException]] = []
    _insert(worker, events, left_out)
    if not left_out:
        return 0
    plan, failure = worker.plan, left_out[0][1]
    times = pl.concat([times for times, _ in left_out])
    if not isinstance(failure, FunctionsStoppedError):  # which is said where they are stopped, once
        log.error(
            "job %s fails on %d of %d events, which it leaves out: %s: %s",
            *(worker.jobs, times.len(), events.height, type(failure).__name__, failure),
        )
    # One gap an interval is all that labels say; a function that fails on every event must not make thousands.
    gaps = times.to_frame("at").group_by(pl.col("at") // plan.interval_ms).agg(first=pl.min("at"), last=pl.max("at"))
    for first_ms, last_ms in zip(*gaps.sort("first").select("first", "last"), strict=True):
        worker.note_gap(first_ms, last_ms)
    return times.len()


def _insert(worker: Taker, events: pl.DataFrame, left_out: list[tuple[pl.Series, BaseException]]) -> None:
    try:
        worker.insert(events)
        return
    except MemoryError:
        raise
    except FAILURES as error:
        failure = error
    # Where nothing works any more, looking for what does only takes time, which the source's other jobs want.
    if events.height > 1 and not isinstance(failure, FunctionsStoppedError):
        middle = events.height // 2
        _insert(worker, events.head(middle), left_out)
        _insert(worker, events.slice(middle), left_out)
        return
    left_out.append((events["ts"].dt.epoch("ms").alias("at"), failure))
