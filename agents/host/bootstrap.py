"""Entering the overlay: the agents of `overlay.join` are asked until one answers, and why none does is found out.

A wrong secret, a firewall that lets UDP not through, an agent that is down and a mistyped address look alike from here:
no datagram comes back. Whether TCP at the same place takes a connection tells most of them apart. Shell.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
from collections.abc import Sequence

from elf.overlay.ids import parse_address
from elf.overlay.node import OverlayNode

log = logging.getLogger(__name__)
#: Pause between tries while no configured agent answers.
RETRY_S = 1.0
#: Tries after which it is looked into, and how many later it is said and looked into again.
LOOK_AFTER, AGAIN_AFTER = 2, 30
#: How long a connection may take, and how many agents are looked at.
CONNECT_S, LOOKED_AT_MAX = 2.0, 4


class Entering:
    """Joins the overlay through other agents.

    Args:
        node: the overlay.
        seeds: their addresses, HOST:PORT.
    """

    def __init__(self, node: OverlayNode, seeds: Sequence[str]) -> None:
        self._node = node
        self._seeds = tuple(seeds)
        #: Any of them has answered, or there is none to join through.
        self.joined = not seeds
        #: So, and those that the last run knew were asked, too: what nobody knows now, nobody knows.
        self.done = False
        #: What keeps them from answering, as far as that can be told from here.
        self._why: list[str] = []

    def reseed(self, seeds: Sequence[str]) -> bool:
        """Join through others from now on, as far as nobody was met; return whether `run` is to be called for that."""
        had = bool(self._seeds)
        self._seeds = tuple(seeds)
        if had or not seeds:
            self.joined = self.joined or not seeds
            return False
        self.joined = False
        return True

    def reasons(self) -> list[str]:
        """Say why this agent has not met any other, in one sentence each; nothing once it has."""
        if self.joined:
            return []
        why = f": {'; '.join(self._why)}" if self._why else ""
        return [f"no agent of overlay.join answers yet{why}", *self._node.unheard()]

    async def run(self) -> None:
        """Join, for as long as it takes."""
        if self.joined:
            # Nobody to join through; but the last run may have known others.
            await self._node.join()
        tries = 0
        while not self.joined:
            self.joined = await self._node.join() > 0
            if self.joined:
                break
            tries += 1
            if tries % AGAIN_AFTER == LOOK_AFTER:
                self._why = list(await asyncio.gather(*map(why_silent, self._seeds[:LOOKED_AT_MAX])))
            if tries == 1:
                log.warning("none of %s answers yet", ", ".join(self._seeds))
            elif tries % AGAIN_AFTER == LOOK_AFTER:
                log.warning("%s", "; ".join(self.reasons()))
            await asyncio.sleep(RETRY_S)
        self.done = True


async def why_silent(seed: str) -> str:
    """Say of an agent that answers no datagram what can be told by calling it over TCP.

    Nothing is said to it, and it says nothing of somebody who hangs up at once.
    """
    host, port = parse_address(seed)
    try:
        async with asyncio.timeout(CONNECT_S):
            _, writer = await asyncio.open_connection(host, port)
    except socket.gaierror:
        return f"{seed}: no address is known for this name"
    except ConnectionRefusedError:
        return f"{seed}: nothing listens there; is the agent up, and its overlay.bind this address?"
    except TimeoutError:
        return f"{seed}: no connection within {CONNECT_S:.0f} s; is the machine up, and port {port} open, TCP and UDP?"
    except OSError as error:
        return f"{seed}: {error.strerror or error}"
    writer.close()
    with contextlib.suppress(OSError):
        await writer.wait_closed()
    return (
        f"{seed}: it takes connections, but answers no datagram; is its overlay.secret_file the same (its log names "
        f"whom it does not hear), its clock right, and UDP port {port} open?"
    )
