"""Audits at one agent: of the claims that its overlay chose, at a job's root, and of those that a parent asks about.

Snapshots are fetched straight from the agents that a claim names, held to what these have signed, merged, and compared
with what was claimed. What follows is decided in `elf.agents.audits.findings`. Nothing waits for an audit; those that
would be too many at a time are left out, and said to be.
"""

from __future__ import annotations

import asyncio
import logging
import sqlite3
from collections.abc import Callable
from typing import NamedTuple

from elf.agents.audits.comparison import Outcome, compare
from elf.agents.audits.findings import Finding, Findings
from elf.agents.audits.memory import SnapshotMemory
from elf.agents.errors import ElfError
from elf.agents.host.means import Means
from elf.agents.store.checkpoints import Checkpoints
from elf.agents.wire.audits import IsShut, Recheck, Show, Shut
from elf.agents.wire.catalogue import Catalogue
from elf.agents.wire.records import contact_at
from elf.agents.wire.replies import value_of
from elf.agents.wire.request import AnyRequest, encode
from elf.overlay.errors import OverlayError
from elf.overlay.ids import Contact
from elf.overlay.messages import Claim, Word
from elf.overlay.node import OverlayNode
from elf.overlay.rollup.audit import contributors
from elf.overlay.rollup.words import is_of

log = logging.getLogger(__name__)

#: Audits at a time, and bytes of claims and snapshots in all of them; more are left out.
RUNNING_MAX, BYTES_MAX = 32, 48 << 20
#: A claim of more agents is not audited. So many are asked at a time, and have so long to answer.
AGENTS_MAX, ASKED_MAX, SHOW_MS = 2_048, 16, 3_000
#: A child has so long to look at what it was handed, its own children included.
RECHECK_MS = 8_000
#: A member asks the master so often whether its parent is shut out, in so many seconds.
CONFIRM_TRIES, CONFIRM_S, CONFIRM_MS = 4, 1.0, 2_000
#: At most so many hints are looked into at a time.
HINTS_MAX = 16


class Checked(NamedTuple):
    """What came of merging a claim again; `silent`: whose snapshot could not be had."""

    outcome: Outcome
    silent: str = ""


