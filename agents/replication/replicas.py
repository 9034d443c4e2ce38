"""Replicas of this agent's sealed snapshots and checkpoints at its neighbours, which `holder` keeps there.

Paper: section 2.3, hot replication. A snapshot is copied once it is durable and handed to the tree: replicas are in
nobody's way, and what could not be copied is as it would be without. A checkpoint is copied as it is in the database,
at most every two seconds and only if lines were read: its read positions, open intervals and snapshots without a
verdict. Who begins at our address after us, with an empty disk, goes on from there
(`elf.agents.replication.succession`).
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import sqlite3
from collections.abc import Callable, Collection, Coroutine, Mapping, Sequence
from dataclasses import dataclass

import msgspec

from elf.agents.errors import ElfError
from elf.agents.store.checkpoints import Checkpoints
from elf.agents.wire.catalogue import Catalogue
from elf.agents.wire.records import JobRecord, contact_at
from elf.agents.wire.replicas import Keep, KeepCheckpoint
from elf.agents.wire.replies import value_of
from elf.agents.wire.request import encode
from elf.agents.worker.state import Snapshot, Whole
from elf.overlay.contract import NEVER, PAYLOAD_BYTES_MAX
from elf.overlay.errors import OverlayError
from elf.overlay.ids import Contact, distance
from elf.overlay.node import OverlayNode

log = logging.getLogger(__name__)
#: Snapshots on their way to others: more are not copied.
SENDING_BYTES_MAX, SENDING_MAX = 32 << 20, 64
#: A holder answers once the replica is on its disk.
KEEP_MS, KEEP_CHECKPOINT_MS = 3_000, 10_000
#: A neighbour that did not answer is passed over for so long.
SILENT_S = 30.0
#: Pause between looks for a newer checkpoint to copy; longer after large ones, so that all of an agent's replicas of
#: checkpoints together are no more than so many bytes a second and holder.
COPY_S, COPY_BYTES_PER_S = 2.0, 256 << 10
#: A replica of a checkpoint is sent again after this time, or its holder would let go of it.
RENEW_S = 3_600.0
#: Room for what is beside a checkpoint in its message.
BODY_BYTES_MAX = PAYLOAD_BYTES_MAX - 1_024


@dataclass(slots=True)
class _Sent:
    """A source's last checkpoint that was copied: its number, a digest of what matters in it, when, and to whom."""

    number: int
    digest: bytes
    at_s: float
    holders: list[Contact]


