"""The root groups that this node is a member of: opened, closed, and told what concerns them. Shell.

Owns which groups there are and when each is due; how one runs is `elf.overlay.group.runner`'s.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

from elf.overlay.alarm import Alarm
from elf.overlay.errors import NotJoinedError
from elf.overlay.group.machine import RootGroup
from elf.overlay.group.messages import GroupAppend, GroupAppended, GroupBehind, GroupGone, GroupMessage, GroupVote, Seat
from elf.overlay.group.runner import GroupRunner
from elf.overlay.group.state import GroupHandler, GroupState, GroupView
from elf.overlay.ids import Contact


class Groups:
    """All groups of one node, by the tree whose root they are.

    Args:
        handler: the runtime; None: this node is a member of no group.
        send: puts a message on the link to a contact.
        clock: milliseconds that never step back.
    """

    def __init__(
        self,
        handler: GroupHandler | None,
        send: Callable[[Contact, GroupMessage], None],
        clock: Callable[[], int],
        rng: random.Random,
    ) -> None:
        #: Our agent id; known once the node is started.
        self.agent = ""
        self._handler = handler
        self._send = send
        self._clock = clock
        self._rng = rng
        self._runners: dict[bytes, GroupRunner] = {}
        self._alarm = Alarm(clock, self._on_due)

    def open(self, app: bytes, state: GroupState, leader: Contact | None = None) -> None:
        """Take part in a group with what is durable of it here; whoever is alone with a vote leads at once.

        `leader`: whom the state was fetched from, to be told how far it goes.
        """
        if app in self._runners or self._handler is None:
            raise NotJoinedError("this group is open already, or this agent is to be a member of none")
        machine = RootGroup(app, self.agent, state, self._rng, self._clock())
        self._runners[app] = GroupRunner(
            machine, self._handler, self._send, self._clock, lambda due_ms: self._alarm.set(app, due_ms)
        )
        if leader is not None:
            self._send(leader, GroupAppended(app, machine.term, self.agent, False, machine.log.last.index))

    async def close(self, app: bytes) -> None:
        """Take part in a group no more, until it is opened again."""
        runner = self._runners.pop(app, None)
        self._alarm.forget(app)
        if runner is not None:
            await runner.stop()

    async def stop(self) -> None:
        """Close all."""
        self._alarm.stop()
        for app in list(self._runners):
            await self.close(app)

    async def propose(self, app: bytes, body: bytes) -> None:
        """Have a command decided and applied here; see `GroupRunner.propose`."""
        await self._runner(app).propose(body)

    async def change(self, app: bytes, seats: Sequence[Seat] | None) -> None:
        """Begin to change the members; see `GroupRunner.change`."""
        await self._runner(app).change(seats)

    def hand_over(self, app: bytes, agent: str) -> None:
        """Let another member lead, if it has everything."""
        self._runner(app).hand_over(agent)

    def show(self, app: bytes) -> None:
        """Let the members hear at once what is decided, if we lead."""
        self._runner(app).show()

    def view(self, app: bytes) -> GroupView | None:
        """Return what is known of a group; None if we are no member."""
        runner = self._runners.get(app)
        return None if runner is None else runner.view()

    def silent(self, app: bytes, for_ms: int) -> set[str]:
        """Return the members that the leader, which we are, has not heard of for so long."""
        return self._runner(app).machine.followers.silent(self._clock(), for_ms)

    def caught_up(self, app: bytes) -> set[str]:
        """Return the members that have all that is decided, as the leader, which we are, knows."""
        machine = self._runner(app).machine
        return {seat.agent for seat in machine.log.seats if machine.followers.has(seat.agent, machine.decided)}

    def on_message(self, sender: Contact, message: GroupMessage) -> None:
        """Take a message; a member that lost its copy says so, and fetches one when it is told to."""
        handler, runner = self._handler, self._runners.get(message.app)
        if handler is None:
            return
        if runner is not None:
            runner.on_message(sender, message)
        elif isinstance(message, GroupAppend) and message.to == self.agent:
            self._send(sender, GroupAppended(message.app, message.term, self.agent, False, 0))
        elif isinstance(message, GroupBehind) and message.to == self.agent:
            handler.on_group_behind(message.app, sender, message.term)
        elif isinstance(message, GroupVote) and handler.is_group_over(message.app):
            self._send(sender, GroupGone(message.app, message.term, message.candidate))

    def on_lost(self, peer: Contact) -> None:
        """The link to an agent broke."""
        for runner in self._runners.values():
            runner.on_lost(peer)

    def _on_due(self, apps: list[bytes]) -> None:
        for app in apps:
            if app in self._runners:
                self._runners[app].on_due()

    def _runner(self, app: bytes) -> GroupRunner:
        runner = self._runners.get(app)
        if runner is None:
            raise NotJoinedError("this agent is no member of the job's root group")
        return runner
