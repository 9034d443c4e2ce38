"""An agent's API that answers as it is told, and may be away: for tests of who asks again."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import AsyncIterator, Callable

from aiohttp import web

JOBS = {"jobs": [{"creator": "shop", "name": "top"}]}
#: What an agent does with a request: its answer, or None to hang up.
Answer = Callable[[], web.StreamResponse | None]


def away(retry_after_s: int | None = 0, why: str = "shop/top has no master at the moment") -> Answer:
    body = {"type": "urn:elf:problem:unavailable", "detail": why}
    headers = {} if retry_after_s is None else {"Retry-After": str(retry_after_s)}
    return lambda: web.json_response(body, status=503, headers=headers)


def problem(status: int, kind: str) -> Answer:
    return lambda: web.json_response({"type": f"urn:elf:problem:{kind}", "detail": kind, "name": "top"}, status=status)


def hang_up() -> None:
    return None


class FlakyAgent:
    """Listens at one port of loopback while it is up.

    `answers` come first, each once, then always `last`; `asked` are the requests that came, `METHOD PATH` each.
    """

    def __init__(self, *answers: Answer, last: Answer = lambda: web.json_response(JOBS)) -> None:
        self.answers = list(answers)
        self.last = last
        self.asked: list[str] = []
        #: Where those who follow results go on.
        self.seen: list[str | None] = []
        with socket.create_server(("127.0.0.1", 0)) as free:
            self._port: int = free.getsockname()[1]
        self.url = f"http://127.0.0.1:{self._port}"

    @contextlib.asynccontextmanager
    async def up(self) -> AsyncIterator[None]:
        """Answer while the block runs."""
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", self._answer)
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=0)
        await runner.setup()
        try:
            await web.TCPSite(runner, "127.0.0.1", self._port, reuse_address=True).start()
            yield
        finally:
            await runner.cleanup()

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        self.asked.append(f"{request.method} {request.path}")
        if "text/event-stream" in request.headers.get("Accept", ""):
            self.seen.append(request.headers.get("Last-Event-ID"))
        answer = (self.answers.pop(0) if self.answers else self.last)()
        if answer is None:
            assert request.transport is not None
            request.transport.abort()
            raise ConnectionResetError
        return answer