class Replicas:
    """Replicas of what this agent has, at others.

    Args:
        agent_id: this agent's name in rosters.
        node: the overlay.
        catalogue: the jobs and members known here.
        checkpoints: where this agent's own are.
        spawn: runs something in the background for as long as the agent runs.
    """

    def __init__(
        self,
        agent_id: str,
        node: OverlayNode,
        catalogue: Catalogue,
        checkpoints: Checkpoints,
        spawn: Callable[[Coroutine[None, None, None]], None],
    ) -> None:
        self._agent_id = agent_id
        self._node = node
        self._catalogue = catalogue
        self._spawn = spawn
        self._checkpoints = checkpoints
        #: Tree -> the last interval handed over.
        self._sealed: dict[bytes, int] = {}
        self._sending = self._sending_bytes = 0
        self._silent_s: dict[str, float] = {}
        self._sent: dict[str, _Sent] = {}
        #: Since this start: checkpoints copied; replicas not made, of snapshots or of checkpoints.
        self.copied = self.skipped = 0

    def offer(self, tree: bytes, snapshot: Snapshot) -> None:
        """Copy a durable snapshot that was just handed to its tree to as many neighbours as the job wants."""
        since = self._sealed.get(tree, NEVER)
        self._sealed[tree] = snapshot.through
        job = self._catalogue.job_of_tree(tree)
        if job is None or not job.definition.options.holders:
            return
        if snapshot.payload is None and job.definition.options.straggler != "mirror":
            return  # nothing to lose, and idle agents should cost nothing
        size = len(snapshot.payload or b"")
        if self._sending >= SENDING_MAX or self._sending_bytes + size > SENDING_BYTES_MAX:
            self.skipped += 1
            return
        self._sending += 1
        self._sending_bytes += size
        word = self._node.word(tree, since, snapshot.through, snapshot.payload)
        self._spawn(self._send(job, Keep(tree, self._agent_id, since, snapshot.through, snapshot.payload, word)))

    def forget(self, tree: bytes) -> None:
        """The tree is no more."""
        self._sealed.pop(tree, None)

    async def _send(self, job: JobRecord, replica: Keep) -> None:
        """Copy to the nearest neighbours that take it."""
        try:
            # The master comes last: it may be what a replica has to get over.
            near = self._neighbours(job.definition.source, {job.master})
            if not await self._give(near, encode(replica), job.definition.options.holders, KEEP_MS):
                self.skipped += 1
        finally:
            self._sending -= 1
            self._sending_bytes -= len(replica.payload or b"")

    # ---- checkpoints

    async def run(self, attached: Callable[[], Mapping[str, Sequence[JobRecord]]]) -> None:
        """Copy checkpoints for as long as the agent runs.

        Args:
            attached: returns the jobs worked on here, by source.
        """
        while True:
            sent_bytes, jobs = 0, attached()
            for source in sorted({*jobs, *self._sent}):
                try:
                    sent_bytes += await self.copy_checkpoint(source, jobs.get(source, ()))
                except (OSError, sqlite3.Error, ElfError) as error:
                    log.warning("source %s: its checkpoint is not copied: %s", source, error)
            await asyncio.sleep(max(COPY_S, sent_bytes / COPY_BYTES_PER_S))

    async def copy_checkpoint(self, source: str, jobs: Sequence[JobRecord]) -> int:
        """Copy a source's checkpoint if it has other data than the last one copied; returns its size in bytes.

        Args:
            source: its name.
            jobs: those of it that are worked on here.
        """
        wanted = max((job.definition.options.holders for job in jobs), default=0)
        trees = sorted(job.tree for job in jobs if job.definition.options.holders)
        whole = await asyncio.to_thread(self._checkpoints.whole, source, trees) if trees else None
        sent, now_s = self._sent.get(source), asyncio.get_running_loop().time()
        if whole is None or not whole.workers:
            if sent is not None:
                del self._sent[source]
                await self._give(sent.holders, self._message(source, sent.number, b""), len(sent.holders), KEEP_MS)
            return 0
        digest = _digest(whole)
        near = self._neighbours(source, {job.master for job in jobs})
        if not near or (sent is not None and digest == sent.digest and now_s - sent.at_s < RENEW_S):
            return 0
        body = msgspec.msgpack.encode(whole)
        if len(body) > BODY_BYTES_MAX:
            self.skipped += 1
            return 0
        number = whole.source.sequence
        holders = await self._give(near, self._message(source, number, body), wanted, KEEP_CHECKPOINT_MS)
        self.copied = self.copied + bool(holders)
        self.skipped = self.skipped + (not holders)
        if holders:
            self._sent[source] = _Sent(number, digest, now_s, holders)
        return len(body) if holders else 0

    def _message(self, source: str, number: int, body: bytes) -> bytes:
        return encode(KeepCheckpoint(source, self._node.contact.address, self._agent_id, number, body))

    # ---- neighbours

    def _neighbours(self, source: str, last: Collection[Contact]) -> list[Contact]:
        """Return the agents with the source that are not silent, those whose ids are nearest to ours first."""
        me, now_s = self._node.contact, asyncio.get_running_loop().time()
        contacts = [contact_at(member.address) for member in self._catalogue.members(source)]
        others = [contact for contact in contacts if contact != me]
        others = [contact for contact in others if self._silent_s.get(contact.address, now_s) <= now_s]
        return sorted(others, key=lambda contact: (contact in last, distance(contact.id, me.id)))

    async def _give(self, contacts: Sequence[Contact], body: bytes, wanted: int, timeout_ms: int) -> list[Contact]:
        """Ask one after the other until so many have a replica; returns those."""
        takers: list[Contact] = []
        for contact in contacts:
            if len(takers) == wanted:
                break
            if await self._ask(contact, body, timeout_ms):
                takers.append(contact)
        return takers

    async def _ask(self, contact: Contact, body: bytes, timeout_ms: int) -> bool:
        try:
            return bool(value_of(await self._node.ask(contact, body, timeout_ms)))
        except (OverlayError, ElfError) as error:
            log.debug("%s takes no copy: %s", contact, error)
            self._silent_s[contact.address] = asyncio.get_running_loop().time() + SILENT_S
            return False


def _digest(whole: Whole) -> bytes:
    """Return what tells two checkpoints with other data apart; intervals that were sealed empty are none."""
    found = hashlib.blake2b(whole.source.positions, digest_size=16)
    for worker in whole.workers:
        found.update(b"worker" + worker.tree + worker.open_block)
        for snapshot in worker.sealed:
            if snapshot.payload is not None:
                found.update(b"sealed%d" % snapshot.through + snapshot.payload)
    return found.digest()
