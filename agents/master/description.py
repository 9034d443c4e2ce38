"""A job as its master describes it: what it is, how far it has come, and who takes part. Pure but for the master."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from elf.agents.master import backfill
from elf.agents.master.listing import summary
from elf.agents.master.master import Master
from elf.agents.master.version_decision import describe_history
from elf.agents.wire.positions import Json
from elf.agents.wire.records import JobRecord
from elf.overlay.group.state import GroupView


def describe(
    job: JobRecord, master: Master, names: Callable[[str], str], control: int, group: GroupView | None
) -> Json:
    """Describe a job.

    Args:
        job: as it is.
        master: of the job.
        names: turns an agent id into a name for people.
        control: how many entries its tree's control log has had.
        group: its root group, as far as it is known here.
    """
    definition, windows, roster = job.definition, master.windows, master.state.rollup.roster
    plan = windows.plan
    seats = group.seats if group is not None else ()
    members = [{"name": names(seat.agent), "address": seat.address, "votes": seat.votes} for seat in seats]
    return {
        **summary(job),
        "published": None if job.published is None else msgspec.to_builtins(job.published),
        "options": msgspec.to_builtins(definition.options),
        "functions": msgspec.to_builtins(definition.functions),
        "interval_ms": plan.interval_ms,
        "window": None if plan.window is None else plan.window._asdict(),
        "output": [{"name": name, "type": kind.ddl} for name, kind in plan.output],
        "keys": len(plan.grouped.keys),
        "reads_last_result": plan.iterating is not None,
        "through_ms": windows.through_ms,
        "oldest_ms": windows.oldest_ms,
        "expired_ms": windows.expired_ms,
        "agents": {agent: names(agent) for agent in sorted({*roster, *master.state.enlisted})},
        "roster": sorted(names(agent) for agent in roster),
        "retired": sorted(names(agent) for agent in master.state.rollup.retired),
        "too_late": master.state.too_late,
        "panes": windows.panes(),
        "control": control,
        "group": {"members": members, "quorate": group is not None and group.quorate},
        "versions": describe_history(job, master.versions, master.state.begins),
        "backfill": backfill.describe(master.versions, master.state, job.instance, names),
    }
