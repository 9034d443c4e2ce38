"""What a worker tells labels of lines and values that are not what its job takes them for. Pure.

Rejected lines have no time: they are counted where the commit is that brings them, beside the lines that were read
meanwhile. A value that does not fit its column's type is of an event, and is counted in that event's interval.
"""

from __future__ import annotations

from typing import Any

import polars as pl
from msgspec.structs import replace

from elf.agents.completeness.runs import holds
from elf.agents.completeness.tallies import added, bounded, tallied
from elf.agents.jobs.versions import Versions
from elf.agents.sources.counters import Mistyped
from elf.agents.worker.payload import Notes
from elf.agents.worker.sharing.parse import Parsing
from elf.agents.worker.state import Progress
from elf.overlay.contract import NEVER

#: A few lines that are no events change no status: up to one of so many.
FEW_OF = 100


def with_mistyped(progress: Progress, versions: Versions, mistyped: Mistyped, parsing: Parsing | None) -> Progress:
    """Return a worker's progress with more values that do not fit.

    Args:
        progress: the worker's.
        versions: of its job: each counts what it reads of its own intervals.
        mistyped: the values.
        parsing: how their lines were parsed; None: as all jobs want it.
    """
    after = NEVER if progress.counted is None else progress.counted
    found = []
    for column, times in mistyped.items():
        for interval, count in versions.counts_of(pl.Series("at", times)).items():
            version, plan = versions.at(interval)
            is_read = column in plan.columns and (parsing is None or parsing.is_for(plan))
            if is_read and interval > after and not version.is_paused and not holds(progress.dropped, interval):
                found.append((column, interval, interval, count))
    return replace(progress, mistyped=bounded(added(progress.mistyped, tallied(found)))) if found else progress


def unsaid_of(progress: Progress) -> Notes:
    """Return what a worker has counted and not reported yet, apart from what it lacks."""
    # 0 lines: an older release did not count them.
    is_misread = progress.misread or 0 < progress.lines < progress.rejected * FEW_OF
    return Notes(
        late=progress.late,
        rejected=progress.rejected,
        lines=progress.lines,
        misread=is_misread,
        mistyped=progress.mistyped,
    )


def saying(progress: Progress, unsaid: Notes, **changes: Any) -> Progress:
    """Return a worker's progress with what its next snapshot is to report, and further changes."""
    return replace(
        progress,
        late=unsaid.late,
        rejected=unsaid.rejected,
        gaps=unsaid.gaps,
        lines=unsaid.lines,
        misread=unsaid.misread,
        mistyped=unsaid.mistyped,
        **changes,
    )
