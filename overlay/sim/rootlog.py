"""What a job's roots share and one of them at a time may add to: commits, control entries, agents never counted again.

Stands for the root group of a job (`overlay.group`) where a scenario moves roots: one order, one term at a time, never
lost, reachable by whoever is root. A root that keeps to itself has one of its own, on its disk. OVERLAY 6.5.
"""

from __future__ import annotations

import copy
from collections import Counter

import msgspec

from overlay.contract import Commit, ControlEntry, ControlState, Mark, RollupState


class FencedError(RuntimeError):
    """Another root has been elected since: what the old one says is not written (OVERLAY 6.4, M3)."""


def read(payload: bytes | None) -> list[str]:
    """Return what a payload holds: a mark `=version@interval` at most, and items; None holds nothing."""
    return msgspec.msgpack.decode(payload, type=list[str]) if payload is not None else []


def unpack(payload: bytes | None) -> list[str]:
    """Return the items in a payload; None holds none."""
    return [item for item in read(payload) if not item.startswith("=")]


class RootLog:
    """The log; everything in it is durable as soon as it is there."""

    def __init__(self) -> None:
        self.term = 0
        self.commits: list[Commit] = []
        self.controls: list[ControlEntry] = []
        self.control = ControlState()
        self.state: RollupState | None = None
        #: Agents that lost their disk, and up to where they were counted.
        self.lost: dict[str, int] = {}
        #: What the first interval of each version of the job's definition is.
        self.versions: dict[int, int] = {}

    def elect(self) -> int:
        """Begin a term; returns it. From now on nobody else adds anything."""
        self.term += 1
        return self.term

    def check(self, term: int) -> None:
        """Refuse a root of an earlier term.

        Raises:
            FencedError: there has been another election.
        """
        if term != self.term:
            raise FencedError(f"term {term} is over: it is {self.term} now")

    def commit(self, term: int, commit: Commit) -> None:
        """Add a commit and its state."""
        self.check(term)
        self.commits.append(commit)
        self.state = RollupState.decode(commit.state.encode())

    def say(self, term: int, entry: ControlEntry) -> None:
        """Add a control entry."""
        self.check(term)
        self.controls.append(entry)
        self.control = self.control.after(entry)
        if entry.body.startswith(b"version "):
            _, version, since = entry.body.split()
            self.versions[int(since)] = int(version)

    def has(self, mark: Mark) -> bool:
        """Tell whether an entry is in the log."""
        return any(entry.mark == mark for entry in reversed(self.controls))

    def exclude(self, term: int, agent: str, counted: int) -> None:
        """Add that an agent is never counted again."""
        self.check(term)
        self.lost[agent] = counted

    def version_at(self, through: int) -> int:
        """Return the version of the definition at an interval."""
        return max((version for since, version in self.versions.items() if since <= through), default=0)

    def counted(self) -> Counter[str]:
        """Return how often each item is in a commit."""
        return Counter(item for commit in self.commits for item in unpack(commit.payload))

    def detached(self) -> RootLog:
        """Return a copy for a process that is dead and does not know it: what it writes goes nowhere."""
        twin = copy.copy(self)
        for name in ("commits", "controls", "lost", "versions"):
            setattr(twin, name, copy.copy(getattr(self, name)))
        return twin
