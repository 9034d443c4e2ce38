"""Lacks as messages and disks have them: the fields that agents of all releases know. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

import msgspec
from msgspec.structs import replace

from elf.agents.completeness.lacks import Cause, Lacks
from elf.agents.completeness.runs import RunsAfter, RunsFrom
from elf.overlay.contract import NEVER
from elf.overlay.fields import Interval

#: Mostly, that is all there is to say.
NOTHING = Lacks()


class LacksRecord(msgspec.Struct, frozen=True, kw_only=True):
    """What a record says of lacks: `lacks` is what is computed with, `with_lacks` what writes it."""

    #: Runs of intervals, both ends included, in which lines of some agent may have vanished unread.
    gaps: RunsFrom = ()
    #: agent id -> first interval the agent has all events of; agents that read from the beginning are not listed.
    partial_before: Mapping[str, Interval] = {}
    #: agent id -> runs of intervals, (after, through], whose data a crash of it may have lost.
    lost: Mapping[str, RunsAfter] = {}

    @property
    def lacks(self) -> Lacks:
        """What is lacking, as far as the record says. O(agents)."""
        if not (self.gaps or self.partial_before or self.lost or self.missed):
            return NOTHING
        began = {agent: ((NEVER, first - 1),) for agent, first in self.partial_before.items()}
        return Lacks.told({Cause.BEGAN: began, Cause.CRASH: self.lost, Cause.MISSED: self.missed}, self.gaps)

    @property
    def missed(self) -> Mapping[str, RunsAfter]:
        """Of records that say so: agent id -> runs of commits, (after, through], that went without it."""
        return {}

    def with_lacks(self, lacks: Lacks, **changes: Any) -> Self:
        """Return the record with other lacks, and further changes. O(agents)."""
        began = lacks.named.get(Cause.BEGAN, {})
        return replace(
            self,
            gaps=lacks.gaps,
            partial_before={agent: runs[-1][1] + 1 for agent, runs in began.items()},
            lost=lacks.named.get(Cause.CRASH, {}),
            **changes,
        )
