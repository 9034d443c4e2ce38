"""Which claims of children a root has merged again, and what children claimed a moment ago. Pure.

A sum keeps no signatures: what a member makes of the snapshots that it merges is seen only by who merges them again. A
root chooses the claims at random, each by itself, so that who was audited has not earned a pause, and at the latest one
in `SURE` / share, so that who alters every claim is found. Claims with the data of a single agent are proven by its
word (`elf.overlay.rollup.words`) and never chosen. What is not chosen costs a look at its words.

All nodes remember for a moment what children have claimed, bounded in bytes and time: when a root finds that a child's
claim is not the sum that it should be, the child looks at what was claimed to it, and so on down.
"""

from __future__ import annotations

import math
import random
from collections import OrderedDict, deque
from dataclasses import dataclass

from elf.overlay.ids import Contact
from elf.overlay.messages import Claim

#: At least one of so many claims of a child, divided by the share, is audited: of 190 if one of 100 should be.
SURE = 1.9
#: What children have claimed is remembered so long, and so many bytes of it, of all trees of a node.
REMEMBERED_MS = 10_000
REMEMBERED_BYTES_MAX = 4 << 20
#: Children whose claims are counted, of all trees; of more, those that were heard of longest ago begin anew.
CHILDREN_MAX = 16_384
#: All claims of a child are audited until so many in a row were found to be right, once one was not found so.
WATCHED = 16


def contributors(claim: Claim) -> tuple[str, ...] | None:
    """Return who has data in a claim by its own word; None where somebody has said nothing, so that nobody can tell."""
    if claim.payload is None:
        return ()
    if not claim.words or None in claim.words:
        return None
    return tuple(agent for agent, word in claim.spoken() if word.through == claim.through and word.digest)


def is_merged(claim: Claim) -> bool:
    """Tell whether a claim has data that its words do not prove."""
    with_data = contributors(claim) if len(claim.agents) > 1 and claim.payload is not None else ()
    return with_data is None or len(with_data) > 1


@dataclass(slots=True)
class _Child:
    """How a child fares: claims until the next audit, those to be watched still, the first one not audited."""

    left: int
    watched: int = 0
    since: int | None = None


class Audits:
    """The choice of claims, and the memory of them, at one node.

    Args:
        rng: decides.
        share: of claims, 0 to 1.
    """

    def __init__(self, rng: random.Random, share: float = 0.0) -> None:
        self.share = share
        self._rng = rng
        self._children: OrderedDict[tuple[bytes, bytes], _Child] = OrderedDict()
        self._claims: deque[tuple[int, bytes, Contact, Claim]] = deque()
        self._bytes = 0
        #: Since when nothing was forgotten before its time.
        self._whole_ms: int | None = None

    # ---- the choice, at a root

    def chooses(self, app: bytes, child: bytes, claim: Claim) -> bool:
        """Tell whether a merged claim of a child, by its id, is to be audited; each is asked about once."""
        if not self.share:
            return False
        known = self._child(app, child)
        known.left -= 1
        if known.left <= 0 or known.watched:
            known.left = self._drawn()
            return True
        self.passes(app, child, claim.through)
        return False

    def passes(self, app: bytes, child: bytes, through: int) -> None:
        """Take note that a child's claim of an interval was not audited."""
        known = self._child(app, child)
        known.since = through if known.since is None else min(known.since, through)

    def watch(self, app: bytes, child: bytes) -> None:
        """Audit all that comes of a child until it has been found right for a while."""
        self._child(app, child).watched = WATCHED

    def found_right(self, app: bytes, child: bytes) -> None:
        """Take note that a claim was the sum that it should be."""
        known = self._child(app, child)
        known.watched = max(0, known.watched - 1)

    def passes_all(self, app: bytes, committed: int) -> None:
        """Take note, at a new root, that what it has merged as an inner node was not audited, as far as it counts."""
        for _, of, child, claim in self._claims:
            if of == app and claim.through > committed:
                self.passes(app, child.id, claim.through)

    def since(self, app: bytes, child: bytes) -> int | None:
        """Return the first interval of which a child's claim was not audited; None: all were."""
        return self._child(app, child).since

    def _child(self, app: bytes, child: bytes) -> _Child:
        known = self._children.get((app, child))
        if known is None:
            known = self._children[app, child] = _Child(self._drawn())
        self._children.move_to_end((app, child))
        while len(self._children) > CHILDREN_MAX:
            self._children.popitem(last=False)
        return known

    def _drawn(self) -> int:
        if self.share >= 1:
            return 1
        if self.share <= 0:
            return 1 << 62
        most = max(1, int(SURE / self.share))
        return min(most, 1 + int(math.log(1 - self._rng.random()) / math.log(1 - self.share)))

    # ---- the memory

    def begin(self, now_ms: int) -> None:
        """Take note that the node has started."""
        self._whole_ms = now_ms

    def remember(self, app: bytes, child: Contact, claim: Claim, now_ms: int) -> None:
        """Keep a merged claim of a child for a moment."""
        self._claims.append((now_ms, app, child, claim))
        self._bytes += _size(claim)
        while self._claims and (self._bytes > REMEMBERED_BYTES_MAX or self._claims[0][0] <= now_ms - REMEMBERED_MS):
            at_ms, *_, oldest = self._claims.popleft()
            self._bytes -= _size(oldest)
            if at_ms > now_ms - REMEMBERED_MS:
                self._whole_ms = now_ms

    def remembered(self, app: bytes, through: int, now_ms: int) -> list[tuple[Contact, Claim]]:
        """Return what children of a tree claimed of an interval a moment ago, the latest claim of each first."""
        return [
            (child, claim)
            for at_ms, of, child, claim in reversed(self._claims)
            if of == app and claim.through == through and at_ms > now_ms - REMEMBERED_MS
        ]

    def remembers_all(self, now_ms: int) -> bool:
        """Tell whether whatever was claimed a moment ago is remembered."""
        return self._whole_ms is not None and self._whole_ms <= now_ms - REMEMBERED_MS


def _size(claim: Claim) -> int:
    return len(claim.payload or b"") + 128 * len(claim.agents)
