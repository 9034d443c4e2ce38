"""What every member of a simulated job's root group holds: its master's copy, and the commands it is made of.

The counterpart of `commands` and `copies` in `agents.group`, as thin as can be. `Truth` looks from outside:
it holds all members to one order, and is what was decided, whoever still has it. OVERLAY 6.5.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TypeAlias

import msgspec

from overlay.contract import Commit, ControlEntry, ControlState, Mark, RollupState
from overlay.group.messages import Kind, Place, Seat, decode_seats
from overlay.sim.payloads import unpack


class Enlisted(msgspec.Struct, frozen=True):
    """One agent that works on the job, or did until its disk was `lost`.

    `counted`: the last interval that its predecessor brought anything of.
    """

    address: str
    counted: int | None = None
    lost: bool = False


class Count(msgspec.Struct, frozen=True, tag="commit"):
    """Take a commit."""

    commit: Commit


class Enrol(msgspec.Struct, frozen=True, tag="enlist"):
    """A new worker begins, in the place of others whose disks are lost."""

    agent: str
    entry: Enlisted
    lost: tuple[str, ...]


class Rename(msgspec.Struct, frozen=True, tag="job"):
    """The job has another master."""

    root: str
    reign: int


class Say(msgspec.Struct, frozen=True, tag="control"):
    """The tree's control log has another entry."""

    mark: Mark
    body: bytes
    retain_above: Mark | None

    @property
    def entry(self) -> ControlEntry:
        """The entry as the root's runtime stores it."""
        return ControlEntry(self.mark, self.body, retain_above=self.retain_above)


Command: TypeAlias = Count | Enrol | Rename | Say


class Copy(msgspec.Struct, kw_only=True):
    """One member's copy; of a root without a group, the only one."""

    #: The address of the job's master, and since when it is that.
    root: str = ""
    reign: int = 0
    rollup: RollupState = RollupState()
    commits: list[Commit] = []
    #: All control entries, and what of them a root begins with.
    controls: list[ControlEntry] = []
    control: ControlState = ControlState()
    enlisted: dict[str, Enlisted] = {}
    #: The version of the job's definition that begins with an interval.
    versions: dict[int, int] = {}
    applied: Place = Place(1, 1)
    seats: tuple[Seat, ...] = ()

    def detached(self) -> Copy:
        """Return a copy for a process that is dead and does not know it: what it writes goes nowhere."""
        lists = {"commits": [*self.commits], "controls": [*self.controls]}
        return msgspec.structs.replace(self, **lists, enlisted={**self.enlisted}, versions={**self.versions})

    def apply(self, place: Place, kind: Kind, body: bytes) -> Command | None:
        """Take a decided entry in; returns the command that it is."""
        command: Command | None = None
        if kind is Kind.COMMAND:
            command = msgspec.msgpack.decode(body, type=Command)
            self.do(command)
        elif kind is Kind.SEATS:
            self.seats = decode_seats(body)
        self.applied = place
        return command

    def do(self, command: Command) -> None:
        """Carry a command out; what every copy refuses changes nothing on any."""
        match command:
            case Count(commit=commit):
                if commit.previous == self.rollup.committed and commit.through > commit.previous:
                    self.commits.append(commit)
                    self.rollup = commit.state
            case Enrol(agent=agent, entry=entry, lost=lost):
                for old in lost:
                    self.enlisted[old] = msgspec.structs.replace(self.enlisted[old], lost=True)
                self.enlisted[agent] = entry
            case Rename(root=root, reign=reign):
                if reign > self.reign:
                    self.root, self.reign = root, reign
            case Say(mark=mark, body=body) if mark > self.control.mark:
                self.controls.append(command.entry)
                self.control = self.control.after(command.entry)
                if body.startswith(b"version "):
                    _, version, since = body.split()
                    self.versions[max(int(since), self.rollup.committed + 1)] = int(version)

    def version_at(self, through: int) -> int:
        """Return the version of the definition at an interval."""
        return version_in(self.versions, through)

    def counted(self) -> Counter[str]:
        """Return how often each item is in a commit."""
        return Counter(item for commit in self.commits for item in unpack(commit.payload))


def version_in(versions: dict[int, int], through: int) -> int:
    """Return the version of a definition at an interval, 0 for the first."""
    return max((version for since, version in versions.items() if since <= through), default=0)


class Truth:
    """All that a group has decided, as seen from outside when the first member applies it."""

    def __init__(self, copy: Copy) -> None:
        self.copy = copy.detached()
        #: What each agent has sealed, by interval; what of it a commit has to hold is known by what it says.
        self._sealed: dict[str, dict[int, list[str]]] = {}
        self._decided: dict[int, tuple[int, Kind, bytes]] = {}
        #: Sentences about members that applied something else, or with a gap.
        self.wrong: list[str] = []

    def seal(self, agent: str, through: int, items: Sequence[str]) -> None:
        """An agent has sealed an interval, durably and for ever."""
        self._sealed.setdefault(agent, {})[through] = [item for item in items if not item.startswith("=")]

    def observe(self, agent: str, place: Place, kind: Kind, body: bytes) -> None:
        """A member has applied an entry."""
        what = place.term, kind, body
        known = self._decided.get(place.index)
        if known is None:
            if place.index != self.copy.applied.index + 1:
                self.wrong.append(f"{agent} applied {place} after {self.copy.applied}: something was lost")
            self._decided[place.index] = what
            commits = len(self.copy.commits)
            self.copy.apply(place, kind, body)
            for commit in self.copy.commits[commits:]:
                self._hold(commit)
        elif known != what:
            self.wrong.append(f"{agent} applied another entry at {place} than others did")

    def _hold(self, commit: Commit) -> None:
        """Check what a commit says at once: it has all that those in it have sealed since the last one, and no more."""
        runs = [
            items
            for agent in commit.reported
            for through, items in self._sealed.get(agent, {}).items()
            if commit.previous < through <= commit.through
        ]
        due, items = Counter(item for run in runs for item in run), Counter(unpack(commit.payload))
        if due != items:
            self.wrong.append(f"commit {commit.through} lacks {due - items} and has {items - due} too much")
        both = set(commit.reported).intersection(commit.missing)
        if both:
            self.wrong.append(f"commit {commit.through} has {both} in it and names them as missing")
