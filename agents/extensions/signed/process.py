"""The process of one job's signed functions, seen from the agent: started, asked, and ended when it takes too much.

It is given sources and columns, and nothing else: no environment, no open file, no secret. What it sends back is held
to lengths and types like a peer's bytes. `elf.agents.extensions.signed.child` is its program, which says what the
messages are.
"""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import select
import subprocess
import sys
import time
from collections.abc import Sequence
from typing import Any

from elf.agents.errors import ElfError
from elf.agents.extensions.signed.confinement import MEMORY_BYTES_MAX
from elf.agents.language.own_functions import OwnFunction

#: Until the interpreter has confined itself and says so; a machine that starts up is slow.
START_S = 20.0
#: How often a call that takes long is looked at.
_LOOK_S = 0.05
#: Waiting without working, as only a function does that waits for what never comes.
_IDLE_S = 1.0
#: Waiting for a processor that others have, beyond what is granted.
_STARVED_S = 10.0
#: A question, unless one row alone is longer: a few thousand rows, mostly.
QUESTION_BYTES_MAX = 2 << 20
#: An answer, beyond twice what was asked: read as JSON it takes some thirty times as much of the agent's memory.
ANSWER_BYTES_MAX = 2 << 20
_PROGRAM = pathlib.Path(__file__).with_name("child.py")


class GaveUpError(ElfError):
    """The process has ended, or was ended: what its functions did that they may not."""


class NotStartedError(GaveUpError):
    """The process could not begin, which is this machine's fault: no source was run."""


