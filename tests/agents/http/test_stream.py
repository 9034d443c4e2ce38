"""Server-sent events: order, cursors, heartbeats, errors, and no reader left behind."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from typing import Any

import polars as pl
import pytest
from aiohttp import ClientResponse
from aiohttp.test_utils import TestClient

from elf.agents.errors import UnavailableError
from elf.agents.http import routes, stream
from elf.agents.wire.positions import Position, Positioned
from tests.agents.http.fake_service import FakeService, make_result

Client = TestClient[Any, Any]
URL = "/v1/jobs/shop/top/stream"


@pytest.fixture(autouse=True)
def quick_heartbeat(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(stream.send_results.__kwdefaults__, "heartbeat_s", 0.05)


async def read_event(response: ClientResponse) -> dict[str, str]:
    """Read up to the next event, heartbeats skipped."""
    fields: dict[str, str] = {}
    async with asyncio.timeout(30):
        while True:
            line = (await response.content.readline()).decode()
            if not line:
                return fields
            name, _, value = line.rstrip("\n").partition(": ")
            if name:
                fields[name] = value
            elif "event" in fields:
                return fields


async def follower(service: FakeService) -> asyncio.Queue[Any]:
    await service.wait_followers(1)
    return service.followers[-1]


async def test_results_come_in_order_with_cursors(client: Client, service: FakeService) -> None:
    async with client.get(URL) as response:
        queue = await follower(service)
        assert response.content_type == "text/event-stream"
        for revision in (1, 2):
            queue.put_nowait(make_result(revision=revision))
            event = await read_event(response)
            assert (event["event"], event["id"]) == ("result", f"7_60000_60000.{revision}")
            assert json.loads(event["data"]) == make_result(revision=revision)
        queue.put_nowait(None)
        assert await read_event(response) == {}


async def test_heartbeats_while_nothing_happens(client: Client, service: FakeService) -> None:
    async with client.get(URL) as response, asyncio.timeout(5):
        assert await response.content.readline() == b": alive\n"


@pytest.mark.parametrize(
    ("cursor", "position"),
    [
        ("7_60000_60000.1", (7, 60_000)),
        ("60000.1", None),
        ("7_-60000_60000.1", (7, -60_000)),
        ("7.0.12_5_60000.1", ((7, 0, 12), 5)),
    ],
)
async def test_a_reader_that_comes_back_gets_only_news(
    client: Client, service: FakeService, cursor: str, position: Position | None
) -> None:
    async with client.get(URL, headers={"Last-Event-ID": cursor}) as response:
        queue = await follower(service)
        queue.put_nowait(make_result(revision=1))
        queue.put_nowait(make_result(end_ms=90_000))
        assert (await read_event(response))["id"] == "7_90000_90000.1"
        assert service.positions == [position]


@pytest.mark.parametrize("cursor", ["", "x", "1_2", "9" * 30 + "_0_60000.1", "1_2_3", "1_2_60000.1\u0663"])
def test_what_is_no_cursor_is_ignored(cursor: str) -> None:
    assert stream.read_cursor(cursor) == (None, None)


def test_an_open_window_and_the_same_one_closed_have_different_names() -> None:
    result = make_result(revision=0)
    early = [
        {**result, "through_ms": through_ms, "completeness": {**result["completeness"], "status": "open"}}
        for through_ms in (20_000, 40_000)
    ]
    names = [stream.identity_of(each) for each in (*early, result)]
    assert len({*names}) == 3
    assert all(stream.read_cursor(stream.cursor_of(each, (3, 5)))[0] == (3, 5) for each in (*early, result))


async def test_unknown_job_is_an_ordinary_404(client: Client) -> None:
    response = await client.get("/v1/jobs/shop/tip/stream")
    assert response.status == 404
    assert (await response.json(content_type=None))["nearest"] == ["shop/top"]


async def test_a_later_error_is_an_event(client: Client, service: FakeService) -> None:
    async with client.get(URL) as response:
        queue = await follower(service)
        queue.put_nowait(make_result())
        await read_event(response)
        queue.put_nowait(UnavailableError("the master left"))
        event = await read_event(response)
        assert event["event"] == "problem"
        assert json.loads(event["data"])["detail"] == "the master left"


@pytest.mark.parametrize("failure", [pl.exceptions.PanicException("a year"), ValueError("a row")])
async def test_a_failure_that_nobody_meant_ends_the_stream_with_a_problem(
    client: Client, service: FakeService, failure: BaseException
) -> None:
    async with client.get(URL) as response:
        queue = await follower(service)
        queue.put_nowait(make_result())
        await read_event(response)
        queue.put_nowait(failure)
        event = await read_event(response)
        assert event["event"] == "problem"
        assert json.loads(event["data"])["type"] == "urn:elf:problem:internal"


async def test_a_reader_that_goes_away_is_forgotten(client: Client, service: FakeService) -> None:
    async with client.get(URL) as response:
        queue = await follower(service)
        queue.put_nowait(make_result())
        await read_event(response)
        response.close()
    await service.wait_followers(0)


async def test_stopping_the_agent_ends_streams_at_once(client: Client, service: FakeService) -> None:
    async with client.get(URL) as response:
        await follower(service)
        async with asyncio.timeout(20):
            await client.server.close()
        assert response.status == 200


async def test_the_number_of_readers_is_bounded(
    client: Client, service: FakeService, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(routes, "STREAMS_MAX", 1)
    async with client.get(URL):
        await follower(service)
        assert (await client.get(URL)).status == 503


async def test_heartbeats_do_not_lose_a_result() -> None:
    gate = asyncio.Event()

    async def results() -> AsyncGenerator[Positioned, None]:
        await gate.wait()
        yield {"n": 1}, (0, 0)
        yield {"n": 2}, (0, 0)

    seen = []
    async for item in stream._with_heartbeats(results(), 0.01):
        seen.append(item)
        gate.set()
    assert [item[0] for item in seen if item] == [{"n": 1}, {"n": 2}]
    assert seen[0] is None
