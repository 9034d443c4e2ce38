"""One iterative lookup as a state machine: whom to ask next, and when the nearest agents are known.

Owns the order of questions; the caller asks and reports answers, failures and stalls. Pure. It ends when the `width`
nearest candidates that are not dead have all answered; a width of 3 is enough to check who is the root.
"""

from __future__ import annotations

from collections.abc import Iterable

from elf.overlay.dht.table import by_distance
from elf.overlay.ids import Contact

PARALLEL = 3
#: Agents asked in one lookup at most: log2 of a million rounds of three, doubled. Bounds what a liar can cost us.
ASKED_MAX = 120


class Lookup:
    """A search for the agents nearest to `key`, begun with the contacts in `start`."""

    def __init__(self, own: Contact, key: bytes, start: Iterable[Contact], *, width: int) -> None:
        self.own = own
        self.key = key
        self.width = width
        self._known: dict[bytes, Contact] = {}
        self._asked: set[bytes] = set()
        self._waiting: set[bytes] = set()
        self._answered: set[bytes] = set()
        self._dead: set[bytes] = set()
        self._stalled: set[bytes] = set()
        self._candidates: list[Contact] | None = None
        self._add(start)

    @property
    def is_complete(self) -> bool:
        """Whether the nearest candidates have all answered, so that nobody else need be waited for."""
        best = self._best()
        return bool(best) and all(contact.id in self._answered for contact in best)

    def to_ask(self) -> list[Contact]:
        """Return the contacts to ask now, and count them as asked; nothing and nobody waited for means the end."""
        room = min(PARALLEL - len(self._waiting), ASKED_MAX - len(self._asked))
        chosen = [contact for contact in self._best() if contact.id not in self._asked][: max(room, 0)]
        self._asked.update(contact.id for contact in chosen)
        self._waiting.update(contact.id for contact in chosen)
        return chosen

    def on_answer(self, contact: Contact, found: Iterable[Contact]) -> None:
        """Take the contacts that `contact` knows."""
        self._waiting.discard(contact.id)
        self._dead.discard(contact.id)
        self._answered.add(contact.id)
        self._add(found)

    def on_failure(self, contact: Contact) -> None:
        """Take note that `contact` did not answer in time."""
        self._waiting.discard(contact.id)
        self._bury(contact)

    def on_stall(self, doubted: Iterable[Contact] = ()) -> None:
        """Let others be asked beside those that have been silent for a while; their answers still count.

        `doubted`: those among them that were silent already before this lookup; nobody waits for their second stall.
        """
        self._waiting.clear()
        for contact in doubted:
            if contact.id in self._stalled:
                self._bury(contact)
            self._stalled.add(contact.id)

    def result(self) -> list[Contact]:
        """Return the nearest agents that answered, ourselves among them, nearest first; at most `width`."""
        answered = [self._known[key] for key in self._answered]
        return by_distance([*answered, self.own], self.key)[: self.width]

    def heard(self) -> list[Contact]:
        """Return everybody whom the answers named, in the order of hearing, but those that did not answer us."""
        return [contact for contact in self._known.values() if contact.id not in self._dead]

    def _best(self) -> list[Contact]:
        if self._candidates is None:
            live = (contact for contact in self._known.values() if contact.id not in self._dead)
            self._candidates = by_distance(live, self.key)[: self.width]
        return self._candidates

    def _bury(self, contact: Contact) -> None:
        self._dead.add(contact.id)
        self._candidates = None

    def _add(self, contacts: Iterable[Contact]) -> None:
        self._candidates = None
        for contact in contacts:
            if contact.id != self.own.id:
                self._known.setdefault(contact.id, contact)
