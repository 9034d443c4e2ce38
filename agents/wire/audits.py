"""What agents ask each other when a claim is merged again: for a snapshot, and for what was made of it. Pure."""

from __future__ import annotations

from elf.agents.wire.replicas import Request
from elf.overlay.fields import Address, AppId, Interval, check_address


class Show(Request, frozen=True, tag="show"):
    """Give the snapshot that an agent has sealed of an interval: its payload; None if it is not there (any more)."""

    tree: AppId
    through: Interval


class Recheck(Request, frozen=True, tag="recheck"):
    """Audit what children claimed of an interval; asked of a child whose own claim of it is wrong.

    The answer is the address of who has altered what it merged, "" if all claims were right, and None if nobody can
    tell, for the claims are forgotten or could not be merged again.
    """

    tree: AppId
    through: Interval


class Shut(Request, frozen=True, tag="shut"):
    """Tell a member that its parent in a tree may be shut out: it asks the job's master, whom it believes."""

    tree: AppId
    address: Address

    def __post_init__(self) -> None:
        check_address(self.address)


class IsShut(Request, frozen=True, tag="is shut"):
    """Tell whether the agent at an address is shut out of a job's tree; asked of the job's master."""

    tree: AppId
    address: Address

    def __post_init__(self) -> None:
        check_address(self.address)
