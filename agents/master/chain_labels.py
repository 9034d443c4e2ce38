"""What a commit, and the end of panes, means for a chain of results; what labels say of it. Pure but for the chain.

A result rests on all panes since its chain began: whatever any of them lacks, it may lack. A label may be pessimistic,
never optimistic, so what the panes that are no longer retained lacked stays with the base until the job is reset.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import polars as pl
from msgspec.structs import replace

from elf.agents.completeness.label import Label, join
from elf.agents.completeness.lacks import GONE
from elf.agents.completeness.runs import RunsFrom
from elf.agents.master.chain import BASE, Chain
from elf.agents.master.panes.labels import Labels
from elf.agents.master.panes.past import Change
from elf.agents.master.state import Base, MasterState
from elf.overlay.contract import NEVER


class Advanced(NamedTuple):
    """A base that is about to become durable, and its rows or why there are none."""

    base: Base
    outcome: pl.DataFrame | str


def advance(
    chain: Chain, labels: Labels, change: Change, before: MasterState, state: MasterState, gone: RunsFrom, horizon: int
) -> Advanced | None:
    """Take a commit into account before its panes expire; adds the base's rows to the change where it is another one.

    Args:
        chain: of the job.
        labels: of the panes before the commit.
        change: the commit's, with all panes still.
        before: the master's state before the commit.
        state: after it, with what is known of all panes still.
        gone: runs of intervals, both ends included, of gaps that are forgotten with the panes.
        horizon: panes up to this interval expire.

    Returns:
        The base there is then; None if there is none yet.
    """
    if change.late:
        chain.touch(min(each.first for each in change.late))
    if state.newest == NEVER:
        return None
    interval_ms = chain.plan.interval_ms
    old = chain.base
    # What came too late for a result that is fixed: results from here on should have it, and have not.
    missed = 0
    if old is not None:
        fixed = range(old.begins, old.end_ms // interval_ms)
        missed = sum(1 for each in change.late if each.first < fixed.stop and fixed.start <= each.last)
        missed += min(1, state.too_late - before.too_late)
    advanced = chain.advanced(change, horizon)
    if advanced is None:
        return None
    end_ms, outcome, lacking = advanced
    begins = chain.versions.at(end_ms // interval_ms - 1).version.begins
    base = Base(end_ms=end_ms, begins=begins, failed=outcome if isinstance(outcome, str) else "")
    if old is not None and old.begins == begins:
        base = replace(base, label=old.label, lacks=old.lacks + missed)
    parts = [change.labels.get(key) or labels[key] for key in change.expired if key >= begins]
    lost = state.lacks.only(*GONE).within(begins, horizon)
    if lost:
        parts.append(Label(horizon, horizon, 0).lacking(lost))
    if parts:
        base = replace(base, label=join([*([base.label] if base.label is not None else []), *parts]))
    forgotten = sum(1 for _, until in gone if until >= begins)
    base = base.lacking(forgotten + lacking)
    if old is None or (end_ms, begins) != (old.end_ms, old.begins):
        change.made[BASE] = chain.packed(outcome)
    return Advanced(base, outcome)


def in_chain(own: Label, whole: Label, base: Base | None, begins: int, lacking: int = 0) -> Label:
    """Return the label of a result: of its window, and of all that its chain rests on.

    Args:
        own: of the window's panes alone.
        whole: of all panes since the chain began that are retained.
        base: what there is of those that are not.
        begins: the interval that the chain begins with.
        lacking: results since the base that lack values.
    """
    parts: Sequence[Label] = [whole]
    lacks = 0
    if base is not None and base.begins == begins:
        parts, lacks = [*([base.label] if base.label is not None else []), whole], base.lacks
    label = join([*parts, Label(own.previous, own.through, own.expected, own.missing)])
    return replace(label, previous=own.previous, damaged=label.damaged + lacks + lacking)
