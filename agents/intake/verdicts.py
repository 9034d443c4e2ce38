"""Verdicts of masters on the way to a source's workers: applied between two steps, durable with the next checkpoint."""

from __future__ import annotations

import collections
import concurrent.futures
import logging
from collections.abc import Callable, Sequence

from elf.agents.store.checkpoints import Checkpoints
from elf.agents.worker.sharing.workers import Workers
from elf.agents.worker.state import Snapshot
from elf.overlay.contract import Verdict

log = logging.getLogger(__name__)
_Waiting = tuple[bytes, Verdict, concurrent.futures.Future[None]]


class Verdicts:
    """Those of one source. All but `put` belongs to the data thread.

    Args:
        workers: whose snapshots they are about.
        checkpoints: where these are.
        now_ms: wall clock.
    """

    def __init__(self, workers: Workers, checkpoints: Checkpoints, now_ms: Callable[[], int]) -> None:
        self._workers = workers
        self._checkpoints = checkpoints
        self._now_ms = now_ms
        self._waiting: collections.deque[_Waiting] = collections.deque()
        self._applied: list[concurrent.futures.Future[None]] = []
        #: Whether anybody waits for these to be durable: we were missing, which the root forgets once it hears so.
        self.awaited = False

    def put(self, tree: bytes, verdict: Verdict) -> concurrent.futures.Future[None]:
        """Queue one, from any thread; the future is done once it is durable."""
        done: concurrent.futures.Future[None] = concurrent.futures.Future()
        self._waiting.append((tree, verdict, done))
        return done

    def apply(self) -> None:
        """Let the workers settle their snapshots.

        Raises:
            sqlite3.Error: snapshots cannot be read; that verdict, and those behind it, wait for the next call.
        """
        while self._waiting:
            tree, verdict, done = self._waiting[0]
            worker = self._workers.get(tree)
            if worker is not None:
                # The run's own snapshots only: earlier ones may be stored still though a commit has them.
                run: Sequence[Snapshot] = ()
                if verdict.missing and worker.is_exact:
                    run = self._checkpoints.snapshots(tree, verdict.previous, verdict.through)
                elif verdict.missing:
                    run = worker.unsettled(verdict)
                before = worker.progress.counted
                self._workers.settle(tree, verdict, run)
                if worker.progress.counted != before:
                    # Nor does anybody know what else was read, and pushed, before it was put back.
                    worker.note_gap(worker.versions.end_ms(verdict.through), self._now_ms())
                    log.warning(
                        "job %s has counted this agent in intervals that its data folder does not know of: it was put "
                        "back to an older state. What was counted is not read again, and results have a gap",
                        worker.jobs,
                    )
            # Not before: the next checkpoint acknowledges whatever has left the queue.
            self._waiting.popleft()
            self._applied.append(done)
            self.awaited = self.awaited or verdict.missing

    def acknowledge(self) -> None:
        """Take note that what was applied is durable."""
        for done in self._applied:
            done.set_result(None)
        self._applied.clear()
        self.awaited = False
