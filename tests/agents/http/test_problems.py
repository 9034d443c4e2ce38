"""Every error has its status and its members, and none tells secrets."""

from __future__ import annotations

from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestClient
from polars.exceptions import PanicException

from elf.agents import errors
from elf.agents.errors import (
    BadRequestError,
    ConfigError,
    ElfError,
    ExpiredError,
    JobConflictError,
    JobError,
    JobSpecError,
    UnavailableError,
    UnknownJobError,
)
from elf.agents.http import routes
from elf.agents.http.problems import problem, problem_of
from tests.agents.http.fake_service import FakeService

Client = TestClient[Any, Any]

ERRORS = [
    (UnknownJobError("shop/tip", ["shop/top"]), 404, "unknown-job", {"nearest": ["shop/top"], "name": "shop/tip"}),
    (JobSpecError("no column x", line=2, column=5, hint="y"), 422, "job-spec", {"line": 2, "column": 5, "hint": "y"}),
    (JobSpecError("no FROM"), 422, "job-spec", {}),
    (JobSpecError("no such", setting="options.application"), 422, "job-spec", {"setting": "options.application"}),
    (JobConflictError("other definition"), 409, "job-conflict", {}),
    (ExpiredError("no longer retained"), 410, "expired", {}),
    (UnavailableError("master is away"), 503, "unavailable", {}),
    (BadRequestError("bad"), 400, "bad-request", {}),
    (JobError("window is not whole intervals"), 400, "bad-request", {}),
    (ConfigError("bad"), 422, "configuration", {}),
]


@pytest.mark.parametrize(("error", "status", "kind", "extra"), ERRORS, ids=lambda v: getattr(v, "kind", None))
async def test_errors_of_the_agent(
    client: Client, service: FakeService, error: Exception, status: int, kind: str, extra: dict[str, Any]
) -> None:
    service.fail = error
    response = await client.get("/v1/jobs/shop/top/result")
    assert response.status == status
    assert response.content_type == "application/problem+json"
    body = await response.json(content_type=None)
    assert body.pop("type") == f"urn:elf:problem:{kind}"
    assert body.pop("status") == status
    assert body.pop("title")
    assert body.pop("detail") in (str(error), getattr(error, "message", ""))
    assert body == extra
    assert ("Retry-After" in response.headers) == (status == 503)


KINDS = [each for each in vars(errors).values() if isinstance(each, type) and issubclass(each, ElfError)]


@pytest.mark.parametrize("kind", KINDS)
def test_every_503_says_when_to_come_again(kind: type[ElfError]) -> None:
    error = kind("shop/top", retry_after_s=7) if issubclass(kind, UnavailableError) else kind("shop/top")
    response = problem_of(error)
    assert (response.status == 503) == isinstance(error, UnavailableError)
    assert response.headers.get("Retry-After") == ("7" if response.status == 503 else None)


async def test_every_other_503_says_so_too(
    client: Client, service: FakeService, monkeypatch: pytest.MonkeyPatch
) -> None:
    service.reasons = ["no agent of overlay.join answers yet"]
    monkeypatch.setattr(routes, "STREAMS_MAX", 0)
    answers = [await client.get("/readyz"), await client.get("/v1/jobs/shop/top/stream")]
    service.fail = web.HTTPServiceUnavailable()
    answers.append(await client.get("/v1/jobs"))
    service.fail = UnavailableError("master is away")
    answers.append(await client.get("/v1/jobs"))
    assert [answer.status for answer in answers] == [503] * 4
    assert [answer.headers["Retry-After"] for answer in answers] == ["2", "10", "1", "1"]
    assert problem(503, "unavailable", "away").headers["Retry-After"] == "1"


@pytest.mark.parametrize("failure", [RuntimeError, PanicException])
async def test_a_mistake_of_ours_is_logged_and_not_shown(
    client: Client, service: FakeService, caplog: pytest.LogCaptureFixture, failure: type[BaseException]
) -> None:
    service.fail = failure("password=hunter2")
    response = await client.get("/v1/jobs")
    assert response.status == 500
    assert "hunter2" not in await response.text()
    assert "hunter2" in caplog.text


async def test_unknown_path(client: Client) -> None:
    response = await client.get("/v2/jobs")
    assert response.status == 404
    assert response.content_type == "application/problem+json"


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        ("PUT", "/v1/jobs", "GET, HEAD, POST"),
        ("POST", "/v1/jobs/a/b", "DELETE, GET, HEAD"),
        ("POST", "/healthz", "GET, HEAD"),
    ],
)
async def test_wrong_method_names_the_right_ones(client: Client, method: str, path: str, allowed: str) -> None:
    response = await client.request(method, path)
    assert response.status == 405
    assert response.headers["Allow"] == allowed


async def test_too_large_a_body(client: Client) -> None:
    response = await client.post("/v1/ingest/clicks", data=b"x" * 600_000, headers={"Content-Type": "text/plain"})
    assert response.status == 413
    assert "524288 bytes" in (await response.json(content_type=None))["detail"]
