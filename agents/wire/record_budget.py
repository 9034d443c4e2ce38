"""How many names other agents may have this one remember, and how large they may be. Pure.

What is known stays, and may change; what is new is not taken while there is no room. So whoever tells of jobs and
agents without end pushes out none that are there, as the limits of a tree's records would, which are above these
(`elf.overlay.control.records`). An operator makes room with `elf purge`.

Anybody may tell of a job, and name whom he likes as its master. Of those whose masters have not answered this agent,
which asks each, few are taken at a time: what is told without end takes 4 MiB, and makes way for others after a minute.
"""

from __future__ import annotations

from typing import NamedTuple

from elf.agents.errors import NotAdmittedError
from elf.agents.wire.purges import PREFIX
from elf.agents.wire.records import JOB, MEMBER
from elf.overlay.contract import Record


class Allowance(NamedTuple):
    """Of one kind of records: what people call one, how many there may be, and bytes of one and of all."""

    word: str
    most: int
    each_bytes: int
    all_bytes: int


#: Records of kinds that this release does not know, or cannot read, which it passes on.
OTHER = "other/"
#: Jobs that are told of and no master has answered for yet, at some 5.5 KB; and such that are over, at 2 KB.
UNHEARD_MAX = 512
#: So long a job waits for its master's answer; then it makes way for one that was not heard of yet.
UNHEARD_MS = 60_000
#: By the first letters of a record's key.
ALLOWANCES = {
    JOB: Allowance("jobs", 4_096, 256 << 10, 48 << 20),
    PREFIX: Allowance("purges", 4_096, 4 << 10, 4 << 20),
    MEMBER: Allowance("agents", 4_000, 64 << 10, 8 << 20),
    OTHER: Allowance("records of other releases", 256, 64 << 10, 1 << 20),
}


class RecordBudget:
    """The sizes of the records that an agent knows, by key."""

    def __init__(self) -> None:
        self._bytes: dict[str, dict[str, int]] = {prefix: {} for prefix in ALLOWANCES}
        self._all_bytes = dict.fromkeys(ALLOWANCES, 0)
        #: Keys of jobs for which no master has answered: of those that run, and of those that are over.
        self._unheard: tuple[dict[str, int], dict[str, int]] = ({}, {})

    def check_unheard(self, key: str, now_ms: int, *, over: bool) -> None:
        """Tell whether there is room for one more job for which no master has answered; there is for a known one.

        Raises:
            NotAdmittedError: there is none.
        """
        unheard = self._unheard[over]
        if key in self._bytes[JOB] or len(unheard) < UNHEARD_MAX or _is_stale(unheard, now_ms):
            return
        what = "that are over" if over else "whose masters have not answered"
        raise NotAdmittedError(f"{UNHEARD_MAX} jobs {what} are known here by hearsay, and that is the most")

    def hear(self, key: str, now_ms: int, *, over: bool) -> str | None:
        """Count a job that somebody tells of, if it is not known yet; returns the key of the one that makes way.

        For one that has ended meanwhile another one that has does at once: the end of what is not known is no news.
        """
        unheard = self._unheard[over]
        if key in unheard or (key in self._bytes[JOB] and key not in self._unheard[not over]):
            return None
        self._unheard[not over].pop(key, None)
        stale = next(iter(unheard)) if len(unheard) >= UNHEARD_MAX else None
        unheard[key] = now_ms
        return stale

    def confirm(self, key: str) -> None:
        """Count a job no more as one for which no master has answered."""
        for keys in self._unheard:
            keys.pop(key, None)

    def check(self, record: Record) -> None:
        """Tell whether there is room for a record; of kinds without an allowance there is.

        Raises:
            NotAdmittedError: there is none; the text says of what there are how many.
        """
        prefix = _prefix(record.key)
        if prefix is None:
            return
        allowed, known = ALLOWANCES[prefix], self._bytes[prefix]
        size = len(record.body)
        if size > allowed.each_bytes:
            raise NotAdmittedError(f"it has {size} bytes, of {allowed.each_bytes} at most")
        if record.key not in known and len(known) >= allowed.most:
            raise NotAdmittedError(f"{len(known)} {allowed.word} are known here, and that is the most")
        if self._all_bytes[prefix] - known.get(record.key, 0) + size > allowed.all_bytes:
            raise NotAdmittedError(f"what is known here of {allowed.word} has {allowed.all_bytes >> 20} MiB, the most")

    def take(self, record: Record) -> None:
        """Count a record that is known from now on, in the place of another one of its key."""
        self._forget(record.key)
        if (prefix := _prefix(record.key)) is not None:
            self._bytes[prefix][record.key] = len(record.body)
            self._all_bytes[prefix] += len(record.body)

    def drop(self, key: str) -> None:
        """Count a record no more."""
        self._forget(key)
        self.confirm(key)

    def _forget(self, key: str) -> None:
        if (prefix := _prefix(key)) is not None:
            self._all_bytes[prefix] -= self._bytes[prefix].pop(key, 0)


def _is_stale(unheard: dict[str, int], now_ms: int) -> bool:
    """Tell whether the one that was told of first makes way; so it does if the clock was set back."""
    return not 0 <= now_ms - next(iter(unheard.values())) < UNHEARD_MS


def _prefix(key: str) -> str | None:
    return next((prefix for prefix in ALLOWANCES if key.startswith(prefix)), None)
