"""All that a simulated job's group has decided, and all that its agents have done, as seen from outside.

`Truth` holds all members of the group to one order, each commit to what those in it have sealed, and each label to what
was left out, at the moment of its decision. OVERLAY 6.5.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from elf.overlay.contract import Commit
from elf.overlay.group.messages import Kind, Place
from elf.overlay.sim.copies import Copy
from elf.overlay.sim.payloads import Row, read, row_of
from elf.overlay.sim.versions import Version


class Reduced(NamedTuple):
    """A row, and whose it is."""

    agent: str
    row: Row


class Truth:
    """All that a group has decided, as seen from outside when the first member applies it."""

    def __init__(self, copy: Copy) -> None:
        self.copy = copy.detached()
        #: What each agent has sealed, by interval; what of it a commit has to hold is known by what it says.
        self._sealed: dict[str, dict[int, list[str]]] = {}
        #: What was made of each item the last time that an agent read it; and by agent and interval.
        self.reduced: dict[str, Reduced] = {}
        self._made: dict[str, dict[int, list[Row]]] = {}
        self._decided: dict[int, tuple[int, Kind, bytes]] = {}
        #: Sentences about members that applied something else, or with a gap.
        self.wrong: list[str] = []

    def reduce(self, agent: str, rows: Iterable[Row]) -> None:
        """An agent has made rows of items."""
        for row in rows:
            self.reduced[row.item] = Reduced(agent, row)
            self._made.setdefault(agent, {}).setdefault(row.interval, []).append(row)

    def seal(self, agent: str, after: int, through: int, texts: Sequence[str]) -> None:
        """An agent has sealed the intervals of (after, through], durably and for ever; rows of others are late."""
        rows = _rows(texts)
        self._sealed.setdefault(agent, {})[through] = rows
        kinds = {row.kind for row in (row_of(text, through) for text in rows) if row.interval > after}
        if len(kinds) > 1:
            self.wrong.append(f"{agent} sealed rows of the kinds {sorted(kinds)} in one snapshot, {through}")

    def observe(self, agent: str, place: Place, kind: Kind, body: bytes) -> None:
        """A member has applied an entry."""
        what = place.term, kind, body
        known = self._decided.get(place.index)
        if known is None:
            if place.index != self.copy.applied.index + 1:
                self.wrong.append(f"{agent} applied {place} after {self.copy.applied}: something was lost")
            self._decided[place.index] = what
            commits, superseded = len(self.copy.commits), len(self.copy.superseded)
            self.copy.apply(place, kind, body)
            for commit in self.copy.commits[commits:]:
                self._hold(commit)
                self._hold_label(commit, self.copy.superseded[superseded:])
        elif known != what:
            self.wrong.append(f"{agent} applied another entry at {place} than others did")

    def _hold(self, commit: Commit) -> None:
        """Check what a commit says at once: it has all that those in it have sealed since the last one, and no more."""
        runs = [
            rows
            for agent in commit.reported
            for through, rows in self._sealed.get(agent, {}).items()
            if commit.previous < through <= commit.through
        ]
        due, rows = Counter(row for run in runs for row in run), Counter(_rows(read(commit.payload)))
        if due != rows:
            self.wrong.append(f"commit {commit.through} lacks {due - rows} and has {rows - due} too much")
        both = set(commit.reported).intersection(commit.missing)
        if both:
            self.wrong.append(f"commit {commit.through} has {both} in it and names them as missing")

    def _hold_label(self, commit: Commit, left_out: Sequence[Row]) -> None:
        """Check at once that labels name whoever has rows of another kind than counts, sealed here or dropped."""
        due = [self.reduced[row.item] for row in left_out if row.item in self.reduced]
        for agent in commit.reported:
            made = self._made.get(agent, {})
            within = [at for at in made if commit.previous < at <= commit.through]
            due += [Reduced(agent, row) for at in within for row in made[at] if not self.copy.takes(row)]
        self.wrong += [f"after commit {commit.through}: {text}" for text in self.unnamed(due, complete=True)]

    def unnamed(self, stale: Iterable[Reduced], *, complete: bool) -> Iterator[str]:
        """Yield a sentence on each row of another kind than counts whose agent its interval's label does not name.

        `complete`: this is the end; until then labels do not speak of agents that are not expected yet.
        """
        commits = self.copy.commits
        throughs = [commit.through for commit in commits]
        for agent, row in stale:
            at = bisect_left(throughs, row.interval)
            if at == len(throughs) or agent in self.copy.late(commits[at], row.interval):
                continue
            if complete or agent in self.copy.expects(commits[at]):
                yield f"{row} of {agent} is of another version than its interval, and no label says so"

    def stale(self) -> dict[str, Reduced]:
        """Return the items of which rows were made that do not count, for their agent heard of a version too late."""
        return {item: made for item, made in self.reduced.items() if not self.copy.takes(made.row)}

    @property
    def versions(self) -> tuple[Version, ...]:
        """All versions in their order."""
        return self.copy.versions


def _rows(texts: Sequence[str]) -> list[str]:
    return [text for text in texts if not text.startswith("=")]
