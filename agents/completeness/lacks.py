"""What results may lack, of whom, of which intervals and why: one algebra, whatever the cause. Pure.

Runs of one agent and cause are a set: who says a thing twice has said it. Gaps are of nobody in particular and are
counted, as results say how many there are; like late events they add up, and may be added once only. Nothing here makes
a result look better than it is: what is bounded or expired names at least whom it named, where anybody can still ask.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from elf.agents.completeness.runs import FOREVER, RunsAfter, RunsFrom, bounded, minus, union, within
from elf.overlay.contract import NEVER

#: Runs remembered of one agent and cause, and gaps; of more, the oldest become one that spans them.
RUNS_MAX = 256
GAPS_MAX = 1_000


class Cause(enum.Enum):
    """Why something is lacking: an agent has not, or not all, of what it logged in some intervals."""

    #: It had read on when it heard of the job.
    BEGAN = "began"
    #: It heard of a version of the job after that had begun.
    VERSION = "version"
    #: A crash of it may have lost the data.
    CRASH = "crash"
    #: A commit went without it.
    MISSED = "missed"
    #: Lines of somebody may have vanished unread.
    GAP = "gap"

    @property
    def is_archived(self) -> bool:
        """Whether the events are in the agent's archive: it has read them, only not for the job."""
        return self in (Cause.BEGAN, Cause.VERSION)


class Lack(NamedTuple):
    """That events of the intervals [first, last] may be lacking: of an agent, or (None) of whomever."""

    agent: str | None
    first: int
    last: int
    cause: Cause

    @property
    def may_come(self) -> bool:
        """Whether the agent has the data still, and brings it by itself."""
        return self.cause is Cause.MISSED


@dataclass(frozen=True, slots=True)
class Lacks:
    """Some lacks.

    Attributes:
        named: cause -> agent -> what it lacks; none of them empty.
        gaps: ascending.
    """

    named: Mapping[Cause, Mapping[str, RunsAfter]] = field(default_factory=dict)
    gaps: RunsFrom = ()

    @classmethod
    def of(cls, lacks: Iterable[Lack]) -> Lacks:
        """Collect lacks, in whatever order. O(lacks log lacks)."""
        named: dict[Cause, dict[str, RunsAfter]] = {}
        gaps: list[tuple[int, int]] = []
        for agent, first, last, cause in lacks:
            if agent is None:
                gaps.append((first, last))
            else:
                agents = named.setdefault(cause, {})
                agents[agent] = (*agents.get(agent, ()), (first - 1, last))
        return cls.told(named, tuple(gaps))

    @classmethod
    def told(cls, named: Mapping[Cause, Mapping[str, RunsAfter]], gaps: RunsFrom = ()) -> Lacks:
        """Collect lacks as records have them, in whatever order. O(lacks log lacks)."""
        return cls(named, tuple(sorted(gaps)))._changed(lambda runs, *_: union(runs))

    def __bool__(self) -> bool:
        return bool(self.named or self.gaps)

    def __iter__(self) -> Iterator[Lack]:
        for cause, agents in self.named.items():
            for agent, runs in agents.items():
                yield from (Lack(agent, after + 1, through, cause) for after, through in runs)
        yield from (Lack(None, first, last, Cause.GAP) for first, last in self.gaps)

    @property
    def agents(self) -> frozenset[str]:
        """Those who lack something."""
        return frozenset(agent for agents in self.named.values() for agent in agents)

    def runs(self, cause: Cause, agent: str) -> RunsAfter:
        """Return what an agent lacks for one cause."""
        return self.named.get(cause, {}).get(agent, ())

    def __or__(self, other: Lacks) -> Lacks:
        """Return what these or the others lack; gaps of both are counted. O(agents of both)."""
        if not other or not self:
            return self or other
        named = dict(self.named)
        for cause, agents in other.named.items():
            known = named.get(cause, {})
            named[cause] = {**known, **{agent: union(known.get(agent, ()), runs) for agent, runs in agents.items()}}
        return Lacks(named, tuple(sorted((*self.gaps, *other.gaps))))

    def __sub__(self, come: Lacks) -> Lacks:
        """Return what is lacking still when something has come, each agent's for the same cause. Gaps stay."""
        return self._changed(lambda runs, cause, agent: minus(runs, come.runs(cause, agent))) if come else self

    def only(self, *causes: Cause) -> Lacks:
        """Return what is lacking of named agents for some causes."""
        return Lacks({cause: agents for cause, agents in self.named.items() if cause in causes})

    def by(self, agents: Collection[str]) -> Lacks:
        """Return what is lacking of some agents, and all gaps."""
        return self._changed(lambda runs, _, agent: runs if agent in agents else ())

    def within(self, first: int, last: int = FOREVER) -> Lacks:
        """Return what is lacking of the intervals [first, last]; gaps that reach into them are whole."""
        gaps = tuple(gap for gap in self.gaps if gap[0] <= last and gap[1] >= first)
        return Lacks(self._changed(lambda runs, *_: within(runs, first - 1, last)).named, gaps)

    def filled(self, known: RunsAfter) -> Lacks:
        """Return what is lacking still when the archives have been asked for some intervals."""
        return self._changed(lambda runs, cause, _: minus(runs, known) if cause.is_archived else runs)

    def expired(self, oldest: int) -> Lacks:
        """Forget what concerns only intervals up to one, of which nobody can be told any more."""
        return self.within(oldest + 1) if oldest > NEVER else self

    def bounded(self) -> Lacks:
        """Return lacks of a bounded size, which say as much and perhaps more."""
        return Lacks(self._changed(lambda runs, *_: bounded(runs, RUNS_MAX)).named, bounded(self.gaps, GAPS_MAX))

    def _changed(self, change: Callable[[RunsAfter, Cause, str], RunsAfter]) -> Lacks:
        """Change the runs of each agent and cause; what is empty then is forgotten."""
        named: dict[Cause, Mapping[str, RunsAfter]] = {}
        for cause, agents in self.named.items():
            left = {agent: left for agent, runs in agents.items() if (left := change(runs, cause, agent))}
            if left:
                named[cause] = left
        return Lacks(named, self.gaps)
