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

from msgspec.structs import replace

from elf.overlay.contract import NEVER, Absence, Commit, RollupState, RosterEntry
from elf.overlay.messages import Announce, Claim, Settle, Status
from elf.overlay.rollup.claims import OWN, Bag, Choice

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
    #: Members that it takes off the roster.
    retired: tuple[str, ...] = ()


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
        self.retired: dict[str, RosterEntry] = dict(state.retired)
        self.bag = Bag()
        self.pending: Pending | None = None
        self.leaps = 0
        #: Agents a commit waits for; those on the roster but not here were leapt and have not spoken since.
        self.awaited: set[str] = set(self.roster)
        self.leap_after_ms = leap_after_ms
        self._grace_until_ms = grace_until_ms
        self._waiting: tuple[int, int] | None = None
        self._deferred: list[Announce] = []
        #: Members that the next commit takes off the roster, and whether it names them if it lacks their data.
        self._leaving: dict[str, bool] = {}
        #: Agents that are never counted again, and through which interval they may have been.
        self._excluded: dict[str, int] = {}
        #: Successors that have not announced themselves yet, and from which interval on they have data.
        self._expected: dict[str, int] = {}
        #: Claims that name somebody excluded: nobody waits for the others in them, for claims never come apart again.
        self._spoilt = Bag()
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
        self._expected.pop(announce.agent, None)
        known = self.roster.get(announce.agent) or self._account_of(announce.agent, settled)
        before = (Absence(settled, known.admitted, named=False),) if settled < known.admitted else ()
        kept = tuple(absence for absence in known.absences if absence.through > settled)
        leaves = self._leaving.pop(announce.agent, None) is not None
        if announce.fresh or leaves or announce.agent not in self.roster or announce.sealed >= self._before:
            self.awaited.add(announce.agent)
        self.roster[announce.agent] = RosterEntry(known.admitted, kept, key=announce.key or known.key)
        self.retired.pop(announce.agent, None)
        return Status(self.app, announce.agent, self.term, self.committed, before + kept)

    def _account_of(self, agent: str, settled: int = NEVER) -> RosterEntry:
        """Return what an agent that is not on the roster begins with: a retired one is told what was counted."""
        left = self.retired.get(agent)
        if left is None:
            return RosterEntry(max(self.committed, settled))
        assert left.until is not None
        if left.until >= self.committed:
            return RosterEntry(left.admitted, left.absences, key=left.key)
        return _with_absence(left, Absence(left.until, self.committed, named=False))

    def _begun_after(self, floor: int) -> RosterEntry:
        """Return what a successor begins with: commits since a retired agent left counted neither of them."""
        entry = RosterEntry(floor)
        return entry if floor >= self.committed else _with_absence(entry, Absence(floor, self.committed, named=False))

    def retire(self, agent: str, *, named: bool) -> int:
        """Expect a member no more: the next commit takes it off the roster; what it sent already still counts.

        Args:
            agent: the member.
            named: that commit names it as missing if it lacks its data: not if it left of its own will.

        Returns the last interval whose commit, made or on its way, has it on the roster still.
        """
        self.awaited.discard(agent)
        self._absent.pop(agent, None)
        self._deferred = [held for held in self._deferred if held.agent != agent]
        if agent in self.roster or self.pending is not None:
            # One that leaves of its own will, and is said to be gone besides, lacks nothing.
            self._leaving[agent] = named and self._leaving.get(agent, True)
        decided = self.pending is not None and self.pending.commit is not None
        return self.pending.choice.through if self.pending is not None and decided else self.committed

    def exclude(self, agent: str, successor: str | None = None) -> int:
        """Never count an agent again: it lost its disk and came back as its successor.

        Returns the last interval whose commit, made or on its way, may hold its data; all later data of its logs is
        the successor's to bring, and commits that lack it name the successor, before it announces itself, too.
        """
        if agent in self._excluded:
            return self._excluded[agent]  # asked for again: nothing of it was counted since
        floor = self.committed
        if self.pending is not None:
            # It stays on the roster until that commit is made: if its data is not in there, it is named, for ever.
            floor = self.pending.choice.through
        else:
            self.roster.pop(agent, None)
        left = self.retired.pop(agent, None)
        if left is not None and (self.pending is None or agent not in self.pending.choice.agents()):
            assert left.until is not None
            floor = left.until
        self._leaving.pop(agent, None)
        self._absent.pop(agent, None)
        self.awaited.discard(agent)
        self._deferred = [held for held in self._deferred if held.agent != agent]
        self._excluded[agent] = floor
        for claim in self.bag.drop_agent(agent):
            self._spoilt.add(OWN, claim)
        if successor is not None and successor not in {**self.roster, **self.retired}:
            self._expected[successor] = floor
            self.awaited.add(successor)
            if self.pending is None:
                self.roster[successor] = self._begun_after(floor)
        return floor

    # ---- claims

    def add(self, edge: bytes, claim: Claim) -> None:
        """File a claim that reaches beyond the last commit; its agents are waited for from now on."""
        through = self.pending.choice.through if self.pending is not None else self.committed
        if claim.through <= through:
            return
        if not self._excluded.keys().isdisjoint(claim.agents):
            self._spoilt.add(OWN, claim)
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
        silent = self._silent(point)
        if silent and now_ms < (until_ms := self._patience_until_ms(point, silent, now_ms)):
            self.deadline_ms = until_ms
            return None
        choice = self.bag.choose(point, floor=self.committed)
        self.pending = Pending(choice)
        return choice

    def _silent(self, point: int) -> set[str]:
        """Return who is waited for and has not spoken for an interval."""
        spoken_for = self.bag.spoken_for(point, floor=self.committed) | self._spoilt.spoken_for(point)
        return self.awaited.intersection(self.roster) - spoken_for

    def leap(self, through: int | None, now_ms: int) -> tuple[int, tuple[str, ...]]:
        """Wait half a second at most for who is silent now: inner nodes hear of the leap and send what they have.

        Returns the interval that is waited for, and whom; nobody if it is after `through`.
        """
        point = self.bag.next_point()
        if point is None or self.pending is not None or (through is not None and point > through):
            return self.committed, ()
        silent = tuple(sorted(self._silent(point)))
        self.absent(silent, now_ms)
        return point, silent

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
        leaving = self._leaving
        self._leaving = {}
        # What a retired agent had sent before may come now; it counts, and it stays retired.
        leaving |= {agent: False for agent in reported if agent in self.retired}
        roster = dict(self.roster)
        for agent in reported:
            if agent not in roster:
                roster[agent] = self._account_of(agent)
        absent = sorted(set(roster) - set(reported))
        for agent in absent:
            named = leaving.get(agent, True)
            roster[agent] = _with_absence(roster[agent], Absence(self.committed, choice.through, named))
        missing = tuple(agent for agent in absent if leaving.get(agent, True))
        retired = dict(self.retired)
        for agent in leaving:
            if agent in roster:
                entry = roster.pop(agent)
                retired[agent] = replace(entry, until=choice.through)
        state = RollupState(choice.through, roster, retired)
        commit = Commit(self.committed, choice.through, payload, reported, missing, state)
        self.pending.commit = commit
        self.pending.retired = tuple(sorted(leaving))
        return commit

    def durable(self) -> tuple[Settle, list[Status]]:
        """The pending commit is durable: return the verdict to multicast, and answers to announcements since."""
        assert self.pending is not None and self.pending.commit is not None
        commit = self.pending.commit
        retired = self.pending.retired
        self.pending = None
        self.roster = {agent: entry for agent, entry in commit.state.roster.items() if agent not in self._excluded}
        self.retired = {agent: entry for agent, entry in commit.state.retired.items() if agent not in self._excluded}
        self._leaving = {agent: named for agent, named in self._leaving.items() if agent in self.roster}
        self._before = self.committed
        self.committed = commit.through
        for agent, since in self._expected.items():
            self.roster.setdefault(agent, self._begun_after(since))
        self.leaps += len(self.awaited.intersection(commit.missing))
        self.awaited.difference_update(commit.missing)
        self.bag.settle(commit.through)
        self._spoilt.settle(commit.through)
        self.awaited.update(self.bag.agents())
        self._waiting = None
        deferred = self._deferred
        self._deferred = []
        answers = [status for status in map(self.on_announce, deferred) if status is not None]
        return Settle(self.app, self.term, commit.previous, commit.through, commit.missing, retired), answers


def _with_absence(entry: RosterEntry, absence: Absence) -> RosterEntry:
    """Add an absence, as part of the last run where it continues it."""
    absences = list(entry.absences)
    if absences and absences[-1].through == absence.after and absences[-1].named == absence.named:
        absences[-1] = Absence(absences[-1].after, absence.through, absence.named)
    else:
        absences.append(absence)
    return RosterEntry(entry.admitted, tuple(absences[-ABSENCES_MAX:]), key=entry.key)
