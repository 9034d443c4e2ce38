"""What the machines of a tree ask for, done by the parts of a node: the links, the DHT and the way to the runtime.

Owns the lookups under way; it takes no decision. Shell.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from typing import Any

from elf.overlay.background import Background
from elf.overlay.border import Border
from elf.overlay.dht import Dht
from elf.overlay.effects import (
    Apply,
    Audit,
    Deliver,
    Effect,
    Input,
    LookedUp,
    Lookup,
    Merge,
    Notify,
    Persist,
    Send,
    Suspect,
)
from elf.overlay.errors import OverlayError
from elf.overlay.links.layer import LinkLayer

log = logging.getLogger(__name__)


class Executor:
    """Executes effects at once; what takes time is answered by an input.

    Args:
        links: carries messages to peers.
        dht: looks up, and is told of suspects.
        border: calls the runtime.
        feed: takes what a lookup found, by application.
    """

    def __init__(self, links: LinkLayer[Any], dht: Dht, border: Border, feed: Callable[[bytes, Input], None]) -> None:
        self._links = links
        self._dht = dht
        self._border = border
        self._feed = feed
        self._background = Background()

    async def stop(self) -> None:
        """End the lookups under way."""
        await self._background.stop()

    def execute(self, app: bytes, effects: Iterable[Effect]) -> None:
        """Do what the machines of an application ask for, in this order."""
        for effect in effects:
            match effect:
                case Send(to=to, message=message):
                    self._links.send(to, message)
                case Merge(ticket=ticket, payloads=payloads):
                    self._border.merge(app, ticket, payloads)
                case Persist(commit=commit):
                    self._border.persist(app, commit)
                case Notify(verdict=verdict):
                    self._border.notify(app, verdict)
                case Audit(child=child, claim=claim):
                    self._border.audit(app, child, claim)
                case Apply(record=record):
                    self._border.apply(app, record)
                case Deliver(entry=entry):
                    self._border.deliver(app, entry)
                case Lookup():
                    self._background.spawn(self._look_up(app))
                case Suspect(contact=contact):
                    self._dht.suspect(contact)

    async def _look_up(self, app: bytes) -> None:
        try:
            found = await self._dht.lookup(app)
        except OverlayError as error:
            log.debug("lookup for a tree failed: %s", error)
            found = []
        self._feed(app, LookedUp(tuple(found)))
