"""What a commit brings a master, as far as agents can have said that, and what of it is remembered. Pure.

A payload is what peers have sent; that it is one of this job's, `elf.agents.worker.payload` has made sure of.
"""

from __future__ import annotations

from collections.abc import Mapping

import polars as pl
from msgspec.structs import replace

from elf.agents.jobs.plan import Plan
from elf.agents.jobs.versions import Versions
from elf.agents.master.overdue import without_expired
from elf.agents.master.panes.past import Change
from elf.agents.master.state import MasterState, with_interned_roster
from elf.agents.master.version_uptake import with_since
from elf.agents.worker.paos import Paos
from elf.agents.worker.payload import Notes, unpack
from elf.agents.worker.runs import RunsAfter, RunsFrom
from elf.cbt import INTERVAL
from elf.overlay.contract import NEVER, Commit

#: Gaps remembered one by one.
GAPS_MAX = 1_000


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
    if not {*notes.partial_before, *notes.lost, *notes.since}.issubset(commit.reported):
        partial = {agent: first for agent, first in notes.partial_before.items() if agent in commit.reported}
        lost = {agent: runs for agent, runs in notes.lost.items() if agent in commit.reported}
        since = {agent: told for agent, told in notes.since.items() if agent in commit.reported}
        notes = replace(notes, partial_before=partial, lost=lost, since=since)
    closed = paos.between(None, commit.through)
    if closed.height < paos.height:
        notes = replace(notes, gaps=(*notes.gaps, (commit.through, commit.through)))
    if len(versions.all) > 1:
        closed = Paos((states, _counted(states, frame, versions)) for states, frame in closed.parts)
    return replace(notes, gaps=bounded(notes.gaps)), closed


def _counted(states: int, frame: pl.DataFrame, versions: Versions) -> pl.DataFrame:
    """Return the rows of the intervals that are counted by PAOs of this kind."""
    wanted = [at for at in frame[INTERVAL].unique().to_list() if versions.counts(states, at)]
    return frame.filter(pl.col(INTERVAL).is_in(wanted))


def bounded(gaps: RunsFrom) -> RunsFrom:
    """Keep at most `GAPS_MAX` gaps: the oldest become one that spans them all, which is pessimistic, not wrong."""
    extra = len(gaps) - GAPS_MAX
    if extra <= 0:
        return gaps
    joined = gaps[: extra + 1]
    return ((min(since for since, _ in joined), max(until for _, until in joined)), *gaps[extra + 1 :])


def expired(change: Change, state: MasterState, oldest: int) -> MasterState:
    """Forget what concerns only intervals up to `oldest`, and what a commit changes of panes that expire with it."""
    for key in change.expired:
        change.labels.pop(key, None)
        change.frames.pop(key, None)
    lost = {agent: tuple(run for run in runs if run[1] > oldest) for agent, runs in state.lost.items()}
    # A result that follows from all before it lacks what these lacked.
    is_past = oldest + 1 if state.base is None else NEVER
    return replace(
        state,
        expired=oldest,
        gaps=tuple(gap for gap in state.gaps if gap[1] > oldest),
        partial_before={agent: first for agent, first in state.partial_before.items() if first > is_past},
        lost={agent: runs for agent, runs in lost.items() if runs},
        backfilled=tuple(run for run in state.backfilled if run[1] > oldest),
        owing=without_expired(state.owing, oldest),
    )


def with_commit(state: MasterState, commit: Commit, notes: Notes, versions: Versions) -> MasterState:
    """Return a master's state with what a commit says, but for its rows."""
    return replace(
        state,
        edition=state.edition + 1,
        rollup=with_interned_roster(commit.state),
        retiring={agent: last for agent, last in state.retiring.items() if commit.through <= last},
        partial_before={**state.partial_before, **notes.partial_before},
        gaps=bounded((*state.gaps, *notes.gaps)),
        lost=with_lost(state.lost, notes.lost),
        since=with_since(state.since, notes.since, versions),
    )


def with_lost(known: Mapping[str, RunsAfter], told: Mapping[str, RunsAfter]) -> Mapping[str, RunsAfter]:
    """Add the runs that agents tell of, several times each; bounded like gaps."""
    return {**known, **{agent: bounded(tuple(sorted({*known.get(agent, ()), *runs}))) for agent, runs in told.items()}}


def known_only_now(notes: Notes, before: MasterState, state: MasterState) -> list[tuple[int, int]]:
    """Return the runs of intervals, both ends included, of which it is known only now that they lack something.

    Args:
        notes: a commit's.
        before: the master's state before the commit.
        state: after it.
    """
    base = before.base
    if base is not None and not base.lacks and state.too_late > before.too_late:
        # All results that are retained should rest on what came too late, and were called complete.
        notes = replace(notes, gaps=(*notes.gaps, (state.expired + 1, state.expired + 1)))
    lost = [run for agent, runs in notes.lost.items() for run in runs if run not in before.lost.get(agent, ())]
    return [*notes.gaps, *((after + 1, through) for after, through in lost)]
