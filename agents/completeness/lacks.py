"""What results may lack, of whom, of which intervals and why: one algebra, whatever the cause. Pure.

Runs of one agent and cause are a set: who says a thing twice has said it. Gaps are of nobody in particular and are
counted, as results say how many there are; like late events they add up, and may be added once only. Nothing here makes
a result look better than it is: what is bounded or expired names at least whom it named, where anybody can still ask.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Self

import msgspec
from msgspec.structs import replace

from elf.agents.completeness.runs import FOREVER, RunsAfter, RunsFrom, bounded, minus, union, within
from elf.overlay.contract import NEVER
from elf.overlay.fields import Interval

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
    #: A commit went without it; the data may come yet.
    MISSED = "missed"
    #: Lines of somebody may have vanished unread.
    GAP = "gap"


#: What an agent has read, only not for the job: it is in its archive.
ARCHIVED = (Cause.BEGAN, Cause.VERSION)
#: What is gone for good, and known to be so only some time after.
GONE = (Cause.CRASH,)


class Lack(NamedTuple):
    """That events of the intervals [first, last] may be lacking: of an agent, or (None) of whomever."""

    agent: str | None
    first: int
    last: int
    cause: Cause


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
        return self._changed(lambda runs, cause, agent: minus(runs, come.runs(cause, agent)))

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
        return self._changed(lambda runs, cause, _: minus(runs, known) if cause in ARCHIVED else runs)

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


#: Mostly, that is all there is to say.
NOTHING = Lacks()


class LacksRecord(msgspec.Struct, frozen=True, kw_only=True):
    """What messages and disks have of lacks, in fields that agents of all releases know.

    Read by `lacks`, which is what is computed with, and written by `with_lacks`.
    """

    #: Runs of intervals, both ends included, in which lines of some agent may have vanished unread.
    gaps: RunsFrom = ()
    #: agent id -> first interval the agent has all events of; agents that read from the beginning are not listed.
    partial_before: Mapping[str, Interval] = {}
    #: agent id -> runs of intervals, (after, through], whose data a crash of it may have lost.
    lost: Mapping[str, RunsAfter] = {}

    @property
    def missed(self) -> Mapping[str, RunsAfter]:
        """Of records that say so: agent id -> runs of commits, (after, through], that went without it."""
        return {}

    @property
    def lacks(self) -> Lacks:
        """What is lacking, as far as the record says. O(agents)."""
        if not (self.gaps or self.partial_before or self.lost or self.missed):
            return NOTHING
        began = {agent: ((NEVER, first - 1),) for agent, first in self.partial_before.items()}
        return Lacks.told({Cause.BEGAN: began, Cause.CRASH: self.lost, Cause.MISSED: self.missed}, self.gaps)

    def has_past(self, oldest: int) -> bool:
        """Whether anything of it concerns only intervals up to one. O(agents), without a look at `lacks`."""
        runs = [run for agents in (self.lost, self.missed) for each in agents.values() for run in each]
        began = any(first <= oldest + 1 for first in self.partial_before.values())
        return began or any(end <= oldest for _, end in (*self.gaps, *runs))

    def with_lacks(self, lacks: Lacks, **changes: Any) -> Self:
        """Return the record with other lacks, and further changes. O(agents)."""
        began = {agent: runs[-1][1] + 1 for agent, runs in lacks.named.get(Cause.BEGAN, {}).items()}
        lost = lacks.named.get(Cause.CRASH, {})
        return replace(self, gaps=lacks.gaps, partial_before=began, lost=lost, **changes)
