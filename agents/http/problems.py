"""Errors as RFC 9457 problem+json: which error means which status, and nothing secret in the body.

Every problem has `type`, `title`, `status` and `detail`; where known also `hint`, `line`, `column`, `nearest` and
`name`. `type` is stable and what programs should look at; `detail` is one sentence for a person.
"""

from __future__ import annotations

import logging
from http import HTTPStatus
from typing import Any

import msgspec
from aiohttp import web
from aiohttp.typedefs import Handler

from elf.agents.errors import (
    AgentRunningError,
    BadRequestError,
    ConfigError,
    ElfError,
    ExpiredError,
    IncompleteError,
    JobConflictError,
    JobError,
    JobSpecError,
    KeyReusedError,
    NotCreatorError,
    StoppedError,
    UnavailableError,
    UnknownAgentError,
    UnknownJobError,
    UnknownSourceError,
)
from elf.agents.failures import FAILURES
from elf.agents.wire.positions import Json

PROBLEM_TYPE = "application/problem+json"
TYPE_PREFIX = "urn:elf:problem:"
#: What whoever is told 503 should wait, unless its cause says otherwise.
RETRY_AFTER_S = 1

_log = logging.getLogger(__name__)

#: Most specific first: the first class that fits decides.
_KINDS: tuple[tuple[type[ElfError], str, int], ...] = (
    (UnknownJobError, "unknown-job", 404),
    (UnknownSourceError, "unknown-source", 404),
    (UnknownAgentError, "unknown-agent", 404),
    (AgentRunningError, "agent-running", 409),
    (NotCreatorError, "not-creator", 403),
    (JobSpecError, "job-spec", 422),
    (JobConflictError, "job-conflict", 409),
    (KeyReusedError, "key-reused", 409),
    (StoppedError, "job-stopped", 409),
    (ExpiredError, "expired", 410),
    (IncompleteError, "incomplete", 409),
    (UnavailableError, "unavailable", 503),
    (BadRequestError, "bad-request", 400),
    (JobError, "bad-request", 400),
    (ConfigError, "configuration", 422),
)


class RefusedError(Exception):
    """A request the door itself refuses, with the answer that says so."""

    def __init__(self, response: web.Response) -> None:
        super().__init__(response.status)
        self.response = response


def problem(status: int, kind: str, detail: str, **extra: Any) -> web.Response:
    """Build a problem+json response; `extra` members that are None or empty are left out."""
    return _respond(_body(status, kind, detail, extra))


def problem_body(error: ElfError) -> Json:
    """Translate an error raised on purpose into the members of its problem."""
    kind, status = next(((k, s) for cls, k, s in _KINDS if isinstance(error, cls)), ("error", 500))
    match error:
        case JobSpecError():
            place = {"line": error.line, "column": error.column, "hint": error.hint, "setting": error.setting}
            return _body(status, kind, error.message, place)
        case UnknownJobError():
            return _body(status, kind, str(error), {"name": error.name, "nearest": error.nearest, "hint": error.ended})
        case UnknownSourceError() | UnknownAgentError():
            return _body(status, kind, str(error), {"name": error.name, "nearest": error.nearest})
    return _body(status, kind, str(error), {})


def problem_of(error: ElfError) -> web.Response:
    """Answer with an error raised on purpose."""
    return _respond(problem_body(error), error.retry_after_s if isinstance(error, UnavailableError) else RETRY_AFTER_S)


def problem_of_http(error: web.HTTPException, request: web.Request) -> web.Response:
    """Translate what aiohttp itself refuses (no such path, wrong method, too large)."""
    match error:
        case web.HTTPNotFound():
            return problem(404, "unknown-path", f"there is nothing at {request.path}; see /v1/jobs and /v1/members")
        case web.HTTPMethodNotAllowed():
            allowed = ", ".join(sorted(error.allowed_methods))
            response = problem(405, "method-not-allowed", f"{request.method} is not possible here; use {allowed}")
            response.headers["Allow"] = allowed
            return response
        case web.HTTPRequestEntityTooLarge():
            limit = request.client_max_size
            return problem(413, "too-large", f"the body is larger than {limit} bytes; send it in smaller parts")
    return problem(error.status, "bad-request", error.reason)


def internal_problem() -> Json:
    """Return what is told of a failure that nobody meant; the log has it."""
    return _body(500, "internal", "the agent made a mistake; its log says more", {})


@web.middleware
async def answer_with_problems(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Turn every error below into a problem; an unexpected one is logged here and not shown to the caller."""
    try:
        return await handler(request)
    except RefusedError as error:
        return error.response
    except ElfError as error:
        return problem_of(error)
    except web.HTTPException as error:
        if error.status < HTTPStatus.BAD_REQUEST:
            raise
        return problem_of_http(error, request)
    except ConnectionError:
        raise
    except FAILURES:
        _log.exception("%s %s failed", request.method, request.path)
        return _respond(internal_problem())


def _body(status: int, kind: str, detail: str, extra: Json) -> Json:
    present = {name: value for name, value in extra.items() if value not in (None, (), "")}
    title = HTTPStatus(status).phrase
    return {"type": TYPE_PREFIX + kind, "title": title, "status": status, "detail": detail, **present}


def _respond(body: Json, retry_after_s: int = RETRY_AFTER_S) -> web.Response:
    response = web.Response(status=body["status"], body=msgspec.json.encode(body), content_type=PROBLEM_TYPE)
    if response.status == HTTPStatus.SERVICE_UNAVAILABLE:
        response.headers["Retry-After"] = str(retry_after_s)
    return response
