"""Which window of a job is meant by what a person asks for, and which ones are there."""

from __future__ import annotations

from elf.agents.errors import JobError
from elf.agents.master.epochs import check_whole
from elf.agents.master.results import Span
from elf.agents.master.window_texts import Last, Latest, parse_window
from elf.agents.master.windows import Windows
from elf.agents.wire.positions import Json
from elf.overlay.contract import NEVER

#: Panes whose rows are told.
ROWS_OF = 64


def resolve(windows: Windows, window: str) -> Span | None:
    """Turn the text of a window into whole intervals of this job.

    Raises:
        JobError: the job has no windows, or the window does not consist of whole intervals.
    """
    asked = parse_window(window)
    if isinstance(asked, Latest):
        return windows.latest()
    if windows.plan.window is None:
        raise JobError("this job has no window: it counts since it began; ask for `latest`")
    if isinstance(asked, Last):
        end_ms = windows.through_ms or 0
        asked = Span(end_ms - asked.length_ms, end_ms)
    check_whole(windows.versions, asked)
    return asked


def oldest_ms(windows: Windows) -> int | None:
    """Return where the oldest pane that is retained begins; None without panes, and for a job without windows."""
    _, oldest, _ = windows.panes(0)
    if oldest is None or windows.plan.window is None:
        return None
    return windows.versions.start_ms(oldest.through if oldest.previous == NEVER else oldest.previous + 1)


def describe_panes(windows: Windows) -> Json:
    """Tell how many panes are retained, and of the newest: how many have rows, how many in all, and the most of one."""
    count, _, newest = windows.panes(ROWS_OF)
    rows = [rows for rows in newest if rows]
    return {"count": count, "filled": len(rows), "rows": sum(rows), "rows_max": max(rows, default=0)}


def expired_ms(windows: Windows) -> int | None:
    """Return the time before which no window may begin, for its panes have expired; None if none has."""
    return None if windows.expired == NEVER else windows.versions.end_ms(windows.expired)
