"""The routes of the contract, one by one, through a real server."""

from __future__ import annotations

import gzip
from typing import Any

import msgspec
import pytest
from aiohttp import web
from aiohttp.test_utils import TestClient

from elf.agents.errors import AgentRunningError
from elf.agents.http.agent_service import Loaded
from elf.agents.http.routes import ROUTES
from elf.agents.intake.push_keys import PushKey
from tests.agents.http.fake_service import STOPPED_MS, FakeService

COUNTS_AGAIN = "without an Idempotency-Key this push counts again if it is sent again"
Client = TestClient[Any, Any]


async def test_publish_answers_201_and_the_place(client: Client, service: FakeService) -> None:
    body = {"definition": "SELECT 2", "filename": "visits.sql", "creator": "shop"}
    response = await client.post("/v1/jobs", json=body)
    assert response.status == 201
    assert response.headers["Location"] == "/v1/jobs/shop/visits"
    assert (await response.json())["name"] == "visits"
    assert ("shop", "visits") in service.published


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b"{", "truncated"),
        (b"{}", "definition"),
        (b'{"definition": 1}', "$.definition"),
        (b'{"definition": "x", "force": true}', "force"),
        (b"[1]", "array"),
    ],
)
async def test_publish_says_what_is_wrong_with_the_body(client: Client, body: bytes, said: str) -> None:
    response = await client.post("/v1/jobs", data=body, headers={"Content-Type": "application/json"})
    assert response.status == 400
    assert said in (await response.json(content_type=None))["detail"]


async def test_publish_takes_json_only(client: Client) -> None:
    response = await client.post("/v1/jobs", data={"definition": "SELECT 1"})
    assert response.status == 415


async def test_intervals_are_taken_as_bounded_msgpack(client: Client, service: FakeService) -> None:
    loaded = {"instance": "i", "first": 3, "last": 5, "block": b"rows", "missing": ["w2"], "part": 1}
    headers = {"Content-Type": "application/msgpack"}
    url = "/v1/jobs/shop/top/intervals"
    answer = await client.post(url, data=msgspec.msgpack.encode(loaded), headers=headers)
    assert (answer.status, (await answer.json())["edition"]) == (200, 1)
    assert service.loaded == [Loaded("i", 3, 5, b"rows", ("w2",), 1)]
    wrong = (msgspec.msgpack.encode({**loaded, **change}) for change in ({"part": -1}, {"x": 1}, {"first": "3"}))
    for body in (b"", b"junk", *wrong):
        refused = await client.post(url, data=body, headers=headers)
        assert refused.status == 400
        assert "what a job's intervals are" in (await refused.json(content_type=None))["detail"]
    assert (await client.post(url, data=b"{}", headers={"Content-Type": "application/json"})).status == 415
    unknown = url.replace("top", "none")
    assert (await client.post(unknown, data=msgspec.msgpack.encode(loaded), headers=headers)).status == 404
    assert len(service.loaded) == 1


async def test_list_show_and_stop(client: Client) -> None:
    assert [job["name"] for job in (await (await client.get("/v1/jobs")).json())["jobs"]] == ["top"]
    assert (await (await client.get("/v1/jobs/shop/top")).json())["query"] == "SELECT 1"
    stopped = await client.delete("/v1/jobs/shop/top?keep=90 minutes")
    told = {"creator": "shop", "name": "top", "state": "stopped", "ends_ms": STOPPED_MS + 5_400_000}
    assert (stopped.status, await stopped.json()) == (200, told)
    assert (await (await client.get("/v1/jobs/shop/top")).json())["state"] == "stopped"
    refused = await client.get("/v1/jobs/shop/top/result")
    assert (refused.status, (await refused.json())["type"]) == (409, "urn:elf:problem:job-stopped")
    assert (await client.post("/v1/jobs/shop/top/versions", json={"change": "resume"})).status == 201
    for wrong in ({"keep": "1e9"}, {"keep": "8d"}, {"for": "ever"}):
        assert (await client.delete("/v1/jobs/shop/top", params=wrong)).status == 400
    assert (await client.get("/v1/jobs/shop/top/result")).status == 200
    assert (await (await client.delete("/v1/jobs/shop/top?keep=0s")).json())["state"] == "ended"
    assert (await client.get("/v1/jobs/shop/top")).status == 404
    assert (await client.delete("/v1/jobs/shop/top")).status == 404


