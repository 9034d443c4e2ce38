"""This agent as a member of its sources' trees: what it says of itself there, and which records it knows from there."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import sqlite3
from collections import Counter
from collections.abc import Callable, Iterable

import msgspec

from elf.agents.errors import ElfError, NotAdmittedError, NotBelievedError, NotCreatorError
from elf.agents.host.means import Means
from elf.agents.host.passport import Passport
from elf.agents.publications.attachments import RETRY_S_MAX
from elf.agents.settings.config import OverlaySection
from elf.agents.store.stores import Stores
from elf.agents.wire.catalogue import Catalogue, member_record
from elf.agents.wire.introductions import fault, gone
from elf.agents.wire.ownership import AHEAD_MS
from elf.agents.wire.records import JOB, MEMBER, JobRecord, Member
from elf.overlay.contract import Record
from elf.overlay.decoding import read_msgpack
from elf.overlay.ids import source_id
from elf.overlay.node import OverlayNode
from elf.overlay.unheard import Unheard

log = logging.getLogger(__name__)
#: It is noted so long after the last one, which comes again with each comparison.
NOTE_MS = 3_600_000


class Membership:
    """The records of the trees of this agent's sources.

    Args:
        me: how this agent introduces itself.
        node: the overlay.
        stores: where records are kept for the next start.
        catalogue: learns from them.
        tell: puts a record into a tree this agent stands in, and heeds it here.
        overlay: names the certificates that keys are vouched for with.
        means: its clock, its randomness, and work beside.
    """

    def __init__(
        self,
        me: Callable[[], Member],
        node: OverlayNode,
        stores: Stores,
        catalogue: Catalogue,
        tell: Callable[[bytes, Record], bool],
        overlay: OverlaySection,
        means: Means,
    ) -> None:
        #: What this agent's introductions are signed with, and others' are held against.
        self.passport = Passport(stores.database.secret, overlay)
        self._me = me
        self._node = node
        self._stores = stores
        self._catalogue = catalogue
        self._tell = tell
        self._spawn = means.spawn
        self._now_ms = means.now_ms
        #: Records of neighbours that were not taken: how often for which kind of reason; the last one, and what was
        #: said of them.
        self.refused: Counter[type[ElfError]] = Counter()
        self._refused_last = (0, "")
        self._said = Unheard(*(kind.__name__ for kind in (NotCreatorError, NotAdmittedError, NotBelievedError)))

    def enter(self, source: str) -> list[JobRecord]:
        """Join a source's tree with what an earlier run knew of it; returns the jobs of it that can be taken up."""
        tree = source_id(source)
        self._node.join_tree(tree, member=True, control=self._stores.controls.state(tree))
        known = [record for record in self._stores.records.all(tree) if not self._is_purged(tree, record)]
        for record in known:
            self._node.add_record(tree, record)
        # All before the first job is taken up, which may take a while: labels name agents.
        jobs = [job for job in map(self._learn_again, known) if job is not None]
        for lacking, _ in self._catalogue.unusable(source):
            # Lines are read on without it. A worker that came back would not know which; a new one says what it lacks.
            self._stores.checkpoints.forget(lacking.tree)
        return jobs

    def admits(self, tree: bytes, record: Record) -> bool:
        """Tell whether a neighbour's record may be taken and passed on."""
        try:
            self._catalogue.admit(tree, record, self._now_ms.latest_ms())
        except (NotCreatorError, NotAdmittedError) as error:
            self._refused(record, error)
            return False
        return self.believes(record)

    def believes(self, record: Record) -> bool:
        """Tell whether a record may be held: of an agent, if it has made it itself."""
        if not record.key.startswith(MEMBER):
            return True
        try:
            member = read_msgpack(record.body, Member)
        except (msgspec.DecodeError, ValueError) as error:
            why: str | None = f"it cannot be read: {error}"
        else:
            known = self._catalogue.member(member.agent_id)
            why = fault(member, record.version, known, self._now_ms.wall_ms(), self.passport.doubt)
            if record.key != MEMBER + member.agent_id:
                why = f"it is of the agent {member.agent_id}"
        if why is not None:
            self._refused(record, NotBelievedError(why))
        return why is None

    def completed(self, record: Record) -> Record:
        """Return a record as it is to be spread.

        That an agent is gone may be said by one that never heard of it: with what it signed itself, all believe it.
        """
        if not record.key.startswith(MEMBER):
            return record
        with contextlib.suppress(msgspec.DecodeError, ValueError):
            member = read_msgpack(record.body, Member)
            known = self._catalogue.member(member.agent_id)
            if member.gone and member.signed is None and known is not None and known.signed is not None:
                return member_record(gone(known), record.version)
        return record

    def _refused(self, record: Record, error: ElfError) -> None:
        """Count a record that was not taken; it comes again and again, as others may: of each kind few are logged."""
        self.refused[type(error)] += 1
        self._refused_last = self._now_ms(), f"record {record.key} of another agent is not taken: {error}"
        at_ms, what = self._refused_last
        if self._said.note(type(error).__name__, f"{record.key} {record.version}", what, at_ms):
            log.warning("%s", what)

    def notes(self) -> list[str]:
        """Say that records were not taken, for a while after the last one."""
        at_ms, what = self._refused_last
        return [what] if what and self._now_ms() - at_ms < NOTE_MS else []

    def _is_purged(self, tree: bytes, record: Record) -> bool:
        """Tell whether an operator has purged what a record of an earlier run is of; what is left of it goes."""
        if not self._catalogue.is_purged(record):
            return False
        self._stores.records.forget(tree, record.key)
        if record.key.startswith(JOB):
            self._stores.checkpoints.forget(JobRecord.decode(record.body).tree)
        return True

    def learn(self, tree: bytes, record: Record) -> JobRecord | None:
        """Learn a job or a member from a record, and keep the record; returns the job.

        Raises:
            ElfError, ValueError, msgspec.DecodeError: it cannot be used here.
        """
        try:
            job = self._catalogue.learn_record(record)
        finally:
            for gone in self._catalogue.take_gone():
                self._forget(source_id(gone.definition.source), JOB + gone.definition.key)
        try:
            # At once, so that whoever published knows it is on disk somewhere; a full disk must not lose the job.
            self._stores.records.put(tree, record)
        except (OSError, sqlite3.Error) as error:
            log.error("control record %s is not on disk yet: %s", record.key, error)
            self._spawn(self._remember(tree, record))
        return job

    def _forget(self, tree: bytes, key: str) -> None:
        self._node.forget_record(tree, key)
        with contextlib.suppress(OSError, sqlite3.Error):
            self._stores.records.forget(tree, key)

    def is_own(self, record: Record) -> bool:
        """Tell whether a record introduces an agent of this one's identity."""
        return record.key == MEMBER + self._me().agent_id

    def retires(self, record: Record) -> bool:
        """Tell whether somebody took an agent for gone."""
        return record.key.startswith(MEMBER) and read_msgpack(record.body, Member).gone

    def introduce_to(self, tree: bytes, version: int = 0) -> None:
        """Tell the agents of a source that we are one of them; after whatever is said of us there.

        Args:
            tree: the source's.
            version: the record's version at least.
        """
        me, latest = self._me(), self._now_ms.latest_ms() + AHEAD_MS
        known = max((record.version + 1 for record in self._node.records(tree) if self.is_own(record)), default=0)
        if known > latest:
            # Of a release that took such stamps; nobody holds it any more who would not take ours.
            self._node.forget_record(tree, MEMBER + me.agent_id)
            self._stores.records.forget(tree, MEMBER + me.agent_id)
            known = 0
        later = min(max(self._now_ms(), known, version), latest)
        self._tell(tree, member_record(self.passport.introduced(me, later), later))

    def reintroduce(self, sources: Iterable[str]) -> None:
        """Let all agents of some sources know again who this agent is."""
        for source in sources:
            self.introduce_to(source_id(source))

    @property
    def agent_id(self) -> str:
        """Who this agent is in rosters."""
        return self._stores.database.agent_id

    def leave(self, source: str) -> None:
        """Leave a source's tree, after its agents were told that this one has the source no more."""
        self._node.leave_tree(source_id(source))

    async def _remember(self, tree: bytes, record: Record) -> None:
        """Write a control record down once the disk takes it; a newer version stays."""
        while True:
            await asyncio.sleep(RETRY_S_MAX)
            with contextlib.suppress(OSError, sqlite3.Error):
                await asyncio.to_thread(self._stores.records.put, tree, record)
                return

    def _learn_again(self, record: Record) -> JobRecord | None:
        """Learn what an earlier run has stored; another release may have, and taken what this one refuses."""
        try:
            return self._catalogue.learn_record(record, told=False)
        except (msgspec.DecodeError, ElfError, ValueError) as error:
            log.error("control record %s of an earlier run cannot be used here: %s", record.key, error)
            return None
