"""Whether a claimed sum is that of some snapshots. Pure.

What merges exactly in any order has to be equal: rows, keys, counts, whole numbers, extremes, texts, and what is noted
for labels. Doubles depend on the order of merging by as much as rounding may move them; further apart they differ. What
may hang on the order for other reasons (PAOs in Python, tallies at their bounds, values that are no finite numbers)
accuses nobody.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence

import polars as pl
from msgspec.structs import replace

from elf.agents.completeness.tallies import COLUMNS_MAX, COUNT_MAX, totals
from elf.agents.jobs.versions import Versions
from elf.agents.worker.payload import Notes, unpack
from elf.cbt import PaoDecodeError, PaoSchema
from elf.cbt.aggregates.moments import StddevPop, StddevSamp, VarPop, VarSamp
from elf.cbt.aggregates.sums import Avg, Sum

_MOMENTS = (StddevPop, StddevSamp, VarPop, VarSamp)
#: Of which doubles are rounded when they are merged.
_ROUNDED = (*_MOMENTS, Avg, Sum)
#: Doubles are the same if they differ by no more than this share of all that was added up; rounding moves them by 1e-15
#: of that for each snapshot.
ROUNDING = 1e-9


class Outcome(enum.Enum):
    """What came of an audit."""

    SAME = "right"
    DIFFERS = "wrong"
    UNDECIDED = "undecided"


def compare(claimed: bytes, snapshots: Sequence[bytes], versions: Versions) -> Outcome:
    """Tell whether a payload is what some snapshots merge to. O(rows), in memory some times their size."""
    try:
        notes, paos = unpack(claimed, versions)
        parts = [unpack(payload, versions) for payload in snapshots]
        kinds = {kind for _, each in (*parts, (notes, paos)) for kind, frame in each.parts if frame.height}
        found = _compare_notes(notes, [told for told, _ in parts])
        for kind in kinds:
            plan = versions.plan_of(kind)
            assert plan is not None
            frames = [frame for _, each in parts for of, frame in each.parts if of == kind]
            mine = plan.schema.merge([frame for of, frame in paos.parts if of == kind])
            found = _worse(found, _compare_rows(plan.schema, mine, frames))
    except (PaoDecodeError, ArithmeticError, ValueError):
        return Outcome.UNDECIDED
    return found


def _worse(one: Outcome, other: Outcome) -> Outcome:
    order = (Outcome.SAME, Outcome.UNDECIDED, Outcome.DIFFERS)
    return max(one, other, key=order.index)


def _compare_notes(claimed: Notes, parts: Sequence[Notes]) -> Outcome:
    true = Notes()
    for part in parts:
        true += part
    if (
        max(len(true.mistyped), *(len(part.mistyped) for part in (claimed, *parts))) >= COLUMNS_MAX
        or max(true.late, true.rejected, true.lines) >= COUNT_MAX
    ):
        return Outcome.UNDECIDED
    same = totals(true.mistyped) == totals(claimed.mistyped)
    return Outcome.SAME if same and replace(true, mistyped=claimed.mistyped) == claimed else Outcome.DIFFERS


def _compare_rows(schema: PaoSchema, claimed: pl.DataFrame, frames: Sequence[pl.DataFrame]) -> Outcome:
    true = schema.merge(frames)
    keys = list(schema.addressing)
    mine, theirs = (frame.select(*schema.columns).sort(keys, nulls_last=True) for frame in (claimed, true))
    if not mine.select(keys).equals(theirs.select(keys)):
        return Outcome.DIFFERS
    unlike = [name for name in schema.states if not mine[name].equals(theirs[name], null_equal=True)]
    if not unlike:
        return Outcome.SAME
    rounded = {state for name, each in schema.aggregates if isinstance(each, _ROUNDED) for state in each.states(name)}
    vague = [
        name
        for name in unlike
        if schema.states[name] == pl.Binary or (schema.states[name] == pl.Float64 and name in rounded)
    ]
    if len(vague) < len(unlike):
        return Outcome.DIFFERS
    if any(schema.states[name] == pl.Binary for name in vague):
        return Outcome.UNDECIDED
    scales = _scales(schema, frames).sort(keys, nulls_last=True)
    found = Outcome.SAME
    for name in vague:
        apart, bound = (mine[name] - theirs[name]).abs(), ROUNDING * scales[name]
        differs = mine[name].ne_missing(theirs[name])
        if bool((differs & ~(apart.is_finite() & bound.is_finite())).any()):
            found = _worse(found, Outcome.UNDECIDED)
        elif bool((apart > bound).any()):
            found = Outcome.DIFFERS
    return found


def _scales(schema: PaoSchema, frames: Sequence[pl.DataFrame]) -> pl.DataFrame:
    """Return what each double is made of, all signs taken off, by row of the merged frame."""
    made: list[pl.Expr] = []
    for name, aggregate in schema.aggregates:
        doubles = [column for column, dtype in aggregate.states(name).items() if dtype == pl.Float64]
        size = pl.sum_horizontal([pl.col(column).abs() for column in doubles]) if doubles else pl.lit(0.0)
        if isinstance(aggregate, _MOMENTS):
            count, mean, squares = (pl.col(column) for column in aggregate.states(name))
            # What is far apart adds to the squares, and rounds with them.
            size = size + squares.abs() + 4 * count.cast(pl.Float64) * mean * mean
        made += [size.sum().alias(column) for column in doubles]
    keys = list(schema.addressing)
    return pl.concat([frame.select(*schema.columns) for frame in frames]).group_by(keys).agg(made)
