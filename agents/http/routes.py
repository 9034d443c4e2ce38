"""The routes of the API, version 1: each reads its request, asks the agent, and answers JSON.

Routes: see `ROUTES` at the end. Decisions about jobs and windows are the agent's; only the form is checked here.
"""

from __future__ import annotations

import asyncio
import functools
import hashlib
import re
from typing import Any, get_args

import msgspec
from aiohttp import web

from elf.agents.completeness.statement import require_complete
from elf.agents.departure import WITHIN_S
from elf.agents.errors import BadRequestError, UnavailableError
from elf.agents.http.agent_service import Loaded, Service
from elf.agents.http.arguments import (
    TEXT_CHARS_MAX,
    keep_ms_of,
    key_of,
    limit_of,
    names_of,
    order_of,
    push_key_of,
    within_s_of,
)
from elf.agents.http.audit import AUDIT, CHANGE, SUBJECT
from elf.agents.http.bodies import UNREADABLE, lines_of_json, read_body, require_type
from elf.agents.http.guard import IS_TRUSTED
from elf.agents.http.stream import send_results
from elf.agents.master.window_texts import parse_window
from elf.agents.publications.change import Wanted
from elf.agents.wire.changes import Kind
from elf.agents.wire.positions import Json
from elf.overlay.decoding import read_msgpack

SERVICE: web.AppKey[Service] = web.AppKey("service")
STREAMS: web.AppKey[set[asyncio.Task[Any]]] = web.AppKey("streams")

#: Readers of streams at a time; each costs a connection and a copy of every result.
STREAMS_MAX = 256
#: When whoever is told to come later should: readers stay, and an agent that is not ready is most often just started.
FULL_S, UNREADY_S = 10, 2
#: Entries of the audit log in an answer: unless more are wanted, and at most.
AUDIT_DEFAULT, AUDIT_MAX = 100, 10_000
_UNKNOWN = "without an Idempotency-Key this push counts again if it is sent again"
_NDJSON_TYPES = ("application/x-ndjson", "application/ndjson", "application/jsonl", "application/json", "text/plain")