async def test_result_passes_its_parameters_on(client: Client, service: FakeService) -> None:
    url = "/v1/jobs/shop/top/result"
    result = await (await client.get(url, params={"window": "300s", "key": "zelda", "limit": "3"})).json()
    assert result["rows"] == [{"product": "zelda", "clicks": 5}]
    await client.get(url)
    assert service.asked == [("300s", "zelda", 3), ("latest", None, None)]


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("window=yesterday", "latest"),
        ("window=2/1", "ends before"),
        ("window=0s", "not a window"),
        ("limit=0", "1 or more"),
        ("limit=-1", "1 or more"),
        ("limit=9999999999", "1 or more"),
        ("key=" + "k" * 5000, "longer than"),
        ("windw=latest", "'windw'"),
    ],
)
async def test_result_refuses_bad_parameters(client: Client, query: str, said: str) -> None:
    response = await client.get(f"/v1/jobs/shop/top/result?{query}")
    assert response.status == 400
    assert said in (await response.json(content_type=None))["detail"]


@pytest.mark.parametrize("place", ["Shop/top", "shop/-top", "shop/" + "t" * 64, "shop/%2e%2e%2fetc", "shop/t%00"])
async def test_names_outside_the_pattern_are_refused(client: Client, place: str) -> None:
    assert (await client.get(f"/v1/jobs/{place}")).status in (400, 404)


async def test_etag_changes_with_content_and_not_with_the_path_of_the_query(
    client: Client, service: FakeService
) -> None:
    url = "/v1/jobs/shop/top/result"
    tag = (await client.get(url)).headers["ETag"]
    service.result_of["shop", "top"]["hops"] = ["127.0.0.1:9"]
    service.result_of["shop", "top"]["through_ms"] = 99_000
    same = await client.get(url, headers={"If-None-Match": f'"other", {tag}'})
    assert (same.status, await same.read(), same.headers["ETag"]) == (304, b"", tag)
    service.result_of["shop", "top"]["rows"][0]["clicks"] = 8
    assert (await client.get(url, headers={"If-None-Match": tag})).status == 200


async def test_feedback_is_sent_as_it_came_and_once(client: Client, service: FakeService) -> None:
    url = "/v1/jobs/shop/top/feedback"
    answer = await client.get(url)
    assert (answer.status, answer.content_type) == (200, "application/json")
    assert await answer.json() == {**service.result_of["shop", "top"], "cut": 3}
    tag = answer.headers["ETag"]
    same = await client.get(url, headers={"If-None-Match": tag})
    assert (same.status, await same.read(), same.headers["ETag"]) == (304, b"", tag)
    service.result_of["shop", "top"]["rows"].append({})
    assert (await client.get(url, headers={"If-None-Match": tag})).status == 200
    assert (await client.get("/v1/jobs/shop/tip/feedback")).status == 404


async def test_a_query_is_routed_as_it_came(client: Client, service: FakeService) -> None:
    url = "/v1/jobs/shop/top/route"
    assert await (await client.post(url, json={"query": [1, {"a": None}]})).json() == {
        "answer": {"asked": [1, {"a": None}]}
    }
    refused = await client.post(url, json={"query": "secret"})
    assert (refused.status, "on_route failed" in (await refused.json())["detail"]) == (400, True)
    for body in (b"", b"[]", b'{"query": 1, "more": 2}', b"{}", b"[" * 100_000, b'{"query": "\xff"}'):
        answer = await client.post(url, data=body, headers={"Content-Type": "application/json"})
        assert (answer.status, "the body is no query" in (await answer.json())["detail"]) == (400, True)


