"""The versions of a simulated job: which one counts each interval, and who has not taken it up in time. Pure.

The counterpart of `versions`, `deciding` and `uptake` in `agents`, with a number for a definition: rows of two kinds
cannot be added up, and a kind has the number of the version that began it. DESIGN section 7; OVERLAY 6.3.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Mapping, Sequence
from typing import Literal, TypeAlias

import msgspec

from elf.overlay.contract import NEVER

#: Agents have so many whole intervals' time to hear of a version, and the rest of the one that runs.
AHEAD = 2
#: An update has rows of another kind; a touch only the master does something else with; a reset empties windows.
What: TypeAlias = Literal["publish", "update", "touch", "reset"]


class Version(msgspec.Struct, frozen=True, kw_only=True):
    """One version of a job.

    Attributes:
        number: rising by one.
        what: what made it.
        since: the first interval counted by it.
        begins: the first interval of its windows.
        kind: of its rows; the number of the version that they began with.
        made_ms: when.
        asked: the question that it answers.
        body: what agents need of it besides, as a function.
    """

    number: int = 0
    what: What = "publish"
    since: int = NEVER
    begins: int = NEVER
    kind: int = 0
    made_ms: int = 0
    asked: str = ""
    body: bytes = b""

    @property
    def is_told(self) -> bool:
        """Whether agents have to say from which interval on they count by it."""
        return self.kind == self.number and self.since != NEVER


#: As a job was published.
FIRST = (Version(),)
#: Version -> agent -> first interval of which the agent counts everything by it.
Since: TypeAlias = Mapping[int, Mapping[str, int]]


def next_version(versions: Sequence[Version], what: What, asked: str, now: int, now_ms: int) -> Version:
    """Return a version as its master proposes it, effective two boundaries ahead of the interval `now`."""
    newest = versions[-1]
    number, since = newest.number + 1, max(now + AHEAD, newest.since)
    if what == "touch":
        return Version(
            number=number,
            what=what,
            since=since,
            begins=newest.begins,
            kind=newest.kind,
            made_ms=now_ms,
            asked=asked,
            body=newest.body,
        )
    return Version(number=number, what=what, since=since, begins=since, kind=number, made_ms=now_ms, asked=asked)


def with_version(versions: tuple[Version, ...], version: Version, committed: int) -> tuple[Version, ...] | None:
    """Return the versions with the next one, as every copy does; None if another one has taken its number.

    `committed`: the last interval committed, which it is too late to change.
    """
    newest = versions[-1]
    if version.number != newest.number + 1:
        return None
    since = max(version.since, newest.since, earliest(committed))
    begins = since if version.kind == version.number else newest.begins
    return (*versions, msgspec.structs.replace(version, since=since, begins=begins))


def earliest(committed: int) -> int:
    """Return the first interval that may still get another version."""
    return committed + 1 if committed != NEVER else NEVER


def version_at(versions: Sequence[Version], interval: int) -> Version:
    """Return the version that counts an interval: of those that began by then the last."""
    return next((each for each in reversed(versions) if each.since <= interval), versions[0])


def counts(versions: Sequence[Version], kind: int, interval: int) -> bool:
    """Tell whether rows of a kind are what an interval is counted by."""
    return version_at(versions, interval).kind == kind


def boundaries(versions: Sequence[Version], after: int, through: int) -> list[int]:
    """Return the first intervals of versions within (after + 1, through], ascending."""
    return sorted({each.since for each in versions if after + 1 < each.since <= through})


def turns(versions: Sequence[Version], after: int, through: int) -> list[int]:
    """Return where windows begin anew within a run of intervals, (after, through], ascending."""
    ends = [*(first - 1 for first in boundaries(versions, after, through)), through]
    begins = [version_at(versions, after).begins, *(version_at(versions, end).begins for end in ends)]
    return [later for earlier, later in itertools.pairwise(begins) if later != earlier]


def late(versions: Sequence[Version], since: Since, agents: Collection[str], interval: int) -> set[str]:
    """Return the agents whose rows of an interval may be of another kind than it is counted by, or were left out.

    Of the first kind nobody tells. Of any other whoever has not told yet is late: nobody knows.
    """
    kind = version_at(versions, interval).kind
    told = since.get(kind, {})
    return {agent for agent in agents if told.get(agent, interval + 1) > interval} if kind else set()


def taken_up(since: Mapping[int, int], old: Version, versions: Sequence[Version], unread: int | None) -> dict[int, int]:
    """Return since when an agent counts by which version, once it has heard of more.

    Args:
        since: what it has to tell already.
        old: the newest that it knew.
        versions: all it knows now.
        unread: the first interval of which it has read nothing; None: it has read nothing at all.
    """
    new = [each for each in versions if each.number > old.number and each.is_told]
    return {**since, **{each.number: each.since if unread is None else max(each.since, unread) for each in new}}
