"""Whose data folder this is: an agent's identity, its key with it, is in its state file, and a folder can be copied.

Two agents of one identity speak for each other: of each interval a job takes what one of them has, and calls it whole.
So a copy that was made before the agent had anything to tell (an image of a machine) gets an identity of its own. One
that was made later cannot know whether it is the copy or was moved here: it does not run where the other one does, and
of two that meet, the one that was started later ends; the other labels what came meanwhile.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import pathlib
import random
import socket
from collections.abc import Callable, Coroutine, Mapping
from typing import Any

import msgspec

from elf.agents.errors import ConfigError, UnavailableError
from elf.agents.host.clock import Clock
from elf.agents.host.introduction import who_is_at
from elf.agents.intake.intake import Intake
from elf.agents.intake.progress import SourceProgress
from elf.agents.store.database import Database
from elf.agents.wire.records import Member
from elf.overlay.contract import Record
from elf.overlay.decoding import read_msgpack
from elf.overlay.node import OverlayNode

log = logging.getLogger(__name__)
#: How long another agent has to answer, and how often it is asked while it runs.
ANSWER_MS, AGAIN_S = 1_500, 1.0
#: What the state file knows: where it lies, and where the agent of this identity was seen last.
PLACE, ADDRESS = "place", "address"
#: Tables that are empty until an agent has told others something, or keeps something for them.
_TOLD = (
    "SELECT 1 FROM workers",
    "SELECT 1 FROM masters",
    "SELECT 1 FROM root_groups",
    "SELECT 1 FROM held_snapshots",
    "SELECT 1 FROM held_checkpoints",
)


def open_state(data: pathlib.Path, rng: random.Random | None = None, clock: Clock | None = None) -> Database:
    """Open an agent's state; if it lies elsewhere than it did, and has told nobody anything yet, as that of another."""
    database = Database(data / "state.db", rng=rng, clock=clock)
    try:
        _settle_identity(database)
        database.begin_signing()
    except BaseException:
        database.close()
        raise
    return database


def _settle_identity(database: Database) -> None:
    folder, machine = database.path.parent.resolve(), ""
    with contextlib.suppress(OSError):
        machine = pathlib.Path("/etc/machine-id").read_text().strip()
    place = f"{socket.gethostname()} {machine} {folder} {folder.stat().st_ino}"
    known = database.recall(PLACE)
    if known == place:
        return
    if known is not None and not _has_told(database):
        database.begin_anew()
        log.info("%s is a copy, or was moved, before anything was counted: this agent has a new identity", folder)
    database.remember(PLACE, place)


def _has_told(database: Database) -> bool:
    with database.transaction() as sql:
        progress = [
            msgspec.json.decode(each, type=SourceProgress) for (each,) in sql.execute("SELECT counters FROM sources")
        ]
        return any(sql.execute(query).fetchone() for query in _TOLD) or any(each.counters.read for each in progress)


class Doubles:
    """Looks for other agents that run with this one's identity.

    Args:
        database: remembers where it was seen last.
        me: says who this agent is.
        node: the overlay.
        announce: lets all agents of its sources know again who this agent is.
        intakes: its sources.
        spawn: begins work beside.
    """

    def __init__(
        self,
        database: Database,
        me: Callable[[], Member],
        node: OverlayNode,
        announce: Callable[[], None],
        intakes: Mapping[str, Intake],
        spawn: Callable[[Coroutine[Any, Any, None]], None],
    ) -> None:
        self._database = database
        self._me = me
        self._node = node
        self._announce = announce
        self._intakes = intakes
        self._spawn = spawn
        #: Why this agent may not go on, once that is so; and who is told then.
        self.refusal: ConfigError | None = None
        self.on_refusal: Callable[[], None] = lambda: None
        #: Nobody else ran in our name as we began: jobs may be worked on.
        self.checked = asyncio.Event()
        self._meeting: set[str] = set()

    async def check(self) -> None:
        """Before anything is taken up: see whether this identity runs where it was seen last.

        Raises:
            ConfigError: it does.
        """
        here, before = self._me().address, self._database.recall(ADDRESS)
        if before is not None and before != here and await self._find(before) is not None:
            raise self._refusal(before)
        if before != here:
            self._database.remember(ADDRESS, here)
        self.checked.set()

    def heed(self, record: Record) -> None:
        """Take note of a record that introduces an agent of this identity: it may be an old one of ours."""
        member = read_msgpack(record.body, Member)
        if not member.gone and member.address != self._me().address and member.address not in self._meeting:
            self._meeting.add(member.address)
            self._spawn(self._meet(member.address))

    async def _meet(self, address: str) -> None:
        try:
            is_known = False
            while (other := await self._find(address)) is not None:
                me = self._me()
                if (me.since_ms, me.address) > (other.since_ms, other.address):
                    self._database.remember(ADDRESS, address)
                    self.refusal = self._refusal(address)
                    self.on_refusal()
                    return
                if not is_known:
                    log.error("the agent at %s runs with a copy of this data folder; it will end", address)
                is_known = True
                # Of what either has sent meanwhile, jobs may have counted the other's instead.
                await asyncio.gather(*(intake.doubt(other.since_ms) for intake in self._intakes.values()))
                self._announce()
                await asyncio.sleep(AGAIN_S)
        finally:
            self._meeting.discard(address)

    async def _find(self, address: str) -> Member | None:
        """Return the agent of this identity at an address, if it runs there."""
        try:
            member = await who_is_at(self._node, address, ANSWER_MS)
        except UnavailableError:
            return None
        me = self._me()
        # An address that we had before may lead to us.
        return member if member.agent_id == me.agent_id and member.address != me.address else None

    def _refusal(self, address: str) -> ConfigError:
        return ConfigError(
            f"{self._database.path.parent} is a copy of the data folder of the agent at {address}, which runs: the two "
            "would be counted as one. Give this one an empty folder (agent.data), or stop the other"
        )
