"""The versions of a published job: which definition each interval is counted by. Pure.

A change of a running job is effective at the boundary of an interval, the same one on all agents, so no interval ever
mixes two versions (DESIGN section 7; OVERLAY 6.3, "Spec/reset"). PAOs of two versions are the same where only what the
master does with them differs: HAVING, ORDER BY, LIMIT, the window, how long one waits. Else windows begin anew with the
version, for there is nothing that both kinds of PAOs add up to: `pao_kind` tells them apart. A version may also have
longer or shorter intervals; where it begins, one of either length does, and numbers go on.
"""

from __future__ import annotations

import bisect
import functools
import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Literal, NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt
import polars as pl
from msgspec.structs import replace

from elf.agents.errors import JobSpecError
from elf.agents.jobs.definition import Definition, check_definition
from elf.agents.jobs.halves import interval_of
from elf.agents.jobs.orders import Order
from elf.agents.jobs.plan import Plan, compile_job
from elf.agents.language.durations import duration, rough_duration
from elf.agents.language.own_functions import Admits
from elf.overlay.contract import NEVER

#: What made a version; the first one was published.
What = Literal["publish", "update", "rollback", "reset", "pause", "resume", "stop"]
#: Versions that a job remembers; of more, the oldest is forgotten, with its windows.
VERSIONS_MAX = 32
#: Why a job was stopped, in a sentence.
WHY_CHARS_MAX = 500
#: Intervals of one length follow those of another where both begin: at least so often, or as often as the longer ones.
COMMON_MS_MAX = 600_000
#: After every interval.
ALWAYS = -NEVER
#: The last second of the year 9999: a later one has no date.
ENDS_MS_MAX = 253_402_300_799_000
Interval = Annotated[int, msgspec.Meta(ge=NEVER, le=-NEVER)]
#: Which kind of PAOs: the number of the version since which a job has these; 0: since it was published.
PaoKind = Annotated[int, msgspec.Meta(ge=0, le=1 << 53)]


class Version(msgspec.Struct, frozen=True, kw_only=True):
    """One version of a job.

    Attributes:
        number: `definition.version`, rising.
        definition: the job as of this version.
        what: what made it.
        since: the first interval counted by it; NEVER: all before the next version's.
        begins: the first interval of its windows; those before have PAOs of another kind, or were reset, or lack too
            much of what agents had read by then (`Versions.beginning`).
        pao_kind: of which kind its PAOs are; `states` on the wire and on disk.
        made_ms: when.
        token: of the request that it was made for.
        ends_ms: of a stop, and of nothing else: the time of day when the job ends for good, unless it is resumed.
        why: of a stop that no person asked for: what is wrong with the job.
        order: of the job's creator, who has a key.
    """

    number: Annotated[int, msgspec.Meta(ge=0, le=1 << 53)]
    definition: Definition
    what: What = "publish"
    since: Interval = NEVER
    begins: Interval = NEVER
    pao_kind: PaoKind = msgspec.field(default=0, name="states")
    #: A job's record is stamped with it: no record has a later one than dates go.
    made_ms: Annotated[int, msgspec.Meta(ge=0, le=ENDS_MS_MAX)] = 0
    token: Annotated[str, msgspec.Meta(max_length=64)] = ""
    ends_ms: Annotated[int, msgspec.Meta(ge=0, le=ENDS_MS_MAX)] | None = None
    why: Annotated[str, msgspec.Meta(max_length=WHY_CHARS_MAX)] = ""
    order: Order | None = None

    def __post_init__(self) -> None:
        if (self.ends_ms is None) == self.is_stopped:
            raise ValueError("a stop has a time when it cannot be undone any more, and nothing else has")

    @property
    def is_paused(self) -> bool:
        """Whether its intervals count nothing: in a pause, and while the job is stopped."""
        return self.what in ("pause", "stop")

    @property
    def is_stopped(self) -> bool:
        """Whether the job is stopped with it: nothing goes on, but it may be resumed."""
        return self.what == "stop"

    @property
    def is_told(self) -> bool:
        """Whether agents have to say from which interval on they count by it: what they did before is of no use."""
        return self.since != NEVER and (self.pao_kind == self.number or self.what == "resume")


