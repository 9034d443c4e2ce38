"""What is durable of the worker side: how far a source and its workers have come, and what they have sealed. Pure.

`elf.agents.store.checkpoints` writes these records, all of a source in one transaction; their fields are its format.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from elf.agents.completeness.lacks import NOTHING, Cause, Lacks
from elf.agents.completeness.runs import RunsAfter, RunsFrom
from elf.agents.completeness.tallies import Count, Tally
from elf.overlay.contract import NEVER
from elf.overlay.fields import Interval

#: Later than any interval.
FOREVER = (1 << 62) - 1


class Progress(msgspec.Struct, frozen=True, kw_only=True):
    """How far one worker has come, in interval indexes."""

    #: Up to here an earlier agent on this machine, whose disk is lost, was counted, or this one before its disk was put
    #: back to an older state; None where that is not so.
    counted: Interval | None = None

    #: Last interval sealed; None before the first.
    sealed: Interval | None = None
    #: Last interval the master has settled, as far as we know.
    settled: Interval | None = None
    #: First interval we have all events of, until the master knows it; None when we read the source from its beginning.
    partial_before: Interval | None = None
    #: The newest version of the job that we count by, 0 before its first change; and what is to be told of versions:
    #: number -> first interval of which we count all our events by it.
    version: int = 0
    since: Mapping[int, Interval] = {}
    #: Runs of commits, (after, through], that went without us and whose data rides in our next snapshot.
    owed: RunsAfter = ()
    #: Runs of commits, (after, through], that name us and whose data the job drops, however late it comes.
    dropped: RunsAfter = ()
    #: Snapshots may have left that this checkpoint lacks (at-least-once).
    early: bool = False
    #: Intervals, (after, through], with data that this checkpoint lacks and no line will bring again (at-most-once).
    volatile: tuple[Interval, Interval] | None = None
    #: Such runs that a crash has lost, until the master knows it.
    lost: RunsAfter = ()
    #: Late events, lines that were no events, and runs of intervals, both ends included, in which lines may be lost,
    #: not reported in a snapshot yet.
    late: Count = 0
    rejected: Count = 0
    gaps: RunsFrom = ()
    #: Beside rejected lines, all that were read since the last snapshot, and whether one before had rejected too many.
    lines: Count = 0
    misread: bool = False
    #: Values that do not fit their columns' types, of all columns that the job reads; not reported either.
    mistyped: Mapping[str, Tally] = {}

    def lacks(self, agent: str) -> Lacks:
        """Return what labels are to hear of the agent that this is the progress of."""
        if not (self.gaps or self.lost) and self.partial_before is None:
            return NOTHING
        began = () if self.partial_before is None else ((NEVER, self.partial_before - 1),)
        return Lacks.told({Cause.BEGAN: {agent: began}, Cause.CRASH: {agent: self.lost}}, self.gaps)

    def without_gone(self) -> Progress:
        """Forget what is gone for good: the master knows."""
        return msgspec.structs.replace(self, lost=())


class Snapshot(msgspec.Struct, frozen=True):
    """The sealed PAOs of one job up to and including interval `through`; payload None when there were none."""

    through: Interval
    payload: bytes | None


class Tables(msgspec.Struct, frozen=True):
    """Tables of what a worker has open, each in a row of its own: it stays as it is while the worker's row changes.

    `numbers` are those of all that are needed, `new` has the rows of those that are not stored yet.
    """

    numbers: tuple[int, ...]
    new: Mapping[int, bytes]


class WorkerState(msgspec.Struct, frozen=True):
    """One worker's part of a checkpoint.

    `tree` names the publication it works on, `open_block` holds its unsealed PAOs. Where these are of very many
    intervals most lie in `tables`; None: in those that are stored. What is read back has their rows in `open_block`.
    """

    tree: bytes
    progress: Progress
    open_block: bytes
    sealed: Sequence[Snapshot] = ()
    tables: Tables | None = None


class SourceState(msgspec.Struct, frozen=True):
    """One source's part of a checkpoint: positions and counters as JSON, and the checkpoint's number."""

    source: str
    positions: bytes
    counters: bytes
    sequence: int


class Whole(msgspec.Struct, frozen=True):
    """A source's last checkpoint with all that is stored of its workers: what another agent keeps for this one."""

    source: SourceState
    workers: Sequence[WorkerState]
