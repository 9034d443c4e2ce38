"""What the overlay and the agent runtime promise each other: the values that cross the border and the `Handler`.

Owns no behaviour. The runtime implements `Handler` and calls `elf.overlay.node.OverlayNode`; payloads are bytes the
overlay never looks into. DESIGN section 2: imports run one way, so the runtime's decisions come in through `Handler`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Protocol, TypedDict

import msgspec

from elf.overlay.ids import Contact
from elf.overlay.interning import share_nothing
from elf.overlay.settings import OverlaySettings as OverlaySettings

#: "Nothing was ever committed": lower than any interval index.
NEVER = -(1 << 62)
#: Largest message, before compression; also the most that a compressed one may grow to.
MESSAGE_BYTES_MAX = 16 << 20
#: Largest payload or body inside a message; the rest is room for names (70,000 contributors of 14 characters).
PAYLOAD_BYTES_MAX = MESSAGE_BYTES_MAX - (1 << 20)
#: Largest body of a control entry: a filter, a switch, a short list; larger content belongs in a record.
CONTROL_BYTES_MAX = 256 << 10
#: Most entries a tree's control log retains, and most bytes in their bodies: a day of one entry every 90 s.
CONTROL_ENTRIES_MAX = 1_024
CONTROL_LOG_BYTES_MAX = 4 << 20


class Record(msgspec.Struct, frozen=True, array_like=True, weakref=True):
    """One control record of an application, flooded over its tree; the highest (version, digest of body) wins."""

    key: str
    version: int
    body: bytes


class Absence(msgspec.Struct, frozen=True, array_like=True):
    """A run of commits that did not contain an agent: those with after < interval <= through.

    `named`: they name it as missing; they do not if it was not on the roster then.
    """

    after: int
    through: int
    named: bool = True


class RosterEntry(msgspec.Struct, frozen=True, array_like=True):
    """What a root knows of one member: commits up to `admitted` never counted it, later ones all but its absences.

    `until`: of a retired member the last commit that this account covers. `key`: its public one, if it has said.
    """

    admitted: int
    absences: tuple[Absence, ...] = ()
    until: int | None = None
    key: bytes = b""


class RollupState(msgspec.Struct, frozen=True, array_like=True):
    """The durable part of a job's roll-up.

    A root persists the one that arrives with each `Commit`, in the same transaction. Members need none: the root tells
    them what became of their snapshots.
    """

    committed: int = NEVER
    roster: Mapping[str, RosterEntry] = {}
    #: Members that are expected no more; kept so that one that comes back learns which of its snapshots were counted.
    retired: Mapping[str, RosterEntry] = {}

    def __post_init__(self) -> None:
        share_nothing(self, "roster", "retired")


class Commit(msgspec.Struct, frozen=True):
    """One interval of a job, complete as far as it ever gets at first try; only the root sees it.

    `payload` is the merge of the snapshots of all agents in `reported` that sealed exactly `through` with data; None if
    nobody had any. `previous` is the `through` of the commit before.
    """

    previous: int
    through: int
    payload: bytes | None
    reported: tuple[str, ...]
    missing: tuple[str, ...]
    state: RollupState


class Verdict(msgspec.Struct, frozen=True):
    """The fate of this agent's own snapshots with previous < interval <= through.

    Not missing: they are in commits, discard them. Missing: they are in no commit and never will be under their own
    interval; carry their data in the next snapshot, or, if those commits have `named` this agent, drop it.
    """

    previous: int
    through: int
    missing: bool
    named: bool = True

    def joined(self, later: Verdict) -> Verdict | None:
        """Return one verdict that says what this and the next one say; None if their runs fared differently."""
        if later.previous != self.through or (later.missing, later.named) != (self.missing, self.named):
            return None
        return Verdict(self.previous, later.through, self.missing, self.named)


class Mark(msgspec.Struct, frozen=True, array_like=True, order=True):
    """A place in a tree's control log. Terms rise with each new root, so marks never repeat and order all entries."""

    term: Annotated[int, msgspec.Meta(ge=0, le=1 << 61)] = 0
    position: Annotated[int, msgspec.Meta(ge=0, le=1 << 61)] = 0


#: Where every control log begins: before its first entry.
ORIGIN = Mark()


