"""Calls from the overlay into the runtime: merges in a thread; commits, verdicts and control until they succeed.

Owns the tasks and the retries; each answer goes back to the machines as an input. Shell.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Container, Sequence

from elf.overlay.background import Background
from elf.overlay.contract import Commit, ControlEntry, Handler, Record, Verdict
from elf.overlay.effects import Committed, Delivered, Input, Merged, Notified, Refused
from elf.overlay.errors import OvertakenError
from elf.overlay.failures import ENDINGS
from elf.overlay.ids import Contact
from elf.overlay.messages import Claim

log = logging.getLogger(__name__)

#: First and longest pause before a failed commit or verdict is handed to the runtime again.
RETRY_S_MIN, RETRY_S_MAX = 0.1, 2.0


class Border:
    """The overlay's way to its `Handler`.

    Args:
        handler: the runtime.
        feed: takes the answers, by application.
        joined: the applications that this node takes part in; work for others is dropped.
    """

    def __init__(self, handler: Handler, feed: Callable[[bytes, Input], None], joined: Container[bytes]) -> None:
        self.counters = {"commits": 0, "control_entries": 0, "merge_failures": 0, "handler_errors": 0}
        self._handler = handler
        self._feed = feed
        self._joined = joined
        self._verdicts: dict[bytes, deque[Verdict]] = {}
        self._background = Background()

    async def stop(self) -> None:
        """End everything under way; what was not answered counts as not done."""
        await self._background.stop()

    def admits(self, app: bytes, record: Record) -> bool:
        """Tell whether the runtime lets a neighbour's record in; not one that it fails on."""
        try:
            return self._handler.admits(app, record)
        except ENDINGS:
            raise
        except BaseException:
            self.counters["handler_errors"] += 1
            log.exception("the handler failed on whether to take record %r", record.key)
            return False

    def apply(self, app: bytes, record: Record) -> None:
        """Tell of a new record."""
        try:
            self._handler.on_record(app, record)
        except ENDINGS:
            raise
        except BaseException:
            self.counters["handler_errors"] += 1
            log.exception("the handler failed on record %r", record.key)

    def audit(self, app: bytes, child: Contact, claim: Claim) -> None:
        """Tell of a claim that is to be merged again."""
        try:
            self._handler.on_chosen(app, child, claim)
        except ENDINGS:
            raise
        except BaseException:
            self.counters["handler_errors"] += 1
            log.exception("the handler failed on a claim that it is to audit")

    def merge(self, app: bytes, ticket: int, payloads: Sequence[bytes]) -> None:
        """Merge off the loop; answers with `Merged`."""
        self._background.spawn(self._merge(app, ticket, payloads))

    def persist(self, app: bytes, commit: Commit) -> None:
        """Make a commit durable; answers with `Committed`."""
        self._background.spawn(self._persist(app, commit))

    def notify(self, app: bytes, verdict: Verdict) -> None:
        """Queue a verdict, one task per application keeps them in order; answers with `Notified`.

        Those that wait are joined where they can be: whoever has fallen behind gets many, and to make them durable one
        by one may take longer than they take to come.
        """
        queue = self._verdicts.get(app)
        if queue is None:
            queue = self._verdicts[app] = deque()
            self._background.spawn(self._notify_in_order(app, queue))
        joined = queue[-1].joined(verdict) if queue else None
        if joined is not None:
            queue.pop()
        queue.append(joined or verdict)

    def deliver(self, app: bytes, entry: ControlEntry) -> None:
        """Have a control entry handled durably; answers with `Delivered`, or `Refused`."""
        self._background.spawn(self._deliver(app, entry))

    async def _merge(self, app: bytes, ticket: int, payloads: Sequence[bytes]) -> None:
        payload, bad = await asyncio.to_thread(self._merge_tolerant, app, payloads)
        self.counters["merge_failures"] += len(bad)
        self._feed(app, Merged(ticket, payload, bad))

    def _merge_tolerant(self, app: bytes, payloads: Sequence[bytes]) -> tuple[bytes | None, tuple[int, ...]]:
        """Merge what merges; runs in a thread. Only when all at once fails, find out one by one which are bad."""
        try:
            return self._handler.merge(app, payloads), ()
        except ENDINGS:
            raise
        except BaseException as error:
            log.warning("merging %d payloads failed, trying one by one: %s", len(payloads), error)
        merged: bytes | None = None
        bad: list[int] = []
        for position, payload in enumerate(payloads):
            try:
                merged = self._handler.merge(app, [payload] if merged is None else [merged, payload])
            except ENDINGS:
                raise
            except BaseException as error:
                log.error("a payload does not merge and is left out: %s", error)
                bad.append(position)
        return merged, tuple(bad)

    async def _persist(self, app: bytes, commit: Commit) -> None:
        async def attempt() -> None:
            await self._handler.on_commit(app, commit)

        if await self._insist(app, f"commit of interval {commit.through}", attempt):
            self.counters["commits"] += 1
            self._feed(app, Committed(commit.through))

    async def _notify_in_order(self, app: bytes, queue: deque[Verdict]) -> None:
        while queue:
            verdict = queue.popleft()

            async def attempt(verdict: Verdict = verdict) -> None:
                await self._handler.on_verdict(app, verdict)

            if await self._insist(app, f"verdict through {verdict.through}", attempt):
                self._feed(app, Notified(verdict.through))
            else:
                queue.clear()  # later ones follow from it
        del self._verdicts[app]

    async def _deliver(self, app: bytes, entry: ControlEntry) -> None:
        async def attempt() -> None:
            await self._handler.on_control(app, entry)

        if await self._insist(app, f"control entry {entry.mark.position}", attempt):
            self.counters["control_entries"] += 1
            self._feed(app, Delivered(entry.mark))
        else:
            self._feed(app, Refused(entry.mark))

    async def _insist(self, app: bytes, what: str, attempt: Callable[[], Awaitable[None]]) -> bool:
        """Call the runtime until it succeeds: nothing may go on before this is durable.

        False if the tree was left, or another agent became its root.
        """
        pause_s = RETRY_S_MIN
        while app in self._joined:
            try:
                await attempt()
                return True
            except OvertakenError as error:
                log.info("%s is left to another root: %s", what, error)
                return False
            except ENDINGS:
                raise
            except BaseException:
                self.counters["handler_errors"] += 1
                log.exception("%s failed; trying again in %.1f s", what, pause_s)
            await asyncio.sleep(pause_s)
            pause_s = min(2 * pause_s, RETRY_S_MAX)
        return False
