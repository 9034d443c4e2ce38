"""Which signed functions an agent runs: whom it trusts, and the process of each job's functions.

Off unless the operator lists creators and their keys. A process is started when the first events come, ended when none
have come for a while, and given up for good once its functions have done what they may not: then the job is over, and
whoever owns this hears of it.
"""

from __future__ import annotations

import asyncio
import json
import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import polars as pl

from elf.agents.errors import JobSpecError
from elf.agents.extensions.signed.allowance import Allowance
from elf.agents.extensions.signed.answers import typed
from elf.agents.extensions.signed.confinement import unsupported
from elf.agents.extensions.signed.process import QUESTION_BYTES_MAX, GaveUpError, NotStartedError, Process
from elf.agents.extensions.signed.signatures import is_signed, read_key
from elf.agents.language.installed.calls import FunctionError, FunctionsStoppedError
from elf.agents.language.own_functions import Call, OwnFunction, check_functions, fingerprint
from elf.agents.language.types import SqlType

log = logging.getLogger(__name__)
#: Rows of a question at most: few enough for the process's memory, unless their texts are long.
ROWS_MAX = 8_192
#: A process without questions ends after this.
IDLE_S = 60.0
#: Pause before a process that could not begin is tried again.
AGAIN_S = 10.0
#: Jobs whose functions are remembered; those that are longest without a question go.
RUNNERS_MAX = 1_024


#: Told creator, job, functions and reason.
Stopped = Callable[[str, str, Sequence[OwnFunction], str], None]


class Trust:
    """Whose functions may run.

    Args:
        keys: creator -> public key, base64.
        who: does not run others.
        unlisted: why a creator without a key here is refused, with a place for its name.
        other: what to do about another key than that here, likewise.

    Raises:
        JobError: one is no key.
    """

    def __init__(
        self,
        keys: Mapping[str, str],
        *,
        who: str = "this agent",
        unlisted: str = "its settings list no key of {creator!r} under [functions] trusted",
        other: str = "",
    ) -> None:
        for key in keys.values():
            read_key(key)
        self.keys = dict(keys)
        self._who = who
        self._unlisted = unlisted
        self._other = other

    def check(self, creator: str, job: str, functions: Sequence[OwnFunction]) -> None:
        """Refuse functions that are not signed by their creator, as the creator is known here.

        Raises:
            JobSpecError: with the creator's name.
        """
        names = ", ".join(each.name for each in functions)
        why = f"{self._who} does not run the functions ({names}) that {creator!r} sends with job {creator}/{job}: "
        known = self.keys.get(creator)
        if known is None:
            raise _refused(functions[0], why + self._unlisted.format(creator=creator))
        for each in functions:
            if not each.signature:
                raise _refused(each, why + f"{each.name} is not signed")
            if each.key != known:
                signed, trusted = fingerprint(each.key), fingerprint(known)
                differ = f"{each.name} is signed with key {signed}, and {creator!r} has key {trusted}"
                raise _refused(each, why + differ + self._other.format(creator=creator))
            if not is_signed(creator, job, each):
                raise _refused(
                    each, why + f"the signature of {each.name} is wrong: it was altered, or is of another job"
                )
        missing = unsupported()
        if missing is not None:
            raise _refused(functions[0], why + missing)


def _refused(function: OwnFunction, why: str) -> JobSpecError:
    return JobSpecError(why, setting=f"functions.{function.name}")


class Runners:
    """The signed functions of one agent's jobs.

    Args:
        trust: whose functions may run; None: those of the user who gives them to this very process.
        stopped: told, in whatever thread it happens, of a job whose functions run no more, and why.
    """

    def __init__(self, trust: Trust | None, stopped: Stopped = lambda *failed: None) -> None:
        self._trust = trust
        self._stopped = stopped
        self._runners: dict[object, Runner] = {}
        self._lock = threading.Lock()

    def admit(self, creator: str, job: str, functions: Sequence[OwnFunction]) -> Sequence[Call]:
        """Return what calls functions of a job here; `elf.agents.language.own_functions.Admits`."""
        check_functions(functions)
        if self._trust is not None:
            self._trust.check(creator, job, functions)
        elif (missing := unsupported()) is not None:
            raise _refused(functions[0], missing)
        key = creator, job, tuple(functions)
        with self._lock:
            runner = self._runners.pop(key, None)
            if runner is None or runner.why is not None:
                # Another version of the job, one that was resumed, say, may try again.
                runner = Runner(creator, job, functions, self._stopped)
            self._runners[key] = runner
            while len(self._runners) > RUNNERS_MAX:
                self._runners.pop(next(iter(self._runners))).rest()
        return [runner.caller(index) for index in range(len(functions))]

    async def run(self) -> None:
        """Let processes that nobody asks rest, as long as the agent runs; say who is trusted, for all to see."""
        if self._trust is not None and self._trust.keys:
            listed = ", ".join(f"{creator} (key {fingerprint(key)})" for creator, key in self._trust.keys.items())
            missing = unsupported()
            if missing is None:
                log.info("functions that come with jobs run here if they are signed by %s", listed)
            else:
                log.warning("functions that come with jobs, signed by %s, cannot run here: %s", listed, missing)
        while True:
            await asyncio.sleep(IDLE_S / 2)
            await asyncio.to_thread(self.rest)

    def rest(self, idle_s: float = IDLE_S) -> None:
        """End the processes that nobody has asked for so long; a question under way is waited for."""
        for runner in self._all():
            runner.rest(idle_s)

    def close(self) -> None:
        """End all processes."""
        self.rest(0.0)

    def _all(self) -> list[Runner]:
        with self._lock:
            return list(self._runners.values())


