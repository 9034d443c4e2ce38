"""What lines are parsed to: mostly once for all jobs of a source; once more where jobs have other types of a column.

A job has the types that its publisher declared, or that the source's lines showed then: a column of whole numbers may
have fractions for a job that is published later. What a job computes must not depend on which others there are.
Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from elf.agents.jobs.plan import Plan
from elf.agents.language.types import SqlType


class Parsing(NamedTuple):
    """One way to parse the lines of a source.

    Attributes:
        columns: name -> type.
        earlier: columns of the ways that come before it.
    """

    columns: Mapping[str, SqlType]
    earlier: Sequence[Mapping[str, SqlType]] = ()

    def is_for(self, plan: Plan) -> bool:
        """Whether a plan's events are parsed so; of several ways that would do, it is the first."""
        return _has(self.columns, plan) and not any(_has(columns, plan) for columns in self.earlier)


def parsings(anyway: Mapping[str, SqlType], plans: Iterable[Plan]) -> list[Parsing]:
    """Return the ways to parse lines that plans need, at least one; each plan's is one of them.

    Args:
        anyway: columns that are parsed in the first way whatever plans there are.
        plans: of all that may want events.
    """
    ways = [dict(anyway)]
    for plan in plans:
        for columns in ways:
            if all(columns.get(name, kind) == kind for name, kind in plan.columns.items()):
                columns.update(plan.columns)
                break
        else:
            ways.append(dict(plan.columns))
    return [Parsing(columns, ways[:at]) for at, columns in enumerate(ways)]


def _has(columns: Mapping[str, SqlType], plan: Plan) -> bool:
    return plan.columns.items() <= columns.items()
