"""The loop around one source's pump: when to read, when to rest, and what leaves for the overlay.

The pump runs in a thread of its own, so the event loop stays free while frames are parsed and synced.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import functools
import logging
import os
import sqlite3
from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from elf.agents.errors import ElfError, UnavailableError
from elf.agents.intake.pace import Pace
from elf.agents.intake.pump import Pump
from elf.agents.intake.pump_settings import Reading
from elf.agents.intake.push import Appended, PushLog
from elf.agents.intake.push_keys import PushKey
from elf.agents.intake.source_checkpoints import Sealed
from elf.agents.jobs.versions import Versions
from elf.agents.worker.state import SourceState
from elf.agents.worker.worker import Worker
from elf.overlay.contract import Verdict

log = logging.getLogger(__name__)
T = TypeVar("T")

#: Pause after a disk error before the same work is tried again.
RETRY_S = 1.0
#: Pause between looks whether a tree takes more, while somebody waits for the end of what is to be read.
RESTED_S = 0.05


class Intake:
    """One source of this agent, running.

    Args:
        pump: what does the work.
        push: the spool behind `/v1/ingest/{source}`.
        hand_over: gives sealed snapshots to the overlay, on the event loop.
        congested: tells whether one of some trees takes less than it is given; while one does, nothing is read.
    """

    def __init__(
        self,
        pump: Pump,
        push: PushLog,
        hand_over: Callable[[Sealed], None],
        congested: Callable[[Iterable[bytes]], bool],
    ) -> None:
        self.pump = pump
        self.push = push
        #: Reading rests because a tree of this source is congested: lines wait in their files, none is dropped.
        self.resting = False
        #: Why nothing moves, while nothing moves; for `/readyz`.
        self.trouble: str | None = None
        self._hand_over = hand_over
        self._congested = congested
        self._thread = concurrent.futures.ThreadPoolExecutor(1, thread_name_prefix=f"data-{pump.source}")
        self._broken = False
        #: Held by whoever steps the pump; `hold` keeps it.
        self._turns = asyncio.Lock()
        self._on_format: Callable[[], None] = lambda: None
        self._is_format_open = False
        self._wake = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def start(self, on_format: Callable[[], None] = lambda: None) -> None:
        """Begin to read; `on_format` is called when it becomes open what the lines are, and when that is known."""
        self._on_format = on_format
        self._task = asyncio.create_task(self._run(), name=f"intake-{self.pump.source}")

    async def stop(self) -> None:
        """Stop reading and make a last checkpoint, so that the next start reads nothing again."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        try:
            if not self._broken:
                await self._save()
        except (OSError, sqlite3.Error, UnavailableError) as error:
            log.error("source %s: no last checkpoint: %s", self.pump.source, error)
        self._thread.shutdown()

    async def hold(self, seconds: float) -> None:
        """Read what there is to its end, make it durable, and read no more until `release`.

        Args:
            seconds: how long that may take; a busy log is at its end when all was read that it had at the last look.

        Raises:
            UnavailableError: the source has failed, or has more than can be read in that time; it goes on as before.
            OSError, sqlite3.Error: the disk takes nothing; so it does then.
        """
        await self._turns.acquire()
        try:
            if self._broken:
                raise UnavailableError(f"source {self.pump.source} has failed: restart the agent")
            until_s = asyncio.get_running_loop().time() + seconds
            while await self._step():
                if asyncio.get_running_loop().time() > until_s:
                    why = "its job's tree takes no more for now" if self.resting else "it has a backlog"
                    raise UnavailableError(f"source {self.pump.source} cannot be changed now: {why}; try again later")
            await self._save()
        except BaseException:
            self.release()
            raise

    async def _step(self) -> bool:
        """Read some more; tell whether there is even more."""
        self.resting = self._congested(tuple(self.pump.workers))
        progressed, sealed = await self._in_thread(functools.partial(self._round, trim=False))
        self._give(sealed)
        if self.resting:
            await asyncio.sleep(RESTED_S)
        return self.resting or self.pump.held_up or (progressed and self.pump.is_behind)

    def release(self) -> None:
        """Go on reading after `hold`."""
        self._turns.release()
        self._wake.set()

    async def refit(self, reading: Reading) -> None:
        """Go on by other settings, between `hold` and `release`; never fails."""
        await self._in_thread(lambda: self.pump.refit(reading))
        self.push.lingers = reading.lingers
        self.trouble = None

    async def leave(self) -> None:
        """Read no more, between `hold` and `release`; what is open ends by the time of day. `refit` takes it back."""
        await self._in_thread(self.pump.leave)

    async def held(self) -> list[bytes]:
        """Return the trees whose masters may lack some of what was read of this source, after `leave`."""
        return await self._in_thread(self.pump.held)

    def discard(self) -> None:
        """End one that was never started."""
        self._thread.shutdown()
        self.close()

    def close(self) -> None:
        """Close the files, once it was stopped."""
        self.push.close()
        self.pump.tail.close()

    async def attach(self, *workers: Worker) -> None:
        """Feed workers from the next line on, all from the same one; new ones are durable when this returns.

        Otherwise an agent that falls before its next checkpoint would not know how much a worker was promised: it
        would begin again with whatever line comes next then.

        Raises:
            OSError, sqlite3.Error: they are not durable yet; they are fed nevertheless, and may be attached again.
            UnavailableError: the source has failed; so they will not be durable before the agent is restarted.
        """
        new = any(worker.new for worker in workers)
        await self._in_thread(lambda: self.pump.attach(*workers))
        if new:
            await self._save()
        self._wake.set()

    async def adopt(self, source: SourceState, workers: Sequence[Worker]) -> None:
        """Go on where another agent's checkpoint ends; durable when this returns.

        Raises:
            OSError, sqlite3.Error: nothing has changed.
        """
        await self._in_thread(lambda: self.pump.adopt(source, workers))
        self._wake.set()

    async def detach(self, tree: bytes) -> None:
        """Stop feeding a worker."""
        await self._in_thread(lambda: self.pump.detach(tree))

    async def change(self, tree: bytes, versions: Versions) -> None:
        """Let a worker go on with other versions of its job.

        Durable with its next checkpoint: after a crash before that it takes up the newest versions that are known.
        """
        await self._in_thread(lambda: self.pump.change(tree, versions))
        self._wake.set()

    async def doubt(self, since_ms: int) -> None:
        """Label all results from a time on as lacking lines."""
        await self._in_thread(lambda: self.pump.doubt(since_ms))

    async def settle(self, tree: bytes, verdict: Verdict) -> None:
        """Pass a verdict on to the worker; one that we were missing from is durable when this returns.

        The root forgets an absence once we have taken note of it, so a crash must not make us forget it as well. That
        a commit had us need not be durable: after a crash the root says so again.
        """
        done = self.pump.settle(tree, verdict)
        if verdict.missing:
            self._wake.set()
            await asyncio.wrap_future(done)

    async def ingest(self, ndjson: bytes, key: PushKey | None = None) -> Appended:
        """Append pushed lines durably, once for a key, the last one whole with or without its newline.

        Raises:
            UnavailableError, KeyReusedError: as of `PushLog.append`.
        """
        appended = await asyncio.to_thread(self.push.append, ndjson, key)
        self._wake.set()
        return appended

    async def _run(self) -> None:
        progressed, pace, loop = True, Pace(), asyncio.get_running_loop()
        while True:
            begun_s = loop.time()
            try:
                # While there is nothing to read nobody need rest, and to ask for each of a hundred jobs costs.
                if progressed or self.resting:
                    self.resting = self._congested(tuple(self.pump.workers))
                # One trip to the thread a round: an idle agent does little else than this.
                async with self._turns:
                    work = functools.partial(self._round, trim=not progressed)
                    progressed, sealed = await self._in_thread(work)
                    self._give(sealed)
                self._note_troubles(self.pump.troubles)
                self._note_format()
            except (OSError, sqlite3.Error, ElfError) as error:
                if self.trouble is None:
                    log.error("source %s stands still, will try again: %s", self.pump.source, error)
                self.trouble = str(error)
                progressed = False
                await asyncio.sleep(RETRY_S)
            except Exception as error:
                # A bug of ours. What was read since the last checkpoint may be half done, so no other is made: the next
                # start reads it again.
                log.exception("source %s has stopped: restart the agent", self.pump.source)
                self.trouble = f"internal error, {type(error).__name__}: {error}"
                self._broken = True
                return
            is_behind = self.pump.is_behind
            day_s = self.pump.now_ms() / 1000
            pause = pace.after(
                progressed=progressed, is_behind=is_behind, begun_s=begun_s, now_s=loop.time(), day_s=day_s
            )
            if pause.ends_with_news:
                self._wake.clear()
                # Not `wait_for`: in Python 3.11 it forgets that it was cancelled if it is woken at the same time.
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(pause.seconds):
                        await self._wake.wait()
            elif pause.seconds:
                await asyncio.sleep(pause.seconds)

    def _round(self, *, trim: bool) -> tuple[bool, Sequence[Sealed]]:
        """Work once, in the thread: return whether there was anything to read, and what is sealed and durable now."""
        try:
            if trim:
                place = self.pump.saved_place(os.path.abspath(self.push.path))
                if place is not None:
                    self.push.trim(place.offset, place.inode)
            progressed = False if self.resting else self.pump.step()
            return progressed, self.pump.checkpoint()
        except Exception:
            raise
        except BaseException as error:
            # A panic of Polars, or what looks like a cancellation, would end the task that waits without a word.
            raise RuntimeError(f"{type(error).__name__}: {error}") from error

    def _note_troubles(self, troubles: Sequence[str]) -> None:
        """Show, and say once, why lines of this source may be out of our sight, and when that is over."""
        trouble = "; ".join(troubles) or None
        if trouble is not None and trouble != self.trouble:
            log.warning("source %s: %s; its intervals stay open until that is mended", self.pump.source, trouble)
        elif trouble is None and self.trouble is not None:
            log.info("source %s: mended, it goes on (was: %s)", self.pump.source, self.trouble)
        self.trouble = trouble

    def _note_format(self) -> None:
        """Let others know when it becomes open what the lines are, and when that is over."""
        if self.pump.is_format_open != self._is_format_open:
            self._is_format_open = self.pump.is_format_open
            self._on_format()

    async def _save(self) -> None:
        """Make a checkpoint of all there is now; one that was held up goes first, and does not have all of it."""
        held_up = True
        while held_up:
            held_up, sealed = await self._in_thread(lambda: (self.pump.held_up, self.pump.checkpoint(force=True)))
            self._give(sealed)

    def _give(self, sealed: Sequence[Sealed]) -> None:
        for one in sealed:
            self._hand_over(one)

    async def _in_thread(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, work)
