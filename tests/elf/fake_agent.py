"""An agent's API on a real port, served from another thread, so that blocking clients can be tested."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator

import pytest

from elf.agents.http import stream
from elf.agents.http.app import make_app, serve
from tests.agents.http.fake_service import FakeService


class Agent:
    """A fake agent behind a real HTTP server."""

    def __init__(self, token: str | None = None) -> None:
        self.token = token
        self.service = FakeService()
        self.url = ""
        self.loop = asyncio.new_event_loop()
        self._up = threading.Event()
        self._down = asyncio.Event()
        self._thread = threading.Thread(target=self.loop.run_until_complete, args=(self._serve(),))

    def start(self) -> None:
        self._thread.start()
        assert self._up.wait(60)

    def stop(self) -> None:
        if self._thread.is_alive():
            self.loop.call_soon_threadsafe(self._down.set)
            self._thread.join(60)
        self.loop.close()

    def send(self, *items: object) -> None:
        """Hand items to the only follower, once there is one."""

        async def send() -> None:
            await self.service.wait_followers(1)
            for item in items:
                self.service.followers[0].put_nowait(item)  # type: ignore[arg-type]

        asyncio.run_coroutine_threadsafe(send(), self.loop).result(60)

    async def _serve(self) -> None:
        app = make_app(self.service, token=self.token, request_bytes_max=1 << 20)
        async with serve(app, "127.0.0.1:0") as self.url:
            self._up.set()
            await self._down.wait()


@pytest.fixture
def agent(monkeypatch: pytest.MonkeyPatch) -> Iterator[Agent]:
    monkeypatch.setenv("ELF_CREATOR", "me")
    monkeypatch.setitem(stream.send_results.__kwdefaults__, "heartbeat_s", 0.05)
    agent = Agent()
    agent.start()
    yield agent
    agent.stop()


@pytest.fixture
def guarded_agent(agent: Agent) -> Iterator[Agent]:
    guarded = Agent(token="s3cret")
    guarded.start()
    yield guarded
    guarded.stop()
