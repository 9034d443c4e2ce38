"""What the overlay and the agent runtime promise each other: the values that cross the border and the `Handler`.

Owns no behaviour. The runtime implements `Handler` and calls `overlay.node.OverlayNode`; payloads are bytes the overlay
never looks into. DESIGN section 2: imports run one way, so the runtime's decisions come in through `Handler`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Annotated, Protocol, TypedDict, Unpack

import msgspec

from overlay.decoding import read_msgpack
from overlay.ids import Contact
from overlay.settings import OverlaySettings as OverlaySettings

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


class Record(msgspec.Struct, frozen=True, array_like=True):
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

    `until`: of a retired member the last commit that this account covers.
    """

    admitted: int
    absences: tuple[Absence, ...] = ()
    until: int | None = None


class RollupState(msgspec.Struct, frozen=True, array_like=True):
    """The durable part of a job's roll-up.

    A root persists the one that arrives with each `Commit`, in the same transaction. Members need none: the root tells
    them what became of their snapshots.
    """

    committed: int = NEVER
    roster: dict[str, RosterEntry] = {}
    #: Members that are expected no more; kept so that one that comes back learns which of its snapshots were counted.
    retired: dict[str, RosterEntry] = {}

    def encode(self) -> bytes:
        """Return the state as bytes for a store."""
        return msgspec.msgpack.encode(self)

    @classmethod
    def decode(cls, data: bytes) -> RollupState:
        """Read what `encode` wrote.

        Raises:
            msgspec.DecodeError: the bytes are no such state.
        """
        return read_msgpack(data, cls)


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

    def after(self, entry: ControlEntry) -> ControlState:
        """Return what is to be stored once an entry was handled; O(entries retained)."""
        if entry.retain_above is None:
            return ControlState(entry.mark, entry.mark)
        kept = [old for old in self.entries if old.mark > entry.retain_above]
        return ControlState(entry.mark, entry.retain_above, (*kept, LogEntry(entry.mark, entry.body)))


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

    def on_record(self, app: bytes, record: Record) -> None:
        """Take note of a control record that is new here, on any node of the tree, forwarders included."""
        ...

    async def on_commit(self, app: bytes, commit: Commit) -> None:
        """Make a commit and its state durable, then return; only then do verdicts go down. Root only, ascending."""
        ...

    async def on_verdict(self, app: bytes, verdict: Verdict) -> None:
        """Settle own snapshots durably, then return; members only, ascending, each once in a run of the process."""
        ...

    async def on_control(self, app: bytes, entry: ControlEntry) -> None:
        """Heed a control entry and store its mark, in one transaction, then return; in order, one at a time.

        Only where the runtime joined the tree, and at its root, where entries go down only after this returns. An entry
        at or below the stored mark is a repetition (we crashed before the answer): to be ignored.
        """
        ...

    def merge(self, app: bytes, payloads: Sequence[bytes]) -> bytes:
        """Merge one or more payloads; called in a worker thread; commutative and associative; raises for bad bytes."""
        ...


