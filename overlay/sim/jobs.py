"""The one job of a simulated cluster, and what its agents say to each other about it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import msgspec

from elf.overlay.contract import Record
from elf.overlay.ids import Contact, parse_address
from elf.overlay.sim.copies import Copy
from elf.overlay.sim.truth import Truth
from elf.overlay.sim.versions import Version, What

#: The key of the job's record, in its source's tree and in its own.
JOB_KEY = "job"


class Job:
    """The one job of a simulated cluster: its tree, its source's tree, and what its group has decided."""

    def __init__(self, app: bytes, source: bytes) -> None:
        self.app = app
        self.source = source
        self.truth = Truth(Copy())
        #: How many agents have begun to lead.
        self.reigns = 0
        #: Which interval it is by a clock that is so many ms off.
        self.now: Callable[[int], int] = lambda off_ms: 0


class _Body(msgspec.Struct, frozen=True, array_like=True):
    root: str
    versions: tuple[Version, ...]


@dataclass(frozen=True, slots=True)
class Heard:
    """Who the job's master is and which versions the job has, as of a stamp: of two the later one counts."""

    root: Contact
    reign: int
    versions: tuple[Version, ...]

    @classmethod
    def of(cls, copy: Copy) -> Heard:
        """Return what a copy says."""
        return cls(contact_at(copy.root), copy.reign, copy.versions)

    @classmethod
    def read(cls, record: Record) -> Heard:
        """Return what a record says."""
        body = msgspec.msgpack.decode(record.body, type=_Body)
        return cls(contact_at(body.root), record.version, body.versions)

    @property
    def record(self) -> Record:
        """The record that says so."""
        return Record(JOB_KEY, self.reign, msgspec.msgpack.encode(_Body(self.root.address, self.versions)))


class Who(msgspec.Struct, frozen=True, tag="who"):
    """Ask an agent for its name."""


class Fetch(msgspec.Struct, frozen=True, tag="fetch"):
    """Ask the leader for its copy."""

    agent: str


class Enlist(msgspec.Struct, frozen=True, tag="enlist"):
    """Ask the master where a new worker begins."""

    agent: str
    address: str


class Amend(msgspec.Struct, frozen=True, tag="amend"):
    """Ask the master for another version; `expected`: if the newest one still has this number."""

    what: What
    asked: str
    expected: int | None = None
    body: bytes = b""


class Amended(msgspec.Struct, frozen=True):
    """The newest version that the master knows, and the first interval of what was asked for; None: not made."""

    newest: int
    since: int | None


Ask: TypeAlias = Who | Fetch | Enlist | Amend


def contact_at(address: str) -> Contact:
    """Return the agent at an address."""
    return Contact.at(*parse_address(address))
