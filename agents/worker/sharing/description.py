"""Which jobs share what with one at an agent, told from their workers there. Pure; may be asked for by any thread."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from elf.agents.jobs.plan import Plan
from elf.agents.language.types import SqlType
from elf.agents.worker.sharing.mapping import mapped_as
from elf.agents.worker.sharing.parse import parsings
from elf.agents.worker.worker import Worker

Json = dict[str, Any]
#: Jobs that are named of those that share something.
JOBS_MAX = 100


def sharing_of(plan: Plan, workers: Sequence[Worker], anyway: Mapping[str, SqlType]) -> Json:
    """Tell what a job shares.

    Args:
        plan: the job's newest.
        workers: all that are fed from its source, its own among them, if it has any here.
        anyway: columns that are parsed whatever jobs there are.

    Returns:
        `parsing` (jobs for which lines are parsed together with its own), `filtering`, `paos` (jobs whose PAOs are made
        together with its own), `trees` (jobs that hold some buffer tree of an open interval together with it at this
        moment): each `{"jobs" (names), "count"}`; and `own_columns`, which are parsed for it alone. Jobs that are
        paused, or stopped, share nothing.
    """
    own = [each for each in workers if each.plan.definition.first == plan.definition.first]
    others = [each for each in workers if each not in own and not each.versions.newest.version.is_paused]
    held = {tree for worker in own for tree in worker.open.trees()}
    ways = parsings(anyway, [*(each for worker in workers for each in worker.plans), plan])
    way = next(each for each in ways if each.is_for(plan))
    parsed = [each for each in others if way.is_for(each.plan)]
    read = (set(anyway) if way is ways[0] else set()).union(*(each.plan.columns for each in parsed))
    filtered, mapped = plan.filter_key, mapped_as(plan)
    return {
        "parsing": _listed(parsed),
        "filtering": _listed(each for each in others if filtered is not None and each.plan.filter_key == filtered),
        "paos": _listed(each for each in others if mapped_as(each.plan) == mapped),
        "trees": _listed(each for each in others if not held.isdisjoint(each.open.trees())),
        "own_columns": sorted(plan.columns.keys() - read),
    }


def _listed(workers: Iterable[Worker]) -> Json:
    names = sorted({each.plan.definition.first.key for each in workers})
    return {"jobs": names[:JOBS_MAX], "count": len(names)}
