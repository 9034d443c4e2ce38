"""A result put together from the shares of all parts of a job, before it is rendered for people. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec
import polars as pl

from elf.agents.completeness.label import Label, join_trees
from elf.agents.errors import UnavailableError
from elf.agents.jobs.definition import Definition
from elf.agents.jobs.plan import Plan
from elf.agents.master.results import Json, Span, result_of
from elf.agents.results.shares import Shared, least_through, shape_of, unpack_rows


class Gathered(msgspec.Struct, frozen=True, kw_only=True):
    """Rows, and what their label is made of.

    Attributes:
        key: the job as people write it.
        plan: of the version of the job that the window is counted by.
        span: the window; None for a job without.
        rows: sorted and limited as the query says.
        label: of all parts together.
        gaps: that touch the window.
        through_ms: how far all parts have come; None where one has not begun.
        names: agent id -> name, of those that are missing.
        master: address of part 0's.
    """

    key: str
    plan: Plan
    span: Span | None
    rows: pl.DataFrame
    label: Label
    gaps: int
    through_ms: int | None
    names: Mapping[str, str]
    master: str

    @classmethod
    def of(cls, plan: Plan, shares: Sequence[Shared], limit: int | None) -> Gathered:
        """Put shares of one window together; UnavailableError where their rows are none of the plan."""
        # The first one always has some; another one that has no columns counts the window by another version.
        having, shape = [shares[0], *(each for each in shares[1:] if each.columns)], shape_of(plan)
        return cls(
            key=f"{plan.definition.creator}/{plan.definition.name}",
            plan=plan,
            span=shares[0].span,
            rows=plan.join([unpack_rows(each.columns, shape) for each in having], limit),
            label=join_trees([each.label for each in shares]),
            gaps=max(each.gaps for each in shares),
            through_ms=least_through([each.through_ms for each in shares]),
            names={agent: name for each in shares for agent, name in each.names.items()},
            master=shares[0].job.master.address,
        )

    def render(self) -> Json:
        """Return the result as the API has it."""
        result = result_of(self.plan, self.span, self.rows, self.label, self.gaps, self.through_ms, self._name)
        body: Json = msgspec.to_builtins(result)
        return {"job": self.key, **body, "master": self.master}

    def completeness(self) -> Json:
        """Return the label as the API has it."""
        none = self.rows.clear()
        return result_of(self.plan, self.span, none, self.label, self.gaps, self.through_ms, self._name).completeness

    def _name(self, agent: str) -> str:
        return self.names.get(agent, agent)


def definition_of(shared: Shared) -> Definition:
    """Return the definition of the version that a share is of; UnavailableError where its job has none such."""
    found = (each.definition for each in shared.job.history if each.number == shared.version)
    definition = next(found, None)
    if definition is None:
        raise UnavailableError(f"another agent sent a share of a version that {shared.job.definition.key} never had")
    return definition