def check_versions(newest: Definition, versions: Sequence[Version]) -> None:
    """Refuse versions that a peer says a job has, of which `newest` is the last definition; none is right, too.

    Raises:
        ValueError: they are out of order, or of another job.
    """
    if not versions:
        return
    for version in versions:
        try:
            check_definition(version.definition)
        except JobSpecError as error:
            raise ValueError(f"a version has no definition: {error}") from None
        key = version.definition.app_id, version.definition.source, version.definition.version
        if key != (newest.app_id, newest.source, version.number) or not version.since >= version.begins:
            raise ValueError("a version is of another job, or counts what is before it")
    if versions[-1].definition != newest:
        raise ValueError("the newest version is not the job's definition")
    for before, after in itertools.pairwise(versions):
        if not (before.number < after.number and before.since <= after.since and before.begins <= after.begins):
            raise ValueError("the versions are out of order")
        if after.pao_kind not in (before.pao_kind, after.number):
            raise ValueError("a version has PAOs of a kind that is neither its own nor that of the version before")


class Compiled(NamedTuple):
    """A version and its plan."""

    version: Version
    plan: Plan


class VersionRun(NamedTuple):
    """The intervals, both ends included, that a version counts; there is at least one."""

    first: int
    last: int
    version: Version
    plan: Plan

    @property
    def span_ms(self) -> tuple[int, int]:
        """The event time of its intervals, half-open."""
        numbering = self.plan.numbering
        start_ms = NEVER if self.first == NEVER else numbering.start_ms(self.first)
        return start_ms, ALWAYS if self.last == ALWAYS - 1 else numbering.start_ms(self.last + 1)


