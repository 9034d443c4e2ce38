"""What members of a job's root group ask its master, and each other for their copies. Pure."""

from __future__ import annotations

from typing import Annotated

import msgspec

from elf.agents.wire.replicas import Request
from elf.overlay.contract import NEVER, ControlState
from elf.overlay.fields import Address, AgentId, AppId, check_address
from elf.overlay.group.messages import Place


class Enlist(Request, frozen=True, tag="enlist"):
    """Say that a new worker begins at an agent; asked of the job's master.

    The answer is an `elf.agents.master.commands.Enlisted`: what an earlier agent at the same address, whose disk is
    lost, was counted with must be left out of what the worker reads, and what that agent missed is the worker's to
    bring.
    """

    app: AppId
    instance: str
    agent_id: AgentId
    address: Address

    def __post_init__(self) -> None:
        check_address(self.address)


class Fetch(Request, frozen=True, tag="fetch"):
    """Read the next page of a job's copy; asked of the leader of its root group by a member. The answer is a `Page`.

    `tree`: the job's. `number` counts from 0, which begins anew.
    """

    tree: AppId
    agent_id: str
    number: int


class Page(msgspec.Struct, frozen=True, kw_only=True):
    """Blocks as (kind, interval, bytes) of a job; the last page has none, and the state that they belong to.

    `applied`: how far the group's log is in all this. `control`: with the state, what the tree's control log holds.
    """

    job: bytes
    applied: Place
    blocks: list[tuple[int, Annotated[int, msgspec.Meta(ge=NEVER, le=-NEVER)], bytes]] = []
    state: bytes = b""
    control: ControlState | None = None
