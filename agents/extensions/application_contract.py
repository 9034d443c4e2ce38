"""What happens to an application, and what it wants done: the inputs and effects of an `Instance`. Pure.

The shell of an agent and the simulation feed and perform the same ones.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import msgspec

from elf.agents.errors import JobError
from elf.agents.wire.result import Result

Json = dict[str, Any]


class ApplicationError(JobError):
    """An application failed: its author's fault. The text names the callback and the error."""


class Started(msgspec.Struct, frozen=True):
    """The application begins here."""


class Closed(msgspec.Struct, frozen=True):
    """A window of a job that it follows has closed, or was revised."""

    result: Result


class Heard(msgspec.Struct, frozen=True):
    """A multicast of its master's has come; None: some have not, and never will."""

    body: bytes | None


class Received(msgspec.Struct, frozen=True):
    """A message of the application at another agent, by name."""

    sender: str
    body: bytes


class Rung(msgspec.Struct, frozen=True):
    """The time that was set has come."""


class Asked(msgspec.Struct, frozen=True):
    """A query of another job's application, or, without an asker, of a client; answered by a `Reply`."""

    asker: str
    body: bytes


class Answered(msgspec.Struct, frozen=True):
    """What became of a query of its own; without a body there is an error."""

    number: int
    body: bytes | None
    error: str = ""


Input: TypeAlias = Started | Closed | Heard | Received | Rung | Asked | Answered


class Subscribe(msgspec.Struct, frozen=True):
    """Follow a job, `creator/name`."""

    job: str


class SetTimer(msgspec.Struct, frozen=True):
    """Ring once, after so long; in the place of what was set before."""

    in_ms: int


class Multicast(msgspec.Struct, frozen=True):
    """Say something to the application at all agents."""

    body: bytes


class Send(msgspec.Struct, frozen=True):
    """Say something to the application at one agent, by name; None: at the master."""

    to: str | None
    body: bytes


class Route(msgspec.Struct, frozen=True):
    """Ask the application of another job, at its master."""

    number: int
    job: str
    body: bytes


class Publish(msgspec.Struct, frozen=True):
    """Bring a result of the application's own to all agents: JSON-ready, as `elf.agents.wire.result.Result`."""

    result: Json


class Keep(msgspec.Struct, frozen=True):
    """Have this for the next master, in the place of what was kept before."""

    body: bytes


class Reply(msgspec.Struct, frozen=True):
    """The answer to what was `Asked`; without a body there is an error."""

    body: bytes | None
    error: str = ""


Effect: TypeAlias = Subscribe | SetTimer | Multicast | Send | Route | Publish | Keep | Reply
