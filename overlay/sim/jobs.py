"""The one job of a simulated cluster, and what its agents say to each other about it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import msgspec

from overlay.contract import Record
from overlay.ids import Contact, parse_address
from overlay.sim.copies import Copy, Truth

#: The key of the job's record, in its source's tree and in its own.
JOB_KEY = "job"


class Job:
    """The one job of a simulated cluster: its tree, its source's tree, and what its group has decided."""

    def __init__(self, app: bytes, source: bytes) -> None:
        self.app, self.source, self.truth = app, source, Truth(Copy())
        #: How many agents have begun to lead.
        self.reigns = 0


@dataclass(frozen=True, slots=True)
class Heard:
    """Who the job's master is, and since when: of two of them the later one counts."""

    root: Contact
    reign: int

    @property
    def record(self) -> Record:
        """The record that says so."""
        return Record(JOB_KEY, self.reign, self.root.address.encode())


class Who(msgspec.Struct, frozen=True, tag="who"):
    """Ask an agent for its name."""


class Fetch(msgspec.Struct, frozen=True, tag="fetch"):
    """Ask the leader for its copy."""

    agent: str


class Enlist(msgspec.Struct, frozen=True, tag="enlist"):
    """Ask the master where a new worker begins."""

    agent: str
    address: str


Ask: TypeAlias = Who | Fetch | Enlist


def contact_at(address: str) -> Contact:
    """Return the agent at an address."""
    return Contact.at(*parse_address(address))
