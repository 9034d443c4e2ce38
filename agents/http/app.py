"""The HTTP API put together: routes, guards and limits; and how it is served.

DESIGN section 8: loopback and its own user, or a token everywhere. Connections on which nothing was asked yet are few,
and do not last: each is a file descriptor, which logs and links need, too.
"""

from __future__ import annotations

import asyncio
import errno
import ipaddress
import logging
import socket
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from typing import Any

from aiohttp import web
from aiohttp.typedefs import Handler

from elf.agents.errors import ConfigError
from elf.agents.host.audit_log import AuditLog
from elf.agents.http.agent_service import Service
from elf.agents.http.audit import AUDIT, audit
from elf.agents.http.body_budget import BUDGET, BodyBudget, hold_bodies
from elf.agents.http.callers import Callers
from elf.agents.http.guard import OPEN_PATHS, Admission
from elf.agents.http.kept_alive import KeptAlive
from elf.agents.http.local_listener import local_listener, remove_file
from elf.agents.http.problems import answer_with_problems
from elf.agents.http.routes import ROUTES, SERVICE, STREAMS
from elf.agents.settings.config import split_address
from elf.overlay.links.door import Door, admit

log = logging.getLogger(__name__)
ADMISSION: web.AppKey[Admission] = web.AppKey("admission")

#: Answers in flight get this long when the agent stops; streams are told at once.
SHUTDOWN_S = 5.0
#: A connection whose last request is answered is closed after this long.
KEEPALIVE_S = 30.0
KEPT = web.AppKey("kept", KeptAlive)


def make_app(
    service: Service,
    *,
    token: str | None,
    request_bytes_max: int,
    callers: Callers | None = None,
    audit_log: AuditLog | None = None,
) -> web.Application:
    """Build the application.

    Args:
        service: the agent that answers.
        token: what every caller must send as bearer token; None: loopback callers only, checked by Host and Origin.
        callers: knows whom of this machine may leave out the token; None: nobody.
        request_bytes_max: largest request body, before and after decompression.
        audit_log: where it is noted who did what; None: nowhere.
    """
    admission = Admission(token, callers)
    app = web.Application(
        middlewares=[
            audit,
            answer_with_problems,
            admission.middleware,
            _admit,
            hold_bodies,
        ],
        client_max_size=request_bytes_max,
        # Bodies are decompressed by `elf.agents.http.bodies`, which also bounds the ratio.
        handler_args={"auto_decompress": False},
    )
    app[SERVICE] = service
    app[ADMISSION] = admission
    if audit_log is not None:
        app[AUDIT] = audit_log
    app[BUDGET] = BodyBudget()
    app[KEPT] = KeptAlive()
    streams: set[asyncio.Task[Any]] = set()
    app[STREAMS] = streams
    app.add_routes(ROUTES)
    app.on_shutdown.append(_end_streams)
    return app


@asynccontextmanager
async def serve(app: web.Application, bind: str) -> AsyncGenerator[str, None]:
    """Serve the API at HOST:PORT while the block runs; yields its URL (port 0 is replaced by the real one).

    Serves it at a Unix socket, too, where this user has a folder for such.

    Raises:
        ConfigError: the address cannot be bound.
    """
    host, port = split_address(bind)
    try:
        listeners = await _listeners(host, port)
    except OSError as error:
        why = "the address is in use; choose another port" if error.errno == errno.EADDRINUSE else error.strerror
        raise ConfigError(f"api.bind = {bind!r} cannot be used: {why or error}") from None
    real_port = listeners[0].getsockname()[1]
    # Clients look there for who answers at a port of this machine's own.
    local = local_listener(real_port) if any(map(_is_at_home, listeners)) else None
    listeners = listeners if local is None else [*listeners, local]
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=SHUTDOWN_S, keepalive_timeout=KEEPALIVE_S)
    await runner.setup()
    assert runner.server is not None
    doors = [Door(listener, runner.server, None, _note_refusal) for listener in listeners]
    try:
        for door in doors:
            door.open()
        yield f"http://{f'[{host}]' if ':' in host else host}:{real_port}"
    finally:
        if local is not None:
            remove_file(local)
        for door in doors:
            await door.close()
        await runner.cleanup()


def _is_at_home(listener: socket.socket) -> bool:
    """Tell whether a loopback address leads to a listener."""
    address = ipaddress.ip_address(listener.getsockname()[0].partition("%")[0])
    return address.is_loopback or address.is_unspecified


async def _listeners(host: str, port: int) -> Sequence[socket.socket]:
    """Bind the addresses that a host has here, all of them."""
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    listeners: list[socket.socket] = []
    failure: OSError | None = None
    for family, address in dict.fromkeys((each[0], each[4]) for each in found):
        try:
            listeners.append(socket.create_server(address[:2], family=family))
        except OSError as error:
            failure = error
            if error.errno != errno.EADDRNOTAVAIL:
                break
    # A name may have an address of a kind that this machine does without.
    if failure is None or (listeners and failure.errno == errno.EADDRNOTAVAIL):
        return listeners
    for listener in listeners:
        listener.close()
    raise failure


@web.middleware
async def _admit(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Let a connection last on which something was asked that not everybody may ask."""
    transport = request.transport
    if transport is None or request.path in OPEN_PATHS:
        return await handler(request)
    admit(transport)
    kept = request.app[KEPT]
    kept.begin(transport)
    try:
        return await handler(request)
    finally:
        kept.end(transport)


def _note_refusal(host: str, why: str) -> None:
    log.debug("hung up on a connection of %s to the API: %s", host, why)


async def _end_streams(app: web.Application) -> None:
    streams = app[STREAMS]
    for task in tuple(streams):
        task.cancel()
