"""One member's part in a root group: who leads, what is decided, who the members are. Raft; pure.

A job's root may be lost; what it promised may not be. Everything that a master decides (above all its commits) is an
entry of a log that a majority of the members holds durably before anyone acts on it, and in a term only one member can
get a majority: an old root that was cut off can decide nothing more (OVERLAY 6.4, M3; 6.5). Ongaro and Ousterhout,
"In Search of an Understandable Consensus Algorithm", USENIX ATC'14; with its trial votes (thesis, 9.6), listeners
(4.2.1) and hand-over (3.10). Members change one at a time (4.1).

Differs from Raft: a broken link, not a silent leader, starts an election, so hundreds of idle jobs cost no heartbeats
of their own; the nearest to the job's key stands first. A leader alone with its vote decides without writing a log.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

from elf.overlay.errors import NotJoinedError, OverlayError
from elf.overlay.group.effects import Apply, GroupEffect, Lead, Save, Tell
from elf.overlay.group.followers import Follower, Followers
from elf.overlay.group.log import GroupLog, quorum
from elf.overlay.group.messages import (
    PART_BYTES_MAX,
    Entry,
    GroupAppend,
    GroupAppended,
    GroupBehind,
    GroupGone,
    GroupHandOver,
    GroupMessage,
    GroupVote,
    GroupVoted,
    Kind,
    Place,
    Seat,
    encode_seats,
)
from elf.overlay.group.seating import new_voters
from elf.overlay.group.state import GroupState, GroupView, Role
from elf.overlay.ids import Contact, distance

#: A leader that has nothing to say shows so often that it leads.
SHOW_MS = 10_000
#: A leader that shows nothing for so long does not lead, whatever its link says.
SILENT_MS = 3 * SHOW_MS
#: After the leader is lost the nearest member stands this soon; each further one so much later.
STAND_MS, RANK_MS = 150, 150
#: An election without a winner is tried again after this, at random up to twice; each trial in a row waits longer, up
#: to two to this less one times as long: most of the members may be away for days.
RETRY_MS, TRIALS_MAX = 700, 5
#: Members forced at once must not share a term: they would put different entries at one place, and never notice.
FORCED_TERMS = 1 << 20


class RootGroup:
    """The group machine; each method returns the effects of one input, to be carried out in their order.

    Args:
        app: the tree whose root the leader is.
        me: our agent id.
        state: what is durable of the group here.
        rng: for the times between elections.
    """

    def __init__(self, app: bytes, me: str, state: GroupState, rng: random.Random, now_ms: int) -> None:
        self.app = app
        self.me = me
        self.term = max(state.term, state.applied.term)
        self.vote = state.vote
        self.log = GroupLog(state.applied, state.seats, state.entries)
        self.role = Role.FOLLOWER
        self.leader = ""
        #: Entries up to these are final, handed to the runtime, durable here.
        self.decided = self.applying = state.applied.index
        self.saved = self.log.last.index
        self.followers = Followers(me)
        self._leading_from: int | None = None
        self._rng = rng
        self._votes = tuple[str, ...]()
        self._trials = 0
        self.deadline_ms = now_ms
        self._wait_to_stand(now_ms)

    # ---- views

    def view(self, now_ms: int) -> GroupView:
        """Return what is known here."""
        seats = self.log.seats
        heard = {self.me, *self.followers.reachable(now_ms, SILENT_MS)} if self.role is Role.LEADER else set()
        quorate = sum(seat.votes for seat in seats if seat.agent in heard) >= quorum(seats)
        return GroupView(self.role, self.term, self.leader, seats, quorate)

    # ---- the runtime

    def propose(self, body: bytes, now_ms: int) -> tuple[Place, list[GroupEffect]]:
        """Append a command; returns the place at which it will be applied, if this member goes on leading.

        Raises:
            NotJoinedError: this member does not lead.
        """
        parts = [body[at : at + PART_BYTES_MAX] for at in range(0, len(body), PART_BYTES_MAX)] or [b""]
        kinds = [Kind.PART] * (len(parts) - 1) + [Kind.COMMAND]
        return self._append(list(zip(kinds, parts, strict=True)), now_ms)

    def change(self, seats: Sequence[Seat], now_ms: int) -> list[GroupEffect]:
        """Change the members: one vote more or one less; from a single vote, which is ours, to any.

        Raises:
            NotJoinedError: this member does not lead, or its last change is not decided yet.
            OverlayError: the step is too wide: two majorities without a common member would be possible; or who is to
                vote has not listened long enough to have everything.
        """
        if any(entry.kind is Kind.SEATS for entry in self.log.between(self.decided, self.log.last.index)):
            raise NotJoinedError("the last change of the group is not decided yet")
        if not self._leads_safely():
            raise NotJoinedError("this member does not lead yet")
        fresh = new_voters(self.me, self.log.seats, seats)
        if any(not self.followers.has(agent, self.decided) for agent in fresh):
            raise OverlayError("a member listens until it has everything before it votes")
        return self._append([(Kind.SEATS, encode_seats(seats))], now_ms)[1]

    def _append(self, parts: Sequence[tuple[Kind, bytes]], now_ms: int) -> tuple[Place, list[GroupEffect]]:
        if self.role is not Role.LEADER:
            raise NotJoinedError("this member does not lead its group")
        index = self.log.last.index
        alone = self.saved == index and not self._others_vote() and parts[0][0] is not Kind.SEATS
        entries = tuple(
            Entry(Place(self.term, index + number), kind, body) for number, (kind, body) in enumerate(parts, 1)
        )
        self.log.append(entries)
        self.followers.follow(self.log.seats, index, now_ms)
        if alone:
            # Applying is durable; nobody but us can have a say. Listeners hear of it only afterwards.
            self.saved = self.log.last.index
            return entries[-1].place, [*self._decide(), *self._send_all(now_ms)]
        save = Save(self.term, self.vote, index, entries)
        # Members are told of each other once we have it on disk: of an only vote the others could go on without us.
        sent = [] if parts[0][0] is Kind.SEATS else self._send_all(now_ms)
        return entries[-1].place, [*sent, save]

    def _leads_safely(self) -> bool:
        """Whether an entry of our own term is decided; only then are those before it, too (Raft 5.4.2)."""
        return self.role is Role.LEADER and self._leading_from is not None and self.decided >= self._leading_from

    def on_saved(self, index: int, now_ms: int) -> list[GroupEffect]:
        """The last `Save` is durable, through this index."""
        self.saved = max(self.saved, index)
        return [*self._decide(), *self._send_all(now_ms)] if self.role is Role.LEADER else []

    def on_applied(self, index: int) -> None:
        """The runtime has applied everything up to an index durably; old entries can go."""
        needed = self.followers.needed_after(self.log, index) if self.role is Role.LEADER else index
        self.log.forget(index, needed)

    def show(self, now_ms: int) -> list[GroupEffect]:
        """Let the members hear at once what is decided."""
        return self._send_all(now_ms, show=True) if self.role is Role.LEADER else []

    def hand_over(self, agent: str, now_ms: int) -> list[GroupEffect]:
        """Let another member lead, if it has everything."""
        seat = self._seat(agent)
        if not self._leads_safely() or seat is None or not seat.votes:
            return []
        if not self.followers.has(agent, self.log.last.index):
            return []
        return [Tell(seat.contact, GroupHandOver(self.app, self.term, agent))]

    def force(self, now_ms: int) -> list[GroupEffect]:
        """Go on alone: the operator's word that the other members are gone for good (OVERLAY 6.5, `force-cfg`).

        What a majority of them decided and we did not hear of is lost; of two groups the one of the lower term yields.
        Raises NotJoinedError if this agent is no member.
        """
        own, after = self._seat(self.me), self.log.last.index
        if own is None:
            raise NotJoinedError("this agent is no member of the group")
        self.term = self.term + 2 + self._rng.randrange(FORCED_TERMS)
        self.vote = self.me
        entry = Entry(Place(self.term, after + 1), Kind.SEATS, encode_seats([Seat(own.agent, own.address, True)]))
        self.log.append([entry])
        return [Save(self.term, self.vote, after, (entry,)), *self._become_leader(now_ms)]

    # ---- the network

    def on_message(self, sender: Contact, message: GroupMessage, now_ms: int) -> list[GroupEffect]:
        """Handle a message; those for another agent than us are of the past."""
        match message:
            case GroupAppended():
                return self._on_appended(message, now_ms)
            case GroupVoted():
                return self._on_voted(message, now_ms)
        if message.to != self.me:
            return []
        match message:
            case GroupAppend():
                return self._on_append(sender, message, now_ms)
            case GroupVote():
                return self._on_vote(sender, message, now_ms)
            case GroupHandOver(term=term) if term == self.term and self.role is Role.FOLLOWER:
                return self._stand(now_ms)
        return []

    def on_lost(self, peer: Contact, now_ms: int) -> list[GroupEffect]:
        """The link to an agent broke."""
        self.followers.lose(peer.address)
        leader = self._seat(self.leader)
        if self.role is Role.FOLLOWER and leader is not None and leader.address == peer.address:
            self.leader = ""
            self._wait_to_stand(now_ms)
        return []

    def on_tick(self, now_ms: int) -> list[GroupEffect]:
        """Time passed: show that we lead, or look for somebody who does."""
        if now_ms < self.deadline_ms:
            return []
        if self.role is Role.LEADER:
            return self._send_all(now_ms, show=True)
        self.leader = ""
        seat = self._seat(self.me)
        if seat is None or not seat.votes:
            self.deadline_ms = now_ms + SILENT_MS
            return []
        if self._others_vote():
            return self._try(now_ms)
        return self._stand(now_ms)

    # ---- elections

    def _wait_to_stand(self, now_ms: int) -> None:
        """The nearest member to the key stands first, so that mostly one stands alone."""
        key, own = self.app, self._seat(self.me)
        seats = [seat for seat in self.log.seats if seat.votes]
        before = sum(distance(seat.contact.id, key) < distance(own.contact.id, key) for seat in seats) if own else 0
        wait_ms = STAND_MS + before * RANK_MS + self._rng.randrange(RANK_MS) if len(seats) > 1 else 0
        self.deadline_ms = now_ms + wait_ms

    def _try(self, now_ms: int) -> list[GroupEffect]:
        """Ask whether we would win, without disturbing anyone: a leader that is heard by a majority stays."""
        self.role = Role.TRIAL
        self._votes = (self.me,)
        self._trials = min(self._trials + 1, TRIALS_MAX)
        self.deadline_ms = now_ms + (RETRY_MS + self._rng.randrange(RETRY_MS) << self._trials - 1)
        return self._ask_for_votes(self.term + 1, trial=True)

    def _stand(self, now_ms: int) -> list[GroupEffect]:
        self.term += 1
        self.role = Role.CANDIDATE
        self.vote = self.me
        self.leader = ""
        self._votes = (self.me,)
        self.deadline_ms = now_ms + RETRY_MS + self._rng.randrange(RETRY_MS)
        effects: list[GroupEffect] = [Save(self.term, self.vote, self.log.last.index, ())]
        if not self._others_vote():
            return [*effects, *self._become_leader(now_ms)]
        return [*effects, *self._ask_for_votes(self.term, trial=False)]

    def _ask_for_votes(self, term: int, *, trial: bool) -> list[GroupEffect]:
        last = self.log.last
        return [
            Tell(seat.contact, GroupVote(self.app, term, self.me, seat.agent, last, trial))
            for seat in self.log.seats
            if seat.votes and seat.agent != self.me
        ]

    def _on_vote(self, sender: Contact, ask: GroupVote, now_ms: int) -> list[GroupEffect]:
        member = self._seat(ask.candidate)
        if self.role is Role.LEADER and ask.trial:
            if member is None and self._leads_safely():
                return [Tell(sender, GroupGone(self.app, self.term, ask.candidate))]
            follower = self.followers.known.get(ask.candidate)
            shown = self._send(follower, now_ms, show=True) if follower is not None else []
            return [self._answer(sender, granted=False, trial=True), *shown]
        up_to_date = ask.last >= self.log.last
        if ask.trial:
            granted = up_to_date and ask.term > self.term and self.leader in ("", ask.candidate)
            return [self._answer(sender, granted=granted, trial=True)]
        effects: list[GroupEffect] = []
        renewed = ask.term > self.term
        if renewed:
            effects += self._follow(ask.term, "", now_ms)
        granted = up_to_date and ask.term == self.term and self.vote in ("", ask.candidate)
        if granted and not self.vote:
            self.vote = ask.candidate
            self._wait_to_stand(now_ms + RETRY_MS)
        if renewed or granted:
            effects.append(Save(self.term, self.vote, self.log.last.index, ()))
        return [*effects, self._answer(sender, granted=granted, trial=False)]

    def _answer(self, sender: Contact, *, granted: bool, trial: bool) -> Tell:
        return Tell(sender, GroupVoted(self.app, self.term, self.me, granted, trial))

    def _on_voted(self, answer: GroupVoted, now_ms: int) -> list[GroupEffect]:
        if answer.term > self.term:
            return [*self._follow(answer.term, "", now_ms), Save(self.term, self.vote, self.log.last.index, ())]
        wanted = Role.TRIAL if answer.trial else Role.CANDIDATE
        current = answer.trial or answer.term == self.term
        if self.role is not wanted or not answer.granted or not current:
            return []
        self._votes += (answer.voter,) if answer.voter not in self._votes else ()
        if sum(seat.votes and seat.agent in self._votes for seat in self.log.seats) < quorum(self.log.seats):
            return []
        return self._stand(now_ms) if answer.trial else self._become_leader(now_ms)

    def _become_leader(self, now_ms: int) -> list[GroupEffect]:
        self.role = Role.LEADER
        self.leader = self.me
        last = self.log.last.index
        self.followers.known.clear()
        self.followers.follow(self.log.seats, last, now_ms)
        self._leading_from = last + 1
        return self._append([(Kind.TERM, b"")], now_ms)[1]

    def _follow(self, term: int, leader: str, now_ms: int) -> list[GroupEffect]:
        """Be a follower in a term; a leader that is one no more tells the runtime."""
        effects: list[GroupEffect] = [Lead(False)] if self._leading_from is not None else []
        if term > self.term:
            self.term = term
            self.vote = ""
        self.role = Role.FOLLOWER
        self.leader = leader
        self._leading_from = None
        if leader:
            self._trials = 0
            self.deadline_ms = now_ms + SILENT_MS
        else:
            self._wait_to_stand(now_ms)
        return effects

    # ---- the log

    def _on_append(self, sender: Contact, append: GroupAppend, now_ms: int) -> list[GroupEffect]:
        if append.term < self.term:
            return [Tell(sender, GroupAppended(self.app, self.term, self.me, False, self.decided))]
        renewed = append.term > self.term
        effects: list[GroupEffect] = self._follow(append.term, append.leader, now_ms)
        after = append.after
        if after.index > self.log.start.index and self.log.place(after.index) != after:
            through = min(after.index - 1, self.log.last.index)
            if renewed:
                effects.append(Save(self.term, self.vote, self.log.last.index, ()))
            return [*effects, Tell(sender, GroupAppended(self.app, self.term, self.me, False, through))]
        ours = [
            entry.place.index <= self.log.start.index or self.log.place(entry.place.index) == entry.place
            for entry in append.entries
        ]
        if fresh := append.entries[[*ours, False].index(False) :]:
            before = fresh[0].place.index - 1
            if before < self.decided:
                # What is decided never changes, so one of the two logs is not of this group: begin with a copy again.
                return [*effects, Tell(sender, GroupAppended(self.app, self.term, self.me, False, 0))]
            self.log.cut(before)
            self.saved = min(self.saved, before)
            self.log.append(fresh)
            effects.append(Save(self.term, self.vote, before, fresh))
        elif renewed:
            effects.append(Save(self.term, self.vote, self.log.last.index, ()))
        through = after.index + len(append.entries)
        effects.append(Tell(sender, GroupAppended(self.app, self.term, self.me, True, through)))
        self.decided = max(self.decided, min(append.decided, through))
        return [*effects, *self._apply()]

    def _on_appended(self, answer: GroupAppended, now_ms: int) -> list[GroupEffect]:
        if answer.term > self.term:
            return [*self._follow(answer.term, "", now_ms), Save(self.term, self.vote, self.log.last.index, ())]
        follower = self.followers.known.get(answer.member)
        if self.role is not Role.LEADER or follower is None or answer.term < self.term:
            return []
        follower.heard(answer, self.log, now_ms)
        if answer.good:
            return [*self._decide(), *self._send(follower, now_ms)]
        if follower.behind:
            return [Tell(follower.seat.contact, GroupBehind(self.app, self.term, self.me, follower.seat.agent))]
        return self._send(follower, now_ms, show=True)

    def _decide(self) -> list[GroupEffect]:
        """Leader: what a quorum has, and everything before it, is final, if it is of our own term (Raft 5.4.2)."""
        reached = self.followers.decided(self.saved, self.log.seats)
        place = self.log.place(reached)
        if reached <= self.decided or place is None or place.term != self.term:
            return []
        self.decided = reached
        return self._apply()

    def _apply(self) -> list[GroupEffect]:
        entries = tuple(self.log.between(self.applying, self.decided))
        if not entries:
            return []
        self.applying = self.decided
        effects: list[GroupEffect] = [Apply(entries)]
        if self._leads_safely() and entries[0].place.index <= (self._leading_from or 0):
            effects.append(Lead(True))
        return effects

    def _send_all(self, now_ms: int, *, show: bool = False) -> list[GroupEffect]:
        self.deadline_ms = self.followers.next_show_ms(now_ms, SHOW_MS)
        return [
            effect for follower in self.followers.known.values() for effect in self._send(follower, now_ms, show=show)
        ]

    def _send(self, follower: Follower, now_ms: int, *, show: bool = False) -> list[GroupEffect]:
        """Send a member what it does not have, unless it has not answered yet; with `show` at least that we lead."""
        due = follower.due(self.log, now_ms, show=show)
        if due is None:
            return []
        after, entries = due
        seat = follower.seat
        append = GroupAppend(self.app, self.term, self.me, seat.agent, after, entries, self.decided)
        return [Tell(seat.contact, append)]

    def _seat(self, agent: str) -> Seat | None:
        return next((seat for seat in self.log.seats if seat.agent == agent), None)

    def _others_vote(self) -> bool:
        return any(seat.votes and seat.agent != self.me for seat in self.log.seats)
