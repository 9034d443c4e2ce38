"""An agent's HTTP API in virtual time: clients talk to it over pipes in memory, everything but sockets is the real one.

Who may connect, and for how long, is not among that: it is `elf.overlay.links.door`'s.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
from aiohttp import web
from aiohttp.client_proto import ResponseHandler

from elf.agents.agent import Agent
from elf.agents.http.agent_service import Service
from elf.agents.http.app import make_app
from elf.client.asynchronous import AsyncClient

URL = "http://127.0.0.1:4280"


@contextlib.asynccontextmanager
async def client_of(agent: Agent, **options: Any) -> AsyncIterator[AsyncClient]:
    """Give a client of an agent; options are those of `AsyncClient`."""
    runner = web.AppRunner(make_app(Service(agent), token=None, request_bytes_max=1 << 20), access_log=None)
    await runner.setup()
    try:
        async with AsyncClient(URL, **options) as client:
            session = client._attempts._sessions._by_port
            assert session.connector is not None
            await session.connector.close()
            session._connector = _Connector(runner)
            yield client
    finally:
        await runner.cleanup()


class _Connector(aiohttp.BaseConnector):
    """Connects to a server of this process."""

    def __init__(self, runner: web.AppRunner) -> None:
        super().__init__()
        self._runner = runner

    async def _create_connection(self, *asked: Any) -> ResponseHandler:
        protocol = self._factory()
        assert self._runner.server is not None
        here, there = _Pipe(protocol), _Pipe(self._runner.server())
        here.other = there
        there.other = here
        for pipe in (there, here):
            pipe.get_protocol().connection_made(pipe)
        return protocol


class _Pipe(asyncio.Transport):
    """One end of a connection: what is written arrives at the other end, in order."""

    def __init__(self, protocol: Any) -> None:
        super().__init__({"peername": ("127.0.0.1", 1)})
        self.other: _Pipe
        self._protocol = protocol
        self._loop = asyncio.get_running_loop()
        self._is_closing = self._is_held = False
        self._arrived: list[bytes] = []

    def get_protocol(self) -> Any:
        return self._protocol

    def set_protocol(self, protocol: Any) -> None:
        self._protocol = protocol

    def is_closing(self) -> bool:
        return self._is_closing

    def is_reading(self) -> bool:
        return not self._is_held

    def pause_reading(self) -> None:
        self._is_held = True

    def resume_reading(self) -> None:
        self._is_held = False
        self._read()

    def get_write_buffer_size(self) -> int:
        return 0

    def write(self, data: Any) -> None:
        if not self._is_closing:
            self.other._arrived.append(bytes(data))
            self._loop.call_soon(self.other._read)

    def close(self) -> None:
        if not self._is_closing:
            self._is_closing = True
            self._loop.call_soon(self._protocol.connection_lost, None)
            self._loop.call_soon(self.other.close)

    abort = close

    def _read(self) -> None:
        while self._arrived and not self._is_held and not self._is_closing:
            self._protocol.data_received(self._arrived.pop(0))
