"""What an agent answers, as typed records: jobs, versions, members, trees; results are `elf.agents.wire.result`.

Fields that a newer agent adds are ignored, so an older client keeps working.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec


class Job(msgspec.Struct, frozen=True):
    """A published job."""

    creator: str
    name: str
    source: str = ""
    #: HOST:PORT of its master; empty while none is known.
    master: str = ""
    state: str = ""
    version: int = 1
    query: str = ""
    #: Types of the columns it reads, as frozen when it was published.
    columns: dict[str, str] = {}
    app_id: str = ""
    #: What some agent says is wrong with it: its application was stopped, say; empty where nothing is.
    trouble: str = ""
    #: Of a stopped job: until when (a time of day) it can be resumed.
    ends_ms: int | None = None
    #: Those that it brings along.
    functions: list[Function] = []

    @property
    def key(self) -> str:
        """Its full name, `creator/name`."""
        return f"{self.creator}/{self.name}"


class Function(msgspec.Struct, frozen=True, omit_defaults=True):
    """A function that a job brings along.

    Attributes:
        name: as the query calls it.
        key: the public key that it is signed with.
        args: the SQL types of its arguments; this and what follows is not in lists of jobs.
        returns: the SQL type of its answer.
        strict: NULL if any argument is, without a call.
        source: Python that defines it.
        signature: of its creator.
    """

    name: str
    key: str = ""
    args: tuple[str, ...] = ()
    returns: str = ""
    strict: bool = False
    source: str = ""
    signature: str = ""


class Version(msgspec.Struct, frozen=True):
    """One version of a job; times in ms of event time, but for `made_ms`.

    Attributes:
        version: its number.
        what: what made it: publish, update, rollback, reset, pause, resume or stop.
        query: the SQL text.
        made_ms: when.
        since_ms: what begins then or later is counted by it; None: all before the next version.
        until_ms: ... and before this; None: it is the newest.
        begins_ms: its windows have nothing of before; None: they have all there is.
        interval_ms: how long its intervals are; None: an agent that does not tell.
        columns: types of the columns it reads.
        options: how it runs.
        functions: those that it brings along.
        ends_ms: of a stop: until when (a time of day) it could be undone.
        why: of a stop that no person asked for: what is wrong with the job.
        note: of the answer to an update only: an option that it had to drop.
    """

    version: int
    what: str
    query: str
    made_ms: int
    since_ms: int | None = None
    until_ms: int | None = None
    begins_ms: int | None = None
    interval_ms: int | None = None
    columns: dict[str, str] = {}
    options: dict[str, Any] = {}
    functions: list[Function] = []
    ends_ms: int | None = None
    why: str = ""
    note: str = ""

    @property
    def is_paused(self) -> bool:
        """Whether nothing is counted by it: in a pause, and while the job is stopped."""
        return self.what in ("pause", "stop")


class Purged(msgspec.Struct, frozen=True):
    """One agent's answer to a purge: whether it has purged, and why not."""

    agent: str
    purged: bool = False
    why: str = ""


class Purge(msgspec.Struct, frozen=True):
    """What was purged, the operator's name, and the agents that answered; others hear of it later."""

    purged: str
    by: str
    agents: list[Purged] = []


class AuditEntry(msgspec.Struct, frozen=True, omit_defaults=True):
    """One line of an agent's audit log.

    Attributes:
        at_ms: when, by the agent's clock.
        what: was asked: publish, update, stop, purge, ...; refused: somebody was not let in.
        who: asked: `token`, `uid N` of this machine, or `anybody` where the API is open; an operator's name.
        key: the fingerprint of the key that it was ordered with.
        on: which job, agent or path.
        status: of the answer.
        why: it was refused.
        peer: the address that it came from.
        more: so many more were refused than have lines.
    """

    at_ms: int
    what: str = ""
    who: str = ""
    key: str = ""
    on: str = ""
    status: int = 0
    why: str = ""
    peer: str = ""
    more: int = 0


class Drain(msgspec.Struct, frozen=True):
    """The sources that an agent still has to hand on, or reads again."""

    sources: list[str]


class Reload(msgspec.Struct, frozen=True):
    """What of an agent's settings is another now (names, `sources.access`), and since when they hold, in ms."""

    changed: list[str]
    since_ms: int


class Stop(msgspec.Struct, frozen=True):
    """A job that was stopped: until when (a time of day, in ms) it can be resumed; None: it has ended for good."""

    creator: str
    name: str
    state: str = ""
    ends_ms: int | None = None


class Leap(msgspec.Struct, frozen=True):
    """Up to which event time, in ms, a job waits no longer for agents, and for which (their names)."""

    through_ms: int
    agents: list[str]


class Member(msgspec.Struct, frozen=True):
    """An agent of the overlay."""

    id: str
    address: str
    name: str = ""
    sources: list[str] = []
    is_self: bool = False
    #: Of elf; empty if it is too old to say.
    release: str = ""
    #: Its id, which it keeps when it moves.
    agent: str = ""


class Gap(msgspec.Struct, frozen=True):
    """Since which event time an agent's data is missing from a job; None: it was never counted."""

    job: str
    missing_since_ms: int | None = None


class Untold(msgspec.Struct, frozen=True):
    """A job whose master could not be told, or, without a job, a source's agents; and why."""

    job: str
    why: str


class Retirement(msgspec.Struct, frozen=True):
    """An agent that is expected no more, by its id, and what its jobs lack."""

    agent: str
    name: str
    jobs: list[Gap] = []
    unreachable: list[Untold] = []


class Intervals(msgspec.Struct, frozen=True):
    """Whole intervals of a job, or of one of its parts, as the archives have them.

    Attributes:
        instance: the publication they were computed for, as `client.job` has it.
        first: number of the first interval.
        last: number of the last one, included.
        block: their PAOs, as `cbt.encode` makes it.
        missing: ids of agents whose archives lack some of it.
        part: which of the job's parts.
        mistyped: column -> runs of intervals, ascending: the first, the last, and how many values of the column in them
            do not fit its type.
    """

    instance: str
    first: int
    last: int
    block: bytes
    missing: list[str] = []
    part: int = 0
    mistyped: Mapping[str, Sequence[tuple[int, int, int]]] = {}


class TreeNode(msgspec.Struct, frozen=True):
    """An agent's place in a job's reducer tree; the root has no parent."""

    id: str
    address: str
    name: str = ""
    parent: str | None = None
    role: str = ""


class Tree(msgspec.Struct, frozen=True):
    """A job's reducer tree."""

    root: str | None
    nodes: list[TreeNode]
