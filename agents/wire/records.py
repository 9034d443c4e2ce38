"""The records that trees carry: jobs as they were published, and agents as they introduce themselves. Pure."""

from __future__ import annotations

import functools
import hashlib
from typing import Annotated, TypeAlias

import msgspec

from elf.agents.jobs.definition import Definition
from elf.agents.jobs.orders import Order
from elf.agents.jobs.versions import VERSIONS_MAX, Version, check_versions
from elf.agents.wire.credentials import Credentials
from elf.overlay.fields import ADDRESS_LENGTH_MAX, Address, AgentId, check_address
from elf.overlay.ids import Contact, parse_address
from elf.overlay.interning import read_interned
from elf.overlay.placement import SALTS, candidate_key

#: What the keys of records in the tree of a source begin with: of jobs, and of agents.
JOB, MEMBER = "job/", "member/"
#: The key of a job's own record in its tree, for forwarders that do not have the source.
JOB_KEY = "job"
#: And of its newest result, in its tree.
FEEDBACK_KEY = "feedback"
#: A time of day that any agent may have made one millisecond later, again and again, and still send.
Instant: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=1 << 53)]


@functools.lru_cache(maxsize=4_096)
def _tree_of(app: bytes, salt: int, instance: str) -> bytes:
    """Return `JobRecord.tree`, which is asked for with everything that happens to a job."""
    return candidate_key(app, salt)[:12] + hashlib.sha1(instance.encode()).digest()[:8]


class JobRecord(msgspec.Struct, frozen=True, kw_only=True, weakref=True):
    """A published job as its source's tree spreads it and its master keeps it."""

    definition: Definition
    master_host: str
    master_port: int
    published_ms: Instant
    #: Random; tells one publication of a name from the next one after a stop.
    instance: Annotated[str, msgspec.Meta(max_length=128)]
    #: When this record was made, and after every one its maker knew: of two records of a job the later one counts. A
    #: clock, because whoever publishes anew may not have heard of the stop yet.
    stamp_ms: Instant
    #: It is over, and nothing is kept of it any more; while a stop can be undone, it `rests`.
    stopped: bool = False
    #: Which of the job's two candidate keys the master was found by; records from before there were two have none.
    salt: Annotated[int, msgspec.Meta(ge=SALTS[0], le=SALTS[-1])] = 0
    #: The versions of this publication, ascending, of which `definition` is the newest; of a job that was never
    #: changed, none.
    versions: Annotated[tuple[Version, ...], msgspec.Meta(max_length=VERSIONS_MAX)] = ()
    #: The creator's order that it was published by; None: it belongs to whoever may use an agent's API.
    published: Order | None = None
    #: The order by which it is over: of its end, or of the next publication of its name.
    ended: Order | None = None

    def __post_init__(self) -> None:
        _check_reachable(self.master.address)
        check_versions(self.definition, self.versions)

    @property
    def master(self) -> Contact:
        """The agent that the publisher's lookup found closest to the candidate key of `salt`."""
        return Contact.at(self.master_host, self.master_port)

    @property
    def history(self) -> tuple[Version, ...]:
        """The versions that are remembered, ascending; at least one."""
        first = self.definition
        return self.versions or (Version(number=first.version, definition=first, made_ms=self.published_ms),)

    @property
    def ends_ms(self) -> int | None:
        """When a stopped job ends for good unless it is resumed, or so has ended; None: neither."""
        ends_ms = self.history[-1].ends_ms
        # Somebody may have ended it before.
        return None if self.stopped and ends_ms is not None and self.stamp_ms < ends_ms else ends_ms

    @property
    def rests(self) -> bool:
        """Whether the job is stopped and can still be resumed."""
        return self.history[-1].is_stopped and not self.stopped

    @property
    def why(self) -> str:
        """Why it is stopped, if no person stopped it; else empty."""
        return self.history[-1].why if self.rests else ""

    @property
    def publication(self) -> str:
        """What the parts of one publication of a job have in common."""
        return publication_of(self.instance)

    @property
    def tree(self) -> bytes:
        """The key of this publication's reducer tree.

        It shares the first 96 bits of the candidate key that the master is closest to, which decide who is near, and
        differs in the rest: an agent that missed a stop cannot bring old snapshots into the next publication's tree.
        """
        return _tree_of(self.definition.app_id, self.salt, self.instance)

    @property
    def owner(self) -> str:
        """The public key of its creator; empty: it belongs to whoever may use an agent's API."""
        return "" if self.published is None else self.published.key

    @property
    def ordered_ms(self) -> int:
        """When the newest order was made that it is as it is by; 0: there was none."""
        orders = (self.published, *(version.order for version in self.versions))
        return max((order.made_ms for order in orders if order is not None), default=0)

    def tombstone(self, now_ms: int, order: Order | None = None) -> JobRecord:
        """Return the record that stops this job, by an order if it needs one."""
        stamp_ms = max(now_ms, self.stamp_ms + 1)
        return msgspec.structs.replace(self, stopped=True, stamp_ms=stamp_ms, ended=order)

    def encode(self) -> bytes:
        """Return the record's body on the wire and on disk."""
        return msgspec.msgpack.encode(self)

    @classmethod
    def decode(cls, body: bytes) -> JobRecord:
        """Read a body, which an agent gets in many ways; raises msgspec.DecodeError on anything else."""
        return read_interned(body, cls)


class Member(msgspec.Struct, frozen=True, kw_only=True):
    """One agent as it introduces itself; also the body of its record in each of its sources' trees."""

    agent_id: AgentId
    name: str
    address: Address
    sources: tuple[str, ...]
    #: An operator has said that it is gone for good; it says otherwise itself if it comes back.
    gone: bool = False
    #: When it was started, in ms since 1970 by its clock.
    since_ms: int = 0
    #: Which release of elf it runs; older ones did not say.
    release: Annotated[str, msgspec.Meta(max_length=64)] = ""
    #: Of its sources those of which it reads nothing, for nobody knows yet what their lines are.
    unread: tuple[str, ...] = ()
    #: Its key, and its signature of all this; `introductions` says who is believed.
    signed: Credentials | None = None

    def __post_init__(self) -> None:
        check_address(self.address)


def publication_of(instance: str) -> str:
    """Return the publication that an instance is of; parts other than the first append to it."""
    return instance.partition(".")[0]


def contact_at(address: str) -> Contact:
    """Return the contact of the agent at HOST:PORT; raises ValueError when the text is no address."""
    return Contact.at(*parse_address(address))


def _check_reachable(address: str) -> None:
    """Refuse what no message between agents may hold as an address; raises ValueError."""
    if len(address) > ADDRESS_LENGTH_MAX:
        raise ValueError(f"an address of {len(address)} characters is over the limit of {ADDRESS_LENGTH_MAX}")
    check_address(address)