class Publication(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The body of `POST /v1/jobs`."""

    definition: str
    filename: str = "job.toml"
    name: str | None = None
    creator: str | None = None


class Question(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The body of `POST /v1/jobs/{creator}/{name}/route`."""

    query: Any


async def publish(request: web.Request) -> web.Response:
    """POST /v1/jobs."""
    require_type(request, "application/json")
    try:
        body = msgspec.json.decode(await read_body(request), type=Publication)
    except UNREADABLE as error:
        raise BadRequestError(f"the body is not what /v1/jobs takes: {error}") from None
    request[SUBJECT] = f"{body.creator or ''}/{body.name or body.filename}"
    job = await _service(request).publish(body.definition, body.filename, body.name, body.creator, order_of(request))
    request[SUBJECT] = f"{job['creator']}/{job['name']}"
    place = f"/v1/jobs/{job['creator']}/{job['name']}"
    return _json(job, status=201, headers={"Location": place})


async def list_jobs(request: web.Request) -> web.Response:
    """GET /v1/jobs."""
    return _json({"jobs": await _service(request).jobs()})


async def show_job(request: web.Request) -> web.Response:
    """GET /v1/jobs/{creator}/{name}."""
    return _json(await _service(request).job(*names_of(request)))


async def list_versions(request: web.Request) -> web.Response:
    """GET /v1/jobs/{creator}/{name}/versions."""
    job = await _service(request).job(*names_of(request))
    return _json({"versions": job["versions"]})


async def change_job(request: web.Request) -> web.Response:
    """POST /v1/jobs/{creator}/{name}/versions."""
    creator, name = names_of(request)
    require_type(request, "application/json")
    try:
        wanted = msgspec.json.decode(await read_body(request), type=Wanted)
    except UNREADABLE as error:
        # The error names a wrong kind of change, or that there is none, and not those that there are.
        kinds = f"; change is one of {', '.join(get_args(Kind))}" if "change`" in str(error) else ""
        raise BadRequestError(f"the body is not a change of a job: {error}{kinds}") from None
    request[CHANGE] = wanted.change
    return _json(await _service(request).change(creator, name, wanted, order_of(request)), status=201)


async def leap_over(request: web.Request) -> web.Response:
    """POST /v1/jobs/{creator}/{name}/leap."""
    return _json(await _service(request).leap(*names_of(request), order_of(request)))


async def stop_job(request: web.Request) -> web.Response:
    """DELETE /v1/jobs/{creator}/{name}?keep=."""
    creator, name = names_of(request)
    return _json(await _service(request).stop(creator, name, keep_ms_of(request), order_of(request)))


async def show_result(request: web.Request) -> web.Response:
    """GET /v1/jobs/{creator}/{name}/result?window=&key=&limit=&require=."""
    creator, name = names_of(request)
    require = request.query.get("require")
    if require not in (None, "complete"):
        raise BadRequestError(f"require = {require!r} is not known; write complete, or leave it out")
    window = request.query.get("window", "latest")
    parse_window(window)
    result = await _service(request).result(creator, name, window, key_of(request), limit_of(request))
    if require is not None:
        require_complete(f"{creator}/{name}", result["completeness"])
    # How the query travelled is in the body and not in its tag: hence a weak one.
    return _tagged(request, msgspec.json.encode(result), _tag_of(result), "W/")


async def show_feedback(request: web.Request) -> web.Response:
    """GET /v1/jobs/{creator}/{name}/feedback."""
    told = _service(request).feedback(*names_of(request))
    return _tagged(request, told.body, told.tag)


async def route_query(request: web.Request) -> web.Response:
    """POST /v1/jobs/{creator}/{name}/route."""
    creator, name = names_of(request)
    require_type(request, "application/json")
    try:
        body = msgspec.json.decode(await read_body(request), type=Question)
    except UNREADABLE as error:
        raise BadRequestError(f'the body is no query of an application ({{"query": ...}}): {error}') from None
    return _json({"answer": await _service(request).route(creator, name, body.query)})


async def stream_results(request: web.Request) -> web.StreamResponse:
    """GET /v1/jobs/{creator}/{name}/stream."""
    creator, name = names_of(request)
    streams = request.app[STREAMS]
    if len(streams) >= STREAMS_MAX:
        why = f"{STREAMS_MAX} readers follow results here already; ask another agent or come later"
        raise UnavailableError(why, retry_after_s=FULL_S)
    task = asyncio.current_task()
    assert task is not None
    streams.add(task)
    try:
        return await send_results(request, functools.partial(_service(request).results, creator, name))
    finally:
        streams.discard(task)


async def force_group(request: web.Request) -> web.Response:
    """POST /v1/jobs/{creator}/{name}/force."""
    creator, name = names_of(request)
    await _service(request).force(creator, name)
    return _json({"creator": creator, "name": name, "state": "forced"})


async def load_intervals(request: web.Request) -> web.Response:
    """POST /v1/jobs/{creator}/{name}/intervals."""
    creator, name = names_of(request)
    require_type(request, "application/msgpack")
    try:
        loaded = read_msgpack(await read_body(request), Loaded)
    except UNREADABLE as error:
        raise BadRequestError(f"the body is not what a job's intervals are: {error}") from None
    return _json(await _service(request).load(creator, name, loaded, order_of(request)))


async def show_tree(request: web.Request) -> web.Response:
    """GET /v1/jobs/{creator}/{name}/tree?part=."""
    creator, name = names_of(request)
    part = request.query.get("part", "0")
    if not re.fullmatch(r"[0-9]{1,4}", part):
        raise BadRequestError(f"part = {part!r} is no number of a tree, which count from 0")
    return _json(await _service(request).tree(creator, name, int(part)))


async def explain_job(request: web.Request) -> web.Response:
    """GET /v1/jobs/{creator}/{name}/explain."""
    return _json(await _service(request).explain(*names_of(request)))


async def list_members(request: web.Request) -> web.Response:
    """GET /v1/members."""
    return _json({"members": await _service(request).members()})


async def retire_member(request: web.Request) -> web.Response:
    """DELETE /v1/members/{agent}, or only as a member of a job: the agent is gone for good."""
    job = "/".join(names_of(request)) if "name" in request.match_info else None
    agent = request.match_info["agent"][:TEXT_CHARS_MAX]
    return _json(await _service(request).retire(agent, job, order_of(request)))


async def purge(request: web.Request) -> web.Response:
    """DELETE /v1/records/{key}: purge the job or the agent that the record is of, everywhere."""
    key = request.match_info["key"]
    request[SUBJECT] = key
    return _json(await _service(request).purge(key, order_of(request)))


async def show_audit(request: web.Request) -> web.Response:
    """GET /v1/audit?limit=: who did what through this agent, the newest last."""
    log = request.app.get(AUDIT)
    most = min(limit_of(request) or AUDIT_DEFAULT, AUDIT_MAX)
    return _json({"entries": [] if log is None else await asyncio.to_thread(log.entries, most)})


async def ingest(request: web.Request) -> web.Response:
    """POST /v1/ingest/{source}."""
    require_type(request, *_NDJSON_TYPES)
    key = push_key_of(request)
    body = await read_body(request)
    if request.content_type == "application/json":
        body = await asyncio.to_thread(lines_of_json, body)
    if not body.strip():
        return _json({"accepted": 0, "duplicate": False})
    appended = await _service(request).ingest(request.match_info["source"], body, key)
    told: Json = {"accepted": appended.lines, "duplicate": appended.duplicate}
    return _json(told if key is not None else told | {"note": _UNKNOWN})


async def reload(request: web.Request) -> web.Response:
    """POST /v1/reload: read the agent's settings again."""
    return _json(await _service(request).reload())


async def drain(request: web.Request) -> web.Response:
    """POST /v1/drain?within=: take the agent out of service; it ends by itself."""
    return _json(await _service(request).drain(within_s_of(request, WITHIN_S)), status=202)


async def cancel_drain(request: web.Request) -> web.Response:
    """DELETE /v1/drain: the agent stays after all."""
    return _json(await _service(request).cancel_drain())


async def show_health(request: web.Request) -> web.Response:
    """GET /healthz: the process lives; who it is, to those who may know."""
    health = _service(request).health()
    return _json(health if request[IS_TRUSTED] else {"status": health["status"]})


async def show_readiness(request: web.Request) -> web.Response:
    """GET /readyz: the agent makes progress, or the reasons why not; and notes, which are no reasons.

    They name jobs, agents and files, and have lines of visitors: a stranger is told how many there are.
    """
    ready, reasons = _service(request).ready()
    notes = _service(request).notes()
    told = (reasons, notes) if request[IS_TRUSTED] else (len(reasons), len(notes))
    answer = {"ready": ready, "reasons": told[0], "notes": told[1]}
    return _json(answer) if ready else _json(answer, status=503, headers={"Retry-After": str(UNREADY_S)})


async def show_metrics(request: web.Request) -> web.Response:
    """GET /metrics in the Prometheus text format."""
    headers = {"Content-Type": "text/plain; version=0.0.4; charset=utf-8"}
    return web.Response(body=_service(request).metrics(), headers=headers)


def _service(request: web.Request) -> Service:
    return request.app[SERVICE]


def _json(value: Json, *, status: int = 200, headers: dict[str, str] | None = None) -> web.Response:
    body = msgspec.json.encode(value)
    return web.Response(body=body, status=status, headers=headers, content_type="application/json")


def _tagged(request: web.Request, body: bytes, tag: str, weak: str = "") -> web.Response:
    """Answer with JSON, or with 304 if the asker says by its tag that it has that already."""
    headers = {"ETag": f'{weak}"{tag}"', "Cache-Control": "no-cache"}
    if any(known.value in (tag, "*") for known in request.if_none_match or ()):
        return web.Response(status=304, headers=headers)
    return web.Response(body=body, headers=headers, content_type="application/json")


def _tag_of(result: Json) -> str:
    """Digest an answer's content.

    How the query travelled, and how far the job has come since, are no part of a window's content: hence weak ETags.
    """
    passing = {"hops", "master"} | ({"through_ms"} if result.get("window") else set())
    content = {name: value for name, value in result.items() if name not in passing}
    return hashlib.sha1(msgspec.json.encode(content), usedforsecurity=False).hexdigest()


def _strict(route: web.RouteDef) -> web.RouteDef:
    """Have a route refuse query parameters that it does not know: a misspelt one would be silently without effect.

    What is not of `/v1` is asked by monitors, some of which add parameters of their own.
    """
    if not route.path.startswith("/v1/"):
        return route
    handler, known = route.handler, _PARAMETERS.get(route.handler, ())

    @functools.wraps(handler)
    async def strict(request: web.Request) -> web.StreamResponse:
        for parameter in request.query:
            if parameter not in known:
                raise BadRequestError(f"unknown parameter {parameter[:100]!r}; there are {', '.join(known) or 'none'}")
        return await handler(request)

    return web.RouteDef(route.method, route.path, strict, route.kwargs)


#: What routes take after a question mark; of those that are not here, nothing.
_PARAMETERS: dict[Any, tuple[str, ...]] = {
    stop_job: ("keep",),
    show_result: ("window", "key", "limit", "require"),
    show_tree: ("part",),
    show_audit: ("limit",),
    drain: ("within",),
}
_JOB = "/v1/jobs/{creator}/{name}"
_ROUTES = (
    web.post("/v1/jobs", publish),
    web.get("/v1/jobs", list_jobs),
    web.get(_JOB, show_job),
    web.delete(_JOB, stop_job),
    web.get(f"{_JOB}/versions", list_versions),
    web.post(f"{_JOB}/versions", change_job),
    web.post(f"{_JOB}/leap", leap_over),
    web.post(f"{_JOB}/force", force_group),
    web.get(f"{_JOB}/result", show_result),
    web.get(f"{_JOB}/feedback", show_feedback),
    web.post(f"{_JOB}/route", route_query),
    web.get(f"{_JOB}/stream", stream_results, allow_head=False),
    web.get(f"{_JOB}/tree", show_tree),
    web.get(f"{_JOB}/explain", explain_job),
    web.post(f"{_JOB}/intervals", load_intervals),
    web.delete(f"{_JOB}/members/{{agent}}", retire_member),
    web.get("/v1/members", list_members),
    web.delete("/v1/members/{agent}", retire_member),
    web.get("/v1/audit", show_audit),
    web.post("/v1/reload", reload),
    web.post("/v1/drain", drain),
    web.delete("/v1/drain", cancel_drain),
    web.delete("/v1/records/{key:.+}", purge),
    web.post("/v1/ingest/{source}", ingest),
    web.get("/healthz", show_health),
    web.get("/readyz", show_readiness),
    web.get("/metrics", show_metrics),
)
ROUTES = tuple(map(_strict, _ROUTES))
