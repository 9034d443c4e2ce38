"""Connections to agents: by their ports, or by the Unix sockets that agents of this machine have beside those.

Who may open an agent's socket needs no token for it; an agent that has none, or that this user may not use, is asked at
its port. Which it is, is found out anew for each request: agents come and go.
"""

from __future__ import annotations

import contextlib
import io
import ipaddress
import os
from collections.abc import AsyncGenerator, Mapping
from typing import Any

import aiohttp
from yarl import URL

from elf.agents.settings.local_sockets import socket_to_use


class LostError(Exception):
    """A connection was lost; its cause is how."""


class Sessions:
    """The connections of one client.

    Args:
        agents: URL of an API -> the token for it, if it has one of its own.
        token: for all others.
    """

    def __init__(self, agents: Mapping[str, str | None], token: str | None) -> None:
        tokens = {url: own or token for url, own in agents.items()}
        self._proofs = {url: {"Authorization": f"Bearer {own}"} if own else {} for url, own in tokens.items()}
        self._by_port = _session(aiohttp.TCPConnector())
        #: Path of a socket -> the connections through it.
        self._by_socket: dict[str, aiohttp.ClientSession] = {}

    async def close(self) -> None:
        """Close all connections."""
        for session in (self._by_port, *self._by_socket.values()):
            await session.close()

    @property
    def closed(self) -> bool:
        """Whether `close` was called."""
        return self._by_port.closed

    @contextlib.asynccontextmanager
    async def request(
        self, method: str, url: str, path: str, *, headers: Mapping[str, str], body: bytes | None = None, **how: Any
    ) -> AsyncGenerator[aiohttp.ClientResponse]:
        """Send a request to the agent at `url`; yield the answer, the body of which may still be on its way.

        Raises:
            aiohttp.ClientError: there is no connection, or the answer is none.
            LostError: the connection was lost after the request was sent, maybe.
        """
        named = {**self._proofs[url], **headers}
        answer = await self._begin(method, url, path, headers=named, body=body, how=how)
        async with answer:
            yield answer

    async def _begin(
        self,
        method: str,
        url: str,
        path: str,
        *,
        headers: Mapping[str, str],
        body: bytes | None,
        how: Mapping[str, Any],
    ) -> aiohttp.ClientResponse:
        local = self._local(url)
        if local is not None:
            try:
                return await local.request(method, url + path, headers=headers, data=_read(body), **how)
            except aiohttp.ClientConnectorError:
                pass  # nothing was sent; whose socket it was has ended, and another one may have the port
        return await self._by_port.request(method, url + path, headers=headers, data=_read(body), **how)

    def _local(self, url: str) -> aiohttp.ClientSession | None:
        """Return the connections to an agent of this machine through its socket; None if it has none for us."""
        asked = URL(url)
        if asked.scheme != "http" or asked.port is None or not _is_here(asked.host or ""):
            return None
        place = socket_to_use(asked.port, os.environ)
        if place is None:
            return None
        if str(place) not in self._by_socket:
            self._by_socket[str(place)] = _session(aiohttp.UnixConnector(str(place)))
        return self._by_socket[str(place)]


def _session(connector: aiohttp.BaseConnector) -> aiohttp.ClientSession:
    return aiohttp.ClientSession(connector=connector, headers={"User-Agent": "elf"}, middlewares=(_sent_once,))


def _read(body: bytes | None) -> io.BytesIO | None:
    # The HTTP library sends a file in parts.
    return None if body is None else io.BytesIO(body)


def _is_here(host: str) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


async def _sent_once(request: aiohttp.ClientRequest, handler: aiohttp.ClientHandlerType) -> aiohttp.ClientResponse:
    """Keep the HTTP library from sending by itself again what an agent may have done, as it does with DELETE."""
    try:
        return await handler(request)
    except aiohttp.ClientConnectorError:
        raise
    except (aiohttp.ClientOSError, aiohttp.ServerDisconnectedError) as error:
        raise LostError from error
