"""How much of what an agent has sealed goes into one snapshot: as much as one message can carry. Pure.

Usually that is everything. An agent that was down, or cut off, for long has more to bring than one message holds: what
is sealed now goes first, for the label claims that it is there; what is late follows, the oldest intervals first, with
as many snapshots as it takes.
"""

from __future__ import annotations

import bisect
from collections.abc import Sequence
from typing import NamedTuple

from msgspec.structs import replace

from elf.agents.completeness.runs import FOREVER, RunsAfter, RunsFrom, within
from elf.agents.jobs.versions import Versions
from elf.agents.worker.paos import Paos
from elf.agents.worker.payload import Notes, pack
from elf.overlay.contract import NEVER, PAYLOAD_BYTES_MAX

#: How many late intervals that the master retains are brought at a time: for each second of an interval's length, and
#: at least; and how many older ones.
LATE_PER_S, LATE_MIN, LATE_OLD_MAX = 50, 64, 65_536
#: A snapshot goes into one message, and with a few words around it to a neighbour.
SNAPSHOT_BYTES_MAX = PAYLOAD_BYTES_MAX - (64 << 10)


class Fitted(NamedTuple):
    """A snapshot's payload and what has to wait for the next one.

    Attributes:
        payload: None if there is nothing to say.
        rest: rows that wait.
        owed: runs of commits, (after, through], whose data is among these rows.
        gaps: what the next snapshot has to say of its gaps: intervals of which each has only a part.
    """

    payload: bytes | None
    rest: Paos
    owed: RunsAfter
    gaps: RunsFrom


def late_brought(late: Sequence[int], floor: int, versions: Versions) -> int:
    """Return how many of the late intervals that wait go into the next snapshot, the oldest first; at least one.

    Each late interval that the master retains is a pane that it reads and writes anew, so there is a bound on those: as
    many as should cost it a part of the interval's own time. What is older is in its oldest pane, or in none. A job
    without window has a single pane.

    Args:
        late: the intervals, ascending.
        floor: up to here all are sealed.
        versions: of the job.
    """
    plan = versions.newest.plan
    if not late or plan.window is None:
        return len(late)
    old = bisect.bisect_left(late, versions.retained(floor, plan))
    if old > LATE_OLD_MAX:
        return LATE_OLD_MAX
    return min(len(late), old + max(LATE_MIN, plan.interval_ms * LATE_PER_S // 1_000))


def fit(
    notes: Notes, agent: str, owed: RunsAfter, rows: Paos, sealed_now: int, left_behind: int | None = None
) -> Fitted:
    """Pack as many of the first rows as fit, those of a late interval together. O(rows), mostly once.

    Together, because the snapshot that says that it brings an interval may be counted when one before it is not. Where
    an interval does not even fit beside what is sealed now, or that not by itself, it is parted, and gaps say so.

    Args:
        notes: of this snapshot; which runs it brings, and further gaps, are added.
        agent: whose it is.
        owed: runs of commits that missed this agent, and whose data has not been in a snapshot since.
        rows: PAOs, each interval's together: what is sealed now, then what is late, ascending; late is what the job's
            results are without, or whatever belongs to intervals that are sealed already.
        sealed_now: how many of the rows are sealed now.
        left_behind: the first interval of which rows wait that are not among these: late, and later than all of them.
    """
    count = rows.height
    if not count and not notes and not owed:
        return Fitted(None, rows, (), ())  # most intervals of most jobs, and they should cost nearly nothing
    intervals, others = rows.intervals, [] if left_behind is None else [left_behind]
    while True:
        waiting = intervals[count:].unique().sort().to_list() if count < rows.height else []
        until = min(waiting[:1] + others, default=FOREVER + 1) - 1
        settled, left = within(owed, NEVER, until), within(owed, until, FOREVER)
        both = intervals[count] if 0 < count < rows.height and intervals[count - 1] == intervals[count] else None
        now = set(intervals[count:sealed_now].to_list())
        gaps = tuple((each, each) for each in waiting if each == both or each in now)
        told = replace(notes, settles={agent: settled} if settled else {}, gaps=(*notes.gaps, *gaps))
        # All of them as they are: what they are encoded to may be there already.
        payload = pack(told, rows if count == rows.height else rows.head(count))
        if payload is None or len(payload) <= SNAPSHOT_BYTES_MAX or count == 0:
            return Fitted(payload, rows.rest(count), left, gaps)
        # Somewhat fewer than would fit if all rows were alike; then back to where an interval begins.
        count = min(count - 1, count * SNAPSHOT_BYTES_MAX // len(payload) * 15 // 16)
        begin = (intervals == intervals[count]).arg_max()
        count = begin if begin is not None and begin > sealed_now else count


class Handed(NamedTuple):
    """Snapshots that a job's tree took from here since this start, but for empty ones, and their bytes."""

    snapshots: int = 0
    bytes: int = 0
