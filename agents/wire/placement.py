"""What candidates for a new job's master are asked, and how one is installed. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

import msgspec

from elf.agents.wire.records import JobRecord
from elf.agents.wire.replicas import Request
from elf.overlay.fields import Address, AgentId, AppId, check_address
from elf.overlay.keys import KEY_BYTES


class Weigh(Request, frozen=True, tag="weigh"):
    """Tell how many trees you are root of; asked of a candidate for a job's master. The answer is a `Weight`.

    With `hold` the candidate keeps the job for this publisher (an agent's address) for a few seconds, so that no other
    one installs the same job on the other candidate meanwhile; without, it gives back what it kept.
    """

    app: AppId
    publisher: str
    hold: bool = True


class Weight(msgspec.Struct, frozen=True, kw_only=True):
    """A candidate's load, and what stands against a new master: the job runs there, or is held for somebody else."""

    roots: int
    #: The job, if it runs there.
    job: JobRecord | None = None
    holder: str | None = None


class Install(Request, frozen=True, tag="install"):
    """Become this job's master; `roster` are the agents expected from the first commit on, with their addresses.

    `keys`: their public ones, of those that have introduced themselves with one. `ended`: the instance of the
    publication before, if the publisher knows that it was stopped.
    """

    job: JobRecord
    roster: Mapping[AgentId, Address]
    ended: str = ""
    keys: Mapping[AgentId, Annotated[bytes, msgspec.Meta(min_length=KEY_BYTES, max_length=KEY_BYTES)]] = {}

    def __post_init__(self) -> None:
        for address in self.roster.values():
            check_address(address)
