"""What one agent has handed to a provisional master, and what it still owes it. Pure.

A provisional master counts snapshots as a master does, but its verdicts settle nothing: the agent keeps every snapshot
until the job's own master has one for it. They only say which snapshots the side's results lack, so that their data
rides in a later one.
"""

from __future__ import annotations

from collections import deque

from elf.agents.completeness.runs import RunsAfter, union
from elf.overlay.contract import NEVER, Verdict


class HandedOver:
    """One agent's snapshots on one side; each is waiting for a verdict, owed, or counted and forgotten."""

    def __init__(self) -> None:
        #: Handed over: (through, payload), ascending.
        self.waiting: deque[tuple[int, bytes | None]] = deque()
        #: Payloads that went uncounted, and the runs of intervals, (after, through], that went without us.
        self.owed: list[bytes] = []
        self.runs: RunsAfter = ()
        self._judged = NEVER

    def take(self, through: int, payload: bytes | None) -> tuple[list[bytes], RunsAfter] | None:
        """Return what goes with a snapshot that is to be handed over: the payloads to merge, and the runs they make up.

        None: its intervals were judged without it, so there is nothing to hand over now.
        """
        if through <= self._judged:
            self._owe(payload)
            return None
        payloads, runs = [*self.owed, *([] if payload is None else [payload])], self.runs
        self.owed = []
        self.runs = ()
        return payloads, runs

    def handed(self, through: int, payload: bytes | None, *, taken: bool) -> None:
        """Note that a snapshot, with all that went with it, was handed over, or was not `taken`."""
        if taken and through > self._judged:
            self.waiting.append((through, payload))
        else:
            self._owe(payload)

    def settle(self, verdict: Verdict) -> None:
        """Forget what was counted, and owe what was not."""
        while self.waiting and self.waiting[0][0] <= verdict.through:
            _, payload = self.waiting.popleft()
            if verdict.missing:
                self._owe(payload)
        if verdict.missing and verdict.named:
            self.runs = union(self.runs, ((verdict.previous, verdict.through),))
        self._judged = max(self._judged, verdict.through)

    def _owe(self, payload: bytes | None) -> None:
        if payload is not None:
            self.owed.append(payload)
