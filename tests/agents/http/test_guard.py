"""Who may ask: token, Host and Origin."""

from __future__ import annotations

from typing import Any

import pytest
from aiohttp.test_utils import TestClient, TestServer

from elf.agents.http.app import ADMISSION, make_app
from tests.agents.http.fake_service import FakeService

Client = TestClient[Any, Any]


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1:4260", "[::1]:4260", "127.8.8.8"])
async def test_names_of_this_machine(client: Client, host: str) -> None:
    assert (await client.get("/v1/jobs", headers={"Host": host})).status == 200


@pytest.mark.parametrize(
    "host", ["evil.example", "localhost.evil.example", "10.0.0.1:4260", "", "[::1", "127.0.0.1.nip.io"]
)
async def test_rebound_names_are_refused(client: Client, host: str) -> None:
    response = await client.get("/v1/jobs", headers={"Host": host})
    assert response.status in (400, 403)


async def test_pages_of_other_origins_are_refused(client: Client) -> None:
    mine = f"{client.host}:{client.port}"
    assert (await client.get("/v1/jobs", headers={"Origin": f"http://{mine}"})).status == 200
    for origin in ("http://evil.example", "null", f"http://{client.host}:1", "http://["):
        response = await client.get("/v1/jobs", headers={"Origin": origin})
        assert response.status == 403, origin


async def test_the_token_opens_all_but_the_probes_need_none() -> None:
    app = make_app(FakeService(), token="s3cret", request_bytes_max=1000)
    async with TestClient(TestServer(app)) as client:
        for bad in (
            {},
            {"Authorization": "Bearer wrong"},
            {"Authorization": "Basic s3cret"},
            {"Authorization": "s3cret"},
        ):
            response = await client.get("/v1/jobs", headers=bad)
            assert response.status == 401
            assert "Bearer" in response.headers["WWW-Authenticate"]
            is_known = ("is not this agent's" in await response.text()) == ("wrong" in bad.get("Authorization", ""))
            assert is_known or "Basic" in bad["Authorization"], "whether none was sent, or another"
        good = {"Authorization": "Bearer s3cret", "Host": "elf.internal"}
        assert (await client.get("/v1/jobs", headers=good)).status == 200
        assert (await client.get("/metrics")).status == 401
        assert await (await client.get("/healthz")).json() == {"status": "alive"}
        notes = FakeService().notes()
        assert await (await client.get("/readyz")).json() == {"ready": True, "reasons": 0, "notes": len(notes)}
        assert (await (await client.get("/healthz", headers=good)).json())["name"] == "web1"
        assert (await (await client.get("/readyz", headers=good)).json())["notes"] == notes


async def test_another_token_holds_from_the_next_request_on() -> None:
    app = make_app(FakeService(), token="s3cret", request_bytes_max=1000)
    async with TestClient(TestServer(app)) as client:

        async def status(token: str) -> int:
            return (await client.get("/v1/jobs", headers={"Authorization": f"Bearer {token}"})).status

        assert [await status("s3cret"), await status("an0ther")] == [200, 401]
        app[ADMISSION].admit("an0ther", None)
        assert [await status("s3cret"), await status("an0ther")] == [401, 200]
        app[ADMISSION].admit(None, None)
        assert await status("s3cret") == 200
        assert (await client.get("/v1/jobs", headers={"Host": "evil.example"})).status == 403


async def test_settings_are_read_again_and_an_agent_drains_by_request() -> None:
    service = FakeService()
    async with TestClient(TestServer(make_app(service, token=None, request_bytes_max=1000))) as client:
        assert (await client.post("/v1/reload")).status == 200
        assert (await client.post("/v1/drain?within=2m")).status == 202 and service.drained_s == 120.0
        assert (await client.post("/v1/drain?within=soon")).status == 400
        assert (await client.delete("/v1/drain")).status == 200