async def test_tree_members_probes_and_metrics(client: Client, service: FakeService) -> None:
    assert (await (await client.get("/v1/jobs/shop/top/tree")).json())["root"] == "aa"
    assert (await client.get("/v1/jobs/shop/top/tree?part=3")).status == 200
    assert (await client.get("/v1/jobs/shop/top/tree?part=-1")).status == 400
    assert (await (await client.get("/v1/members")).json())["members"][0]["is_self"]
    assert (await client.get("/healthz")).status == 200
    notes = service.notes()
    assert await (await client.get("/readyz")).json() == {"ready": True, "reasons": [], "notes": notes}
    service.reasons = ["source clicks grows but nothing was committed for 30 s"]
    response = await client.get("/readyz")
    assert (response.status, (await response.json())["reasons"]) == (503, service.reasons)
    metrics = await client.get("/metrics")
    assert metrics.content_type == "text/plain"
    assert await metrics.read() == b"elf_build_info 1\n"


@pytest.mark.parametrize("route", ROUTES, ids=lambda route: f"{route.method} {route.path}")
async def test_every_route_of_the_api_refuses_parameters_that_it_does_not_know(
    client: Client, route: web.RouteDef
) -> None:
    path = route.path.replace("{key:.+}", "job/shop/top").format(
        creator="shop", name="top", agent="web3", source="clicks"
    )
    answer = await client.request(route.method, path, params={"windw": "1"})
    if path.startswith("/v1/"):
        assert answer.status == 400
        assert "unknown parameter 'windw'; there are " in (await answer.json(content_type=None))["detail"]
    else:  # monitors add parameters of their own
        assert answer.status == 200


async def test_ingest_plain_and_gzip(client: Client, service: FakeService) -> None:
    lines = b'{"a":1}\n{"a":2}'
    plain = await client.post("/v1/ingest/clicks", data=lines, headers={"Content-Type": "application/x-ndjson"})
    assert await plain.json() == {"accepted": 2, "duplicate": False, "note": COUNTS_AGAIN}
    headers = {"Content-Type": "application/x-ndjson", "Content-Encoding": "gzip"}
    packed = await client.post("/v1/ingest/clicks", data=gzip.compress(lines), headers=headers)
    assert await packed.json() == {"accepted": 2, "duplicate": False, "note": COUNTS_AGAIN}
    assert service.ingested == [lines] * 2


async def test_a_push_is_known_by_its_key(client: Client, service: FakeService) -> None:
    headers = {"Content-Type": "application/x-ndjson", "Idempotency-Key": "0b7e-1"}
    for duplicate in (False, True):
        answer = await client.post("/v1/ingest/clicks", data=b"{}\n", headers=headers)
        assert await answer.json() == {"accepted": 1, "duplicate": duplicate}
    assert service.keys == [PushKey("0b7e-1")] * 2
    for key in ("", "a b", "\u00e9", "k" * 129):
        refused = await client.post("/v1/ingest/clicks", data=b"{}\n", headers={**headers, "Idempotency-Key": key})
        assert refused.status == 400
        assert "use 1 to 128 visible ASCII characters" in (await refused.json(content_type=None))["detail"]
    assert len(service.ingested) == 2


async def test_a_client_may_number_its_pushes(client: Client, service: FakeService) -> None:
    headers = {"Content-Type": "application/x-ndjson", "Idempotency-Key": "shipper-1"}
    for serial in ("0", "17"):
        answer = await client.post("/v1/ingest/clicks", data=b"{}\n", headers={**headers, "Push-Serial": serial})
        assert answer.status == 200
    assert service.keys == [PushKey("shipper-1", 0), PushKey("shipper-1", 17)]
    del headers["Idempotency-Key"]
    alone = await client.post("/v1/ingest/clicks", data=b"{}\n", headers={**headers, "Push-Serial": "1"})
    assert alone.status == 400 and "the client's name as Idempotency-Key" in await alone.text()
    for serial in ("", "-1", "1.5", "x", "9" * 19):
        told = {**headers, "Idempotency-Key": "a", "Push-Serial": serial}
        refused = await client.post("/v1/ingest/clicks", data=b"{}\n", headers=told)
        assert refused.status == 400 and "send a number from 0 on" in await refused.text()
    assert len(service.ingested) == 2


