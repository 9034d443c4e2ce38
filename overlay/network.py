"""What a node stands on: clocks, sockets and links, real unless handed in.

Owns the seam between the node and the world, so that whole nodes run in virtual time with the very same decisions;
behaviour is in `elf.overlay.links` and `elf.overlay.clock`, or in `elf.overlay.sim` for the simulated world.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from elf.overlay.clock import now_ms
from elf.overlay.dht.server import wall_ms
from elf.overlay.links.binding import Bound, bind_sockets
from elf.overlay.links.layer import LinkLayer
from elf.overlay.links.websocket import Links


@dataclass(frozen=True, kw_only=True)
class Network:
    """One node's clocks, and how it opens its sockets and links."""

    #: Milliseconds that never step back within one process.
    clock: Callable[[], int] = now_ms
    #: The wall clock in ms, to date datagrams.
    wall: Callable[[], int] = wall_ms
    #: As `binding.bind_sockets(settings, secure=...)`.
    bind: Callable[..., Awaitable[Bound]] = bind_sockets
    #: As `LinkLayer(contact, agent, secret, rng, ...)`.
    links: Callable[..., LinkLayer[Any]] = Links
