"""Changing a simulated job while it runs: agents that ask for it, and the master that has versions decided.

The counterpart of `elf.agents.publications`. Whoever asks routes the question to whoever is said to be the master; of
several that are asked for at the same time the group's log makes one order.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
from typing import TYPE_CHECKING

import msgspec

from elf.overlay.errors import NotFoundError, OverlayError
from elf.overlay.sim.copies import Copy, Turn
from elf.overlay.sim.jobs import Amend, Amended, Job
from elf.overlay.sim.versions import FIRST, next_version

if TYPE_CHECKING:
    from elf.overlay.sim.agents import Machine
    from elf.overlay.sim.members import Member

#: Another version may take the number that a master has proposed, as often as this; then whoever asks has to ask again.
TRIES = 8
#: Whoever asks for a version gives up after so many questions, with pauses between them.
QUESTIONS = 4
PAUSE_S = (0.05, 1.5)
ANSWER_MS = 2_000


async def amend(member: Member, copy: Copy, request: Amend) -> Amended:
    """Have a version decided, unless the question was answered before: whoever repeats it has looked at the history."""
    machine = member.machine
    for _ in range(TRIES):
        newest = copy.versions[-1].number
        made = next((each for each in copy.versions if each.asked == request.asked), None)
        if made is not None:
            return Amended(newest, made.since)
        if request.expected not in (None, newest):
            return Amended(newest, None)
        now = member.job.now(machine.skew_ms)
        version = next_version(copy.versions, request.what, request.asked, now, machine.wall())
        with contextlib.suppress(OverlayError):
            await member.propose(Turn(msgspec.structs.replace(version, body=request.body or version.body)))
        if not member.is_root:
            break
    return Amended(copy.versions[-1].number, None)


async def ask(machine: Machine, job: Job, request: Amend, rng: random.Random) -> int | None:
    """Ask for a version from one agent; returns since when it counts, None if it was given up.

    What may have been heard and was not answered is only asked again where it cannot happen twice: with the number
    that the newest version has to have.
    """
    for _ in range(QUESTIONS):
        node = machine.node
        if node is None:
            return None
        try:
            found = await node.route(job.app, msgspec.msgpack.encode(request), ANSWER_MS)
        except NotFoundError:
            pass  # nobody takes itself for the master
        except OverlayError:
            if request.expected is None:
                return None
        else:
            answer = msgspec.msgpack.decode(found.body, type=Amended)
            if answer.since is not None:
                return answer.since
            if request.expected is None or rng.random() < 0.3:
                return None
            request = msgspec.structs.replace(request, expected=answer.newest)
        await asyncio.sleep(rng.uniform(*PAUSE_S))
    return None


def drawn(machine: Machine, asked: str, rng: random.Random) -> Amend:
    """Draw what an agent asks for; some care which version is the newest, as far as they know."""
    heard = machine.heard.versions if machine.heard is not None else FIRST
    expected = heard[-1].number if rng.random() < 0.7 else None
    return Amend(rng.choice(("update", "update", "touch", "reset")), asked, expected)