class Versions:
    """The versions of one publication, compiled; at least one, ascending by number and first interval."""

    def __init__(self, compiled: Sequence[Compiled]) -> None:
        self.all = tuple(compiled)
        self._since = tuple(each.version.since for each in self.all)
        #: The event times at which they begin.
        self._since_ms = tuple(
            NEVER if version.since == NEVER else plan.numbering.start_ms(version.since) for version, plan in self.all
        )

    @classmethod
    def of(cls, job: Plan | Versions) -> Versions:
        """Return the versions of a job that was never changed, or those that are given."""
        if isinstance(job, Versions):
            return job
        return cls([Compiled(Version(number=job.definition.version, definition=job.definition), job)])

    @property
    def newest(self) -> Compiled:
        """The last one made; its intervals may not have begun."""
        return self.all[-1]

    def at(self, interval: int) -> Compiled:
        """Return the version that counts an interval; of one before all that are remembered, the oldest of these."""
        return self.all[max(0, bisect.bisect_right(self._since, interval) - 1)]

    def number(self, at_ms: int) -> int:
        """Return the interval that an event time lies in."""
        return self.all[max(0, bisect.bisect_right(self._since_ms, at_ms) - 1)].plan.numbering.number(at_ms)

    def within(self, start_ms: int, end_ms: int) -> tuple[int, int]:
        """Return the first and the last interval of a window, half-open."""
        return self.number(start_ms), self.number(end_ms - 1)

    def start_ms(self, interval: int) -> int:
        """Return the event time that an interval begins at."""
        return self.at(interval).plan.numbering.start_ms(interval)

    def end_ms(self, interval: int) -> int:
        """Return the event time that an interval ends at."""
        return self.at(interval).plan.numbering.start_ms(interval + 1)

    def renumbered(self, after: int) -> int:
        """Return the first interval that a version later than number `after` numbers otherwise than that; else never.

        If that one is forgotten, nobody knows how it numbered them: all that are remembered.
        """
        known = self.numbered(after)
        later = (each for each in self.all if each.version.number > after)
        others = (version.since for version, plan in later if known is None or plan.numbering != known.plan.numbering)
        return next(others, ALWAYS)

    def retained(self, newest: int, plan: Plan) -> int:
        """Return the first interval that is retained for as long as `plan` says before another one."""
        return self.number(self.start_ms(newest) - plan.retained * plan.interval_ms)

    def counts_of(self, times: pl.Series) -> dict[int, int]:
        """Return how many of some event times, in ms, lie in each interval."""
        counts: dict[int, int] = {}
        for run in self.runs():
            first_ms, until_ms = run.span_ms
            inside = times.filter((times >= first_ms) & (times < until_ms))
            found = interval_of(pl.col("at"), run.plan.numbering)
            counts.update(inside.alias("at").to_frame().group_by(found).len().iter_rows())
        return counts

    def beginning(self, interval: int) -> Versions:
        """Return the same versions with windows that have nothing of before an interval."""
        if self.all[0].version.begins >= interval:
            return self
        later = (replace(version, begins=max(version.begins, interval)) for version, _ in self.all)
        return Versions([Compiled(version, plan) for version, (_, plan) in zip(later, self.all, strict=True)])

    @property
    def rests_from(self) -> int:
        """The first interval that nobody has to close: the job is stopped then, and nothing follows; else never."""
        newest = self.newest.version
        return newest.since if newest.is_stopped else ALWAYS

    def runs(self) -> Iterator[VersionRun]:
        """Yield the intervals of each version that counts any, ascending."""
        for index, (version, plan) in enumerate(self.all):
            until = self._since[index + 1] if index + 1 < len(self.all) else ALWAYS
            if version.since < until:
                yield VersionRun(version.since, until - 1, version, plan)

    @functools.cached_property
    def told(self) -> tuple[int, ...]:
        """The numbers of versions of which agents have to say since when they count by them."""
        return tuple(version.number for version, _ in self.all if version.is_told)

    @functools.cached_property
    def pauses(self) -> tuple[VersionRun, ...]:
        """The intervals in which the job is paused or stopped."""
        return tuple(run for run in self.runs() if run.version.is_paused)

    def counting(self, sealed: int | None) -> tuple[VersionRun, ...]:
        """Return the versions that count events which may still come, ascending.

        Args:
            sealed: the last interval that is sealed, if there is one: of older ones than the master retains none count.
        """
        oldest = NEVER if sealed is None or sealed == NEVER else self.retained(sealed, self.newest.plan)
        return tuple(each for each in self.runs() if not each.version.is_paused and each.last >= oldest)

    def closed(self, watermark_ms: int) -> int:
        """Return the last interval that a watermark closes: each waits as long as its version of the job says."""
        closed = NEVER
        for run in self.runs():
            if run.first >= self.rests_from:
                break
            lateness_ms = run.plan.definition.options.lateness_ms
            closed = max(closed, min(run.plan.numbering.number(watermark_ms - lateness_ms) - 1, run.last))
            if closed < run.last:
                break
        return closed

    def closing_ms(self, interval: int) -> int:
        """Return the watermark that closes an interval when all before it are closed; never, if nobody closes it."""
        if interval >= self.rests_from:
            return ALWAYS
        plan = self.at(interval).plan
        return plan.numbering.start_ms(interval + 1) + plan.definition.options.lateness_ms

    def numbered(self, number: int) -> Compiled | None:
        """Return a version by its number, if it is remembered."""
        return next((each for each in self.all if each.version.number == number), None)

    def plan_of(self, kind: int) -> Plan | None:
        """Return a plan whose PAOs are of a kind."""
        return next((each.plan for each in self.all if each.version.pao_kind == kind), None)

    def counts(self, kind: int, interval: int) -> bool:
        """Tell whether PAOs of a kind are what an interval is counted by."""
        version = self.at(interval).version
        return version.pao_kind == kind and not version.is_paused and interval >= version.since

    def counted(self, kind: int, intervals: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
        """Tell of many intervals what `counts` tells of one. O(intervals x versions)."""
        found = np.zeros(len(intervals), np.bool_)
        for run in self.runs():
            if run.version.pao_kind == kind and not run.version.is_paused:
                found |= (intervals >= run.first) & (intervals <= run.last)
        return found

    def boundaries(self, after: int, through: int) -> list[int]:
        """Return the first intervals of versions within (after + 1, through]: where a run is to be divided."""
        if self._since[-1] <= after + 1:
            return []
        return [run.first for run in self.runs() if after + 1 < run.first <= through]


def compile_versions(
    versions: Sequence[Version], known: Versions | None = None, admits: Admits | None = None
) -> Versions:
    """Compile the versions of a job; those that are `known` already are taken from there; `admits` as of `compile_job`.

    Raises:
        JobSpecError: one of them cannot run on this release, or after the one before.
    """
    plans: Mapping[int, Compiled] = {each.version.number: each for each in known.all} if known is not None else {}
    compiled: list[Compiled] = []
    for version in versions:
        there = plans.get(version.number)
        same = there is not None and there.version.definition == version.definition
        new = version.definition
        plan = there.plan if there is not None and same else compile_job(new, new.types, admits)
        if compiled:
            _check_successor(compiled[-1], version, plan)
        compiled.append(Compiled(version, plan))
    return Versions(compiled)


def _check_successor(before: Compiled, version: Version, plan: Plan) -> None:
    """Refuse a version whose intervals, or PAOs, are not what it says: no event would fit in what is open."""
    old, new = before.plan.numbering, plan.numbering
    if (plan.window is None) != (before.plan.window is None):
        raise JobSpecError(f"version {version.number} has a window where the version before has none, or the reverse")
    if new.start_ms(version.since) != old.start_ms(version.since):
        raise JobSpecError(
            f"version {version.number} has other intervals than the version before, which it cuts in two"
        )
    if _iterates(plan) != _iterates(before.plan):
        raise JobSpecError(f"version {version.number} reads its last result otherwise than the version before")
    if version.pao_kind == before.version.pao_kind and (old, before.plan.schema.columns) != (new, plan.schema.columns):
        raise JobSpecError(f"version {version.number} says it has the PAOs of the version before, and has others")


def _iterates(plan: Plan) -> str | None:
    """The query of a job that reads its last result: it stays the same in all versions."""
    return None if plan.iterating is None else plan.definition.query


def has_same_states(old: Plan, new: Plan) -> bool:
    """Tell whether two plans make the same PAOs of the same events, in intervals of one length."""
    return (old.map_key, old.interval_ms) == (new.map_key, new.interval_ms)


def check_change(old: Plan, new: Plan) -> None:
    """Refuse a change that the agents of a running job could not follow.

    Raises:
        JobSpecError: what would have to stay as it is.
    """
    before, after = old.definition, new.definition
    if after.source != before.source:
        raise _refused(f"it reads {before.source!r}, and the new query {after.source!r}")
    if (old.window is None) != (new.window is None):
        raise _refused("it has a window, and the new query has none" if old.window else "it has no window")
    if _iterates(old) != _iterates(new):
        raise _refused("it reads its last result" if old.iterating else "the new query reads its last result")
    _check_lengths(old, new)
    for option in ("trees", "semantics", "availability", "replicas", "application"):
        was, would_be = getattr(before.options, option), getattr(after.options, option)
        if was != would_be:
            raise _refused(f"{option} is {_said(was)}, and would be {_said(would_be)}")


def _check_lengths(old: Plan, new: Plan) -> None:
    """Refuse intervals of another length where nothing can begin anew with them, or not soon."""
    was_ms, would_be_ms = old.interval_ms, new.interval_ms
    if was_ms == would_be_ms:
        return
    change = f"its intervals are {duration(was_ms)} long, and would be {duration(would_be_ms)}"
    if new.window is None:
        raise _refused(f"{change}; without a window nothing begins anew with them")
    common_ms = math.lcm(was_ms, would_be_ms)
    most_ms = max(was_ms, would_be_ms, COMMON_MS_MAX)
    if common_ms > most_ms:
        every = f"both begin together only every {rough_duration(common_ms)}"
        raise _refused(f"{change}; {every}, and {rough_duration(most_ms)} is the most")


def _said(value: str | int | None) -> str:
    return "not set" if value in (None, "") else str(value)


def _refused(why: str) -> JobSpecError:
    return JobSpecError(f"a running job cannot change so: {why}", hint="stop it and publish it anew")
