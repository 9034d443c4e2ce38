"""What a job's past lacks after damage to its disk, and the labels that say so in place of those that are gone. Pure.

Commits follow each other without gaps, so do their labels: a run of commits that no label speaks of was lost.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence

from elf.agents.completeness.label import Label
from elf.agents.completeness.runs import minus, union


def holes(labels: Sequence[Label], expired: int, committed: int) -> list[tuple[int, int]]:
    """Return the runs of commits, (after, through], that no label speaks of.

    Args:
        labels: what there is, ascending.
        expired: up to here nothing is retained any more.
        committed: the last interval committed; NEVER before the first.
    """
    known = union(tuple((label.previous, label.through) for label in labels))
    return [*minus(union(((expired, committed),)), known)]


def stand_ins(hole: tuple[int, int], keys: Iterable[int], expected: int) -> Iterator[Label]:
    """Yield labels for a hole, one for each pane in it whose rows there may still be, and one for what is left.

    Args:
        hole: as `holes` returns it.
        keys: of all panes.
        expected: agents that such a commit should have had.
    """
    after, through = hole
    ends = sorted({key for key in keys if after < key < through} | {through})
    for previous, end in itertools.pairwise([after, *ends]):
        yield Label(previous, end, expected, damaged=1)
