"""Server-sent events: a job's results as they come, with heartbeats and a cursor to resume from.

Each event is `event: result`, `id: CURSOR`, `data: JSON`. A reader that reconnects with `Last-Event-ID`, to whichever
agent, goes on where it was: it gets what closed or changed meanwhile, and not the result it already has a second time.
An error after the stream has begun is sent as `event: problem`.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import re
from collections.abc import AsyncGenerator, AsyncIterator, Callable

import msgspec
from aiohttp import web

from elf.agents.errors import ElfError
from elf.agents.failures import FAILURES
from elf.agents.http.problems import internal_problem, problem_body
from elf.agents.wire.positions import Json, Position, Positioned

#: Shorter than the idle time after which common proxies cut a connection (60 s); also finds dead readers soon.
HEARTBEAT_S = 10.0
#: A reader that takes nothing for this long is dropped; the results it misses are its own loss.
WRITE_S = 30.0
Results = AsyncIterator[Positioned]
#: Where to go on, if the cursor says so, and what was seen last.
_CURSOR = re.compile(
    r"(?:([0-9]{1,18}(?:\.[0-9]{1,18}){0,512})_(-?[0-9]{1,18})_)?(-?[0-9]+\.[0-9]+(?:\.-?[0-9]+)?)", re.ASCII
)
_log = logging.getLogger(__name__)
_HEADERS = {"Content-Type": "text/event-stream", "Cache-Control": "no-cache", "X-Accel-Buffering": "no"}


def identity_of(result: Json) -> str:
    """Name one revision of one window, `END_MS.REVISION`, and of an open or partial one how far its master has come.

    A job without windows goes by how far it has counted.
    """
    window, through_ms = result.get("window") or {}, result.get("through_ms")
    known = result["completeness"]
    identity = f"{window.get('end_ms', through_ms) or 0}.{known['revision']}"
    return f"{identity}.{through_ms or 0}" if known["status"] in ("open", "partial") else identity


def cursor_of(result: Json, position: Position) -> str:
    """Name a result and where its reader goes on."""
    edition, after_ms = position
    known = ".".join(map(str, edition)) if isinstance(edition, tuple) else edition
    return f"{known}_{after_ms}_{identity_of(result)}"


def read_cursor(text: str | None) -> tuple[Position | None, str | None]:
    """Return where a reader goes on and what it has seen last; nothing of a text that is no cursor."""
    found = _CURSOR.fullmatch(text or "")
    if found is None:
        return None, None
    if found[1] is None:
        return None, found[3]
    editions = tuple(map(int, found[1].split(".")))
    return (editions[0] if len(editions) == 1 else editions, int(found[2])), found[3]


async def send_results(
    request: web.Request, follow: Callable[[Position | None], Results], *, heartbeat_s: float = HEARTBEAT_S
) -> web.StreamResponse:
    """Stream results until the reader goes away or the job ends.

    The headers wait for the first result, at most one heartbeat, so that an unknown job is still an ordinary 404.
    """
    position, seen = read_cursor(request.headers.get("Last-Event-ID"))
    response = web.StreamResponse(headers=_HEADERS)

    async def send(found: Positioned | None) -> None:
        async with asyncio.timeout(WRITE_S):
            if found is None:
                await response.write(b": alive\n\n")
            elif identity_of(found[0]) != seen:
                await response.write(_event("result", msgspec.json.encode(found[0]), cursor_of(*found)))

    async with contextlib.aclosing(_with_heartbeats(follow(position), heartbeat_s)) as beats:
        first = await anext(beats, None)
        await response.prepare(request)
        with contextlib.suppress(ConnectionError, TimeoutError):
            try:
                await send(first)
                async for result in beats:
                    await send(result)
            except ElfError as error:
                await response.write(_event("problem", msgspec.json.encode(problem_body(error))))
            except (ConnectionError, TimeoutError):
                raise
            except FAILURES:
                # Cut off, the reader would come again and again, and be told nothing.
                _log.exception("%s cannot be followed any further", request.path)
                await response.write(_event("problem", msgspec.json.encode(internal_problem())))
    return response


async def _with_heartbeats(results: Results, every_s: float) -> AsyncGenerator[Positioned | None, None]:
    """Yield each result, and None whenever none came for `every_s`."""
    pending = asyncio.ensure_future(anext(results))
    try:
        while True:
            done, _ = await asyncio.wait([pending], timeout=every_s)
            if not done:
                yield None
                continue
            try:
                result = pending.result()
            except StopAsyncIteration:
                return
            yield result
            pending = asyncio.ensure_future(anext(results))
    finally:
        pending.cancel()
        await asyncio.wait([pending])
        if isinstance(results, AsyncGenerator):
            await results.aclose()


def _event(kind: str, data: bytes, cursor: str | None = None) -> bytes:
    """Frame one event; JSON has no raw line breaks, so one data line is enough."""
    identity = f"id: {cursor}\n" if cursor else ""
    return f"event: {kind}\n{identity}data: ".encode() + data + b"\n\n"
