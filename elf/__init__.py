"""elf: a stream processor with no cluster; publish a job by name, query it from anywhere.

with elf.connect() as client:
    client.publish("job.toml")
    print(client.query("micro-promotion").to_polars())

async with elf.connect("http://127.0.0.1:4260") as client:
    async for result in client.watch("micro-promotion"):
        print(result.rows, result.completeness.status)
"""

from __future__ import annotations

from collections.abc import Iterable
from importlib import import_module
from typing import TYPE_CHECKING, Any

from elf.agent_url import DEFAULT_URL, TIMEOUT_S

if TYPE_CHECKING:
    from elf.agents.applications.simulated import Simulation
    from elf.agents.errors import (
        ConfigError,
        ElfError,
        ExpiredError,
        IncompleteError,
        JobConflictError,
        JobError,
        JobSpecError,
        KeyReusedError,
        StoppedError,
        UnavailableError,
        UnknownJobError,
    )
    from elf.agents.extensions.application_declaration import Answer, Application
    from elf.agents.language.installed.declaration import aggregate, scalar, vectorised
    from elf.client import AsyncClient, Client, Completeness, Job, Member, Result, Stop, Tree, Version, Window

__version__ = "0.1.0"
_ERRORS = (
    "AgentRunningError",
    "ConfigError",
    "ElfError",
    "ExpiredError",
    "IncompleteError",
    "JobConflictError",
    "JobError",
    "JobSpecError",
    "KeyReusedError",
    "StoppedError",
    "UnavailableError",
    "UnknownAgentError",
    "UnknownJobError",
)
#: What packages of functions are made with (docs/FUNCTIONS.md).
_FUNCTIONS = ("aggregate", "scalar", "vectorised")
#: What packages of applications are made with (docs/APPLICATIONS.md).
_APPLICATIONS = ("Answer", "Application")
__all__ = [
    "AgentRunningError",
    "Answer",
    "Application",
    "AsyncClient",
    "Client",
    "Completeness",
    "ConfigError",
    "ElfError",
    "ExpiredError",
    "IncompleteError",
    "Job",
    "JobConflictError",
    "JobError",
    "JobSpecError",
    "KeyReusedError",
    "Member",
    "Result",
    "Retirement",
    "Simulation",
    "Stop",
    "StoppedError",
    "Tree",
    "UnavailableError",
    "UnknownAgentError",
    "UnknownJobError",
    "Version",
    "Window",
    "__version__",
    "aggregate",
    "connect",
    "scalar",
    "vectorised",
]


def connect(
    url: str | Iterable[str] = DEFAULT_URL,
    token: str | None = None,
    *,
    creator: str | None = None,
    timeout: float = TIMEOUT_S,
) -> Client:
    """Return a client of the agent at `url`, or of several; nothing is sent yet.

    Works alone, under `with` (blocking) and under `async with` (asynchronous).

    Args:
        url: an agent's HTTP API, or those of several; any agent answers for all, and one that does not answer leaves
            the question to the next.
        token: their API token, if they have one.
        creator: whose jobs a bare name means first; default: $ELF_CREATOR, else the operating system's user.
        timeout: seconds within which a question is asked, again where that may help. What changes something and was
            sent is waited for up to 30 s.
    """
    from elf.client import Client

    return Client(url, token, creator=creator, timeout=timeout)


def __getattr__(name: str) -> Any:
    """Load the client's names on first use: the command line must start without the HTTP library."""
    if name in _FUNCTIONS:
        return getattr(import_module("elf.agents.language.installed.declaration"), name)
    if name == "Simulation":
        return import_module("elf.agents.applications.simulated").Simulation
    if name in _APPLICATIONS:
        return getattr(import_module("elf.agents.extensions.application_declaration"), name)
    if name in __all__:
        return getattr(import_module("elf.agents.errors" if name in _ERRORS else "elf.client"), name)
    raise AttributeError(f"module 'elf' has no attribute {name!r}")
