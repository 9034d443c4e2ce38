"""What the master of a job is asked by whoever wants to know of it, or to end it; and who that is. Pure."""

from __future__ import annotations

from typing import Any

import msgspec

from elf.agents.jobs.orders import Order
from elf.agents.wire.records import JobRecord
from elf.agents.wire.replicas import Request
from elf.agents.wire.shares import AskShare, Limit, Watch
from elf.overlay.fields import AgentId, AppId, Interval


class Describe(Request, frozen=True, tag="describe"):
    """Describe a job; asked of its master."""

    app: AppId


class Query(Request, frozen=True, tag="query"):
    """Answer one window; asked of the job's master."""

    app: AppId
    window: str
    key: str | None = None
    limit: Limit | None = None


class Follow(Request, frozen=True, tag="follow"):
    """Answer as soon as the master's edition is another than `edition`, or with nothing new after `wait_ms`.

    The answer holds the windows that closed after event time `after_ms` and those closed before it that changed since
    `edition`; to a first question (an edition that is not the master's) the latest one, if none closed.
    """

    app: AppId
    edition: int
    after_ms: int
    wait_ms: int
    #: The side that sent results meanwhile, by its tree, and edition and event time as far as it sent them.
    side: tuple[str, int, int] | None = None


class Fate(Request, frozen=True, tag="fate"):
    """Say what commits with previous < interval <= through had of an agent; asked of the job's master.

    The answer is a word of `elf.overlay.rollup.succession`. `tree`: of the publication.
    """

    app: AppId
    tree: AppId
    agent: AgentId
    previous: Interval
    through: Interval


class OfSide(Request, frozen=True, tag="side"):
    """A question between agents on one side of a split root group: one of `elf.agents.wire.split`."""

    body: bytes


class Stop(Request, frozen=True, tag="stop"):
    """End a job for good, running or stopped; asked of its master. `order`: of its creator, if it has one."""

    app: AppId
    order: Order | None = None


class Retire(Request, frozen=True, tag="retire"):
    """Expect an agent no more: it is gone for good; asked of the job's master. `agent`: its id, name or address.

    `alone`: from this job alone, which is its creator's to ask, and not from all. `order`: his, if it has one.

    The answer is its `{"agent", "name", "address", "missing_since_ms"}`; None if it is not on the roster.
    """

    app: AppId
    agent: str
    alone: bool = False
    order: Order | None = None


class Locate(Request, frozen=True, tag="locate"):
    """Find a job's master; routed toward both candidate keys, answered with a `Located` by the first who knows.

    The master answers `question` at once. Only what changes nothing may ride along: it may be asked twice.
    """

    app: AppId
    question: Describe | Query | Follow | AskShare | Watch | None = None


class Located(msgspec.Struct, frozen=True, kw_only=True):
    """The running job, from whoever knows it, and the master's answer if that was the master."""

    job: JobRecord
    #: None where nobody answered: no answer to a question that may ride along is None.
    answer: Any = None

    def plain(self) -> Any:
        """Return it as plain data; bytes in the answer stay bytes, for nobody could tell them from text later."""
        return msgspec.to_builtins(self, builtin_types=(bytes,))
