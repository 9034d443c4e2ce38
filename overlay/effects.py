"""What the pure machines ask of the shell, and what the shell tells them: the two closed vocabularies.

Decisions are `handle(input, now_ms) -> list[Effect]`; a timeout or a dead peer is an input, never an exception.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from elf.overlay.contract import Commit, ControlEntry, Mark, Record, Verdict
from elf.overlay.ids import Contact
from elf.overlay.messages import Claim, TreeMessage


@dataclass(frozen=True, slots=True)
class Send:
    """Send a message to a peer; a failure comes back as `PeerLost`."""

    to: Contact
    message: TreeMessage


@dataclass(frozen=True, slots=True)
class Lookup:
    """Find the agent closest to this application's key; the answer is `LookedUp`."""


@dataclass(frozen=True, slots=True)
class Suspect:
    """A contact did not answer a JOIN: let the routing table check it."""

    contact: Contact


@dataclass(frozen=True, slots=True)
class Merge:
    """Merge these payloads off the loop; the answer is `Merged` with the same ticket."""

    ticket: int
    payloads: tuple[bytes, ...]


@dataclass(frozen=True, slots=True)
class Persist:
    """Make a commit durable; the answer is `Committed`."""

    commit: Commit


@dataclass(frozen=True, slots=True)
class Notify:
    """Tell the runtime the fate of its own snapshots; the answer is `Notified`."""

    verdict: Verdict


@dataclass(frozen=True, slots=True)
class Audit:
    """Let the runtime merge again what a child claims, beside everything else."""

    child: Contact
    claim: Claim


@dataclass(frozen=True, slots=True)
class Apply:
    """Tell the runtime of a record that is new here."""

    record: Record


@dataclass(frozen=True, slots=True)
class Deliver:
    """Let the runtime handle a control entry durably; answered by `Delivered` or `Refused`. One at a time per tree."""

    entry: ControlEntry


@dataclass(frozen=True, slots=True)
class ParentUp:
    """The edge to the parent is up; for the machines above the tree, as are the next four."""

    parent: Contact
    epoch: int


@dataclass(frozen=True, slots=True)
class ParentDown:
    """There is no parent any more."""


@dataclass(frozen=True, slots=True)
class ChildUp:
    """A child's edge is up; a new epoch of a known child replaces the old edge."""

    child: Contact
    epoch: int


@dataclass(frozen=True, slots=True)
class ChildDown:
    """A child's edge is gone, and with it what it sent."""

    child: Contact


@dataclass(frozen=True, slots=True)
class RootChanged:
    """We became the root, or ceased to be it."""

    is_root: bool


EdgeEvent: TypeAlias = ParentUp | ParentDown | ChildUp | ChildDown | RootChanged
Effect: TypeAlias = Send | Lookup | Suspect | Merge | Persist | Notify | Audit | Apply | Deliver | EdgeEvent


@dataclass(frozen=True, slots=True)
class Received:
    """A message came over the link to this peer."""

    sender: Contact
    message: TreeMessage


@dataclass(frozen=True, slots=True)
class PeerLost:
    """The link to a peer closed, could not be opened or fell silent: all edges on it are gone."""

    peer: Contact


@dataclass(frozen=True, slots=True)
class Tick:
    """Time passed; due when a machine's `deadline_ms` is reached."""


@dataclass(frozen=True, slots=True)
class ContactsChanged:
    """The routing table gained or lost a contact."""


@dataclass(frozen=True, slots=True)
class LookedUp:
    """The closest agents to the application's key that respond, nearest first; may contain ourselves."""

    contacts: tuple[Contact, ...]


@dataclass(frozen=True, slots=True)
class Merged:
    """The merge with this ticket is done; `bad`: positions of payloads that would not merge and were left out."""

    ticket: int
    payload: bytes | None
    bad: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Committed:
    """The commit through this interval is durable."""

    through: int


@dataclass(frozen=True, slots=True)
class Notified:
    """The runtime made the verdict through this interval durable."""

    through: int


@dataclass(frozen=True, slots=True)
class Delivered:
    """The runtime made the control entry with this mark durable."""

    mark: Mark


@dataclass(frozen=True, slots=True)
class Refused:
    """The runtime left the control entry with this mark to another root: it will not be durable here."""

    mark: Mark


Answered: TypeAlias = Merged | Committed | Notified | Delivered | Refused
Input: TypeAlias = Received | PeerLost | Tick | ContactsChanged | LookedUp | Answered
