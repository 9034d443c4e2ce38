"""Which published windows one pass over the archive computes together. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from elf.offline.grid import PASS_WINDOWS_MAX
from elf.offline.verify.published import Result, span_of, version_of

#: Published rows of the windows of one pass: what has to be in memory at a time.
PASS_ROWS_MAX = 1_000_000


def passes(
    results: Iterable[Result], slide_of: Callable[[Result], int], why_skipped: Callable[[Result], str]
) -> Iterator[tuple[list[Result], str]]:
    """Put results together that one version counted and that follow each other, or that are skipped for one reason.

    Args:
        results: ascending in time.
        slide_of: the distance of the windows of a result's version, in ms; not asked of those that are skipped.
        why_skipped: why a result is not compared; "" if it is.

    Yields:
        Results, and why they are skipped.
    """
    several: list[Result] = []
    rows, why = 0, ""
    for result in results:
        reason = why_skipped(result)
        if several and not (
            reason == why
            and (reason or _follows(several[-1], result, slide_of(result)))
            and len(several) < PASS_WINDOWS_MAX
            and rows + len(result["rows"]) <= PASS_ROWS_MAX
        ):
            yield several, why
            several, rows = [], 0
        several.append(result)
        rows, why = rows + len(result["rows"]), reason
    if several:
        yield several, why


def _follows(one: Result, other: Result, slide_ms: int) -> bool:
    (start_ms, end_ms), (next_ms, next_end_ms) = span_of(one), span_of(other)
    if version_of(one) != version_of(other):
        return False
    if start_ms is None or end_ms is None or next_ms is None or next_end_ms is None:
        return False
    return next_ms == start_ms + slide_ms and next_end_ms - next_ms == end_ms - start_ms >= slide_ms
