"""What a commit brings a master, as far as agents can have said that, and what of it is remembered. Pure.

A payload is what peers have sent; that it is one of this job's, `elf.agents.worker.payload` has made sure of.
"""

from __future__ import annotations

import polars as pl
from msgspec.structs import replace

from elf.agents.completeness.lacks import ARCHIVED, GONE, Cause, Lack, Lacks
from elf.agents.completeness.runs import holds, within
from elf.agents.completeness.tallies import bounded
from elf.agents.jobs.plan import Plan
from elf.agents.jobs.versions import Versions
from elf.agents.master.panes.labels import Labels
from elf.agents.master.panes.past import Change
from elf.agents.master.state import MasterState, with_interned_roster
from elf.agents.master.version_uptake import with_since
from elf.agents.worker.paos import Paos
from elf.agents.worker.payload import Notes, unpack
from elf.cbt import INTERVAL
from elf.overlay.contract import Commit


def content_of(commit: Commit, job: Versions | Plan) -> tuple[Notes, Paos | None]:
    """Return a commit's notes and PAOs; none where nobody had any.

    PAOs of a version that does not count their interval are left out: their agent will say, or has said, from which
    interval on it counts by the one that does.

    Nobody seals rows of an interval that is not closed. As the newest interval decides what is retained, a single one
    from the future would cost the job its past: such rows are left out, and a gap says so. Agents speak for themselves,
    so what is noted of one that is not in the commit is left out, too: it would stay for ever.

    Raises:
        PaoDecodeError: the payload is not this job's.
    """
    if not commit.payload:
        return Notes(), None
    versions = Versions.of(job)
    notes, paos = unpack(commit.payload, versions)
    since = {agent: told for agent, told in notes.since.items() if agent in commit.reported}
    lacks, gaps = notes.lacks.by(commit.reported), Lacks()
    closed = paos.between(None, commit.through)
    if closed.height < paos.height:
        gaps = Lacks.of([Lack(None, commit.through, commit.through, Cause.GAP)])
    if len(versions.all) > 1:
        closed = Paos((kind, _counted(kind, frame, versions)) for kind, frame in closed.parts)
    return notes.with_lacks((lacks | gaps).bounded(), since=since, mistyped=bounded(notes.mistyped)), closed


def _counted(kind: int, frame: pl.DataFrame, versions: Versions) -> pl.DataFrame:
    """Return the rows of the intervals that are counted by PAOs of this kind."""
    wanted = [at for at in frame[INTERVAL].unique().to_list() if versions.counts(kind, at)]
    return frame.filter(pl.col(INTERVAL).is_in(wanted))


def expired(change: Change, state: MasterState, oldest: int) -> MasterState:
    """Forget what concerns only intervals up to `oldest`, and what a commit changes of panes that expire with it."""
    for key in change.expired:
        change.labels.pop(key, None)
        change.frames.pop(key, None)
    backfilled = tuple(run for run in state.backfilled if run[1] > oldest)
    state = replace(state, expired=oldest, backfilled=backfilled)
    if not state.has_past(oldest):
        return state
    # A result that follows from all before it lacks what these lacked.
    kept = state.lacks.only(*ARCHIVED) if state.base is not None else Lacks()
    return state.with_lacks(state.lacks.within(oldest + 1) | kept)


def with_commit(state: MasterState, commit: Commit, notes: Notes, versions: Versions) -> MasterState:
    """Return a master's state with what a commit says, but for its rows, and for what it brings."""
    missed = (Lack(agent, commit.previous + 1, commit.through, Cause.MISSED) for agent in commit.missing)
    lacks = notes.lacks | Lacks.of(missed)
    state = replace(
        state,
        edition=state.edition + 1,
        rollup=with_interned_roster(commit.state),
        retiring={agent: last for agent, last in state.retiring.items() if commit.through <= last},
        since=with_since(state.since, notes.since, versions),
    )
    return state.with_lacks((state.lacks | lacks).bounded()) if lacks else state


def settled(labels: Labels, notes: Notes, change: Change, state: MasterState, total: int | None) -> MasterState:
    """Strike agents, and lost ones whose logs are theirs now, off the names of commits whose data comes with this one.

    A pane may span several commits: all of a job without a window, or a run of empty ones. An agent that missed two of
    them may bring the data of the later one first, so its name stays until it has brought all that it missed of a pane.

    Args:
        labels: of the panes before this commit.
        notes: the commit's, which say what comes.
        change: takes the labels that change.
        state: the master's.
        total: key of the only pane of a job without a window; None: it has one.
    """
    if not notes.settles:
        return state
    lacks, enlisted = state.lacks, state.enlisted
    for agent, runs in notes.settles.items():
        at = enlisted[agent].address if agent in enlisted else ""
        names = [agent, *(old for old, known in enlisted.items() if known.lost and known.address == at)]
        lacks -= Lacks.told({Cause.MISSED: dict.fromkeys(names, runs)})
        for after, through in runs:
            for key in list(labels.holding(after + 1, through)) if total is None else labels.between(total, total):
                # The rows of agents count in neither of these.
                if key in change.extended or holds(state.archived, key):
                    continue
                label = change.labels.get(key) or labels[key]
                for name in label.missing:
                    owed = within(lacks.runs(Cause.MISSED, name), label.previous, label.through)
                    if name in names and not owed:
                        change.labels[key] = label = label.found(name)
    return state.with_lacks(lacks)


def known_only_now(notes: Notes, before: MasterState, state: MasterState) -> list[tuple[int, int]]:
    """Return the runs of intervals, both ends included, of which it is known only now that they lack something.

    Args:
        notes: a commit's.
        before: the master's state before the commit.
        state: after it.
    """
    base, told = before.base, notes.lacks.only(*GONE) - before.lacks
    runs = [*notes.gaps, *((lack.first, lack.last) for lack in told)]
    if base is not None and not base.lacks and state.too_late > before.too_late:
        # All results that are retained should rest on what came too late, and were called complete.
        runs.append((state.expired + 1, state.expired + 1))
    return runs