class Runner:
    """The functions of one version of a job, and their process while there are events.

    Args:
        creator: whose job it is.
        job: its name.
        functions: checked.
        stopped: told when they are given up.
    """

    def __init__(self, creator: str, job: str, functions: Sequence[OwnFunction], stopped: Stopped) -> None:
        self._creator = creator
        self._job = job
        self._functions = tuple(functions)
        self._stopped = stopped
        self._lock = threading.Lock()
        self._process: Process | None = None
        self._allowance = Allowance(time.monotonic())
        self._asked_s = time.monotonic()
        #: Why they run no more.
        self.why: str | None = None
        #: Until then nobody tries to begin the process again.
        self._resting_until_s = 0.0

    def caller(self, index: int) -> Call:
        """Return what calls one of the functions."""
        return lambda columns: self._call(index, columns)

    def rest(self, idle_s: float = 0.0) -> None:
        """End the process if nobody has asked for so long; the next question starts another one."""
        with self._lock:
            if self._process is not None and time.monotonic() - self._asked_s >= idle_s:
                self._process.close()
                self._process = None

    def _call(self, index: int, columns: Sequence[pl.Series]) -> pl.Series:
        """Call a function for the rows of columns, of which there are some.

        Raises:
            FunctionError: it fails on some of them.
            FunctionsStoppedError: the functions run no more.
        """
        kind = SqlType.parse(self._functions[index].returns)
        parts: list[pl.Series] = []
        with self._lock:
            if self.why is not None:
                raise FunctionsStoppedError(self.why)
            if self._resting_until_s > time.monotonic():
                raise FunctionsStoppedError(f"the functions of job {self._creator}/{self._job} cannot begin here now")
            try:
                for first in range(0, columns[0].len(), ROWS_MAX):
                    parts += self._parts(index, [column.slice(first, ROWS_MAX) for column in columns], kind)
            except NotStartedError as error:
                # This machine is to blame: the job goes on elsewhere, and here as soon as it can.
                self._process = None
                self._resting_until_s = time.monotonic() + AGAIN_S
                log.error("job %s/%s leaves events out: %s", self._creator, self._job, error)
                raise FunctionsStoppedError(str(error)) from None
            except GaveUpError as error:
                self._process = None
                self.why = f"job {self._creator}/{self._job} is stopped: {error}"
                log.error("%s", self.why)
                self._stopped(self._creator, self._job, self._functions, str(error))
                raise FunctionsStoppedError(self.why) from None
        return pl.concat(parts)

    def _parts(self, index: int, columns: Sequence[pl.Series], kind: SqlType) -> list[pl.Series]:
        values = [column.to_physical().to_list() for column in columns]
        rows = columns[0].len()
        if rows > 1 and len(json.dumps(values)) > QUESTION_BYTES_MAX:
            middle = rows // 2
            halves = [column.head(middle) for column in columns], [column.slice(middle) for column in columns]
            return [part for half in halves for part in self._parts(index, half, kind)]
        answers, failed, why = self._ask(index, values)
        if failed:
            raise FunctionError(f"the function {self._functions[index].name} fails: {why}")
        try:
            return [typed(answers, kind)]
        except GaveUpError:
            if self._process is not None:
                self._process.close()
            raise

    def _ask(self, index: int, values: Sequence[Sequence[Any]]) -> tuple[list[Any], int, str]:
        rows = len(values[0])
        process = self._process or self._started()
        used_s, idle_s = process.used_s(), process.idle_s
        answers, failed, why = process.call(index, values, self._allowance.grant(rows, time.monotonic()))
        self._asked_s = time.monotonic()
        if not self._allowance.spend(rows, process.used_s() - used_s, process.idle_s - idle_s):
            process.close()
            raise GaveUpError("its functions take too long, call after call")
        if not self._allowance.fail(rows, failed):
            process.close()
            raise GaveUpError(f"its function {self._functions[index].name} fails on every event: {why}")
        return answers, failed, why

    def _started(self) -> Process:
        process = Process(self._functions)
        process.begin(self._allowance.grant(0, time.monotonic()))
        self._process = process
        return process
