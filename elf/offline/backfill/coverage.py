"""Of which intervals the archives have all events of each agent. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from elf.agents.archive.layout import ArchivedFile
from elf.agents.archive.removed import join_spans
from elf.agents.jobs.intervals import Numbering
from elf.offline.asking import Reach


class Coverage:
    """Of which intervals each agent's archive has all events.

    An agent's archive begins somewhere inside the interval of its first event, and is sure to have what the agent was
    counted with: its files are there before its snapshots are handed on. A file without a column that the query reads
    is of a time when nobody read it: its events cannot be computed. DESIGN section 6: a label may be pessimistic.

    Args:
        files: of the archives.
        reaches: of all parts of the job.
        numbering: of the job's intervals.
        columns: that its query reads.
    """

    def __init__(
        self,
        files: Sequence[ArchivedFile],
        reaches: Sequence[Reach],
        numbering: Numbering,
        columns: Collection[str] = (),
    ) -> None:
        oldest: dict[str, int] = {}
        narrow: dict[str, list[tuple[int, int]]] = {}
        for file in files:
            entry = file.entry
            oldest[entry.agent] = min(entry.first_ms, oldest.get(entry.agent, entry.first_ms))
            if not has_columns(file, columns):
                span = numbering.number(entry.first_ms), numbering.number(entry.last_ms) + 1
                narrow.setdefault(entry.agent, []).append(span)
        #: Agent -> runs of intervals, half-open, in which its archive lacks columns.
        self._narrow = {agent: join_spans(spans) for agent, spans in narrow.items()}
        self.names = {each.agent: each.name for reach in reaches for each in reach.agents}
        #: Agent -> the first and the last interval its archive has all events of.
        self._runs: dict[str, tuple[int, int]] = {}
        for agent in self.names:
            throughs = [each.through_ms for reach in reaches for each in reach.agents if each.agent == agent]
            if agent in oldest and None not in throughs:
                last_ms = min(through for through in throughs if through is not None)
                self._runs[agent] = numbering.number(oldest[agent]) + 1, numbering.number(last_ms) - 1
        self.unseen = sorted(name for agent, name in self.names.items() if agent not in oldest)

    @property
    def bounds(self) -> list[int]:
        """The intervals from which on another agent has all events, or no more."""
        narrow = [bound for spans in self._narrow.values() for span in spans for bound in span]
        return [*narrow, *(bound for first, last in self._runs.values() for bound in (first, last + 1))]

    def missing(self, interval: int) -> list[str]:
        """Return the agents whose archives lack events of an interval, or may, or columns of them."""
        runs = self._runs
        return sorted(
            agent
            for agent in self.names
            if agent not in runs
            or not runs[agent][0] <= interval <= runs[agent][1]
            or any(first <= interval < until for first, until in self._narrow.get(agent, ()))
        )


def has_columns(file: ArchivedFile, columns: Collection[str]) -> bool:
    """Tell whether a file has all of some columns."""
    return all(name in file.entry.columns for name in columns)


def whole_runs(bounds: Sequence[int], first: int, last: int) -> Iterator[tuple[int, int]]:
    """Split a run of intervals, both ends included, before each of some intervals inside it."""
    starts = sorted({first, *(bound for bound in bounds if first < bound <= last)})
    yield from zip(starts, [*(start - 1 for start in starts[1:]), last], strict=True)
