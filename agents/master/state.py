"""What a job's master must remember besides its panes. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import msgspec
from msgspec.structs import replace

from elf.agents.completeness.label import Label
from elf.agents.completeness.lacks import Cause, Lacks, LacksRecord
from elf.agents.completeness.runs import RunsAfter, RunsFrom, after
from elf.agents.master.commands import Enlisted
from elf.overlay.contract import NEVER, RollupState, RosterEntry
from elf.overlay.group.messages import Place, Seat
from elf.overlay.interning import TEXT_CHARS_MAX, interned, interned_text, share_nothing


class Base(msgspec.Struct, frozen=True, kw_only=True):
    """The result that all later ones follow from, of a job that reads its last one; its rows lie beside.

    Attributes:
        end_ms: when its window ended.
        begins: first interval of the windows of the version that counts it.
        label: of all panes since then that are no longer retained; None: of none.
        lacks: what else it may lack: gaps that are forgotten, late data that it was too late for, rows lost on a disk.
        failed: why there are no rows; "": there are.
    """

    end_ms: int
    begins: int = NEVER
    label: Label | None = None
    lacks: int = 0
    failed: str = ""

    def lacking(self, count: int) -> Base:
        """Count more that it may lack."""
        return replace(self, lacks=self.lacks + count)


class MasterState(LacksRecord, frozen=True, kw_only=True):
    """What a master must remember besides its panes."""

    rollup: RollupState = RollupState()
    enlisted: Mapping[str, Enlisted] = {}
    #: Agents being retired -> last interval whose commit still has them on its roster.
    retiring: Mapping[str, int] = {}
    #: Since when agents count by which version of the job.
    since: Mapping[int, Mapping[str, int]] = {}
    #: agent id -> runs of commits, (after, through], that name it as missing and whose data it has not brought.
    owing: Mapping[str, RunsAfter] = {}
    #: Late rows (keys, not events) whose pane is no longer retained: they are in no result.
    too_late: int = 0
    #: Newest interval that has rows; what is retained is counted back from here, so old logs can be read in, too.
    newest: int = NEVER
    #: Panes up to this interval are no longer retained.
    expired: int = NEVER
    #: Runs of intervals, both ends included, computed from the agents' archives; no rows of agents are in them.
    backfilled: RunsFrom = ()
    #: Of a job that reads its last result: the first interval of its windows; and what all later ones follow from.
    begins: int = NEVER
    base: Base | None = None
    #: What the job's application keeps for the next master, encoded; None: nothing.
    kept: bytes | None = None
    #: Rises with every commit; followers compare it.
    edition: int = 0
    #: The place of the root group's last entry that all this is made of, and the group's members as of it.
    applied: Place = Place(1, 1)
    seats: tuple[Seat, ...] = ()
    #: The job is stopped, and nothing of it is needed any more.
    ended: bool = False

    def __post_init__(self) -> None:
        share_nothing(self, "enlisted", "retiring", "partial_before", "since", "lost", "owing")

    @property
    def archived(self) -> RunsAfter:
        """The intervals that were computed from the agents' archives; see `backfilled`."""
        return after(self.backfilled)

    @property
    def missed(self) -> Mapping[str, RunsAfter]:
        """What each agent was missing from and has not brought; see `owing`."""
        return self.owing

    def with_lacks(self, lacks: Lacks, **changes: Any) -> MasterState:
        """Return the state with other lacks, and further changes. O(agents)."""
        return super().with_lacks(lacks, owing=lacks.named.get(Cause.MISSED, {}), **changes)


def restored(state: bytes | None) -> MasterState:
    """Return the state that a store had, None: that of a new job."""
    if not state:
        return MasterState()
    known = msgspec.msgpack.decode(state, type=MasterState)
    enlisted = {interned_text(agent): _alike(entry) for agent, entry in known.enlisted.items()}
    rollup = with_interned_roster(known.rollup)
    return replace(known, rollup=rollup, enlisted=enlisted, seats=tuple(map(interned, known.seats)))


def with_interned_roster(state: RollupState) -> RollupState:
    """Return an equal state: what most jobs say of an agent is the same, and is had once."""
    return replace(state, roster={interned_text(agent): _on_roster(entry) for agent, entry in state.roster.items()})


def _on_roster(entry: RosterEntry) -> RosterEntry:
    return entry if entry.absences else interned(entry)


def _alike(entry: Enlisted) -> Enlisted:
    return entry if entry.of or len(entry.address) > TEXT_CHARS_MAX else interned(entry)


def with_enlisted(state: MasterState, agent: str, entry: Enlisted, lost: Collection[str]) -> MasterState:
    """Return the state with one more agent that works on the job, and those that are `lost` as such."""
    known = {old: replace(was, lost=True) if old in lost else was for old, was in state.enlisted.items()}
    return replace(state, enlisted={**known, interned_text(agent): _alike(entry)})
