"""One source's checkpoints, one after the other, with the archive in step with them.

A checkpoint that could not be written (disk full) waits, and is tried again as it was before another one is made: so
nothing is sealed twice, and nothing is read past it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

from elf.agents.archive.archive import Archive
from elf.agents.intake.checkpoint_pace import CheckpointPace
from elf.agents.sources.files.rotation import Position
from elf.agents.store.checkpoints import Checkpoints
from elf.agents.worker.state import Snapshot, SourceState, WorkerState


@dataclasses.dataclass(frozen=True)
class Sealed:
    """A durable snapshot, ready to roll up."""

    tree: bytes
    snapshot: Snapshot


@dataclasses.dataclass(frozen=True)
class SourceCheckpoint:
    """What becomes durable together.

    Attributes:
        positions: how far files are read, as `SourceState.positions` has it.
        counters: what else is known of the source, as `SourceState.counters` has it.
        places: how far each file is read that is followed.
        workers: those that have changed.
        sealed: their new snapshots, by tree.
    """

    positions: bytes
    counters: bytes
    places: list[Position]
    workers: Sequence[WorkerState]
    sealed: Mapping[bytes, Sequence[Snapshot]]

    @property
    def snapshots(self) -> list[Sealed]:
        """The new snapshots, each with its tree."""
        return [Sealed(tree, snapshot) for tree, snapshots in self.sealed.items() for snapshot in snapshots]


class SourceCheckpoints:
    """Those of one source; used by its data thread.

    Args:
        source: its name.
        checkpoints: where they become durable.
        archive: the Parquet copy of its events, or None when off.
        usual_ms: longest time between two while events flow.
        now_ms: the time of day, as of which there is nothing to make durable.
    """

    def __init__(
        self, source: str, checkpoints: Checkpoints, archive: Archive | None, *, usual_ms: int, now_ms: int
    ) -> None:
        self._source = source
        self._checkpoints = checkpoints
        self._archive = archive
        #: When the next one is to be made though nothing is sealed.
        self.pace = CheckpointPace(usual_ms, now_ms)
        #: Number of the last one; 0 before the first.
        self.sequence = 0
        self._waiting: SourceCheckpoint | None = None
        #: The last checkpoint, while its events are not in sight in the archive yet.
        self._unshown: int | None = None
        self._saved: list[Position] = []

    @property
    def predecessor(self) -> str | None:
        """The agent whose state was here before and was lost, if it is known."""
        return self._checkpoints.predecessor

    @property
    def is_held_up(self) -> bool:
        """Whether one waits that could not be written; `write` writes it as it was."""
        return self._waiting is not None

    def restore(self) -> SourceState | None:
        """Return the last one, if there is any, and bring the archive in step with it; before any is made."""
        state = self._checkpoints.source(self._source)
        if state is not None:
            self.sequence = state.sequence
        if self._archive is not None:
            recovery = self._archive.recover(self.sequence, self.predecessor)
            for _ in range(recovery.damaged):
                self._checkpoints.damages.note(
                    "archive",
                    f"source {self._source}: a file of the archive is damaged and set aside as _damaged-...: "
                    "its events are in the results but not in the archive",
                )
        return state

    def adopt(self, source: SourceState, workers: Sequence[WorkerState]) -> SourceState | None:
        """Make another agent's last one ours, and restore it; before any is made.

        Raises:
            OSError, sqlite3.Error: nothing has changed.
        """
        assert self.sequence == 0, "a source that was read here has a checkpoint of its own"
        self._checkpoints.write(source, workers)
        return self.restore()

    def make(self, checkpoint: SourceCheckpoint) -> None:
        """Take the next one, for `write`; while one is held up there is none."""
        assert self._waiting is None
        self.sequence += 1
        self._waiting = checkpoint

    def write(self) -> SourceCheckpoint:
        """Make the one that waits durable; the next one may be made then. Its events are to be shown after it.

        Raises:
            OSError, sqlite3.Error: it waits still, and may be written again.
        """
        waiting = self._waiting
        assert waiting is not None
        if self._archive is not None:
            self._archive.prepare(self.sequence)
        source = SourceState(self._source, waiting.positions, waiting.counters, self.sequence)
        self._checkpoints.write(source, waiting.workers)
        self._waiting = None
        self._saved = waiting.places
        self._unshown = self.sequence
        return waiting

    def show_archived(self) -> None:
        """Bring the events of the last one that is durable in sight in the archive, unless they are.

        Raises:
            OSError: they are not; it may be called again.
        """
        if self._archive is not None and self._unshown is not None:
            self._archive.commit(self._unshown)
        self._unshown = None

    def saved_place(self, path: str) -> Position | None:
        """Return how far the file at a path was read at the last one; None of files that were there before."""
        return next((place for place in self._saved if place.path == path and not place.done), None)
