"""Problems that an agent answers, turned back into the errors of `elf.agents.errors`: the mirror of its HTTP door."""

from __future__ import annotations

import aiohttp
import msgspec

from elf.agent_url import DEFAULT_URL
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
from elf.client.sessions import Sessions

_TYPE_PREFIX = "urn:elf:problem:"


class Problem(msgspec.Struct, frozen=True):
    """The members of a problem+json body that we use."""

    type: str = "about:blank"
    title: str = ""
    detail: str = ""
    hint: str | None = None
    line: int | None = None
    column: int | None = None
    setting: str | None = None
    name: str = ""
    nearest: list[str] = []


def error_of(status: int, body: bytes, url: str) -> ElfError:
    """Return the error that the answer of an agent at a URL stands for; whatever answers, there is a sentence."""
    try:
        problem = msgspec.json.decode(body, type=Problem)
    except msgspec.DecodeError:
        return UnavailableError(
            f"what answers at {url} is no elf agent's API (status {status}); name the agent's --api address, "
            f"{DEFAULT_URL} unless set"
        )
    detail = problem.detail or problem.title or f"the agent answered with status {status}"
    match problem.type.removeprefix(_TYPE_PREFIX):
        case "unknown-job":
            return UnknownJobError(problem.name, problem.nearest, problem.hint or "")
        case "job-stopped":
            return StoppedError(detail)
        case "unknown-source":
            return UnknownSourceError(problem.name, problem.nearest)
        case "unknown-agent":
            return UnknownAgentError(problem.name, problem.nearest)
        case "agent-running":
            return AgentRunningError(detail)
        case "job-spec":
            line, column, hint, setting = problem.line, problem.column, problem.hint, problem.setting
            return JobSpecError(detail, line=line, column=column, hint=hint, setting=setting)
        case "job-conflict":
            return JobConflictError(detail)
        case "not-creator":
            return NotCreatorError(detail)
        case "key-reused":
            return KeyReusedError(detail)
        case "expired":
            return ExpiredError(detail)
        case "incomplete":
            return IncompleteError(detail)
        case "unavailable":
            return UnavailableError(detail)
        case "configuration" | "unauthorized" | "forbidden-host" | "forbidden-origin":
            return ConfigError(detail)
        case "bad-request" | "too-large" | "media-type":
            return BadRequestError(detail)
    return UnavailableError(detail) if status >= 500 or status == 429 else JobError(detail)


def refuse_closed(sessions: Sessions) -> None:
    """Raise BadRequestError for the connections of a client that was closed."""
    if sessions.closed:
        raise BadRequestError("this client is closed; elf.connect makes another one")


def unreachable(url: str, error: BaseException | None) -> UnavailableError:
    """Return what to say when the agent at a URL cannot be asked, given why."""
    if isinstance(error, aiohttp.ClientConnectorError | aiohttp.ConnectionTimeoutError):
        return UnavailableError(f"no agent answers at {url}; start one with `elf agent`, or name another URL")
    if isinstance(error, TimeoutError):
        return UnavailableError(f"the agent at {url} is busy: it has taken the request, and did not answer in time")
    return UnavailableError(f"the connection to {url} broke: {error or type(error).__name__}")
