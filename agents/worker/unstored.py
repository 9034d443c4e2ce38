"""What a worker that is not exact has sealed and the store does not have, or not yet. Pure.

"At-least-once" stores a snapshot with the next checkpoint, "at-most-once" mostly none at all. Until there is a verdict
they may be asked for; and a checkpoint says of which intervals data would be lost with the memory.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from elf.agents.worker.state import Snapshot
from elf.overlay.contract import NEVER, Verdict

#: Intervals, both ends included.
Span = tuple[int, int]


class Unstored:
    """Those of one worker.

    Args:
        stored: through this interval the store has them.
    """

    def __init__(self, stored: int = NEVER) -> None:
        self._stored = stored
        #: Without a verdict, by interval.
        self._snapshots: dict[int, Snapshot] = {}
        #: Which intervals those have data of that have any.
        self._spans: dict[int, Span] = {}

    def recall(self, snapshots: Iterable[Snapshot]) -> None:
        """Hold what was stored in a former run, and is without a verdict."""
        self._snapshots = {snapshot.through: snapshot for snapshot in snapshots}

    def add(self, snapshot: Snapshot, spans: Sequence[Span]) -> None:
        """Hold what is sealed now; `spans`: the intervals that it has data of."""
        self._snapshots[snapshot.through] = snapshot
        if spans:
            self._spans[snapshot.through] = min(first for first, _ in spans), max(last for _, last in spans)

    def settle(self, through: int) -> None:
        """Let go of those that a verdict is about."""
        for settled in [held for held in self._snapshots if held <= through]:
            del self._snapshots[settled]
            self._spans.pop(settled, None)

    def of(self, verdict: Verdict) -> list[Snapshot]:
        """Return those that a verdict is about, ascending."""
        return [
            held for through, held in sorted(self._snapshots.items()) if verdict.previous < through <= verdict.through
        ]

    def store(self) -> list[Snapshot]:
        """Return those that the store lacks, ascending; it has them from now on."""
        lacking = [held for through, held in sorted(self._snapshots.items()) if through > self._stored]
        self._stored = max([self._stored, *(held.through for held in lacking)])
        return lacking

    def volatile(self, others: Iterable[Span]) -> Span | None:
        """Return the run of intervals, (after, through], with data in memory only; `others`: what else is there."""
        held = [*(span for through, span in self._spans.items() if through > self._stored), *others]
        return (min(first for first, _ in held) - 1, max(last for _, last in held)) if held else None
