"""Intervals of before a job was published, loaded from the agents' archives into its panes (DESIGN section 9).

An interval is counted by the agents or backfilled, never both: a load takes the place of whatever rows its intervals
have, so loading twice counts once, and rows that agents bring of a backfilled interval later are left out (`Master`).
Only intervals that some agent does not have all events of may be backfilled, and that are committed: the agents'
archives have all of them then. Of a job that was changed only those of the version that counts now: windows of former
ones are made of other PAOs. docs/OFFLINE.md has the reasons. Pure but for panes that are read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

import polars as pl
from msgspec.structs import replace

from elf.agents.completeness.label import Label
from elf.agents.completeness.lacks import ARCHIVED
from elf.agents.completeness.runs import RunsAfter, ends, holds, union
from elf.agents.completeness.tallies import Tallies, most, summed, totals, within
from elf.agents.errors import JobError
from elf.agents.jobs.plan import Plan
from elf.agents.jobs.versions import Compiled, Versions
from elf.agents.master.commands import Load
from elf.agents.master.panes.history import History
from elf.agents.master.panes.past import Change
from elf.agents.master.state import MasterState
from elf.agents.master.version_uptake import NEVER_YET, begun, paused
from elf.agents.wire.positions import Json
from elf.agents.worker.paos import between, by_interval
from elf.cbt import INTERVAL, PaoDecodeError, PaoSchema, decode
from elf.overlay.contract import NEVER
from elf.overlay.rollup.succession import counted_through

#: Runs of backfilled intervals that do not touch: who loads from the archive needs one.
RUNS_MAX = 256


class Reach(NamedTuple):
    """The intervals that may be backfilled: from `first` up to, and not including, `until`; none of a pause."""

    first: int
    until: int


def counting(job: Plan | Versions, state: MasterState) -> Compiled:
    """Return the version of a job whose intervals may be backfilled: the one that counts the next interval."""
    return Versions.of(job).at(state.rollup.committed + 1)


def reach_of(job: Plan | Versions, state: MasterState) -> Reach | None:
    """Return which intervals may be backfilled now; None before the first commit, and for jobs without windows.

    Up to the first interval of which all agents have all events; none if they have read all there ever was.
    """
    committed = state.rollup.committed
    versions, (version, plan) = Versions.of(job), counting(job, state)
    if plan.window is None or committed == NEVER:
        return None
    newest = committed if state.newest == NEVER else state.newest
    first = max(state.expired + 1, versions.retained(newest, plan), versions.number(0), version.begins)
    lacking = [*state.lacks.only(*ARCHIVED).by(state.rollup.roster)]
    # Agents that heard of a version too late, and have said since when they count by it.
    uptakes = begun(state.since, dict.fromkeys(state.rollup.roster, NEVER_YET), versions, first, committed)
    lacking += [lack for lack in uptakes if lack.last < NEVER_YET - 1]
    until = max((lack.last + 1 for lack in lacking), default=first)
    return Reach(first, max(first, min(until, committed + 1)))


def _counted(state: MasterState) -> dict[str, int | None]:
    """Return the last interval that each agent of the roster was counted in; None: never, so it may still begin."""
    rollup = state.rollup
    return {agent: counted_through(entry, rollup.committed) for agent, entry in rollup.roster.items()}


def check_load(job: Plan | Versions, state: MasterState, load: Load) -> None:
    """Refuse intervals that may not be loaded.

    Raises:
        JobError: which may.
    """
    version, plan = counting(job, state)
    if plan.window is None:
        raise JobError("this job has no window: it counts since it began, and has no intervals to backfill")
    if plan.iterating is not None:
        raise JobError("this job reads its last result, so what is past cannot be loaded into it")
    reach = reach_of(job, state)
    if reach is None:
        raise JobError("this job has not committed an interval yet; backfill it after its first result")
    wanted = f"intervals {load.first} to {load.last} cannot be backfilled"
    if load.first < version.begins:
        raise JobError(
            f"{wanted}: the job was changed, and the windows of its version {version.number} begin with interval "
            f"{version.begins}; those of former versions are made of other partial aggregates"
        )
    if not reach.first <= load.first <= load.last < reach.until:
        raise JobError(
            f"{wanted}: only those from {reach.first} up to {reach.until - 1} can, which are retained and not counted "
            "in full by all agents"
        )
    if paused(Versions.of(job), load.first - 1, load.last):
        raise JobError(f"{wanted}: the job was paused in some of them, and counts nothing of these")
    if len(union(state.archived, ((load.first - 1, load.last),))) > RUNS_MAX:
        raise JobError(f"a job has at most {RUNS_MAX} backfilled runs that do not touch: load neighbours first")


def describe(job: Plan | Versions, state: MasterState, instance: str, names: Callable[[str], str]) -> Json:
    """Describe what may be backfilled of a publication, what is, and how far each agent was counted, in ms."""
    versions, (version, plan), reach = Versions.of(job), counting(job, state), reach_of(job, state)
    through_ms = {agent: None if last is None else versions.end_ms(last) for agent, last in _counted(state).items()}
    return {
        "instance": instance,
        "version": version.number,
        "shift": plan.numbering.shift,
        "first_ms": None if reach is None else versions.start_ms(reach.first),
        "until_ms": None if reach is None else versions.start_ms(reach.until),
        "agents": [{"agent": each, "name": names(each), "through_ms": through_ms[each]} for each in sorted(through_ms)],
        "backfilled": [[versions.start_ms(first), versions.end_ms(last)] for first, last in state.backfilled],
    }


def with_pauses(known: RunsAfter, versions: Versions) -> RunsAfter:
    """Add the intervals in which a job was paused: of these nobody lacks anything."""
    return union(known, tuple((each.first - 1, each.last) for each in versions.pauses))


# ---- panes


def with_load(history: History, versions: Versions, state: MasterState, load: Load) -> tuple[MasterState, Change]:
    """Return a master's state after a load that was checked, and how its panes change.

    Raises:
        PaoDecodeError: the block is not this job's, or its rows are not of these intervals, or do not merge.
    """
    schema = counting(versions, state).plan.schema
    rows = decode(load.block, schema)
    if rows.height and not rows[INTERVAL].is_between(load.first, load.last).all():
        raise PaoDecodeError(f"there are rows of other intervals than {load.first} to {load.last}")
    edition, known = state.edition + 1, union(state.archived, ((load.first - 1, load.last),))
    fresh = Label(0, 0, len(state.rollup.roster), tuple(sorted(load.missing)), changed=edition)
    try:
        change = _spliced(history, schema, load, rows, fresh, state.archived)
    except (ArithmeticError, ValueError) as error:
        raise PaoDecodeError(f"the PAOs do not merge: {error}") from None
    newest = max([state.newest, *rows[INTERVAL].unique()])
    return replace(state, edition=edition, newest=newest, backfilled=ends(known)), change


def _spliced(
    history: History, schema: PaoSchema, load: Load, rows: pl.DataFrame, fresh: Label, known: RunsAfter
) -> Change:
    """Describe what a load changes: panes of its intervals anew, and what is left of those they lay in.

    A pane that is as the load would make it stays as it is, so that loading again changes nothing. `fresh` is the label
    of a new pane, but for its run; `known`: what is backfilled already. Raises ArithmeticError or ValueError if the
    rows do not merge.
    """
    change = Change()
    before = {key: history.labels[key] for key in history.labels.holding(load.first, load.last)}
    loaded = _panes(schema, load, rows, fresh)
    said = [each for each in before.values() if each.previous != NEVER or each.through <= load.last]
    panes = {label.through: (_unfit_as(label, said, load.mistyped), frame) for label, frame in loaded}
    for key, label in before.items():
        rest = history.pane(key)
        if label.previous < load.first - 1:
            left = label.cut(label.previous, load.first - 1)
            panes[left.through] = left, between(rest, None, load.first - 1)
        if label.through > load.last:
            panes[label.through] = label.cut(load.last, label.through), between(rest, load.last + 1, None)
    for key, (label, frame) in panes.items():
        was = before.get(key)
        again = was is not None and holds(known, key) and load.first <= key <= load.last
        if again and was is not None:
            label = replace(label, revision=was.revision)
            before_it = replace(was, previous=label.previous, changed=label.changed, changed_in=label.changed_in)
            if before_it != label or not history.pane(key).equals(frame):
                label = label.revised()
            elif was.previous == label.previous:
                continue
        change.labels[key], change.frames[key] = label, frame
    change.extended = [key for key in before if key not in panes]
    change.replaced = load.first, load.last
    return change


def _unfit_as(label: Label, before: Iterable[Label], found: Tallies) -> Label:
    """Return a new pane's label with what was said of lines and values that did not fit: an archive lacks them, too.

    Of the first pane, whose run has no beginning, what is left of it says that. `found`: values that the archives have
    as texts only, of which agents may have told before.
    """
    said = [each for each in before if each.previous < label.through and label.previous < each.through]
    own = totals(within(found, label.previous + 1, label.through))
    return replace(
        label,
        rejected=sum(each.rejected for each in said),
        lines=sum(each.lines for each in said),
        misread=sum(each.misread for each in said),
        mistyped=most([summed(each.mistyped for each in said), own]),
    )


def _panes(schema: PaoSchema, load: Load, rows: pl.DataFrame, fresh: Label) -> Iterator[tuple[Label, pl.DataFrame]]:
    """Yield a pane for each interval of which there is something to say, and one for each run of others between."""
    parts = dict(by_interval(rows))
    unfit = {first for runs in load.mistyped.values() for first, last, _ in runs if first == last}
    previous, empty = load.first - 1, schema.empty()
    for interval in sorted({*parts, *(each for each in unfit if load.first <= each <= load.last)}):
        if previous < interval - 1:
            yield replace(fresh, previous=previous, through=interval - 1), empty
        frame = schema.merge_interval([parts[interval]], interval) if interval in parts else empty
        yield replace(fresh, previous=interval - 1, through=interval), frame
        previous = interval
    if previous < load.last:
        yield replace(fresh, previous=previous, through=load.last), empty
