"""One node's search for a parent: whom it asked, whom it was pointed to, and who failed it lately.

Owns the memory of a search and its deadlines; which contacts are legal and in what order they are asked is
`elf.overlay.tree.machine`'s and `elf.overlay.tree.policy`'s. Pure. OVERLAY section 4.
"""

from __future__ import annotations

import random

from elf.overlay.ids import Contact

BACKOFF_MS_MIN = 50
BACKOFF_MS_MAX = 2_000
#: A contact that failed a JOIN is passed over this long, unless it is the recorded root.
STRIKE_MS = 5_000
#: Redirects followed in one search. A path down a tree of 16 children a node is not half as long for a billion agents;
#: what goes on for longer is a peer that leads us in circles.
REDIRECTS_MAX = 16
#: How often a rendezvous node asks a closer agent again that answers lookups but no JOIN, before it claims the root.
DOUBTS_MAX = 3


class Search:
    """The state of the search; empty while there is a parent."""

    __slots__ = (
        "_failures", "_rng", "_struck", "asked", "asked_until_ms", "doubts", "hints", "lookup_until_ms", "redirects",
        "retry_ms",
    )  # fmt: skip

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self.asked: Contact | None = None
        self.asked_until_ms = 0
        self.retry_ms: int | None = None
        self.lookup_until_ms: int | None = None
        #: Where peers pointed us to, asked before the routing table's contacts.
        self.hints: list[Contact] = []
        self.redirects = 0
        self.doubts = 0
        self._failures = 0
        self._struck: dict[bytes, int] = {}

    def ask(self, to: Contact, until_ms: int) -> None:
        """Take note that a JOIN is on its way."""
        self.asked = to
        self.asked_until_ms = until_ms
        self.retry_ms = None

    def end(self) -> None:
        """The search is over: a parent was found, or none is wanted any more."""
        self.asked = self.retry_ms = self.lookup_until_ms = None
        self.hints = []
        self.redirects = self.doubts = self._failures = 0

    def strike(self, contact: Contact, root: Contact | None, now_ms: int) -> None:
        """Pass a contact over for a while; the recorded root, which nobody replaces, only for a jittered back-off."""
        self._failures += 1
        self._struck[contact.id] = now_ms + (self.backoff_ms() if contact == root else STRIKE_MS)

    def backoff_ms(self) -> int:
        """Return a pause that grows with the failures in a row."""
        return self._rng.randint(BACKOFF_MS_MIN, min(BACKOFF_MS_MAX, BACKOFF_MS_MIN << min(self._failures, 10)))

    def forgive(self, contact: Contact) -> None:
        """Ask a contact again as if it had not failed."""
        self._struck.pop(contact.id, None)

    def struck(self, now_ms: int) -> dict[bytes, int]:
        """Return who is passed over, by id, and until when."""
        self._struck = {peer: until for peer, until in self._struck.items() if until > now_ms}
        return self._struck

    def deadlines(self) -> list[int]:
        """Return when something is due, in no order."""
        due = [at for at in (self.retry_ms, self.lookup_until_ms) if at is not None]
        return [*due, self.asked_until_ms] if self.asked is not None else due
