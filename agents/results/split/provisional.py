"""Provisional masters: what answers for a job on a side of a split root group (`availability = "partial"`).

Owns one thing: results in memory, of the copy's committed panes and of what the agents of the side hand over beyond
them, in a tree of their own. It decides nothing for the job: it proposes nothing to the group, and its verdicts settle
nothing (`elf.agents.results.split.participation`). It ends, and all it made with it, when its copy hears a leader or
leads itself. OVERLAY 6.5 ("availability=AP").
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
from collections.abc import Callable, Coroutine

import msgspec

from elf.agents.errors import ElfError, UnknownJobError
from elf.agents.group.copies import Copies, Copy
from elf.agents.jobs.plan import compile_job
from elf.agents.master.master import Master
from elf.agents.results.split.borrowed import BorrowedPanes
from elf.agents.results.split.candidacy import Candidate, may_hold, must_yield
from elf.agents.results.split.held import Provisional
from elf.agents.results.split.participation import Partaking
from elf.agents.store.database import Database
from elf.agents.wire.catalogue import Catalogue
from elf.agents.wire.records import contact_at
from elf.agents.wire.replies import value_of
from elf.agents.wire.request import encode
from elf.agents.wire.split import SIDE_KEY, AskStand, Partake, Stand, encode_question, side_tree
from elf.cbt import PaoDecodeError
from elf.overlay.contract import Commit, Record
from elf.overlay.errors import OverlayError, OvertakenError
from elf.overlay.group.messages import Seat
from elf.overlay.ids import Contact
from elf.overlay.node import OverlayNode

log = logging.getLogger(__name__)

#: A copy without a leader for so long may become a provisional master: an ordinary change of leaders takes 1 or 2 s.
LEADERLESS_S = 5.0
LOOK_S = 0.5
#: How often the other members are asked where they stand, and the agents of the side for their snapshots.
ROUND_S = 3.0
ASK_MS = 1_000
#: Agents asked at a time.
ASKED_MAX = 128
#: What all provisional masters of an agent hold beyond their copies; then they count nothing more.
HELD_BYTES_MAX = 64 << 20


class ProvisionalMasters:
    """The provisional masters of this agent.

    Args:
        node: the overlay.
        copies: the copies of masters kept here.
        database: where the copies' panes are.
        partaking: this agent's own part in sides.
        learn: told of each side's tree and the job's, so that payloads can be merged here.
        catalogue: names of agents, and where they are.
        spawn: runs something in the background for as long as the agent runs.
        now_ms: wall clock.
    """

    def __init__(
        self,
        node: OverlayNode,
        copies: Copies,
        database: Database,
        partaking: Partaking,
        learn: Callable[[bytes, bytes], None],
        catalogue: Catalogue,
        spawn: Callable[[Coroutine[None, None, None]], None],
        now_ms: Callable[[], int],
    ) -> None:
        self._agent_id = copies.agent_id
        self._node = node
        self._copies = copies
        self._database = database
        self._partaking = partaking
        self._learn = learn
        self._catalogue = catalogue
        self._spawn = spawn
        self._now_ms = now_ms
        self._held: dict[bytes, Provisional] = {}
        self._trees: dict[bytes, Provisional] = {}
        self._leaderless_s: dict[bytes, float] = {}
        #: When a job's next round is due; not while one is under way.
        self._due_s: dict[bytes, float] = {}

    def __contains__(self, app: bytes) -> bool:
        return app in self._held

    # ---- when there is one

    async def watch(self) -> None:
        """Become and cease to be a provisional master, as the groups of our copies are, until cancelled."""
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(LOOK_S)
            # Most jobs want none, and there may be a thousand.
            copies = {copy.master.app: copy for copy in self._copies.all() if _may_be_split(copy)}
            for app in set(self._held) - set(copies):
                self._end(app)
            for copy in copies.values():
                self._look(copy, loop.time())

    def stand(self, tree: bytes) -> Stand | None:
        """Tell where this agent stands in a job's root group; None if it has no copy."""
        app = self._copies.apps.get(tree)
        copy = self._copies.get(app) if app is not None else None
        view = self._node.groups.view(tree)
        if app is None or copy is None or view is None:
            return None
        leader = "" if view.leader == self._agent_id and not view.quorate else view.leader
        place = copy.master.state.applied
        return Stand(leader, app in self._held, place.term, place.index)

    def _is_led(self, copy: Copy) -> bool:
        stand = self.stand(copy.job.tree)
        return stand is None or stand.leader != ""

    def _look(self, copy: Copy, now_s: float) -> None:
        app = copy.master.app
        if copy.job.stopped or copy.master.state.ended or self._is_led(copy):
            self._leaderless_s.pop(app, None)
            self._due_s.pop(app, None)
            self._end(app)
            return
        since_s = self._leaderless_s.setdefault(app, now_s)
        if now_s - since_s >= LEADERLESS_S and now_s >= self._due_s.get(app, now_s):
            self._due_s[app] = math.inf
            self._spawn(self._round(app, copy))

    async def _round(self, app: bytes, copy: Copy) -> None:
        try:
            await self._step(app, copy)
        finally:
            if app in self._due_s:
                self._due_s[app] = asyncio.get_running_loop().time() + ROUND_S

    async def _step(self, app: bytes, copy: Copy) -> None:
        """Ask the other members where they stand; begin, go on or end; and ask for snapshots."""
        tree, seats = copy.job.tree, copy.master.state.seats
        asked = await asyncio.gather(*(self._ask_stand(tree, seat) for seat in seats if seat.agent != self._agent_id))
        others, stand = [other for other in asked if other is not None], self.stand(tree)
        if stand is None or stand.leader or app not in self._leaderless_s:
            return
        me, held = Candidate(self._agent_id, self._node.contact, stand), self._held.get(app)
        if held is None and may_hold(tree, me, others):
            held = await self._begin(app, copy)
        elif held is not None and must_yield(tree, me, others):
            self._end(app)
            return
        if held is not None:
            await self._gather(held)

    async def _ask_stand(self, tree: bytes, seat: Seat) -> Candidate | None:
        try:
            answer = value_of(await self._node.ask(seat.contact, encode(encode_question(AskStand(tree))), ASK_MS))
            return None if answer is None else Candidate(seat.agent, seat.contact, msgspec.convert(answer, Stand))
        except (OverlayError, ElfError, msgspec.ValidationError):
            return None

    async def _begin(self, app: bytes, copy: Copy) -> Provisional | None:
        job, state, view = copy.job, copy.master.state, self._node.groups.view(copy.job.tree)
        # Whatever the job's own master does about stragglers: here nothing is dropped, and nothing is final.
        options = msgspec.structs.replace(job.definition.options, straggler="late")
        definition = msgspec.structs.replace(job.definition, options=options)
        plan = compile_job(definition, definition.types)
        store = BorrowedPanes(self._database)
        master = await asyncio.to_thread(Master, plan, store, msgspec.msgpack.encode(state))
        if view is None or self._is_led(copy) or copy.master.state is not state or self._copies.get(app) is not copy:
            return None
        tree = side_tree(job, self._node.contact, self._now_ms())
        me = self._catalogue.name_of(self._agent_id), self._node.contact.address
        held = Provisional(job, copy, master, store, tree, view.term, me, self._catalogue.name_of)
        self._held[app] = self._trees[tree] = held
        self._learn(tree, job.tree)
        self._node.join_tree(
            tree,
            member=False,
            root=self._node.contact,
            state=state.rollup,
            leap_after_ms=plan.leap_after_ms,
            reign=1,
        )
        self._node.add_record(tree, Record(SIDE_KEY, 1, job.tree))
        for agent, enlisted in state.enlisted.items():
            if enlisted.lost:
                self._node.exclude(tree, agent)
        log.warning(
            "job %s has no master here; this agent answers for its side, with partial results", job.definition.key
        )
        return held

    def _end(self, app: bytes) -> None:
        held = self._held.pop(app, None)
        if held is None:
            return
        del self._trees[held.tree]
        log.info("this agent answers for a side of job %s no more", held.job.definition.key)
        self._partaking.leave(held.tree)
        self._node.leave_tree(held.tree, retire=False)
        held.ended.set()
        held.tell()

    async def _gather(self, held: Provisional) -> None:
        """Ask all agents that work on the job for their snapshots, again and again: some come later."""
        question = Partake(held.job.tree, held.tree, self._node.contact.address)
        addresses = {known.address for known in held.began_with.enlisted.values() if not known.lost}
        addresses |= {member.address for member in self._catalogue.members(held.job.definition.source)}
        contacts = {contact_at(address) for address in addresses if address} - {self._node.contact}
        held.heed(self._partaking.partake(question))
        body, others = encode(encode_question(question)), sorted(contacts, key=lambda c: (c not in held.partners, c.id))
        for first in range(0, len(others), ASKED_MAX):
            await asyncio.gather(*(self._ask(held, other, body) for other in others[first : first + ASKED_MAX]))

    async def _ask(self, held: Provisional, contact: Contact, body: bytes) -> None:
        with contextlib.suppress(OverlayError, ElfError):
            answer = value_of(await self._node.ask(contact, body, ASK_MS))
            if isinstance(answer, int):
                held.partners.add(contact)
                held.heed(answer)

    # ---- what the side brings

    def has_tree(self, tree: bytes) -> bool:
        """Tell whether a tree is that of a side held here."""
        return tree in self._trees

    async def commit(self, tree: bytes, commit: Commit) -> None:
        """Take what the side has counted into memory; raises OvertakenError when the side is held no more."""
        held = self._trees.get(tree)
        if held is None:
            raise OvertakenError("this agent is no provisional master any more")
        if sum(each.store.size_bytes for each in self._held.values()) >= HELD_BYTES_MAX:
            log.warning(
                "job %s: a side's results fill %d bytes; they stand still", held.job.definition.key, HELD_BYTES_MAX
            )
            await held.ended.wait()
            raise OvertakenError("this agent is no provisional master any more")
        place = held.began_with.applied
        try:
            await asyncio.to_thread(held.master.commit, commit, place)
        except PaoDecodeError as error:
            log.error("job %s: a side's commit holds nothing readable: %s", held.job.definition.key, error)
            await asyncio.to_thread(held.master.commit, held.master.emptied(commit), place)
        held.tell()

    # ---- answers

    def answerer(self, app: bytes) -> Provisional:
        """Return who answers for a job's side; UnknownJobError if it is not this agent, or no more."""
        held = self._held.get(app)
        if held is None or not held.is_current:
            self._end(app)
            raise UnknownJobError(app.hex(), ())
        return held


def _may_be_split(copy: Copy) -> bool:
    """Tell whether each side of a split network is to answer for a job."""
    definition = copy.job.definition
    return definition.options.availability == "partial" and definition.is_alone