async def test_ingest_of_json_is_its_objects(client: Client, service: FakeService) -> None:
    for body, accepted, lines in (
        (b'[{"a":1},\n {"a":2}, {"a":3}]\n', 3, b'{"a":1}\n{"a":2}\n{"a":3}'),
        (b'{\n  "a": [1,\r\n 2]\n}\n', 1, b'{   "a": [1,   2] }'),
        (b'{"a":1}\n{"a":2}\n', 2, b'{"a":1}\n{"a":2}\n'),
    ):
        answer = await client.post("/v1/ingest/clicks", data=body, headers={"Content-Type": "application/json"})
        assert (answer.status, await answer.json(), service.ingested[-1]) == (
            200,
            {"accepted": accepted, "duplicate": False, "note": COUNTS_AGAIN},
            lines,
        )
    empty = await client.post("/v1/ingest/clicks", data=b"[ ]", headers={"Content-Type": "application/json"})
    assert await empty.json() == {"accepted": 0, "duplicate": False}
    refused = await client.post("/v1/ingest/clicks", data=b"[1]", headers={"Content-Type": "application/json"})
    assert refused.status == 400 and "no JSON array of objects" in (await refused.json(content_type=None))["detail"]
    assert len(service.ingested) == 3
    lines = await client.post("/v1/ingest/clicks", data=b"[1]\n", headers={"Content-Type": "application/x-ndjson"})
    assert await lines.json() == {"accepted": 1, "duplicate": False, "note": COUNTS_AGAIN}, "lines are lines"


async def test_ingest_of_nothing_and_of_an_unknown_source(client: Client, service: FakeService) -> None:
    headers = {"Content-Type": "application/x-ndjson"}
    empty = await client.post("/v1/ingest/clicks", data=b"\n", headers=headers)
    assert await empty.json() == {"accepted": 0, "duplicate": False}
    unknown = await client.post("/v1/ingest/click", data=b"{}\n", headers=headers)
    assert unknown.status == 404
    assert (await unknown.json(content_type=None))["nearest"] == ["clicks"]
    assert service.ingested == []


async def test_a_job_is_changed_and_tells_its_versions(client: Client, service: FakeService) -> None:
    answer = await client.post("/v1/jobs/shop/top/versions", json={"change": "update", "query": "SELECT 2"})
    assert (answer.status, (await answer.json())["version"]) == (201, 2)
    listed = await (await client.get("/v1/jobs/shop/top/versions")).json()
    assert [row["what"] for row in listed["versions"]] == ["publish", "update"]
    for body in ({"change": "undo"}, {"change": "reset", "more": 1}, {"change": "rollback", "version": -1}, [], {}):
        refused = await client.post("/v1/jobs/shop/top/versions", json=body)
        assert refused.status == 400
        detail = (await refused.json(content_type=None))["detail"]
        assert "the body is not a change of a job" in detail
        kinds_missing = body in ({"change": "undo"}, {})
        assert ("; change is one of update, rollback, reset, pause, resume" in detail) == kinds_missing
    conflict = await client.post("/v1/jobs/shop/top/versions", json={"change": "reset", "expected": 1})
    assert conflict.status == 409
    assert (await client.post("/v1/jobs/shop/none/versions", json={"change": "reset"})).status == 404
    assert len(service.wanted) == 1


async def test_a_member_is_retired_from_one_job_or_from_all(client: Client, service: FakeService) -> None:
    answer = await (await client.delete("/v1/jobs/shop/top/members/web3")).json()
    assert answer["jobs"] == [{"job": "shop/top", "missing_since_ms": 60_000}]
    assert (await (await client.delete("/v1/members/web3")).json())["unreachable"]
    refused = await client.delete("/v1/members/127.0.0.1%3A4250")
    assert refused.status == 404
    assert "127.0.0.1:4250" in (await refused.json(content_type=None))["detail"]
    service.fail = AgentRunningError("agent web3 still answers at 127.0.0.1:4252; stop it first")
    refused = await client.delete("/v1/members/web3")
    assert (refused.status, (await refused.json(content_type=None))["type"]) == (409, "urn:elf:problem:agent-running")
