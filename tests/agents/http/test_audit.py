"""Who did what over HTTP: what changes something is noted, with who asked, and so is who was not let in."""

from __future__ import annotations

import pathlib
from typing import Any

import msgspec
from aiohttp.test_utils import TestClient, TestServer

from elf.agents.host.audit_log import AuditLog
from elf.agents.http.app import make_app
from elf.agents.jobs.orders import ORDER_HEADER, Order
from elf.agents.language.own_functions import fingerprint
from tests.agents.http.fake_service import FakeService

TOKEN = {"Authorization": "Bearer s3cret"}
JOB = {
    "name": "new",
    "creator": "shop",
    "definition": 'name = "new"\ncreator = "shop"\nquery = "SELECT count(*) AS n FROM clicks"',
}


async def entries_of(client: TestClient[Any, Any]) -> list[dict[str, Any]]:
    answer = await client.get("/v1/audit", headers=TOKEN)
    assert answer.status == 200
    return list((await answer.json())["entries"])


async def test_what_changes_something_is_noted_and_by_whom(tmp_path: pathlib.Path) -> None:
    log = AuditLog(tmp_path, lambda: 1)
    app = make_app(FakeService(), token="s3cret", request_bytes_max=1 << 16, audit_log=log)
    order = Order(key="", what="pause", job="shop/top", made_ms=1).signed(bytes(32))
    ordered = {**TOKEN, ORDER_HEADER: msgspec.json.encode(order).decode()}
    async with TestClient(TestServer(app)) as client:
        await client.post("/v1/jobs", json=JOB, headers=TOKEN)
        await client.post("/v1/jobs/shop/top/versions", json={"change": "pause"}, headers=ordered)
        await client.get("/v1/jobs", headers=TOKEN)
        await client.post("/v1/ingest/clicks", data=b"{}\n", headers={**TOKEN, "Content-Type": "application/x-ndjson"})
        await client.delete("/v1/members/web9", headers=TOKEN)
        await client.delete("/v1/jobs/shop/top", headers={**TOKEN, ORDER_HEADER: "{"})
        await client.delete("/v1/jobs/shop/top", headers={"Authorization": "Bearer wrong"})
        entries = await entries_of(client)
    told = [[entry.get(field) for field in ("who", "what", "on", "status")] for entry in entries]
    assert told == [
        ["token", "publish", "shop/new", 201],
        ["token", "pause", "shop/top", 201],
        ["token", "retire", "web9", 404],
        ["token", "stop", "shop/top", 400],
        [None, "refused", "/v1/jobs/shop/top", 401],
    ]
    assert entries[1]["key"] == fingerprint(order.key)
    assert entries[2]["why"] and "web9" in entries[2]["why"]
    assert entries[3]["key"] == "unreadable"


async def test_an_open_agent_says_that_it_may_have_been_anybody(tmp_path: pathlib.Path) -> None:
    app = make_app(FakeService(), token=None, request_bytes_max=1 << 16, audit_log=AuditLog(tmp_path, lambda: 1))
    async with TestClient(TestServer(app)) as client:
        await client.post("/v1/jobs", json=JOB)
        assert [entry["who"] for entry in await entries_of(client)] == ["anybody"]