class Overlay(Protocol):
    """What the runtime calls; `overlay.node.OverlayNode(settings, handler, rng)` is the real one."""

    @property
    def contact(self) -> Contact:
        """This node; known after `start`."""
        ...

    def contacts(self) -> list[Contact]:
        """Return every agent we know, ourselves not included."""
        ...

    async def start(self) -> None:
        """Open UDP and TCP."""
        ...

    async def stop(self) -> None:
        """Leave all trees and close everything."""
        ...

    async def join(self) -> int:
        """Contact the configured agents, fill the routing table, return how many agents we know; call again if 0."""
        ...

    async def closest(self, key: bytes, width: int = 3) -> list[Contact]:
        """Look up the agents closest to a key that respond, nearest first, this node included where it belongs."""
        ...

    def join_tree(
        self, app: bytes, *, member: bool, root: Contact | None = None, **options: Unpack[JoinOptions]
    ) -> None:
        """Take part in an application's tree; calling again updates membership and root.

        `root`: the recorded master (job trees, which roll up); None: whoever is closest to `app` (source trees, records
        only).
        """
        ...

    def move_root(self, app: bytes, root: Contact, reign: int) -> None:
        """Heed that another root took over a tree that we may stand in, as a forwarder at least."""
        ...

    def leave_tree(self, app: bytes, *, retire: bool = True) -> None:
        """Leave; with `retire` the root stops expecting this agent (a stop for good, not a restart)."""
        ...

    def seal(self, app: bytes, through: int, payload: bytes | None) -> bool:
        """Hand over a durable snapshot, ascending `through`; None is an empty one.

        The rule that makes this exact: in the store, snapshots and verdicts are one sequence. A snapshot is sealed
        above the last verdict handled (else its data goes under a later interval), and retained until a verdict handled
        later covers it. After a restart all retained snapshots are handed over again, before new ones.
        False: a verdict through here was handled already, so there is nothing to send; or we are no member.

        Raises:
            OverlayError: the payload is over `PAYLOAD_BYTES_MAX` (15 MiB).
        """
        ...

    def answer_for(self, app: bytes, agent: str, since: int, through: int, payload: bytes | None) -> None:
        """Hand over a copy of another member's sealed snapshot, with all its data of since < interval <= through.

        It is counted if nothing else of that member is for the interval, and the verdict is that member's.
        """
        ...

    def congested(self, apps: Iterable[bytes]) -> bool:
        """Tell whether the tree of one of these applications takes less than this node hands over.

        Too many own snapshots have no verdict yet, or the link to the parent is jammed: do not read on until it is
        False again. Nothing is refused or dropped meanwhile.
        """
        ...

    def exclude(self, app: bytes, agent: str, successor: str | None = None) -> int:
        """Never count an agent again, at the root: its disk is lost and it came back as its successor.

        Returns the last interval whose commit may hold its data; later commits that lack the successor's name it. To be
        repeated after a restart of the root.

        Raises:
            NotJoinedError: this node is not the root.
        """
        ...

    def retire(self, app: bytes, agent: str) -> int:
        """Expect a member no more, at the root: it is gone for good; a commit that lacks its data names it once more.

        Returns the last interval whose commit still has it on the roster; to be repeated if the root restarts before a
        later one. What it sent already counts. If it comes back it is admitted again, and told what was counted.

        Raises:
            NotJoinedError: this node is not the root.
        """
        ...

    def leap(self, app: bytes, through: int | None = None) -> tuple[int, tuple[str, ...]]:
        """Wait no longer for members that others are ahead of in the next interval, if that is `through` or before.

        Returns the interval and, at the root, whom its commit will name unless they speak within half a second.
        """
        ...

    def add_record(self, app: bytes, record: Record) -> bool:
        """Apply a control record here and flood it; False if we hold a newer one. Our own `on_record` is not called."""
        ...

    def records(self, app: bytes) -> list[Record]:
        """Return the records of an application that we hold, by key."""
        ...

    def multicast(self, app: bytes, body: bytes) -> int:
        """Append an entry to the tree's control log and send it to every agent of the tree; returns its position.

        It goes down once our own `on_control` has made it durable. Each agent handles it at most once and in order; one
        that is away catches up when it is back, or is told that it missed some (`ControlEntry.skipped`).

        Raises:
            NotJoinedError: this node is not the root.
            OverlayError: the body is empty or over `CONTROL_BYTES_MAX`, or too many entries wait to become durable.
        """
        ...

    def control_mark(self, app: bytes) -> Mark:
        """Return the last control entry that our runtime has handled (ORIGIN before the first)."""
        ...

    async def route(self, key: bytes, body: bytes, timeout_ms: int = 5_000) -> Answer:
        """Send a request hop by hop toward a key; the first agent whose handler answers ends it (ours is asked first).

        Raises:
            NotFoundError: nobody up to the agent closest to the key answers for it.
            UnreachableError: no answer in time; asking again later may work.
        """
        ...

    async def ask(self, contact: Contact, body: bytes, timeout_ms: int = 5_000) -> bytes:
        """Send a request to one agent; its handler sees its own id as the key.

        Raises:
            NotFoundError: the agent has no answer.
            UnreachableError: no answer in time.
        """
        ...

    def tree(self, app: bytes) -> TreeView:
        """Return this node's place in an application's tree."""
        ...

    def roots(self) -> int:
        """Return of how many trees this node is the root: its load when masters are placed."""
        ...

    def settled(self, app: bytes) -> int:
        """Return how far verdicts are known here (NEVER before the first)."""
        ...

    def refused(self) -> dict[str, str]:
        """Return the agents that turn our calls away, by address, with the reason; empty while any link is up.

        An agent with another certificate, or without TLS among others with it, is heard in the DHT but takes no part.
        """
        ...

    def counters(self) -> dict[str, int]:
        """Return statistics: frames, bytes, drops by reason, commits, leaps; names are stable."""
        ...
