"""What every member of a simulated job's root group holds: its master's copy, and the commands it is made of.

The counterpart of `commands` and `copies` in `elf.agents.group`, as thin as can be. `Truth` looks from outside:
it holds all members to one order, and is what was decided, whoever still has it. OVERLAY 6.5.
"""

from __future__ import annotations

from collections import Counter
from typing import TypeAlias

import msgspec

from elf.overlay.contract import Commit, ControlEntry, ControlState, Mark, RollupState
from elf.overlay.group.messages import Kind, Place, Seat, decode_seats
from elf.overlay.sim.controls import handled
from elf.overlay.sim.payloads import Row, read, read_told, row_of
from elf.overlay.sim.versions import FIRST, Version, counts, late, turns, version_at, with_version


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


class Turn(msgspec.Struct, frozen=True, tag="version"):
    """The job has another version; of no effect unless its number is the next one."""

    version: Version


class Say(msgspec.Struct, frozen=True, tag="control"):
    """The tree's control log has another entry."""

    mark: Mark
    body: bytes
    retain_above: Mark | None

    @property
    def entry(self) -> ControlEntry:
        """The entry as the root's runtime stores it."""
        return ControlEntry(self.mark, self.body, retain_above=self.retain_above)


Command: TypeAlias = Count | Enrol | Rename | Turn | Say


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
    #: All versions of the job, and since when agents count by which, as they have said.
    versions: tuple[Version, ...] = FIRST
    since: dict[int, dict[str, int]] = {}
    #: Rows that count, and those that were left out because their interval is counted by rows of another kind.
    rows: list[Row] = []
    superseded: list[Row] = []
    #: The items of the window that is open since it was emptied last, and where it was emptied.
    window: list[str] = []
    emptied: list[int] = []
    applied: Place = Place(1, 1)
    seats: tuple[Seat, ...] = ()

    def detached(self) -> Copy:
        """Return a copy for a process that is dead and does not know it: what it writes goes nowhere."""
        names = ("commits", "controls", "rows", "superseded", "window", "emptied")
        lists = {name: [*getattr(self, name)] for name in names}
        return msgspec.structs.replace(self, **lists, enlisted={**self.enlisted}, since={**self.since})

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
                    self._count(commit)
            case Enrol(agent=agent, entry=entry, lost=lost):
                for old in lost:
                    self.enlisted[old] = msgspec.structs.replace(self.enlisted[old], lost=True)
                self.enlisted[agent] = entry
            case Rename(root=root, reign=reign):
                if reign > self.reign:
                    self.root = root
                    self.reign = reign
            case Turn(version=version):
                versions = with_version(self.versions, version, self.rollup.committed)
                if versions is not None:
                    self.versions = versions
                    self.reign = max(version.made_ms, self.reign + 1)
            case Say(mark=mark) if mark > self.control.mark:
                self.controls.append(command.entry)
                self.control = handled(self.control, command.entry)

    def _count(self, commit: Commit) -> None:
        """Count the rows of a commit that are of their interval's kind; agents speak for themselves only."""
        for agent, version, first in read_told(commit.payload):
            if agent in commit.reported:
                self.since[version] = {**self.since.get(version, {}), agent: first}
        for begins in turns(self.versions, commit.previous, commit.through):
            self.emptied.append(begins)
            self.window.clear()
        for text in read(commit.payload):
            if not text.startswith("="):
                self._count_row(row_of(text, commit.through))
        self.commits.append(commit)
        self.rollup = commit.state

    def _count_row(self, row: Row) -> None:
        if not self.takes(row):
            self.superseded.append(row)
            return
        self.rows.append(row)
        if not self.emptied or row.interval >= self.emptied[-1]:
            self.window.append(row.item)

    def takes(self, row: Row) -> bool:
        """Tell whether a row is of the kind that its interval is counted by."""
        return counts(self.versions, row.kind, row.interval)

    def expects(self, commit: Commit) -> set[str]:
        """Return whom the label of a commit speaks of: those expected now, and those that were when it was made."""
        return {*commit.reported, *commit.missing, *self.rollup.roster}

    def late(self, commit: Commit, interval: int) -> set[str]:
        """Return whom the label of an interval names for having taken its version up too late, or not that we know.

        Also of all that have ever said so: who leaves takes nothing of it back.
        """
        told = self.since.get(version_at(self.versions, interval).kind, {})
        return late(self.versions, self.since, {*self.expects(commit), *told}, interval)

    def counted(self) -> Counter[str]:
        """Return how often each item counts."""
        return Counter(row.item for row in self.rows)