class Auditor:
    """The audits of one agent.

    Args:
        agent_id: its own id.
        node: the overlay.
        catalogue: jobs and members known here.
        checkpoints: the snapshots that have no verdict yet.
        doubt: takes note that a run of intervals of a tree, both ends included, may be wrong.
        means: its clock, and work beside.
    """

    def __init__(
        self,
        agent_id: str,
        node: OverlayNode,
        catalogue: Catalogue,
        checkpoints: Checkpoints,
        doubt: Callable[[bytes, int, int], None],
        means: Means,
    ) -> None:
        self.memory = SnapshotMemory()
        self.findings = Findings()
        self._agent_id = agent_id
        self._node = node
        self._catalogue = catalogue
        self._checkpoints = checkpoints
        self._doubt = doubt
        self._means = means
        self._running = 0
        self._bytes = 0
        #: Children that are being asked what they were handed.
        self._asking: set[tuple[bytes, str]] = set()
        self._hints: set[tuple[bytes, str]] = set()

    # ---- at a root

    def begin(self, tree: bytes, child: Contact, claim: Claim) -> None:
        """Audit a child's claim, beside everything else; the overlay's `on_chosen`."""
        size = len(claim.payload or b"")
        if self._running >= RUNNING_MAX or self._bytes + 2 * size > BYTES_MAX:
            self.findings.counts["skipped"] += 1
            self._node.audits.passes(tree, child.id, claim.through)
            return
        self._means.spawn(self._run(tree, child, claim))

    async def _run(self, tree: bytes, child: Contact, claim: Claim) -> None:
        came_ms = self._now_ms()
        outcome, silent = await self.check(tree, claim)
        self.findings.ended(tree, outcome, silent)
        match outcome:
            case Outcome.SAME:
                self._node.audits.found_right(tree, child.id)
            case Outcome.UNDECIDED:
                self._node.audits.passes(tree, child.id, claim.through)
            case Outcome.DIFFERS:
                await self._trace(tree, child, claim, came_ms)

    async def _trace(self, tree: bytes, child: Contact, claim: Claim, came_ms: int) -> None:
        """Label what may be wrong, and find out who has done it."""
        try:
            first, last = self._node.doubt(tree, child, claim.through)
        except OverlayError:
            return  # this agent is the root no more; the next one finds it again
        self._doubt(tree, first, last)
        place = tree, child.address
        if place in self._asking or self.findings.is_excused(tree, child.address, came_ms):
            return
        self._asking.add(place)
        try:
            log.error(
                "job %s: what %s handed up is not the sum of the snapshots that it says (interval %d): "
                "results have a gap from interval %d on",
                self._job(tree), self._name(child.address), claim.through, first,
            )  # fmt: skip
            named = await self._ask_back(tree, child, claim.through)
            if self.findings.must_go(tree, child.address, named, self._now_ms()):
                self._shut_out(tree, child)
                self._tell_all(tree, child.address)
            elif named:
                self.findings.shut(tree, Finding(named, self._name(named), child.address))
                log.error("job %s: %s says that %s did it", self._job(tree), child.address, self._name(named))
        finally:
            self._asking.discard(place)

    # ---- one claim

    async def check(self, tree: bytes, claim: Claim) -> Checked:
        """Merge a claim again from the snapshots of whom it names."""
        agents = contributors(claim)
        assert claim.payload is not None
        if agents is None or len(agents) > AGENTS_MAX:
            return Checked(Outcome.UNDECIDED)
        snapshots: list[bytes] = []
        self._running += 1
        self._bytes += len(claim.payload)
        try:
            words = dict(claim.spoken())
            for at in range(0, len(agents), ASKED_MAX):
                some = agents[at : at + ASKED_MAX]
                found = await asyncio.gather(*(self._fetch(tree, agent, words[agent]) for agent in some))
                for agent, payload in zip(some, found, strict=True):
                    if payload is None:
                        return Checked(Outcome.UNDECIDED, agent)
                    snapshots.append(payload)
                    self._bytes += len(payload)
                if self._bytes > 2 * BYTES_MAX:
                    return Checked(Outcome.UNDECIDED)
            return Checked(await self._compare(tree, claim.payload, snapshots))
        finally:
            self._running -= 1
            self._bytes -= len(claim.payload) + sum(map(len, snapshots))

    async def _compare(self, tree: bytes, claimed: bytes, snapshots: list[bytes]) -> Outcome:
        try:
            versions = self._catalogue.versions(tree)
        except (KeyError, ElfError):
            return Outcome.UNDECIDED
        return await asyncio.to_thread(compare, claimed, snapshots, versions)

    async def _fetch(self, tree: bytes, agent: str, word: Word) -> bytes | None:
        """Return what an agent has signed; None if that is not to be had."""
        request = Show(tree, word.through)
        if agent == self._agent_id:
            payload = await self.show(request)
        else:
            member = self._catalogue.member(agent)
            found = None if member is None else await self._ask(contact_at(member.address), request, SHOW_MS)
            payload = found if isinstance(found, bytes) else None
        if payload is None or not is_of(word, payload):
            return None
        self.findings.shown(tree, agent)
        return payload

    # ---- a child that is wrong

    async def _ask_back(self, tree: bytes, child: Contact, through: int) -> str | None:
        """Ask a child who has altered what it was handed; see `Recheck`."""
        named = await self._ask(child, Recheck(tree, through), RECHECK_MS)
        return named if isinstance(named, str) and named != child.address else None

    def _shut_out(self, tree: bytes, child: Contact) -> None:
        """Have nothing to do with a child any more, and let those who hang under it know."""
        name = self._name(child.address)
        self.findings.shut(tree, Finding(child.address, name))
        below = self._node.shut_out(tree, child)
        log.error("job %s: %s alters what it merges, and is shut out of the job's tree", self._job(tree), name)
        for agent in below:
            member = self._catalogue.member(agent)
            if member is not None and member.address != child.address:
                self._means.spawn(self._hint(member.address, Shut(tree, child.address)))

    def _tell_all(self, tree: bytes, address: str) -> None:
        """Let all members of a tree know that the master has shut somebody out; they ask before they believe it."""
        job = self._catalogue.job_of_tree(tree)
        for member in self._catalogue.members(job.definition.source) if job is not None else ():
            if member.address not in (address, self._node.contact.address):
                self._means.spawn(self._hint(member.address, Shut(tree, address)))

    async def _hint(self, address: str, hint: Shut) -> None:
        await self._ask(contact_at(address), hint, SHOW_MS)

    # ---- answers

    async def show(self, request: Show) -> bytes | None:
        """Give a snapshot of this agent's."""
        found = self.memory.find(request.tree, request.through)
        if found is None:
            try:
                kept = await asyncio.to_thread(
                    self._checkpoints.snapshots, request.tree, request.through - 1, request.through
                )
            except (OSError, sqlite3.Error, ElfError):
                return None
            found = kept[0].payload if kept else None
        return found

    async def recheck(self, request: Recheck) -> str | None:
        """Audit what children claimed of an interval; shut out who has altered it, and say who that is."""
        tree, came_ms = request.tree, self._now_ms()
        claims, is_whole = self._node.claimed(tree, request.through)
        named = ""
        for child, claim in claims:
            outcome, silent = await self.check(tree, claim)
            self.findings.ended(tree, outcome, silent)
            is_whole &= outcome is not Outcome.UNDECIDED
            if outcome is not Outcome.DIFFERS or self.findings.has_shut(tree, child.address):
                continue
            told = await self._ask_back(tree, child, request.through)
            excused = self.findings.is_excused(tree, child.address, came_ms)
            if not excused and self.findings.must_go(tree, child.address, told, self._now_ms()):
                self._shut_out(tree, child)
                told = child.address
            named = named or told or child.address
        return named if named or is_whole else None

    async def heed(self, request: Shut) -> None:
        """Take a hint that somebody may be shut out: ask the master."""
        place = request.tree, request.address
        if place in self._hints or len(self._hints) >= HINTS_MAX or self._node.tree(request.tree).role == "out":
            return
        self._hints.add(place)
        self._means.spawn(self._confirm(request))

    async def _confirm(self, request: Shut) -> None:
        try:
            for _ in range(CONFIRM_TRIES):
                job = self._catalogue.job_of_tree(request.tree)
                if job is None or job.master == self._node.contact:
                    return
                question = IsShut(request.tree, request.address)
                if await self._ask(job.master, question, CONFIRM_MS) is True:
                    self._node.shut_out(request.tree, contact_at(request.address))
                    return
                await asyncio.sleep(CONFIRM_S)
        finally:
            self._hints.discard((request.tree, request.address))

    async def is_shut(self, request: IsShut) -> bool:
        """Tell whether somebody is shut out of a job's tree, as far as this agent has found, or was told."""
        return self.findings.has_shut(request.tree, request.address)

    # ---- for people

    def notes(self) -> list[str]:
        """Say who is shut out, and whose snapshots audits cannot have."""
        found = [
            f"job {self._job(tree)}: {each.name} alters what it merges, and is shut out"
            + (f", {self._name(each.by)} says" if each.by else "")
            for tree, each in self.findings.found()
            if not self._catalogue.is_over(tree)
        ]
        silent = [
            f"job {self._job(tree)}: claims cannot be audited, {self._catalogue.name_of(agent)} does not show what it "
            "has signed"
            for tree, agent in self.findings.silent()
            if not self._catalogue.is_over(tree)
        ]
        return found + silent

    # ---- inside

    async def _ask(self, contact: Contact, request: AnyRequest, timeout_ms: int) -> object:
        """Ask an agent; None if it does not answer."""
        try:
            return value_of(await self._node.ask(contact, encode(request), timeout_ms))
        except (OverlayError, ElfError, ValueError) as error:
            log.debug("%s does not answer an audit: %s", contact.address, error)
            return None

    def _now_ms(self) -> int:
        return int(asyncio.get_running_loop().time() * 1000)

    def _job(self, tree: bytes) -> str:
        job = self._catalogue.job_of_tree(tree)
        return tree.hex() if job is None else job.definition.key

    def _name(self, address: str) -> str:
        """Return the name of the agent at an address, with that."""
        names = [member.name for member in self._catalogue.all_members() if member.address == address]
        return f"{names[0]} ({address})" if names and names[0] != address else address
