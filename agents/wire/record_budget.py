"""How many names other agents may have this one remember, and how large they may be. Pure.

What is known stays, and may change; what is new is not taken while there is no room. So whoever tells of jobs and
agents without end pushes out none that are there, as the limits of a tree's records would, which are above these
(`elf.overlay.control.records`). An operator makes room with `elf purge`.
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


#: By the first letters of a record's key.
ALLOWANCES = {
    JOB: Allowance("jobs", 4_096, 256 << 10, 48 << 20),
    PREFIX: Allowance("purges", 4_096, 4 << 10, 4 << 20),
    MEMBER: Allowance("agents", 4_000, 64 << 10, 8 << 20),
}


class RecordBudget:
    """The sizes of the records that an agent knows, by key."""

    def __init__(self) -> None:
        self._bytes: dict[str, dict[str, int]] = {prefix: {} for prefix in ALLOWANCES}
        self._all_bytes = dict.fromkeys(ALLOWANCES, 0)

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
        self.drop(record.key)
        if (prefix := _prefix(record.key)) is not None:
            self._bytes[prefix][record.key] = len(record.body)
            self._all_bytes[prefix] += len(record.body)

    def drop(self, key: str) -> None:
        """Count a record no more."""
        if (prefix := _prefix(key)) is not None:
            self._all_bytes[prefix] -= self._bytes[prefix].pop(key, 0)


def _prefix(key: str) -> str | None:
    return next((prefix for prefix in ALLOWANCES if key.startswith(prefix)), None)
