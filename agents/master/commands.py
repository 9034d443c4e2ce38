"""What a job's master decides, as its root group's log holds it: every member applies the same, in the same order.

Commands are the master's own words to its copies on other agents; bytes that fit none are refused, never guessed at.
"""

from __future__ import annotations

from typing import Annotated

import msgspec

from elf.agents.completeness.tallies import Tallies
from elf.agents.jobs.versions import Version
from elf.agents.wire.application_messages import KEPT_BYTES_MAX
from elf.agents.wire.records import JobRecord
from elf.overlay.contract import Commit, LogEntry, Mark
from elf.overlay.decoding import read_msgpack


class _Command(msgspec.Struct, frozen=True, tag_field="do"):
    """The base of all commands."""


class Enlisted(msgspec.Struct, frozen=True):
    """One agent that works on the job, or did until its disk was `lost`.

    `counted`: the last interval that its predecessor brought anything of. `missed`: commits after that, up to this one,
    name the predecessor; what they lack is this agent's to bring. `of`: the agents whose place it takes; they are never
    counted again.
    """

    address: str
    counted: int | None = None
    lost: bool = False
    missed: int | None = None
    of: tuple[str, ...] = ()


class Count(_Command, frozen=True, tag="commit"):
    """Take a commit into the panes."""

    commit: Commit


class Load(_Command, frozen=True, tag="load"):
    """Take intervals, both ends included, as the archive has them, in the place of what agents brought of them.

    `block`: their PAOs. `missing`: agents whose archives lack some of it. `mistyped`: values that do not fit their
    columns' types, which are null in the archives.
    """

    first: int
    last: int
    block: bytes
    missing: tuple[str, ...] = ()
    mistyped: Tallies = {}


class Enrol(_Command, frozen=True, tag="enlist"):
    """A new worker begins, in the place of others whose disks are lost."""

    agent: str
    entry: Enlisted
    lost: tuple[str, ...]


class Dismiss(_Command, frozen=True, tag="retire"):
    """An agent leaves the roster with the first commit after interval `last`."""

    agent: str
    last: int


class Rename(_Command, frozen=True, tag="job"):
    """The job's record is this from now on: another master, a later stamp, or its end.

    `version`: of no effect unless this is the number of the job's newest version then; None: whatever that is.
    """

    job: JobRecord
    version: int | None = None


class Turn(_Command, frozen=True, tag="version"):
    """The job has another version; of no effect unless its number is the next one."""

    version: Version


class Say(_Command, frozen=True, tag="control"):
    """The tree's control log has another entry."""

    mark: Mark
    body: bytes
    retain_above: Mark | None

    @property
    def entry(self) -> LogEntry:
        """The entry as a root stores it."""
        return LogEntry(self.mark, self.body)


class Remember(_Command, frozen=True, tag="remember"):
    """The job's application keeps this for the next master, in the place of what it kept before."""

    body: Annotated[bytes, msgspec.Meta(max_length=KEPT_BYTES_MAX)]


class End(_Command, frozen=True, tag="stop"):
    """The job is stopped: forget it."""

    tombstone: JobRecord


Command = Count | Load | Enrol | Dismiss | Rename | Turn | Say | Remember | End


def encode_command(command: Command) -> bytes:
    """Encode a command."""
    return msgspec.msgpack.encode(command)


def decode_command(body: bytes) -> Command:
    """Decode a command; raises msgspec.DecodeError on anything else."""
    command: Command = read_msgpack(body, Command)
    return command
