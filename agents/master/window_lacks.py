"""What a window lacks, of what a master remembers of its agents. Pure."""

from __future__ import annotations

from elf.agents.completeness.lacks import ARCHIVED, GONE, Lacks
from elf.agents.completeness.runs import FOREVER, RunsAfter, within
from elf.agents.jobs.versions import Version, Versions
from elf.agents.master.backfill import with_pauses
from elf.agents.master.state import MasterState
from elf.agents.master.version_uptake import begun, taking_part


def archived(state: MasterState, version: Version) -> RunsAfter:
    """Return the intervals of a version's windows that were computed from the agents' archives.

    What was loaded into a former version's windows is in none of this one's.
    """
    return within(state.archived, version.begins - 1, FOREVER)


def lacks_of_window(state: MasterState, versions: Versions, version: Version, first: int, last: int | None) -> Lacks:
    """Return what a window lacks beside what the labels of its panes say.

    Args:
        state: the master's.
        versions: of the job.
        version: the one that counts the window.
        first: its first interval.
        last: its last one; None: all there are.
    """
    roster, retired, enlisted = state.rollup.roster, state.rollup.retired, state.enlisted.values()
    until = FOREVER if last is None else last
    known = state.lacks
    inside = known.within(first, until)
    began = inside.only(*ARCHIVED)
    if last is None:
        # A window of which an agent had not all is no more whole once that agent has left; a total expects it no more.
        began = began.by(roster)
    lost = {old: entry.counted for entry in enlisted if entry.counted is not None for old in entry.of}
    agents = taking_part(roster, {agent: entry.until for agent, entry in retired.items()}, lost)
    through = state.rollup.committed if last is None else last
    began |= Lacks.of(begun(state.since, agents, versions, first, through)).within(first, until)
    # Of pauses nobody lacks anything.
    whole = within(with_pauses(archived(state, version), versions), version.begins - 1, FOREVER)
    # What a job without a window has lost in whatever version, it is told of.
    return began.filled(whole) | (known if last is None else inside).only(*GONE)
