"""Which agents results count of whose events the archive has nothing, and for which of the hours looked at. Pure.

An agent that had no events has no files either, so this is a hint where both sides agree, and the first thing to look
at where the published value is the larger one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from elf.agents.archive.layout import HOUR_MS, ArchivedFile
from elf.agents.language.instants import instant
from elf.offline.grid import Window


class Coverage:
    """Notes passes, then tells the gaps.

    Args:
        names: the agents' names by their ids, which the archive goes by.
        roster: names of the agents that results expect.
    """

    def __init__(self, names: Mapping[str, str], roster: Sequence[str]) -> None:
        self._names = names
        self._roster = roster
        #: Hour -> agents that reported, agents that have events in the archive.
        self._reported: dict[int, set[str]] = {}
        self._archived: dict[int, set[str]] = {}
        #: What was looked at, first and last ms; of the hours at both ends maybe a part.
        self._looked: Window | None = None

    def note(self, files: Sequence[ArchivedFile], window: Window, labels: Sequence[Mapping[str, Any]]) -> None:
        """Note the files of some windows and the labels of these."""
        before = self._looked or window
        self._looked = min(before[0], window[0]), max(before[1], window[1])
        always_missing = set(self._roster)
        for label in labels:
            always_missing &= set(label.get("missing") or ())
        for hour in range(window[0] // HOUR_MS, -(-window[1] // HOUR_MS)):
            self._reported.setdefault(hour, set()).update(set(self._roster) - always_missing)
        for file in files:
            agent = self._names.get(file.entry.agent, file.entry.agent)
            for hour in range(file.entry.first_ms // HOUR_MS, file.entry.last_ms // HOUR_MS + 1):
                if hour in self._reported:
                    self._archived.setdefault(hour, set()).add(agent)

    def gaps(self) -> list[str]:
        """Return a sentence for each run of hours of an agent."""
        found = []
        first_ms, end_ms = self._looked or (0, 0)
        for agent in sorted(self._roster):
            hours = [
                hour
                for hour in sorted(self._reported)
                if agent in self._reported[hour] and agent not in self._archived.get(hour, ())
            ]
            for first, last in _runs(hours):
                since = instant(max(first * HOUR_MS, first_ms))
                until = instant(min((last + 1) * HOUR_MS, end_ms))
                found.append(
                    f"{agent} is counted by results, and the archive has no events of it from {since} to {until}: "
                    "it had none, or its folder is not among those given with --archive, or its files were removed"
                )
        return found


def _runs(hours: Sequence[int]) -> list[tuple[int, int]]:
    runs: list[tuple[int, int]] = []
    for hour in hours:
        if runs and hour == runs[-1][1] + 1:
            runs[-1] = runs[-1][0], hour
        else:
            runs.append((hour, hour))
    return runs
