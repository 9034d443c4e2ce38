"""Choosing a new job's master between its two candidates, by asking both.

Which keys, and which of two loads wins, is `elf.overlay.placement`'s; for whom a candidate holds a job is `holds`'s.
Paper: §2.3; OVERLAY section 5 (two candidate roots, the less loaded wins).
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from elf.agents.errors import ElfError, UnavailableError
from elf.agents.wire.placement import Weigh, Weight
from elf.agents.wire.replies import value_of
from elf.agents.wire.request import encode
from elf.overlay.errors import OverlayError
from elf.overlay.ids import Contact
from elf.overlay.node import OverlayNode
from elf.overlay.placement import SALTS, candidate_key, choose_salt

#: A candidate that does not tell its load within this time loses.
WEIGH_MS = 1_500
#: Tries when another agent publishes the same job, and the longest pause between them: together as long as a job is
#: held for a publisher that is gone.
TRIES = 40
PAUSE_S_MAX = 0.4


class Placement(NamedTuple):
    """Who is to be a job's master, and by which candidate key everyone finds it."""

    master: Contact
    salt: int


class Candidates:
    """Chooses masters through one agent's overlay node."""

    def __init__(self, node: OverlayNode, rng: random.Random) -> None:
        self._node = node
        self._rng = rng
        #: Job -> the candidates that hold it for us.
        self._held: dict[bytes, list[Contact]] = {}

    async def choose(self, app: bytes) -> Placement:
        """Ask both candidates of a job for their load; return the less loaded, or the master if one runs the job.

        They hold the job for us until it is released, or for some seconds.

        Raises:
            UnavailableError: no candidate can be reached, or another agent is publishing the same job.
        """
        for number in range(TRIES):
            if number:
                await asyncio.sleep(self._rng.uniform(0, PAUSE_S_MAX))
            contacts = await asyncio.gather(*(self._candidate(app, salt) for salt in SALTS))
            weights = await asyncio.gather(*(self._weigh(contact, app) for contact in contacts))
            self._held[app] = [contact for contact, weight in zip(contacts, weights, strict=True) if contact and weight]
            running = [weight.job for weight in weights if weight and weight.job]
            if running:
                job = max(running, key=lambda job: job.stamp_ms)
                return Placement(job.master, job.salt)
            rivals = [weight.holder for weight in weights if weight and weight.holder]
            if not rivals:
                return _least(contacts, [weight.roots if weight else None for weight in weights])
            # Of two publishers that hold one candidate each, both must let go, or neither ever wins.
            await self.release(app)
        raise UnavailableError(f"the same job is being published through {rivals[0]} at this moment; try again")

    async def release(self, app: bytes) -> None:
        """Have the candidates hold a job for us no more: what comes of publishing it is known.

        Before that nobody else may choose: a master that was asked to begin, and did not answer, may still do so.
        """
        await asyncio.gather(*(self._weigh(contact, app, hold=False) for contact in self._held.pop(app, ())))

    def leave(self, app: bytes) -> None:
        """Let the candidates' holds end by themselves."""
        self._held.pop(app, None)

    async def _candidate(self, app: bytes, salt: int) -> Contact | None:
        try:
            return (await self._node.closest(candidate_key(app, salt)))[0]
        except OverlayError:
            return None

    async def _weigh(self, contact: Contact | None, app: bytes, *, hold: bool = True) -> Weight | None:
        """Return a candidate's load; None if it cannot be reached or answers with nonsense."""
        if contact is None:
            return None
        try:
            request = Weigh(app, self._node.contact.address, hold)
            answer = value_of(await self._node.ask(contact, encode(request), WEIGH_MS))
            return msgspec.convert(answer, Weight)
        except (OverlayError, ElfError, msgspec.ValidationError):
            return None


def _least(contacts: Sequence[Contact | None], loads: Sequence[int | None]) -> Placement:
    salt = choose_salt(loads)
    master = None if salt is None else contacts[salt]
    if salt is None or master is None:
        asked = " and ".join(contact.address if contact else "nobody known" for contact in contacts)
        raise UnavailableError(f"neither candidate for the job's master can be reached ({asked}); try again")
    return Placement(master, salt)
