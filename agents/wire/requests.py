"""What agents ask each other over the overlay: one record per question; `elf.agents.wire.replies` is what they answer.

Bodies are msgpack, decoded into these types and nothing else; bytes that fit none are a `Failure`, never an exception.
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Mapping
from typing import Annotated, Any, TypeAlias

import msgspec

from elf.agents.jobs.definition import TREES_MAX, Definition
from elf.agents.jobs.versions import VERSIONS_MAX, Version, check_versions
from elf.agents.wire.application_messages import Ask, Letter
from elf.agents.wire.changes import Amend, Leap
from elf.agents.wire.copies import Keep, KeepCheckpoint, Recall, Request
from elf.agents.wire.shares import Adopt, AskShare, Limit, LoadIntervals, Watch
from elf.overlay.contract import NEVER, ControlState
from elf.overlay.decoding import read_msgpack
from elf.overlay.fields import ADDRESS_LENGTH_MAX, Address, AgentId, AppId, check_address
from elf.overlay.group.messages import Place
from elf.overlay.ids import Contact, parse_address, partition_id
from elf.overlay.interning import read_interned
from elf.overlay.placement import SALTS, candidate_key

#: A time of day that any agent may have made one millisecond later, again and again, and still send.
Instant: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=1 << 53)]
SourceName: TypeAlias = Annotated[str, msgspec.Meta(pattern=r"^[^\x00]+$")]
#: Longest list of names one reply carries.
NAMES_MAX = 10_000


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

    def tombstone(self, now_ms: int) -> JobRecord:
        """Return the record that stops this job."""
        return msgspec.structs.replace(self, stopped=True, stamp_ms=max(now_ms, self.stamp_ms + 1))

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

    def __post_init__(self) -> None:
        check_address(self.address)


class Told(msgspec.Struct, frozen=True, kw_only=True):
    """What an agent's machine says the time is; None: it is of a release that does not tell."""

    wall_ms: Instant | None = None


class Weigh(Request, frozen=True, tag="weigh"):
    """Tell how many trees you are root of; asked of a candidate for a job's master. The answer is a `Weight`.

    With `hold` the candidate keeps the job for this publisher (an agent's address) for a few seconds, so that no other
    one installs the same job on the other candidate meanwhile; without, it gives back what it kept.
    """

    app: AppId
    publisher: str
    hold: bool = True


class Weight(msgspec.Struct, frozen=True, kw_only=True):
    """A candidate's load, and what stands against a new master: the job runs there, or is held for somebody else."""

    roots: int
    #: The job, if it runs there.
    job: JobRecord | None = None
    holder: str | None = None


class Install(Request, frozen=True, tag="install"):
    """Become this job's master; `roster` are the agents expected from the first commit on, with their addresses.

    `ended`: the instance of the publication before, if the publisher knows that it was stopped.
    """

    job: JobRecord
    roster: Mapping[AgentId, Address]
    ended: str = ""

    def __post_init__(self) -> None:
        for address in self.roster.values():
            check_address(address)


class Enlist(Request, frozen=True, tag="enlist"):
    """Say that a new worker begins at an agent; asked of the job's master.

    The answer is an `elf.agents.master.commands.Enlisted`: what an earlier agent at the same address, whose disk is
    lost, was counted with must be left out of what the worker reads, and what that agent missed is the worker's to
    bring.
    """

    app: AppId
    instance: str
    agent_id: AgentId
    address: Address

    def __post_init__(self) -> None:
        check_address(self.address)


class Fetch(Request, frozen=True, tag="fetch"):
    """Read the next page of a job's copy; asked of the leader of its root group by a member. The answer is a `Page`.

    `tree`: the job's. `number` counts from 0, which begins anew.
    """

    tree: AppId
    agent_id: str
    number: int


