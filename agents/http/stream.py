"""Server-sent events: a job's results as they come, with heartbeats and a cursor to resume from.

Each event is `event: result`, `id: CURSOR`, `data: JSON`. A reader that reconnects with `Last-Event-ID` does not
get the result it already has a second time. An error after the stream has begun is sent as `event: problem`.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, AsyncIterator

import msgspec
from aiohttp import web

from agents.errors import ElfError
from agents.http.problems import problem_body
from agents.http.service import Json

#: Shorter than the idle time after which common proxies cut a connection (60 s); also finds dead readers soon.
HEARTBEAT_S = 10.0
#: A reader that takes nothing for this long is dropped; the results it misses are its own loss.
WRITE_S = 30.0
_HEADERS = {"Content-Type": "text/event-stream", "Cache-Control": "no-cache", "X-Accel-Buffering": "no"}


def cursor_of(result: Json) -> str:
    """Name one revision of one window, `END_MS.REVISION`; a job without windows goes by how far it has counted."""
    window = result.get("window") or {}
    end_ms = window.get("end_ms", result.get("through_ms")) or 0
    return f"{end_ms}.{result['completeness']['revision']}"


async def send_results(
    request: web.Request, results: AsyncIterator[Json], *, heartbeat_s: float = HEARTBEAT_S
) -> web.StreamResponse:
    """Stream results until the reader goes away or the job ends.

    The headers wait for the first result, at most one heartbeat, so that an unknown job is still an ordinary 404.
    """
    seen = request.headers.get("Last-Event-ID")
    response = web.StreamResponse(headers=_HEADERS)

    async def send(result: Json | None) -> None:
        async with asyncio.timeout(WRITE_S):
            if result is None:
                await response.write(b": alive\n\n")
            elif (cursor := cursor_of(result)) != seen:
                await response.write(_event("result", msgspec.json.encode(result), cursor))

    async with contextlib.aclosing(_with_heartbeats(results, heartbeat_s)) as beats:
        first = await anext(beats, None)
        await response.prepare(request)
        with contextlib.suppress(ConnectionError, TimeoutError):
            try:
                await send(first)
                async for result in beats:
                    await send(result)
            except ElfError as error:
                await response.write(_event("problem", msgspec.json.encode(problem_body(error))))
    return response


async def _with_heartbeats(results: AsyncIterator[Json], every_s: float) -> AsyncGenerator[Json | None, None]:
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
