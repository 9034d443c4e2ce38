"""How far one agent's own snapshots are settled, and which runs of them were counted.

Owns the member's side of the verdict log: strictly in order, without gaps, bound to one term of the root. A verdict
that does not follow the last one is not applied; the agent asks the root instead (`Announce` -> `Status`), so a lost,
late or repeated message can never settle a snapshot wrongly (OVERLAY 6.4, M4 and M5).
"""

from __future__ import annotations

from elf.overlay.contract import NEVER, Verdict
from elf.overlay.messages import Settle, Status

#: An unanswered announcement is repeated after this long.
ANNOUNCE_MS = 1_000


class Settlement:
    """The verdicts one member has seen."""

    __slots__ = ("_announce_ms", "_missed", "agent", "durable", "fresh", "settled", "term")

    def __init__(self, agent: str, settled: int = NEVER) -> None:
        self.agent = agent
        self.settled = settled
        #: Verdicts through here are durable; only these may be acknowledged, or a crash could lose an absence.
        self.durable = settled
        self.fresh = True
        self.term: int | None = None
        self._announce_ms: int | None = 0
        self._missed: int | None = None

    @property
    def is_current(self) -> bool:
        """Whether the root of this term has told us where we stand."""
        return self.term is not None and self._announce_ms is None

    def suspect(self, now_ms: int) -> None:
        """Something changed between us and the root: ask where we stand (at once)."""
        self._announce_ms = now_ms

    def announce_due(self, now_ms: int) -> bool:
        """Tell whether to send an announcement now; asks to be called again until a status arrives."""
        if self._announce_ms is None or now_ms < self._announce_ms:
            return False
        self._announce_ms = now_ms + ANNOUNCE_MS
        return True

    def on_hint(self, term: int, committed: int, now_ms: int) -> None:
        """A heartbeat names the last commit; if we do not know its verdict we missed something."""
        if self.is_current and (term != self.term or committed > self.settled):
            self.suspect(now_ms)

    def on_settle(self, settle: Settle, now_ms: int) -> list[Verdict]:
        """Apply a multicast verdict if it is the very next one."""
        if not self.is_current:
            return []
        if settle.term == self.term and settle.through <= self.settled:
            return []
        if settle.term != self.term or settle.previous != self.settled:
            self.suspect(now_ms)
            return []
        missing = self.agent in settle.missing
        self.settled = settle.through
        if missing:
            self._missed = settle.through
        if self.agent in settle.retired:
            # We are still here: later verdicts are not about us until the root knows.
            self.suspect(now_ms)
        return [Verdict(settle.previous, settle.through, missing)]

    def on_durable(self, through: int) -> bool:
        """A verdict was made durable; True if the root should hear so, to forget the absence it keeps for us."""
        self.durable = max(self.durable, through)
        if self._missed is None or self.durable < self._missed:
            return False
        self._missed = None
        return True

    def on_status(self, status: Status) -> list[Verdict]:
        """Catch up with the root's account of us."""
        self.fresh = False
        self.term = status.term
        self._announce_ms = None
        verdicts: list[Verdict] = []
        for absence in sorted(status.absences, key=lambda run: run.through):
            if absence.through <= self.settled or absence.through > status.committed:
                continue
            after = max(absence.after, self.settled)
            if after > self.settled:
                verdicts.append(Verdict(self.settled, after, False))
            verdicts.append(Verdict(after, absence.through, True, absence.named))
            self._missed = absence.through
            self.settled = absence.through
        if status.committed > self.settled:
            verdicts.append(Verdict(self.settled, status.committed, False))
            self.settled = status.committed
        return verdicts
