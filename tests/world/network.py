"""What a node in virtual time stands on: the simulated network in place of sockets, and a host's clocks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from elf.overlay.ids import Contact
from elf.overlay.links.binding import Bound
from elf.overlay.network import Network
from elf.overlay.sim.links import SimLinks
from elf.overlay.sim.streams import Streams


def network_of(
    streams: Streams,
    contact_of: Callable[[Any], Contact],
    clock: Callable[[], int],
    wall: Callable[[], int],
    keep: Callable[[SimLinks], None] = lambda links: None,
) -> Network:
    """Return what one node stands on.

    Args:
        streams: the connections of the network that it is in.
        contact_of: gives its address, from the overlay's settings.
        clock: its milliseconds that never step back.
        wall: its time of day in ms.
        keep: is handed its links.
    """

    async def bind(settings: Any, *, secure: bool) -> Bound:
        contact = contact_of(settings)
        return Bound(None, (contact.host, contact.port), contact)

    def links(*args: Any, **options: Any) -> SimLinks:
        made = SimLinks(*args, **options, streams=streams)
        keep(made)
        return made

    return Network(clock=clock, wall=wall, bind=bind, links=links)
