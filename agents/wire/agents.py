"""What any agent is asked: who it is, which jobs it knows, where it stands in a tree. Pure."""

from __future__ import annotations

import msgspec

from elf.agents.wire.records import Instant
from elf.agents.wire.replicas import Request
from elf.overlay.fields import AppId


class Told(msgspec.Struct, frozen=True, kw_only=True):
    """What an agent's machine says the time is; None: it is of a release that does not tell."""

    wall_ms: Instant | None = None


class ListJobs(Request, frozen=True, tag="jobs"):
    """List the jobs an agent knows, and `ended` too if it knows that this one is over."""

    ended: AppId | None = None


class Introduce(Request, frozen=True, tag="introduce"):
    """Tell who an agent is (a `Member`), and what its machine's clock says (`Told`)."""


class ViewTree(Request, frozen=True, tag="tree"):
    """Tell an agent's place in a job's tree."""

    app: AppId