class Process:
    """A process that waits for questions. Every method may take as long as it says, and is for one thread at a time.

    Args:
        functions: what it is to run; their signatures have been checked.

    Raises:
        NotStartedError: it could not be started.
    """

    def __init__(self, functions: Sequence[OwnFunction]) -> None:
        self._functions = functions
        self._number = 0
        #: How long it has waited for nothing in calls, as far as that was seen.
        self.idle_s = 0.0
        try:
            self._process = subprocess.Popen(
                # No site-packages, no module from anywhere but the standard library and beside the program.
                [sys.executable, "-S", "-s", "-B", "-X", "utf8", str(_PROGRAM), str(os.getpid())],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                cwd="/",
                # The same order of sets on all agents, and on Spark.
                env={"PYTHONHASHSEED": "0"},
                close_fds=True,
                start_new_session=True,
            )
        except OSError as error:
            why = f"the process of its functions cannot be started: {error.strerror or error}"
            raise NotStartedError(why) from None
        assert self._process.stdin is not None and self._process.stdout is not None
        self._questions = self._process.stdin.fileno()
        self._answers = self._process.stdout.fileno()
        os.set_blocking(self._questions, False)
        os.set_blocking(self._answers, False)

    @property
    def pid(self) -> int:
        """Its number."""
        return self._process.pid

    def begin(self, grant_s: float) -> None:
        """Have it confine itself, within `START_S`, and run the sources, with up to `grant_s` of a processor.

        Raises:
            NotStartedError: it did not come so far as to be given a source.
            GaveUpError: one cannot be run.
        """
        told = [
            {
                "name": each.name,
                "args": [kind.value for kind in each.types],
                "returns": each.returns,
                "strict": each.strict,
                "source": each.source,
            }
            for each in self._functions
        ]
        # Nobody else's code runs before this.
        try:
            confined = self._receive(_Watch(self, START_S, START_S), ANSWER_BYTES_MAX)
        except GaveUpError as error:
            raise NotStartedError(f"the process of its functions does not begin: {error}") from None
        if confined != ["confined"]:
            self.close()
            why = _line(str(confined[-1]))
            raise NotStartedError(f"the process of its functions cannot confine itself: {why}")
        match self._ask(told, grant_s):
            case ["ready"]:
                return
            case ["fails", int(number), str(why)] if 0 <= number < len(self._functions):
                raise self._given_up(f"the source of its function {self._functions[number].name} fails: {_line(why)}")
            case other:
                raise self._nonsense(other)

    def call(self, index: int, columns: Sequence[Sequence[Any]], grant_s: float) -> tuple[list[Any], int, str]:
        """Call a function; returns a value for each row, for how many rows it failed, and the first reason.

        Raises:
            GaveUpError: it took longer than it was granted, or did what it may not.
        """
        self._number += 1
        rows = len(columns[0])
        match self._ask([self._number, index, columns], grant_s):
            case ["answers", self._number, list(values), int(failed), str(why)] if (
                len(values) == rows and 0 <= failed <= rows
            ):
                return values, failed, _line(why)
            case other:
                raise self._nonsense(other)

    def used_s(self) -> float:
        """Return what it has used of a processor; 0 once it is gone."""
        try:
            return time.clock_gettime((~self.pid << 3) | 2)  # CPUCLOCK_SCHED of linux/posix-timers.h
        except OSError:
            return 0.0

    def close(self) -> None:
        """End it."""
        with contextlib.suppress(OSError):
            self._process.kill()
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            with contextlib.suppress(OSError):
                pipe.close()
        self._process.wait()

    # ---- messages

    def _ask(self, question: Any, grant_s: float) -> list[Any]:
        body = json.dumps(question).encode()
        message = memoryview(len(body).to_bytes(4, "big") + body)
        watch = _Watch(self, grant_s, _IDLE_S)
        while message:
            self._wait(self._questions, select.POLLOUT, watch)
            try:
                message = message[os.write(self._questions, message) :]
            except BlockingIOError:
                continue
            except OSError:
                raise self._ended() from None
        return self._receive(watch, ANSWER_BYTES_MAX + 2 * len(body))

    def _receive(self, watch: _Watch, most: int) -> list[Any]:
        size = int.from_bytes(self._read(4, watch), "big")
        if size > most:
            raise self._given_up(f"its functions answer with more than {most} bytes at a time")
        try:
            answer = json.loads(self._read(size, watch))
        except (ValueError, RecursionError):
            answer = None
        if answer == ["memory"]:
            raise self._given_up(f"its functions need more than {MEMORY_BYTES_MAX >> 20} MiB of memory")
        return answer if isinstance(answer, list) else [answer]

    def _read(self, size: int, watch: _Watch) -> bytes:
        parts = bytearray()
        while len(parts) < size:
            self._wait(self._answers, select.POLLIN, watch)
            try:
                part = os.read(self._answers, min(size - len(parts), 1 << 20))
            except BlockingIOError:
                continue
            if not part:
                raise self._ended()
            parts += part
        return bytes(parts)

    def _wait(self, pipe: int, event: int, watch: _Watch) -> None:
        """Wait until a pipe is ready, as long as the process keeps to its grant."""
        poll = select.poll()
        poll.register(pipe, event)
        is_ready = False
        while not is_ready:
            is_ready = bool(poll.poll(_LOOK_S * 1000))
            # Also where there always is something: an answer may come byte by byte.
            why = watch.overstepped() if watch.is_due(time.monotonic()) else None
            if why is not None:
                raise self._given_up(why)

    # ---- its end

    def _nonsense(self, answer: list[Any]) -> GaveUpError:
        return self._given_up("its functions answer what was not asked")

    def _given_up(self, why: str) -> GaveUpError:
        self.close()
        return GaveUpError(why)

    def _ended(self) -> GaveUpError:
        """Say why it has ended by itself, or by the kernel's hand."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(1)
        code = self._process.returncode
        self.close()
        if code == -31:  # SIGSYS
            what = "functions compute, and open no file, socket or process"
            return GaveUpError(f"its functions made a system call that they may not make: {what}")
        if code is not None and code < 0:
            return GaveUpError(f"the process of its functions was ended by signal {-code}")
        return GaveUpError("the process of its functions has ended by itself")


class _Watch:
    """Looks whether a process keeps to its grant, from now on."""

    def __init__(self, process: Process, grant_s: float, idle_s: float) -> None:
        self._process = process
        self._grant_s = grant_s
        self._idle_s = idle_s
        self._used_s = process.used_s()
        self._began_s = time.monotonic()
        self._last_used_s = self._used_s
        self._looked_s = self._began_s
        self._idle_now_s = 0.0

    def is_due(self, now_s: float) -> bool:
        """Tell whether it is time to look again."""
        return now_s - self._looked_s >= _LOOK_S

    def overstepped(self) -> str | None:
        """Return what the process did too long; None while it did not."""
        used_s, now_s = self._process.used_s(), time.monotonic()
        if used_s - self._used_s > self._grant_s:
            return f"its functions take too long: more than {self._grant_s:.1f} s of a processor for one call"
        passed_s = now_s - self._looked_s
        self._looked_s = now_s
        if used_s > self._last_used_s or _waits_for_the_machine(self._process.pid):
            self._last_used_s = used_s
            self._idle_now_s = 0.0
        else:
            self._idle_now_s += passed_s
            self._process.idle_s += passed_s
        if self._idle_now_s > self._idle_s:
            return f"its functions wait for something, for more than {self._idle_s:.1f} s"
        if now_s - self._began_s > self._grant_s + _STARVED_S:
            return f"its functions take too long: more than {self._grant_s + _STARVED_S:.0f} s for one call"
        return None


def _waits_for_the_machine(pid: int) -> bool:
    """Tell whether a process could run and has to wait for others that do, or for a page that lies on disk."""
    try:
        text = pathlib.Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:
        return False
    return text.rpartition(b")")[2].split()[:1] in ([b"R"], [b"D"])


def _line(text: str) -> str:
    """Return what somebody else's code says, as a line of a sentence of ours."""
    return "".join(char if char.isprintable() else " " for char in text[:200])
