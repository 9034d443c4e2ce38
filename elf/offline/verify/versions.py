"""By which version of a job each published window was counted, and what of the window's time that version counts. Pure.

A job that was changed while it ran answers a window by the version of its last interval (`elf.agents.jobs.versions`).
Of what lies before that version's windows begin it has nothing, for PAOs were of another kind, or were reset; and
nothing of the intervals in which the job was paused. Spark has to leave out the same. That is right only as long as
labels say
so: where one does not, the window differs.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from elf.agents.language.instants import instant
from elf.client.results import Version
from elf.offline.grid import Window
from elf.offline.own import Brought, Own, Trusted
from elf.offline.verify.published import Result, version_of

Label = Mapping[str, Any]
#: After every event.
_ENDLESS_MS = 2**62


class Job(Protocol):
    """What verification needs of a definition (`elf.agents.jobs.definition.Definition` has it)."""

    @property
    def creator(self) -> str:
        """Who publishes it."""
        ...

    @property
    def name(self) -> str:
        """Its name among the creator's jobs."""
        ...

    @property
    def key(self) -> str:
        """`creator/name`."""
        ...

    @property
    def source(self) -> str:
        """The source's name."""
        ...

    @property
    def query(self) -> str:
        """The query's text."""
        ...

    @property
    def columns(self) -> Mapping[str, str]:
        """SQL types of the columns it reads."""
        ...

    @property
    def functions(self) -> Sequence[Brought]:
        """Those that it brings along."""
        ...


@dataclasses.dataclass(frozen=True)
class Counting:
    """How one version of a job counts.

    Attributes:
        query: its text.
        columns: SQL types of the columns it reads.
        version: as the job's history has it; None of a job that was never changed.
        begins_ms: its windows have nothing of before; None: they have all there is.
        pauses: ascending runs of event time, half-open, that count nothing.
        interval_ms: how long its intervals are; None where nobody has told it.
        functions: those that it brings along, as the job's master tells of them.
    """

    query: str
    columns: Mapping[str, str]
    version: Version | None = None
    begins_ms: int | None = None
    pauses: tuple[Window, ...] = ()
    interval_ms: int | None = None
    functions: tuple[Brought, ...] = ()

    def within(self, window: Window) -> Window:
        """Return the part of a window, half-open and maybe empty, that lies after the version's begin."""
        start_ms, end_ms = window
        return (start_ms if self.begins_ms is None else min(max(start_ms, self.begins_ms), end_ms)), end_ms

    def paused(self, window: Window) -> tuple[Window, ...]:
        """Return the runs of a window's counted part in which the job was paused."""
        start_ms, end_ms = self.within(window)
        runs = ((max(since, start_ms), min(until, end_ms)) for since, until in self.pauses)
        return tuple((since, until) for since, until in runs if since < until)

    def relieved(self, label: Label, window: Window) -> Label:
        """Return a label without what it says of pauses: Spark leaves those out, and they explain nothing more."""
        void = label.get("void") or 0
        return {**label, "void": max(0, void - self._paused_count(window))} if void else label

    def notes(self, window: Window) -> list[str]:
        """Say what of a window both sides leave out."""
        found = []
        if self.within(window)[0] > window[0]:
            found.append(f"nothing before {instant(self.within(window)[0])}, when this version's windows begin")
        paused = ", ".join(f"{instant(since)}/{instant(until)}" for since, until in self.paused(window))
        return [*found, f"paused {paused}"] if paused else found

    def unsaid(self, window: Window, label: Label) -> str:
        """Say what is left out of a window though its label does not announce it; "" if nothing is."""
        names = bool(label.get("missing")) or label.get("reported", 0) < label.get("expected", 0)
        if self.within(window)[0] > window[0] and not names and label.get("expected"):
            return f"no agent's events before {instant(self.within(window)[0])} are in it"
        paused = self._paused_count(window)
        if (label.get("void") or 0) < paused:
            return f"the job was paused for {paused} of its intervals"
        return ""

    def _paused_count(self, window: Window) -> int:
        length_ms = sum(until - since for since, until in self.paused(window))
        return length_ms // self.interval_ms if self.interval_ms else 0


class Countings:
    """The versions of one job.

    Args:
        job: its definition; all there is to say of one that was never changed.
        versions: its history, ascending; empty where nobody has told it.
        interval_ms: the length of its intervals, where somebody has told it, and no version tells its own.
        again: asks for the history once more: the job may have been changed since.
        trusted: whose functions may run on Spark.
    """

    def __init__(
        self,
        job: Job,
        versions: Sequence[Version] = (),
        interval_ms: int | None = None,
        again: Callable[[], Sequence[Version]] | None = None,
        trusted: Trusted | None = None,
    ) -> None:
        self._creator = job.creator
        self._name = job.name
        self._trusted = trusted or Trusted()
        self._only = Counting(job.query, job.columns, functions=tuple(job.functions))
        self._interval_ms = interval_ms
        self._again = again
        self.versions: tuple[Version, ...] = ()
        #: Numbers that were asked for once more.
        self._sought = set[int]()
        self._learn(versions)

    def _learn(self, versions: Sequence[Version]) -> None:
        self.versions = tuple(versions)
        pauses = tuple(
            (-_ENDLESS_MS if each.since_ms is None else each.since_ms, _until(each))
            for each in versions
            if each.is_paused and each.since_ms != each.until_ms
        )
        self._known = {
            each.version: Counting(
                each.query,
                each.columns,
                each,
                each.begins_ms,
                pauses,
                each.interval_ms or self._interval_ms,
                tuple(each.functions),
            )
            for each in versions
        }

    @property
    def changed(self) -> bool:
        """Whether the job has other versions than the one that was published."""
        return len(self.versions) > 1

    def of(self, result: Result) -> Counting | None:
        """Return how a result was counted; None if the job does not remember that version, or the result names none."""
        if not self.versions:
            return self._only
        number = version_of(result)
        if number is None:
            return None if self.changed else self._known[self.versions[0].version]
        if number not in self._known and number not in self._sought and self._again is not None:
            self._sought.add(number)
            self._learn(self._again())
        return self._known.get(number)

    def admit(self, functions: Sequence[Brought]) -> Own:
        """Return functions that a version brings along as Spark may run them; errors as of `Trusted.admit`."""
        return self._trusted.admit(self._creator, self._name, functions)


def _until(version: Version) -> int:
    return _ENDLESS_MS if version.until_ms is None else version.until_ms
