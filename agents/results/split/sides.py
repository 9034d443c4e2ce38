"""An agent's whole part in partial results, as the rest of the agent sees it: one object beside its masters."""

from __future__ import annotations

from collections.abc import Callable, Coroutine

import msgspec

from elf.agents.errors import BadRequestError
from elf.agents.group.copies import Copies
from elf.agents.results.split.held import Provisional
from elf.agents.results.split.participation import Partaking
from elf.agents.results.split.provisional import ProvisionalMasters
from elf.agents.store.database import Database
from elf.agents.wire.catalogue import Catalogue
from elf.agents.wire.split import AskStand, Partake, Seek, decode_question
from elf.overlay.contract import Commit, Record, Verdict
from elf.overlay.ids import ID_BYTES, Contact
from elf.overlay.node import OverlayNode

#: Sides whose job is remembered.
KNOWN_MAX = 1_024


class Sides:
    """Provisional masters here, and this agent's part in those of others; see `ProvisionalMasters` and `Partaking`."""

    def __init__(
        self,
        node: OverlayNode,
        copies: Copies,
        catalogue: Catalogue,
        database: Database,
        spawn: Callable[[Coroutine[None, None, None]], None],
        now_ms: Callable[[], int],
    ) -> None:
        self._node = node
        self._catalogue = catalogue
        #: Side's tree -> the job's; oldest first.
        self._jobs: dict[bytes, bytes] = {}
        self.partaking = Partaking(copies.agent_id, node, catalogue, spawn)
        self.masters = ProvisionalMasters(node, copies, database, self.partaking, self._learn, catalogue, spawn, now_ms)

    def _learn(self, side: bytes, tree: bytes) -> None:
        self._jobs[side] = tree
        while len(self._jobs) > KNOWN_MAX:
            del self._jobs[next(iter(self._jobs))]

    def on_record(self, side: bytes, record: Record) -> None:
        """Learn which job's payloads go over a side's tree."""
        if len(record.body) == ID_BYTES:
            self._learn(side, record.body)

    def tree_of(self, tree: bytes) -> bytes:
        """Return the tree of the job that a side's tree is of; any other tree is its own."""
        return self._jobs[tree] if self.is_side(tree) else tree

    def is_side(self, tree: bytes) -> bool:
        """Tell whether a tree is a side's, as far as is known here; what a peer says makes no job's own tree one."""
        return tree in self._jobs and self._catalogue.job_of_tree(tree) is None

    async def commit(self, tree: bytes, commit: Commit) -> bool:
        """Take a commit of a side; False if the tree is no side's."""
        if not self.is_side(tree):
            return False
        await self.masters.commit(tree, commit)
        return True

    def on_verdict(self, tree: bytes, verdict: Verdict) -> bool:
        """Heed a verdict of a side, and leave sides on one of the job's own master; False for the latter."""
        if self.partaking.on_verdict(tree, verdict) or self.is_side(tree):
            return True
        self.partaking.on_settled(tree, verdict.through)
        return False

    # ---- answers

    def answer(self, body: bytes) -> object:
        """Answer an agent of our side. Raises BadRequestError on bytes that are no question."""
        try:
            question = decode_question(body)
        except msgspec.DecodeError as error:
            raise BadRequestError(f"not a question of a side: {error}") from None
        match question:
            case AskStand(tree=tree):
                stand = self.masters.stand(tree)
                return None if stand is None else msgspec.to_builtins(stand)
            case Partake():
                if not self.is_side(question.side):
                    self._learn(question.side, question.tree)
                return self.partaking.partake(question)
            case Seek(app=app):
                root = self.root_of(app)
                return None if root is None else root.address

    def root_of(self, app: bytes) -> Contact | None:
        """Return a job's provisional master, as far as it is known here."""
        return self._node.contact if app in self.masters else self.partaking.root_of(app)

    def holds(self, app: bytes) -> bool:
        """Tell whether this agent is a job's provisional master."""
        return app in self.masters

    def answerer(self, app: bytes) -> Provisional:
        """Return who answers for a job's side here; UnknownJobError if this agent does no more."""
        return self.masters.answerer(app)