class Page(msgspec.Struct, frozen=True, kw_only=True):
    """Blocks as (kind, interval, bytes) of a job; the last page has none, and the state that they belong to.

    `applied`: how far the group's log is in all this. `control`: with the state, what the tree's control log holds.
    """

    job: bytes
    applied: Place
    blocks: list[tuple[int, Annotated[int, msgspec.Meta(ge=NEVER, le=-NEVER)], bytes]] = []
    state: bytes = b""
    control: ControlState | None = None


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


class OfSide(Request, frozen=True, tag="side"):
    """A question between agents on one side of a split root group: one of `elf.agents.wire.split`."""

    body: bytes


class Stop(Request, frozen=True, tag="stop"):
    """End a job for good, running or stopped; asked of its master."""

    app: AppId


class Retire(Request, frozen=True, tag="retire"):
    """Expect an agent no more: it is gone for good; asked of the job's master. `agent`: its id, name or address.

    The answer is its `{"agent", "name", "address", "missing_since_ms"}`; None if it is not on the roster.
    """

    app: AppId
    agent: str


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


class Spread(Request, frozen=True, tag="spread"):
    """Add a job record to its source's tree; asked of whoever is closest to the source's id."""

    source: SourceName
    key: str
    version: int
    body: bytes


class DescribeSource(Request, frozen=True, tag="source"):
    """Tell a source's columns (of those named) and members, and the newest known record of `job`, if any.

    Asked of an agent that has the source. `trees`: of how many of the job's parts.
    """

    source: SourceName
    names: tuple[str, ...]
    job: AppId
    trees: Annotated[int, msgspec.Meta(ge=1, le=TREES_MAX)] = 1

    @property
    def apps(self) -> list[bytes]:
        """The keys of all parts of the job."""
        return [partition_id(self.job, number) for number in range(self.trees)]


class Inspect(Request, frozen=True, tag="inspect"):
    """Tell what a running job costs an agent of its source, and which jobs it shares work with there.

    Asked of an agent that has the source.
    """

    source: SourceName
    app: AppId


class ListJobs(Request, frozen=True, tag="jobs"):
    """List the jobs an agent knows, and `ended` too if it knows that this one is over."""

    ended: AppId | None = None


class Introduce(Request, frozen=True, tag="introduce"):
    """Tell who an agent is (a `Member`), and what its machine's clock says (`Told`)."""


class ViewTree(Request, frozen=True, tag="tree"):
    """Tell an agent's place in a job's tree."""

    app: AppId


AnyRequest = (
    Weigh
    | Install
    | Enlist
    | Fetch
    | Describe
    | Query
    | Follow
    | AskShare
    | Watch
    | OfSide
    | Stop
    | Retire
    | LoadIntervals
    | Amend
    | Adopt
    | Leap
    | Ask
    | Letter
    | Keep
    | KeepCheckpoint
    | Recall
    | Locate
    | Spread
    | DescribeSource
    | Inspect
    | ListJobs
    | Introduce
    | ViewTree
)


def publication_of(instance: str) -> str:
    """Return the publication that an instance is of; parts other than the first append to it."""
    return instance.partition(".")[0]


def encode(message: AnyRequest) -> bytes:
    """Encode a request."""
    return msgspec.msgpack.encode(message)


def decode_request(body: bytes) -> AnyRequest:
    """Decode a request; raises msgspec.DecodeError (ValidationError among them) on anything else."""
    request: AnyRequest = read_msgpack(body, AnyRequest)
    return request


def contact_at(address: str) -> Contact:
    """Return the contact of the agent at HOST:PORT; raises ValueError when the text is no address."""
    return Contact.at(*parse_address(address))


def _check_reachable(address: str) -> None:
    """Refuse what no message between agents may hold as an address; raises ValueError."""
    if len(address) > ADDRESS_LENGTH_MAX:
        raise ValueError(f"an address of {len(address)} characters is over the limit of {ADDRESS_LENGTH_MAX}")
    check_address(address)
