"""Which commits each agent was missing from and has not brought its data of, so that a label names it until then. Pure.

A pane may span several commits: all of a job without a window, or a run of empty ones. An agent that missed two of them
may bring the data of the later one first, so its name stays until nothing of the pane is owed any more.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from msgspec.structs import replace

from elf.agents.master.panes.labels import Labels
from elf.agents.master.panes.past import Change
from elf.agents.master.results import Label
from elf.agents.master.state import MasterState
from elf.agents.worker.payload import Notes
from elf.agents.worker.runs import RunsAfter, in_runs_from
from elf.overlay.contract import Commit

#: Runs remembered of one agent; of more, the oldest become one that spans them: pessimistic, not wrong.
RUNS_MAX = 256

#: agent id -> runs of intervals, (after, through], ascending and apart.
Owing = Mapping[str, RunsAfter]


def settled(
    labels: Labels, notes: Notes, change: Change, state: MasterState, commit: Commit, total: int | None
) -> MasterState:
    """Strike agents, and lost ones whose logs are theirs now, off the names of commits whose data comes with this one.

    Args:
        labels: of the panes before this commit.
        notes: the commit's, which say what comes.
        change: takes the labels that change.
        state: the master's, without what this commit lacks itself.
        commit: this one.
        total: key of the only pane of a job without a window; None: it has one.
    """
    owing, enlisted = with_missing(state.owing, commit), state.enlisted
    for agent, runs in notes.settles.items():
        at = enlisted[agent].address if agent in enlisted else ""
        names = [agent, *(old for old, known in enlisted.items() if known.lost and known.address == at)]
        owing = without(owing, names, runs)
        for after, through in runs:
            for key in list(labels.holding(after + 1, through)) if total is None else labels.between(total, total):
                # The rows of agents count in neither of these.
                if key in change.extended or in_runs_from(state.backfilled, key):
                    continue
                label = change.labels.get(key) or labels[key]
                for name in label.missing:
                    if name in names and not is_owed(owing, name, label):
                        change.labels[key] = label = label.found(name)
    return replace(state, owing=owing)


def with_missing(owing: Owing, commit: Commit) -> Owing:
    """Note whom a commit lacks. O(missing)."""
    owed = {agent: _added(owing.get(agent, ()), commit.previous, commit.through) for agent in commit.missing}
    return {**owing, **owed}


def without(owing: Owing, agents: Collection[str], runs: RunsAfter) -> Owing:
    """Note that the data of some runs has come, of agents of which one brings what others, lost ones, owed."""
    left = {agent: _subtracted(owing[agent], runs) for agent in agents if agent in owing}
    return {agent: rest for agent, rest in {**owing, **left}.items() if rest}


def without_expired(owing: Owing, oldest: int) -> Owing:
    """Forget what concerns only intervals up to `oldest`, which are no longer retained."""
    kept = {agent: tuple(run for run in runs if run[1] > oldest) for agent, runs in owing.items()}
    return {agent: runs for agent, runs in kept.items() if runs}


def is_owed(owing: Owing, agent: str, label: Label) -> bool:
    """Tell whether an agent has still to bring something of a pane."""
    return any(after < label.through and through > label.previous for after, through in owing.get(agent, ()))


def _added(runs: RunsAfter, after: int, through: int) -> RunsAfter:
    if runs and runs[-1][1] == after:
        return (*runs[:-1], (runs[-1][0], through))
    extra = len(runs) + 1 - RUNS_MAX
    joined = ((runs[0][0], runs[extra][1]), *runs[extra + 1 :]) if extra > 0 else runs
    return (*joined, (after, through))


def _subtracted(runs: RunsAfter, others: Sequence[tuple[int, int]]) -> RunsAfter:
    for first, last in others:
        parts = [((after, min(through, first)), (max(after, last), through)) for after, through in runs]
        runs = tuple(part for pair in parts for part in pair if part[0] < part[1])
    return runs
