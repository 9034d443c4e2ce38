"""How far long offline work is: windows or intervals, files checked, Spark's tasks, events and the time left.

`Steps` is silent: what a pipe, a test and a program get. `ShownSteps` draws on a terminal's standard error.
"""

from __future__ import annotations

import contextlib
import sys
import threading
from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from rich.progress import Progress, TaskID

#: How often Spark is asked how far it is.
LOOK_S = 0.25


class Steps:
    """Is told how far work is, and does nothing about it."""

    def total(self, what: str, count: int) -> None:
        """So many windows, or intervals, are to be done in all; `what` says which of the two."""

    def done(self, count: int, detail: str = "") -> None:
        """So many more of them are done; `detail` says more of all that are."""

    def checking(self, count: int) -> None:
        """So many more files are to be checked."""

    def checked(self) -> None:
        """One more file is checked."""

    def say(self, what: str) -> None:
        """Something begins that cannot be counted."""

    @contextlib.contextmanager
    def computing(self, spark: SparkSession, events: int) -> Iterator[None]:
        """Spark computes over so many events meanwhile; 0: nobody counts them."""
        yield


class ShownSteps(Steps):
    """Draws bars.

    Args:
        progress: what they are drawn with, started.
    """

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._whole: TaskID | None = None
        self._files: TaskID | None = None
        self._spark = progress.add_task("Spark", total=None, detail="", visible=False)
        self._done = self._events_done = 0

    def total(self, what: str, count: int) -> None:
        """Begin the bar of the whole work, which also tells the time left, or say again how much it is in all."""
        if self._whole is None:
            self._whole = self._progress.add_task(what, total=count, detail="")
        self._progress.update(self._whole, total=count)

    def done(self, count: int, detail: str = "") -> None:
        """Move the bar of the whole work."""
        self._done += count
        if self._whole is not None:
            self._progress.update(self._whole, completed=self._done, detail=detail)

    def checking(self, count: int) -> None:
        """Begin, or lengthen, the bar of files."""
        if self._files is None:
            self._files = self._progress.add_task("files checked", total=0, detail="")
        task = next(task for task in self._progress.tasks if task.id == self._files)
        self._progress.update(self._files, total=(task.total or 0) + count)

    def checked(self) -> None:
        """Move the bar of files."""
        if self._files is not None:
            self._progress.advance(self._files)

    def say(self, what: str) -> None:
        """Show it where Spark's tasks are shown."""
        self._progress.update(self._spark, visible=True, description=what, detail="")

    @contextlib.contextmanager
    def computing(self, spark: SparkSession, events: int) -> Iterator[None]:
        """Show Spark's tasks until the block ends."""
        ended = threading.Event()
        watcher = threading.Thread(target=self._watch, args=(spark, events, ended), name="elf-progress", daemon=True)
        watcher.start()
        try:
            yield
        finally:
            ended.set()
            watcher.join()
            self._events_done += events

    def _watch(self, spark: SparkSession, events: int, ended: threading.Event) -> None:
        tracker = spark.sparkContext.statusTracker()
        while not ended.wait(LOOK_S):
            stages = [
                stage
                for job in tracker.getActiveJobsIds()
                if (known := tracker.getJobInfo(job)) is not None
                for number in known.stageIds
                if (stage := tracker.getStageInfo(number)) is not None
            ]
            done, total = (sum(getattr(stage, name) for stage in stages) for name in ("numCompletedTasks", "numTasks"))
            share = done / total if total else 0.0
            rows = f"{self._events_done + int(events * share):,} events, " if events else ""
            self._progress.update(
                self._spark,
                visible=True,
                description="Spark",
                total=total or None,
                completed=done,
                detail=f"{rows}{done} of {total} tasks" if total else "planning",
            )


@contextlib.contextmanager
def shown(wanted: bool) -> Iterator[Steps]:
    """Draw progress on standard error for the length of a block; with `wanted` false, be silent."""
    if not wanted:
        yield Steps()
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[detail]}"),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    # What is printed meanwhile goes above the bars on the same terminal, but not if it is meant for a file.
    together = sys.stdout.isatty()
    console = Console(stderr=True)
    with Progress(*columns, console=console, transient=True, redirect_stdout=together) as progress:
        yield ShownSteps(progress)
