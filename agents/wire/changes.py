"""What the master of a job is asked that is to be changed while it runs."""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

import msgspec

from elf.agents.jobs.definition import Definition
from elf.agents.jobs.orders import Order
from elf.agents.jobs.versions import WHY_CHARS_MAX
from elf.overlay.fields import AppId, Interval

#: What can be asked for; all but the first keep a definition that the job has, or had.
Kind: TypeAlias = Literal["update", "rollback", "reset", "pause", "resume"]
#: How long a stopped job can be resumed unless people say otherwise, and how long they may.
KEEP_MS, KEEP_MS_MAX = 24 * 3_600_000, 7 * 24 * 3_600_000
Keep: TypeAlias = Annotated[int, msgspec.Meta(ge=1, le=KEEP_MS_MAX)]
Token: TypeAlias = Annotated[str, msgspec.Meta(min_length=1, max_length=64)]
Number: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=1 << 53)]


class Leap(msgspec.Struct, frozen=True, tag_field="ask", tag="leap"):
    """Wait no longer for the agents that a job's others are ahead of; asked of its master.

    The answer is `{"through_ms", "agents": [names]}`: the end of the interval, and who was silent.
    """

    app: AppId
    #: In no interval that ends later; None: whichever is waited for now.
    until_ms: Number | None = None
    order: Order | None = None


class Leapt(msgspec.Struct, frozen=True, tag_field="say", tag="leap"):
    """An entry of a job's control log: up to this interval nobody waits for who is silent."""

    through: Interval

    def encode(self) -> bytes:
        """Return the entry's body."""
        return msgspec.msgpack.encode(self)


class Amend(msgspec.Struct, frozen=True, tag_field="ask", tag="amend"):
    """Make another version of a running job; asked of its master. The answer is the version as `described` has it.

    `definition`: of an update. `number`: the version whose definition a rollback brings back; None: the one before the
    newest. `expected`: the number that the newest version has to have; None: any. `token`: random; asking again with
    the same one makes no second version. `keep_ms`: of a stop: how long it can be undone, and why it
    is asked for, if not by a person. `order`: of the job's creator, if it has one.
    """

    app: AppId
    kind: Kind | Literal["stop"]
    token: Token
    definition: Definition | None = None
    number: Number | None = None
    expected: Number | None = None
    keep_ms: Keep = KEEP_MS
    why: Annotated[str, msgspec.Meta(max_length=WHY_CHARS_MAX)] = ""
    order: Order | None = None
