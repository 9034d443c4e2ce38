"""What a successor begins with that takes over the checkpoint of an agent whose disk is lost. Pure."""

from __future__ import annotations

from elf.agents.completeness.runs import union
from elf.agents.jobs.plan import Plan
from elf.agents.jobs.versions import Versions
from elf.agents.master.commands import Enlisted
from elf.agents.worker.paos import Paos, decode_open, encode_open
from elf.agents.worker.payload import unpack
from elf.agents.worker.state import Progress, WorkerState
from elf.overlay.contract import NEVER


def taken_over(state: WorkerState, entry: Enlisted, job: Plan | Versions) -> WorkerState:
    """Return what a successor's worker begins with: a lost agent's checkpoint without what it was counted with.

    The agent was counted up to some interval. If it had sealed as much at the checkpoint, nothing that is still in
    there was counted, late rows of older intervals included. Else only the rows of later intervals are known not to
    have been; late rows of intervals that were sealed may have gone with a snapshot since: they are left out, and a gap
    says so.

    Args:
        state: the lost agent's, with its snapshots that had no verdict.
        entry: up to where it was counted.
        job: its plan, or its versions.

    Raises:
        PaoDecodeError, ArithmeticError, ValueError: it is not of this job.
    """
    progress, versions = state.progress, Versions.of(job)
    options = versions.newest.plan.definition.options
    counted = NEVER if entry.counted is None else entry.counted
    sealed = NEVER if progress.sealed is None else progress.sealed
    # Where a job drops what was leapt, rows up to there may belong to runs that are dropped.
    whole = sealed >= counted and options.straggler not in ("drop", "void")
    parts, late, gaps = [*decode_open(state.open_block, versions).parts], 0, progress.gaps
    owed = progress.owed if whole else ()
    for snapshot in state.sealed:
        if snapshot.through > counted and snapshot.payload is not None:
            notes, paos = unpack(snapshot.payload, versions)
            parts += paos.parts
            late, gaps = late + notes.late, (*gaps, *notes.gaps)
            owed = union(owed, *notes.settles.values()) if whole else owed
    rows = Paos(parts)
    if not whole:
        doubtful = rows.between(None, min(counted, sealed)).intervals
        if doubtful.len():
            gaps = (*gaps, (int(doubtful.min()), int(doubtful.max())))  # type: ignore[arg-type]  # whole numbers
        rows = rows.between(counted + 1, None)
    if entry.missed is not None:
        owed = union(owed, ((counted, entry.missed),))
    own = None if counted == NEVER else counted
    begins = Progress(
        counted=progress.counted if whole else own,
        sealed=own,
        settled=own,
        partial_before=progress.partial_before,
        # What it told of versions it told under its own name.
        version=0,
        owed=owed,
        dropped=progress.dropped,
        early=progress.early,
        volatile=progress.volatile,
        lost=progress.lost,
        late=late + (progress.late if whole else 0),
        gaps=gaps,
    )
    return WorkerState(state.tree, begins, encode_open(rows.merged(versions), versions))
