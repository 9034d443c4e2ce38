"""The HTTP API put together: routes, guards and limits; and how it is served.

DESIGN section 8: loopback and no token, or a token everywhere.
"""

from __future__ import annotations

import asyncio
import errno
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

from aiohttp import web

from agents.config import split_address
from agents.errors import ConfigError
from agents.http.guard import require_local_host, require_token
from agents.http.problems import answer_with_problems
from agents.http.routes import ROUTES, SERVICE, STREAMS
from agents.http.service import AgentService

#: Answers in flight get this long when the agent stops; streams are told at once.
SHUTDOWN_S = 5.0


def make_app(service: AgentService, *, token: str | None, request_bytes_max: int) -> web.Application:
    """Build the application.

    Args:
        service: the agent that answers.
        token: what every caller must send as bearer token; None: loopback callers only, checked by Host and Origin.
        request_bytes_max: largest request body, before and after decompression.
    """
    app = web.Application(
        middlewares=[answer_with_problems, require_token(token) if token else require_local_host],
        client_max_size=request_bytes_max,
        # Bodies are decompressed by `agents.http.bodies`, which also bounds the ratio.
        handler_args={"auto_decompress": False},
    )
    app[SERVICE] = service
    streams: set[asyncio.Task[Any]] = set()
    app[STREAMS] = streams
    app.add_routes(ROUTES)
    app.on_shutdown.append(_end_streams)
    return app


@asynccontextmanager
async def serve(app: web.Application, bind: str) -> AsyncGenerator[str, None]:
    """Serve the API at HOST:PORT while the block runs; yields its URL (port 0 is replaced by the real one).

    Raises:
        ConfigError: the address cannot be bound.
    """
    host, port = split_address(bind)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=SHUTDOWN_S)
    await runner.setup()
    try:
        try:
            await web.TCPSite(runner, host, port).start()
        except OSError as error:
            why = "the address is in use; choose another port" if error.errno == errno.EADDRINUSE else error.strerror
            raise ConfigError(f"api.bind = {bind!r} cannot be used: {why or error}") from None
        real_port = runner.addresses[0][1]
        yield f"http://{f'[{host}]' if ':' in host else host}:{real_port}"
    finally:
        await runner.cleanup()


async def _end_streams(app: web.Application) -> None:
    streams = app[STREAMS]
    for task in tuple(streams):
        task.cancel()