class LogEntry(msgspec.Struct, frozen=True, array_like=True):
    """One entry of a control log, as it travels and as a root stores it; its predecessor has `position` - 1."""

    mark: Mark
    body: Annotated[bytes, msgspec.Meta(max_length=CONTROL_BYTES_MAX)]


class ControlEntry(msgspec.Struct, frozen=True):
    """One control entry as it reaches the runtime.

    `skipped`: entries before this one did not reach this agent and never will; what they said must be read from the
    records. `retain_above`: at the root, store this entry, and of those before keep only the ones above this mark; None
    elsewhere: the mark is all that must be kept. An empty body is the overlay's own: it only carries the mark.
    """

    mark: Mark
    body: bytes
    skipped: bool = False
    retain_above: Mark | None = None


class ControlState(msgspec.Struct, frozen=True):
    """The durable part of a control log: the last entry handled; at the root also those retained, above `floor`."""

    mark: Mark = ORIGIN
    floor: Mark = ORIGIN
    entries: tuple[LogEntry, ...] = ()


class Answer(msgspec.Struct, frozen=True):
    """The answer to a routed request and the addresses of the hops after us that it took, in order."""

    body: bytes
    path: tuple[str, ...]


class TreeView(msgspec.Struct, frozen=True):
    """One node's view of an application's tree; `role` is out, joining, member or root."""

    role: str
    member: bool
    root: Contact | None
    parent: Contact | None
    children: tuple[Contact, ...]


class JoinOptions(TypedDict, total=False):
    """What may go with a recorded root.

    `state`: at the root what its last durable commit carried, else None. `leap_after_ms`: how long the root waits for
    members that others are ahead of. `control`: what `on_control` stored; None begins with the oldest entry retained.
    `reign`: of recorded roots the one of the highest counts. `rooted`: False: we are the recorded root and must not be.
    """

    state: RollupState | None
    leap_after_ms: int | None
    control: ControlState | None
    reign: int
    rooted: bool


class Handler(Protocol):
    """What the overlay asks of the runtime. Exceptions are logged; commits, verdicts and control are then retried."""

    async def on_route(self, key: bytes, body: bytes, path: Sequence[str]) -> bytes | Contact | None:
        """Answer a request: bytes are the answer, a contact sends it there, None says "not ours, route on"."""
        ...

    def admits(self, app: bytes, record: Record) -> bool:
        """Tell whether a neighbour's control record may be taken and passed on; it may come again."""
        ...

    def on_record(self, app: bytes, record: Record) -> None:
        """Take note of a control record that is new here, on any node of the tree, forwarders included."""
        ...

    async def on_commit(self, app: bytes, commit: Commit) -> None:
        """Make a commit and its state durable, then return; only then do verdicts go down. Root only, ascending."""
        ...

    async def on_verdict(self, app: bytes, verdict: Verdict) -> None:
        """Settle own snapshots durably, then return; members only, ascending, each once in a run of the process.

        An OvertakenError says that it was made up: it is dropped, and so are those that have come behind it.
        """
        ...

    async def on_control(self, app: bytes, entry: ControlEntry) -> None:
        """Heed a control entry and store its mark, in one transaction, then return; in order, one at a time.

        Only where the runtime joined the tree, and at its root, where entries go down only after this returns. An entry
        at or below the stored mark is a repetition (we crashed before the answer): to be ignored.
        """
        ...

    def on_chosen(self, app: bytes, child: Contact, claim: Any) -> None:
        """Begin to audit a child's claim (`messages.Claim`); at a job's root only, and nothing waits for it."""
        ...

    def merge(self, app: bytes, payloads: Sequence[bytes]) -> bytes:
        """Merge one or more payloads; called in a worker thread; commutative and associative; raises for bad bytes."""
        ...


class Trust(Protocol):
    """Whom the runtime believes, and how others know us; without one nobody signs, and everybody is believed."""

    @property
    def public(self) -> bytes:
        """Our own public key."""
        ...

    def sign(self, message: bytes) -> bytes:
        """Return our signature of a message."""
        ...

    def key_of(self, agent: str) -> bytes | None:
        """Return the public key of an agent, if the runtime has heard of one."""
        ...

    def may_have_ended(self, app: bytes, interval: int) -> bool:
        """Tell whether an interval of a job can have come to its end anywhere; asked at the job's root."""
        ...
