"""Serving the API: at an address of its own, to few who do not ask anything."""

import asyncio

import pytest
from aiohttp import web

from elf.agents.errors import ConfigError
from elf.agents.http.app import make_app, serve
from elf.overlay.links import door
from tests.agents.http.fake_service import FakeService


async def test_an_address_that_is_in_use_is_refused_with_what_to_do() -> None:
    async with serve(web.Application(), "127.0.0.1:0") as url:
        taken = url.removeprefix("http://")
        with pytest.raises(ConfigError) as refused:
            async with serve(web.Application(), taken):
                pass
    assert str(refused.value) == f"api.bind = '{taken}' cannot be used: the address is in use; choose another port"


async def test_an_address_of_another_machine_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"api.bind = '192.0.2.1:0' cannot be used: "):
        async with serve(web.Application(), "192.0.2.1:0"):
            pass


GET = "GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n"


async def test_who_asks_nothing_is_hung_up_on_and_who_asks_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(door, "GREETING_S", 0.3)
    app = make_app(FakeService(), token=None, request_bytes_max=1_000)
    async with serve(app, "127.0.0.1:0") as url, asyncio.timeout(20):
        port = int(url.rpartition(":")[2])
        silent, probing, asking = [await asyncio.open_connection("127.0.0.1", port) for _ in range(3)]
        for (_, writer), path in ((probing, "/healthz"), (asking, "/v1/jobs")):
            writer.write(GET.format(path=path).encode())
        assert b"200 OK" in await probing[0].readline()
        assert b"200 OK" in await asking[0].readline()
        # Who is let in at once is not closed by what closes the others.
        for reader, writer in (silent, probing):
            await reader.read()
            writer.close()
        asking[1].write(GET.format(path="/v1/members").encode())
        assert b"200 OK" in await asking[0].readuntil(b"200 OK")
        asking[1].close()


async def test_silent_connections_keep_nobody_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(door, "WAITING_PER_HOST_MAX", 4)
    app = make_app(FakeService(), token=None, request_bytes_max=1_000)
    async with serve(app, "127.0.0.1:0") as url, asyncio.timeout(20):
        port = int(url.rpartition(":")[2])
        silent = [await asyncio.open_connection("127.0.0.1", port) for _ in range(20)]
        for reader, _ in silent[:-4]:
            assert await reader.read() == b""
        asking = await asyncio.open_connection("127.0.0.1", port)
        asking[1].write(GET.format(path="/v1/jobs").encode())
        assert b"200 OK" in await asking[0].readline()
        for _, writer in (*silent, asking):
            writer.close()
