"""The root's side of a roll-up: who is expected, when an interval is committed, and what everyone is told.

Owns the roster and the commit log of one job. Pure. Invariants: commits ascend, one at a time, each durable before its
verdict is sent; for every agent on the roster a commit either holds all its data since the commit before, or names it
as missing, or (absences) remembers that it did. Paper: §2.3 (job master). OVERLAY 6.2-6.4, with explicit lists of
agents in place of generations: a single root needs no fence, and overlap is refused agent by agent.

A commit waits until a claim names every agent on the roster that is not known to be away, not until all fit in: whom
overlapping claims keep out is named missing at once, for claims never come apart again. If nothing has moved for
`leap_after_ms` while others have spoken, the silent ones are leapt: named missing, and not waited for until they speak
of a later interval or say that they have sealed the one before the last (a straggler is two intervals behind, §2.3).
Whom the tree has lost (`absent`) is waited for only as long as finding another parent takes.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from overlay.contract import Absence, Commit, RollupState, RosterEntry
from overlay.messages import Announce, Claim, Settle, Status
from overlay.rollup.claims import Bag, Choice

#: Most absences remembered for one agent. A run of missed commits is one; only an agent that comes and goes thousands
#: of times without ever confirming gets here.
ABSENCES_MAX = 4_096
#: A member that nobody has for a child any more is waited for this long: orphans are back within 0.2 s of the failure's
#: discovery, those whose grandparent failed too a little later. Longer, and agents that are gone hold up results.
ORPHANED_MS = 500


@dataclass(slots=True)
class Pending:
    """A commit on its way: merging, then being made durable."""

    choice: Choice
    commit: Commit | None = None


class Ledger:
    """Roster, waiting claims and commit log of one job at its root."""

    def __init__(self, app: bytes, state: RollupState, term: int, *, leap_after_ms: int, grace_until_ms: int) -> None:
        self.app = app
        #: Random, new with every start of a root: a verdict binds only members that this very term has greeted.
        self.term = term
        self.committed = state.committed
        #: The commit before the last: whoever has sealed that far is at most one interval behind, so no straggler.
        self._before = state.committed
        self.roster: dict[str, RosterEntry] = dict(state.roster)
        self.bag = Bag()
        self.pending: Pending | None = None
        self.leaps = 0
        #: Agents a commit waits for; those on the roster but not here were leapt and have not spoken since.
        self.awaited: set[str] = set(self.roster)
        self.leap_after_ms = leap_after_ms
        self._grace_until_ms = grace_until_ms
        self._waiting: tuple[int, int] | None = None
        self._deferred: list[Announce] = []
        self._retired: set[str] = set()
        self._excluded: set[str] = set()
        #: Members that the tree has lost, and since when.
        self._absent: dict[str, int] = {}
        #: When `step` may have something to do although nothing was heard; None: only then.
        self.deadline_ms: int | None = None

    # ---- members

    def absent(self, agents: Iterable[str], now_ms: int) -> None:
        """Take note that nobody has these agents for children any more: they are dead, or about to come back."""
        for agent in agents:
            self._absent.setdefault(agent, now_ms)

    def present(self, agents: Iterable[str]) -> None:
        """Take note that these agents hang in the tree (again)."""
        for agent in agents:
            self._absent.pop(agent, None)

    def on_announce(self, announce: Announce) -> Status | None:
        """Put a member on the roster and tell it where it stands; None, and later, while a commit is under way."""
        if self.pending is not None:
            # A commit in flight has its roster fixed: admitting now could miss naming the newcomer.
            self._deferred = [held for held in self._deferred if held.agent != announce.agent] + [announce]
            return None
        settled = announce.settled
        absences: tuple[Absence, ...]
        entry = self.roster.get(announce.agent)
        if entry is None:
            entry = RosterEntry(max(self.committed, settled))
            absences = (Absence(settled, self.committed),) if settled < self.committed else ()
        else:
            before = (Absence(settled, entry.admitted),) if settled < entry.admitted else ()
            kept = tuple(absence for absence in entry.absences if absence.through > settled)
            entry = RosterEntry(entry.admitted, kept)
            absences = before + kept
        self._retired.discard(announce.agent)
        if announce.fresh or announce.agent not in self.roster or announce.sealed >= self._before:
            self.awaited.add(announce.agent)
        self.roster[announce.agent] = entry
        return Status(self.app, announce.agent, self.term, self.committed, absences)

    def retire(self, agent: str) -> None:
        """Expect a member no more; what it sent already still counts."""
        self.roster.pop(agent, None)
        self.awaited.discard(agent)
        self._absent.pop(agent, None)
        self._retired.add(agent)
        self._deferred = [held for held in self._deferred if held.agent != agent]

    def exclude(self, agent: str) -> int:
        """Never count an agent again: it lost its disk and came back under another name.

        Returns the last interval whose commit, made or on its way, may hold its data; all later data of its logs is
        the successor's to bring.
        """
        floor = self.committed if self.pending is None else self.pending.choice.through
        self.retire(agent)
        self._excluded.add(agent)
        self.bag.drop_agent(agent)
        return floor

    # ---- claims

    def add(self, edge: bytes, claim: Claim) -> None:
        """File a claim that reaches beyond the last commit; its agents are waited for from now on."""
        through = self.pending.choice.through if self.pending is not None else self.committed
        if claim.through <= through or not self._excluded.isdisjoint(claim.agents):
            return
        self.bag.add(edge, claim)
        self.awaited.update(claim.agents)

    def step(self, now_ms: int) -> Choice | None:
        """Return the choice of the next commit, if everyone awaited is covered or has been waited for long enough."""
        point = self.bag.next_point()
        self.deadline_ms = None
        if self.pending is not None or point is None:
            return None
        if now_ms < self._grace_until_ms:
            self.deadline_ms = self._grace_until_ms
            return None
        silent = self.awaited.intersection(self.roster) - self.bag.spoken_for(point, floor=self.committed)
        if silent and now_ms < (until_ms := self._patience_until_ms(point, silent, now_ms)):
            self.deadline_ms = until_ms
            return None
        choice = self.bag.choose(point, floor=self.committed)
        self.pending = Pending(choice)
        return choice

    def _patience_until_ms(self, point: int, silent: Iterable[str], now_ms: int) -> int:
        """Return how long to wait for the silent.

        Time runs per interval: while slower members move on, the point moves with them and nobody is leapt.
        """
        if self._waiting is None or self._waiting[0] != point:
            self._waiting = (point, now_ms)
        until_ms = self._waiting[1] + self.leap_after_ms
        lost_ms = [self._absent.get(agent, until_ms) + ORPHANED_MS for agent in silent]
        return min(until_ms, max(lost_ms))

    def merged(self, payload: bytes | None, bad: tuple[int, ...]) -> Commit:
        """The merge is done: decide who is in, and return what to make durable."""
        assert self.pending is not None
        choice = self.pending.choice
        reported = choice.agents(bad)
        roster = dict(self.roster)
        for agent in reported:
            roster.setdefault(agent, RosterEntry(self.committed))
        missing = tuple(sorted(set(roster) - set(reported)))
        for agent in missing:
            roster[agent] = _with_absence(roster[agent], Absence(self.committed, choice.through))
        state = RollupState(choice.through, roster)
        commit = Commit(self.committed, choice.through, payload, reported, missing, state)
        self.pending.commit = commit
        return commit

    def durable(self) -> tuple[Settle, list[Status]]:
        """The pending commit is durable: return the verdict to multicast, and answers to announcements since."""
        assert self.pending is not None and self.pending.commit is not None
        commit, self.pending = self.pending.commit, None
        self.roster = {agent: entry for agent, entry in commit.state.roster.items() if agent not in self._retired}
        self._retired.clear()
        self._before, self.committed = self.committed, commit.through
        self.leaps += len(self.awaited.intersection(commit.missing))
        self.awaited.difference_update(commit.missing)
        self.bag.settle(commit.through)
        self.awaited.update(self.bag.agents())
        self._waiting = None
        deferred, self._deferred = self._deferred, []
        answers = [status for status in map(self.on_announce, deferred) if status is not None]
        return Settle(self.app, self.term, commit.previous, commit.through, commit.missing), answers


def _with_absence(entry: RosterEntry, absence: Absence) -> RosterEntry:
    """Add an absence, as part of the last run where it continues it."""
    absences = list(entry.absences)
    if absences and absences[-1].through == absence.after:
        absences[-1] = Absence(absences[-1].after, absence.through)
    else:
        absences.append(absence)
    return RosterEntry(entry.admitted, tuple(absences[-ABSENCES_MAX:]))
