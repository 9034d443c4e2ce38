"""Bodies that do not end take no more than their budget, and keep nobody else out for long."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator

import pytest

from elf.agents.http import body_budget
from elf.agents.http.app import make_app, serve
from elf.agents.http.body_budget import BUDGET, BodyBudget
from elf.agents.wire.positions import Json
from tests.agents.http.fake_service import FakeService

LIMIT = 100_000
HEAD = b"POST /v1/ingest/clicks HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: text/plain\r\nContent-Length: %d\r\n\r\n"


@contextlib.asynccontextmanager
async def served(monkeypatch: pytest.MonkeyPatch, bytes_max: int) -> AsyncGenerator[tuple[str, int, FakeService]]:
    monkeypatch.setattr("elf.agents.http.app.SHUTDOWN_S", 0.1)
    service = FakeService()
    app = make_app(service, token=None, request_bytes_max=LIMIT)
    app[BUDGET] = BodyBudget(bytes_max)
    async with serve(app, "127.0.0.1:0") as url:
        host, _, port = url.removeprefix("http://").rpartition(":")
        yield host, int(port), service
        for _ in range(200):
            if app[BUDGET]._left == bytes_max:
                break
            await asyncio.sleep(0.05)
        assert app[BUDGET]._left == bytes_max, "all is given back"


async def sent(host: str, port: int, said: int, body: bytes) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    reader, writer = await asyncio.open_connection(host, port)
    writer.write(HEAD % said + body)
    await writer.drain()
    return reader, writer


async def status(reader: asyncio.StreamReader) -> int:
    return int((await asyncio.wait_for(reader.readline(), 20)).split()[1])


async def test_a_silent_body_makes_room_for_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(body_budget, "_STALE_S", 0.2)
    async with served(monkeypatch, 50_000) as (host, port, service):
        silent, its_writer = await sent(host, port, 90_000, b"a\n" * 20_000)
        await asyncio.sleep(0.5)
        refused, writer = await sent(host, port, 20_000, b"b\n" * 10_000)
        assert await status(refused) == 503
        assert await status(silent) == 408
        writer.close()
        taken, writer = await sent(host, port, 20_000, b"b\n" * 10_000)
        assert await status(taken) == 200
        assert service.ingested == [b"b\n" * 10_000]
        its_writer.close()
        writer.close()


async def test_a_body_that_never_ends_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(body_budget, "SILENT_S", 0.3)
    async with served(monkeypatch, 50_000) as (host, port, service):
        reader, writer = await sent(host, port, 1000, b"a\n")
        assert await status(reader) == 408
        assert service.ingested == []
        writer.close()


async def test_a_body_that_is_too_large_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    async with served(monkeypatch, 10 * LIMIT) as (host, port, _):
        reader, writer = await sent(host, port, LIMIT + 1, b"a" * (LIMIT + 1))
        assert await status(reader) == 413
        writer.close()


async def test_a_question_that_waits_for_its_answer_is_no_body_to_give_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(body_budget, "_STALE_S", 0.0)
    async with served(monkeypatch, 1_000) as (host, port, service):
        asked, held = asyncio.Event(), asyncio.Event()

        async def jobs() -> list[Json]:
            asked.set()
            await held.wait()
            return []

        monkeypatch.setattr(service, "jobs", jobs)
        reader, writer = await asyncio.open_connection(host, port)
        writer.write(b"GET /v1/jobs HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        await asyncio.wait_for(asked.wait(), 20)
        refused, its_writer = await sent(host, port, 2_000, b"b\n" * 1_000)
        assert await status(refused) == 503
        held.set()
        assert await status(reader) == 200
        writer.close()
        its_writer.close()
