"""The passes of a backfill: what Spark computes at once, several of them side by side, handed on in the order of time.

Intervals have no rows in common, so a pass that is small enough is one task of Spark's, which groups all by itself:
nothing goes through a shuffle. As many passes as there are cores are computed at a time, and while the results of one
are packed and loaded, the next are computed. Intervals of very many events are grouped by all cores together: mostly
they leave few rows for a shuffle, and a task of its own copies each event once more than that.
"""

from __future__ import annotations

import math
from collections import defaultdict, deque
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import NamedTuple, TypeVar

from elf.agents.archive.layout import ArchivedFile
from elf.agents.jobs.plan import Plan
from elf.cbt.aggregates import Slotted

#: Bytes of archive that are computed at a time: some forty million events. Fewer where single values are handed over,
#: of which there may be as many as events.
AT_ONCE_BYTES, SLOTTED_AT_ONCE_BYTES = 256 << 20, 64 << 20
#: Bytes of archive of one task: at most as for Spark itself, and at least what takes far longer than its planning.
TASK_BYTES_MAX, TASK_BYTES_MIN = 128 << 20, 16 << 20

#: Of more events an interval is expected to make rows so few that a shuffle of these costs less than a copy of those.
FEW_EVENTS = 50_000

#: Sums of shares are as exact as that.
_ROUNDING = 1e-6

Result = TypeVar("Result")


class Pass(NamedTuple):
    """Intervals that are computed together.

    Attributes:
        begin: the first of them.
        end: the one after the last.
        files: with events of them; one that reaches into several passes is in all of these.
        events: in these files; those of a file of several passes are counted with the first.
        in_one_task: one task of Spark's is to compute all of it.
    """

    begin: int
    end: int
    files: list[ArchivedFile]
    events: int
    in_one_task: bool


def cut_passes(
    files: Sequence[ArchivedFile], runs: Sequence[tuple[int, int]], plan: Plan, cores: int
) -> tuple[list[Pass], int]:
    """Cut runs of intervals into passes, and say how many of them are to be computed at a time."""
    slotted = any(isinstance(aggregate, Slotted) for _, aggregate in plan.schema.aggregates)
    at_once = SLOTTED_AT_ONCE_BYTES if slotted else AT_ONCE_BYTES
    lanes = max(1, min(cores, at_once // TASK_BYTES_MIN))
    density = sum(file.entry.rows for file in files) / max(1, sum(file.entry.bytes for file in files))
    passes = []
    for first, until in runs:
        shares = _shares(files, first, until, plan)
        total = sum((end - begin) * each for begin, end, each in shares)
        rounds = math.ceil(total / min(at_once, lanes * TASK_BYTES_MAX))
        count = min(rounds * lanes, int(total // TASK_BYTES_MIN))
        # What does not give each core enough is one pass for all of them, and so is an interval that is larger than
        # others are together.
        apart = count >= lanes and total * density <= FEW_EVENTS * (until - first)
        size = total / max(1, count if apart else rounds)
        for begin, end, taken in _cut(shares, first, until, size):
            start_ms, end_ms = plan.numbering.start_ms(begin), plan.numbering.start_ms(end)
            own = [file for file in files if file.entry.first_ms < end_ms and file.entry.last_ms >= start_ms]
            events = sum(file.entry.rows for file in own if start_ms <= file.entry.first_ms)
            passes.append(Pass(begin, end, own, events, apart and taken <= 1.5 * size))
    return passes, lanes


def _shares(files: Sequence[ArchivedFile], first: int, until: int, plan: Plan) -> list[tuple[int, int, float]]:
    """Return the bytes of each file as spread over its intervals: the first, the one after the last, and how many each.

    Intervals outside of [first, until) are left out.
    """
    shares = []
    for entry in (file.entry for file in files):
        begin, last = plan.numbering.number(entry.first_ms), plan.numbering.number(entry.last_ms)
        each = entry.bytes / (last + 1 - begin)
        shares.append((max(begin, first), min(last + 1, until), each))
    return [share for share in shares if share[0] < share[1]]


def _cut(
    shares: Sequence[tuple[int, int, float]], first: int, until: int, most: float
) -> Iterator[tuple[int, int, float]]:
    """Cut [first, until) into runs of intervals of about so many bytes, and say how many. O(n log n) for n shares."""
    changes, full = defaultdict[int, float](float), most * (1 - _ROUNDING)
    for begin, end, each in shares:
        changes[begin] += each
        changes[end] -= each
    begin, at, size, rate = first, first, 0.0, 0.0
    for edge in sorted(changes):
        while rate and at < edge and size + rate * (edge - at) >= full:
            step = min(max(1, math.ceil((full - size) / rate)), edge - at)
            at, size = at + step, size + rate * step
            if at < until:
                yield begin, at, size
                begin, size = at, 0.0
        size, at, rate = size + rate * (edge - at), edge, rate + changes[edge]
        rate = rate if rate > _ROUNDING else 0.0
    yield begin, until, size


def in_order(
    compute: Callable[[Pass], Result], passes: Sequence[Pass], lanes: int, abandon: Callable[[], None]
) -> Generator[tuple[Pass, Result]]:
    """Compute so many passes at a time, and yield their results in order; to be closed: then no other is begun.

    Those that are computed then, or when one has failed, are waited for, as they use what is gone afterwards;
    `abandon` is called first and is to have them end soon.
    """
    waiting = deque[tuple[Pass, Future[Result]]]()
    pool = ThreadPoolExecutor(lanes, thread_name_prefix="elf-pass")
    try:
        for each in passes:
            waiting.append((each, pool.submit(compute, each)))
            # One more than are computed, so that no lane waits while a result is taken.
            if len(waiting) > lanes:
                done, result = waiting.popleft()
                yield done, result.result()
        while waiting:
            done, result = waiting.popleft()
            yield done, result.result()
    except BaseException:
        abandon()
        raise
    finally:
        pool.shutdown(cancel_futures=True)
