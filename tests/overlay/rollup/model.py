"""What the roll-up promises, as a machine of its own: the oracle of its property tests.

It hears what the runtimes make durable (snapshots sealed, verdicts heeded, what roots write to their log) and nothing
of how it came about, and raises `BrokenPromise` at the first step that was not allowed. OVERLAY 6.7: I4 (one log, in
order, over all terms), I5 (a snapshot is kept until its verdict), I6 (each item is in exactly one place), I9 (a result
is the fold of what its contributors sealed), and of I3 that no result mixes two versions of the job.

Beside agents that crash and come back it knows agents that lose their disk and are succeeded under another name, that
come late and leave, agents that only forward, roots that are deposed while they act, and changes of the definition.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from elf.overlay.contract import NEVER, Commit, Verdict
from tests.sweep.runtime import unpack


class FencedError(RuntimeError):
    """Another root has been elected since: what the old one says is not written (OVERLAY 6.4, M3)."""


class BrokenPromise(AssertionError):
    """Something happened that the roll-up promises never happens."""


def promise(holds: bool, what: str) -> None:
    """Raise `BrokenPromise` unless something holds."""
    if not holds:
        raise BrokenPromise(what)


def is_mark(text: str) -> bool:
    """Tell whether a text in a payload is no item, but says of which version that is: `=VERSION@THROUGH`."""
    return text.startswith("=")


@dataclass
class Member:
    """What one agent has, by where it is."""

    open: list[str] = field(default_factory=list)
    sealed: dict[int, tuple[str, ...]] = field(default_factory=dict)
    carried: list[str] = field(default_factory=list)
    settled: int = NEVER
    lost: bool = False


@dataclass(frozen=True)
class Entry:
    """One entry of the roots' log: a commit, an agent excluded, or a version that begins at an interval."""

    term: int
    what: Commit | tuple[str, int] | int


class Model:
    """All members, and the log that their roots share."""

    def __init__(self) -> None:
        self.term = 0
        self.log: list[Entry] = []
        self.members: dict[str, Member] = {}
        #: Where each item was counted.
        self.counted: dict[str, int] = {}
        self.produced: set[str] = set()
        #: Items that went with a disk, from intervals that had been counted further already.
        self.excused: set[str] = set()
        self.versions: dict[int, int] = {}

    # ---- the roots' log

    @property
    def commits(self) -> list[Commit]:
        """The commits in their order."""
        return [entry.what for entry in self.log if isinstance(entry.what, Commit)]

    @property
    def committed(self) -> int:
        """The last interval with a commit."""
        commits = self.commits
        return commits[-1].through if commits else NEVER

    def elect(self) -> int:
        """Begin a term; a root of an earlier one can write nothing more."""
        self.term += 1
        return self.term

    def write(self, term: int, what: Commit | tuple[str, int] | int) -> None:
        """Append to the log.

        Raises:
            FencedError: the writer was deposed.
        """
        if term != self.term:
            raise FencedError(f"term {term} is over")
        if isinstance(what, Commit):
            self._check(what)
        elif isinstance(what, int):
            self.versions[what] = len(self.versions) + 1
        self.log.append(Entry(term, what))

    def version_at(self, through: int) -> int:
        """Return the version of the job at an interval."""
        return max((version for since, version in self.versions.items() if since <= through), default=0)

    def _check(self, commit: Commit) -> None:
        promise(commit.previous == self.committed, f"I4: {commit.through} follows {self.committed}")
        promise(commit.through > commit.previous, "I4: commits ascend")
        promise(not set(commit.reported) & set(commit.missing), "nobody is both in and out")
        held = unpack(commit.payload)
        items = Counter(item for item in held if not is_mark(item))
        due: Counter[str] = Counter()
        for agent in commit.reported:
            member = self.members.get(agent)
            promise(member is not None, f"{agent} never sealed anything and is in a result")
            assert member is not None
            promise(not member.lost, f"{agent} was excluded and is in a result")
            for through, sealed in member.sealed.items():
                due.update(sealed if commit.previous < through <= commit.through else ())
        promise(items == due, f"I9: {commit.through} has {items - due} too much, lacks {due - items}")
        promise(not self.counted.keys() & items.keys(), f"counted again: {self.counted.keys() & items.keys()}")
        versions = {int(mark[1:].partition("@")[0]) for mark in held if is_mark(mark)}
        promise(versions <= {self.version_at(commit.through)}, f"I3: {commit.through} has versions {versions}")
        self.counted.update(dict.fromkeys(items, commit.through))

    # ---- members

    def produce(self, agent: str, item: str) -> None:
        """An event was read."""
        self.produced.add(item)
        self.members.setdefault(agent, Member()).open.append(item)

    def seal(self, agent: str, through: int) -> list[str]:
        """An interval is closed: all that is open or carried is in its snapshot, for ever; returns that."""
        member = self.members.setdefault(agent, Member())
        promise(through > max([member.settled, *member.sealed]), f"{agent} seals {through} again")
        member.sealed[through] = (*member.open, *member.carried)
        member.open, member.carried = [], []
        return list(member.sealed[through])

    def heed(self, agent: str, verdict: Verdict) -> None:
        """An agent acts on a verdict: it forgets what was counted, and carries on what was not."""
        member = self.members.setdefault(agent, Member())
        member.settled = max(member.settled, verdict.through)
        for through in [each for each in member.sealed if each <= verdict.through]:
            for item in member.sealed.pop(through):
                if verdict.missing:
                    promise(item not in self.counted, f"I6: {agent} carries {item}, which was counted")
                    member.carried.append(item)
                else:
                    promise(item in self.counted, f"I5: {agent} forgets {item}, which was not counted")

    def succeed(self, agent: str, heir: str, through: int, counted: int) -> None:
        """An agent lost its disk: what its logs hold of later intervals than `counted` is the heir's to bring."""
        old, new = self.members.setdefault(agent, Member()), self.members.setdefault(heir, Member())
        old.lost = True
        for item in [*old.open, *old.carried, *(item for sealed in old.sealed.values() for item in sealed)]:
            if int(item.rsplit("@")[1]) > counted:
                promise(item not in self.counted, f"{item} was counted although {agent} was only through {counted}")
                new.carried.append(item)
            elif item not in self.counted:
                self.excused.add(item)
        old.open, old.carried, old.sealed = [], [], {}

    # ---- in the end

    def check(self) -> None:
        """Check I6: each item is in exactly one place. O(items)."""
        held = Counter(item for each in self.members.values() for item in (*each.open, *each.carried))
        waiting = Counter(i for each in self.members.values() for sealed in each.sealed.values() for i in sealed)
        for item in self.produced - self.excused:
            places = held[item] + (item in self.counted or waiting[item])
            promise(places == 1, f"I6: {item} is in {places} places")

    def rest(self) -> set[str]:
        """Return what is not counted yet and has to be."""
        return self.produced - self.excused - self.counted.keys()
