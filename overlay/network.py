"""What a node stands on: clocks, sockets and links, real unless handed in.

Owns the seam between the node and the world, so that whole nodes run in virtual time with the very same decisions;
behaviour is in `binding`, `links` and `clock`, or in `overlay.sim` for the simulated world.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import Protocol

from overlay.clock import now_ms
from overlay.dht import DhtTimes
from overlay.dht.server import wall_ms
from overlay.ids import Contact
from overlay.links.binding import Bound, bind_sockets
from overlay.links.websocket import Links
from overlay.messages import Message


class LinkLayer(Protocol):
    """What a node asks of its links; see `links.Links`, whose constructor the simulator's links share."""

    counters: dict[str, int]

    async def start(self, bound: Bound) -> None:
        """Take calls on what `Network.bind` opened."""
        ...

    async def stop(self) -> None:
        """Close all links."""
        ...

    def send(self, to: Contact, message: Message) -> None:
        """Queue a message; opens a link if there is none. A failure is told by `on_lost`."""
        ...

    def congested(self) -> list[Contact]:
        """Return the peers that take less than they are sent."""
        ...

    def hold(self, contacts: Iterable[Contact]) -> None:
        """Take bulk messages of these peers at a trickle, of all others freely; replaces the last call."""
        ...

    def connected(self) -> list[Contact]:
        """Return the peers with a link."""
        ...

    def agent_of(self, contact: Contact) -> str | None:
        """Return the name of the agent at the other end of a link."""
        ...


@dataclass(frozen=True, kw_only=True)
class Network:
    """One node's clocks, and how it opens its sockets and links."""

    #: Milliseconds that never step back within one process.
    clock: Callable[[], int] = now_ms
    #: The wall clock in ms, to date datagrams.
    wall: Callable[[], int] = wall_ms
    #: As `binding.bind_sockets(settings, secure=...)`.
    bind: Callable[..., Awaitable[Bound]] = bind_sockets
    #: As `links.Links(contact, agent, secret, rng, ...)`.
    links: Callable[..., LinkLayer] = Links
    #: How patient the DHT is; None: its defaults.
    dht_times: DhtTimes | None = None
