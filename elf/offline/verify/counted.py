"""The archive's events that a version of a job counts, all of them or without those that a result may lack."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping, Sequence
from functools import reduce
from typing import TYPE_CHECKING

from elf.agents.archive.layout import ArchivedFile
from elf.offline.events import read_events
from elf.offline.grid import Window
from elf.offline.verify.lacks import Lack
from elf.offline.verify.versions import Counting

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclasses.dataclass(frozen=True)
class Counted:
    """The events of some windows.

    Attributes:
        spark: the session.
        files: the archive of at least these windows.
        columns: of the events, see `read_events`.
        names: the agents' names by their ids, which the archive goes by.
        counting: the version that counts them.
        span: from the begin of the first window to the end of the last one; events outside may be there or not.
        raw: the columns of which Spark reads what did not fit an agent's type, see `read_events`.
    """

    spark: SparkSession
    files: Sequence[ArchivedFile]
    columns: Mapping[str, str]
    names: Mapping[str, str]
    counting: Counting
    span: Window
    raw: frozenset[str] = frozenset()

    def read(self, lacks: Sequence[Lack] = (), *, unfit: Collection[str] = (), with_file: bool = False) -> DataFrame:
        """Read the events as `read_events` does, but for those that `lacks` names.

        What does not fit the type of the columns `unfit` is NULL, as it is for agents.
        """
        raw = self.raw - set(unfit)
        groups: dict[tuple[Lack, ...], list[ArchivedFile]] = {}
        for file in self.files:
            agent, entry = self.names.get(file.entry.agent, file.entry.agent), file.entry
            touching = tuple(lack for lack in lacks if lack.touches(agent, entry.first_ms, entry.last_ms + 1))
            groups.setdefault(touching, []).append(file)
        frames = []
        for touching, group in groups.items():
            frame = read_events(self.spark, group, self.columns, raw=raw, with_file=with_file)
            for lack in touching:
                frame = _outside(frame, (lack.start_ms, lack.end_ms))
            frames.append(frame)
        if not frames:
            return read_events(self.spark, [], self.columns)
        return self._counted(reduce(lambda one, other: one.unionByName(other), frames))

    def _counted(self, events: DataFrame) -> DataFrame:
        """Leave out what the version does not count."""
        start_ms, counted_ms = self.span[0], self.counting.within(self.span)[0]
        for run in ((start_ms, counted_ms), *self.counting.paused(self.span)):
            if run[0] < run[1]:
                events = _outside(events, run)
        return events


def _outside(events: DataFrame, run: Window) -> DataFrame:
    from pyspark.sql import functions as F

    since, until = (F.timestamp_millis(F.lit(bound_ms)) for bound_ms in run)
    return events.filter((F.col("ts") < since) | (F.col("ts") >= until))
