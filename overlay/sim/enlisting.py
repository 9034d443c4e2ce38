"""Where a new worker of a simulated job begins, as its master has it decided: after a disk that was lost, behind that.

The counterpart of `enlist` in `elf.agents.group.masters`; the rule itself is `elf.overlay.rollup.succession`'s.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from elf.overlay.contract import NEVER
from elf.overlay.errors import NotJoinedError
from elf.overlay.rollup.succession import brought_through
from elf.overlay.sim.copies import Enlisted, Enrol

if TYPE_CHECKING:
    from elf.overlay.sim.members import Member

#: A commit on its way is waited for by looking so often.
LOOK_S = 0.05


async def enlist(member: Member, agent: str, address: str) -> int | None:
    """Note that a new worker begins; return through where whom it succeeds was counted.

    Raises:
        NotJoinedError, OvertakenError: this agent is not the job's master, or no more.
    """
    copy, node, reign = member.runtime.group.copy, member.node, member.reign
    if copy is None or node is None or not member.is_root:
        raise NotJoinedError("this agent is not the job's master")
    if agent in copy.enlisted:
        return copy.enlisted[agent].counted
    lost = [old for old, known in copy.enlisted.items() if known.address == address and not known.lost]
    floors = {old: node.exclude(member.app, old, agent) for old in lost}
    while copy.rollup.committed < max(floors.values(), default=NEVER):
        # A commit is on its way that may hold what the newcomer will not bring: it has to get there first.
        await asyncio.sleep(LOOK_S)
        if not member.is_root or member.reign is not reign:
            raise NotJoinedError("this agent is the job's master no more")
    brought = [brought_through(copy.rollup, old, floor) for old, floor in floors.items()]
    # One that was lost before it was ever counted had a predecessor itself.
    brought += [each for old in lost if (each := copy.enlisted[old].counted) is not None]
    counted = max(brought, default=NEVER)
    entry = Enlisted(address, None if counted == NEVER else counted)
    await member.propose(Enrol(agent, entry, tuple(lost)))
    return entry.counted
