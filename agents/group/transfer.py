"""A copy of a job's master on its way from the leader of its root group to a member that lacks it.

The leader reads its copy as it was at one moment, page by page, while it goes on; what was decided since, the group's
log brings. The member keeps the pages as they come, and makes a copy of them with the last one: a crash before that
leaves blocks without a master, which the next start drops.
"""

from __future__ import annotations

import asyncio
import logging
import sqlite3

import msgspec

from elf.agents.errors import ElfError, UnavailableError
from elf.agents.group.copies import Copies
from elf.agents.master.state import MasterState
from elf.agents.store.controls import Controls, decided_key
from elf.agents.store.groups import GroupLogs
from elf.agents.store.panes import ClosedError, Kind, PaneReader, Panes
from elf.agents.wire.records import JobRecord
from elf.agents.wire.replies import value_of
from elf.agents.wire.request import encode
from elf.agents.wire.root_groups import Fetch, Page
from elf.overlay.decoding import read_msgpack
from elf.overlay.errors import OverlayError
from elf.overlay.ids import Contact
from elf.overlay.node import OverlayNode

log = logging.getLogger(__name__)

#: Bytes of blocks in one page, and how long one may take.
PAGE_BYTES, PAGE_MS = 4 << 20, 20_000
#: Copies read at a time on a leader; one that is not asked for this long is given up.
READERS_MAX, READER_S = 8, 60.0
#: Jobs of which is remembered why their copy did not come.
SAID_MAX = 256


class Pages:
    """The leader's side: copies that members are reading."""

    def __init__(self, store: Panes, controls: Controls, copies: Copies) -> None:
        self._store = store
        self._controls = controls
        self._copies = copies
        #: Job and member -> reader, the page it will give next, and when it was used last; oldest use first.
        self._readers: dict[tuple[bytes, str], tuple[PaneReader, int, float]] = {}

    async def answer(self, fetch: Fetch) -> Page:
        """Return the next page. Raises UnavailableError where the member has to begin anew, or is none."""
        app, who = self._copies.apps.get(fetch.tree), (fetch.tree, fetch.agent_id)
        copy = self._copies.get(app) if app is not None else None
        if app is None or copy is None or not self._copies.serves(fetch.tree, fetch.agent_id):
            raise UnavailableError("this agent does not lead the job's root group, or the asker is no member of it")
        loop = asyncio.get_running_loop()
        now_s = loop.time()
        if fetch.number == 0:
            made = await asyncio.to_thread(self._store.reader, app)
            # Another question of the same member may have been faster.
            self._close([who])
            self._close(list(self._readers)[: max(0, len(self._readers) + 1 - READERS_MAX)])
            self._readers[who] = made, 0, now_s
        reader, number, _ = self._readers.get(who, (None, 0, 0.0))
        if reader is None or number != fetch.number:
            self._close([who])
            raise UnavailableError("this page is not there any more; begin anew")
        del self._readers[who]  # so that it is the newest
        self._readers[who] = reader, number + 1, now_s
        # As long as somebody reads a moment, SQLite keeps all that is written after it in its log.
        loop.call_later(READER_S, self._expire, who)
        try:
            blocks = await asyncio.to_thread(reader.page, PAGE_BYTES)
        except ClosedError as error:
            raise UnavailableError(f"{error}; begin anew") from None
        applied = msgspec.msgpack.decode(reader.state, type=MasterState).applied
        if blocks:
            return Page(job=reader.job, applied=applied, blocks=blocks)
        self._close([who])
        # Later than the rest, perhaps: what is decided twice counts once.
        control = await asyncio.to_thread(self._controls.state, decided_key(fetch.tree))
        return Page(job=reader.job, applied=applied, state=reader.state, control=control)

    def close(self) -> None:
        """Give up all."""
        self._close(list(self._readers))

    def _expire(self, who: tuple[bytes, str]) -> None:
        entry = self._readers.get(who)
        # Each use sets a timer of its own.
        if entry is not None and asyncio.get_running_loop().time() - entry[2] >= 0.99 * READER_S:
            self._close([who])

    def _close(self, keys: list[tuple[bytes, str]]) -> None:
        for key in keys:
            entry = self._readers.pop(key, None)
            if entry is not None:
                entry[0].close()


class Fetcher:
    """The member's side: copies that this agent fetches, one of a job at a time."""

    def __init__(
        self, agent_id: str, node: OverlayNode, store: Panes, logs: GroupLogs, controls: Controls, copies: Copies
    ) -> None:
        self._agent_id = agent_id
        self._node = node
        self._store = store
        self._logs = logs
        self._controls = controls
        self._copies = copies
        self._busy: set[bytes] = set()
        #: Job -> why its copy did not come; leaders ask every few seconds, as long as a function lacks, say.
        self._said: dict[bytes, str] = {}

    async def fetch(self, tree: bytes, leader: Contact, term: int) -> None:
        """Fetch a job's copy from the leader of a term and open it; why it fails is logged once, leaders ask again."""
        if tree in self._busy:
            return
        self._busy.add(tree)
        try:
            await self._fetch(tree, leader, term)
        except (OverlayError, ElfError, OSError, sqlite3.Error, msgspec.MsgspecError, ValueError) as error:
            why = f"a job's copy cannot be fetched from {leader.address}: {error}"
            log.log(logging.DEBUG if self._said.get(tree) == why else logging.WARNING, why)
            self._said.pop(tree, None)
            self._said[tree] = why
            if len(self._said) > SAID_MAX:
                del self._said[next(iter(self._said))]
        else:
            self._said.pop(tree, None)
        finally:
            self._busy.discard(tree)

    async def _fetch(self, tree: bytes, leader: Contact, term: int) -> None:
        page = await self._page(tree, leader, 0)
        job = JobRecord.decode(page.job)
        if job.tree != tree:
            raise UnavailableError("the copy is of another job")
        app = job.definition.app_id
        self._copies.compile(job.history)
        async with self._copies.life(app):
            if not await self._copies.close_for(job, leader, term, page.applied):
                raise UnavailableError("what is here is later than the copy")
            # Term and vote stay: what this agent has promised to candidates holds for the group, not for its log.
            await asyncio.to_thread(self._logs.forget, tree, vote=False)
            await asyncio.to_thread(self._store.forget, app)
            number = 0
            while not page.state:
                changed = {(Kind(kind), interval): block for kind, interval, block in page.blocks}
                await asyncio.to_thread(self._store.replace, app, changed, ())
                number += 1
                page = await self._page(tree, leader, number)
            last = JobRecord.decode(page.job)
            if last.tree != tree:
                raise UnavailableError("the copy ends as that of another job")
            read_msgpack(page.state, MasterState)
            await asyncio.to_thread(self._store.adopt, app, page.job, page.state)
            if page.control is not None:
                await asyncio.to_thread(self._controls.adopt, decided_key(tree), page.control)
            self._copies.take(last, page.state, leader)

    async def _page(self, tree: bytes, leader: Contact, number: int) -> Page:
        answer = await self._node.ask(leader, encode(Fetch(tree, self._agent_id, number)), PAGE_MS)
        return msgspec.convert(value_of(answer), Page)
