"""Runs one group machine: inputs one after the other, effects in order, each durable before the next. Shell.

Owns the queue of inputs, the retries of a disk that fails, and who waits for which command. A member answers nothing
while its disk does not: what it has not saved it has not promised.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence

from elf.overlay.errors import NotJoinedError, OvertakenError
from elf.overlay.failures import ENDINGS
from elf.overlay.group.effects import Apply, GroupEffect, Lead, Save, Tell
from elf.overlay.group.machine import RootGroup
from elf.overlay.group.messages import Entry, GroupBehind, GroupGone, GroupMessage, Kind, Place, Seat
from elf.overlay.group.state import GroupHandler, GroupView
from elf.overlay.ids import Contact

log = logging.getLogger(__name__)

#: First and longest pause before something that the runtime could not do is tried again.
RETRY_S_MIN, RETRY_S_MAX = 0.1, 5.0
#: Messages of other members that may wait; more are dropped, and sent again.
WAITING_MAX = 256
#: Terms that a member may have slept through: an election takes one, an operator's word up to a million. A peer that
#: claims more would bring the group to the last term there is, where no message of it can be read any more.
TERMS_AHEAD_MAX = 1 << 40

Input = Callable[[int], Sequence[GroupEffect]]


class GroupRunner:
    """One group at one node.

    Args:
        machine: the decisions.
        handler: the runtime.
        send: puts a message on the link to a contact.
        clock: milliseconds that never step back.
        wake: says when the machine is due.
    """

    __slots__ = (
        "_asking", "_busy", "_clock", "_handler", "_inputs", "_parts", "_send", "_stopping", "_task", "_waiting",
        "_wake", "_working", "machine",
    )  # fmt: skip

    def __init__(
        self,
        machine: RootGroup,
        handler: GroupHandler,
        send: Callable[[Contact, GroupMessage], None],
        clock: Callable[[], int],
        wake: Callable[[int], None],
    ) -> None:
        self.machine = machine
        self._handler = handler
        self._send = send
        self._clock = clock
        self._wake = wake
        #: Inputs that wait, and who works them off; most groups rest most of the time, and have nobody then.
        self._inputs: list[Input] = []
        self._task: asyncio.Task[None] | None = None
        #: Who waits for the command at a place to be applied, and who waits for the machine to take it at all.
        self._waiting: dict[Place, asyncio.Future[None]] = {}
        self._asking: list[asyncio.Future[None]] = []
        #: Parts of a command that is not whole yet, with the term they are of.
        self._parts: tuple[int, list[bytes]] = 0, []
        #: How often the runtime is at work for us, which nothing interrupts; whether we end with that; whether an input
        #: is being worked off at once.
        self._working = 0
        self._stopping = self._busy = False
        self._wake(machine.deadline_ms)

    async def stop(self) -> None:
        """End, once what the runtime was told to save or apply is done; who waits learns that nothing will come.

        Its thread would go on anyhow, and may not meet on the disk what comes in the place of a group that was closed.
        """
        self._stopping = True
        if self._task is not None:
            if not self._working:
                self._task.cancel()
            await asyncio.wait([self._task])
        self._give_up()
        for done in self._asking:
            _fail(done, NotJoinedError("this agent has closed its part in the job's root group"))

    # ---- inputs

    async def propose(self, body: bytes) -> None:
        """Have a command decided and applied here.

        Raises:
            NotJoinedError: this agent does not lead the group.
            OvertakenError: it led no more before the command was applied, which may still happen elsewhere.
        """
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        term = self.machine.term

        def begin(now_ms: int) -> Sequence[GroupEffect]:
            if self.machine.term != term:
                _fail(done, OvertakenError("this agent has led and ceased to lead since this was asked for"))
                return ()
            try:
                place, effects = self.machine.propose(body, now_ms)
            except NotJoinedError as error:
                _fail(done, error)
                return ()
            self._waiting[place] = done
            return effects

        await self._ask(begin, done)

    async def _ask(self, begin: Input, done: asyncio.Future[None]) -> None:
        self._asking.append(done)
        self._put(begin)
        try:
            await done
        finally:
            self._asking.remove(done)

    async def change(self, seats: Sequence[Seat] | None) -> None:
        """Begin to change the members; None: go on alone, see `RootGroup.force`. Raises as the machine does."""
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def begin(now_ms: int) -> Sequence[GroupEffect]:
            try:
                effects = self.machine.force(now_ms) if seats is None else self.machine.change(seats, now_ms)
            except Exception as error:
                _fail(done, error)
                return ()
            if not done.done():
                done.set_result(None)
            return effects

        await self._ask(begin, done)

    def hand_over(self, agent: str) -> None:
        """Let another member lead, if it has everything."""
        self._put(lambda now_ms: self.machine.hand_over(agent, now_ms))

    def show(self) -> None:
        """Let the members hear at once what is decided, if we lead."""
        self._put(self.machine.show)

    def on_message(self, sender: Contact, message: GroupMessage) -> None:
        """Take a message of another member; one of a term that no member can have come to is nobody's."""
        if message.term > self.machine.term + TERMS_AHEAD_MAX:
            log.warning("a message of %s is of term %d, which no root group comes to", sender.address, message.term)
            return
        if isinstance(message, GroupBehind | GroupGone):
            if message.to == self.machine.me and message.term >= self.machine.term:
                if isinstance(message, GroupGone):
                    self._handler.on_group_gone(self.machine.app)
                else:
                    self._handler.on_group_behind(self.machine.app, sender, message.term)
        elif len(self._inputs) < WAITING_MAX:
            self._put(lambda now_ms: self.machine.on_message(sender, message, now_ms))

    def on_lost(self, peer: Contact) -> None:
        """The link to an agent broke."""
        self._put(lambda now_ms: self.machine.on_lost(peer, now_ms))

    def on_due(self) -> None:
        """The machine's deadline is reached."""
        self._put(self.machine.on_tick)

    def view(self) -> GroupView:
        """Return what is known here."""
        return self.machine.view(self._clock())

    # ---- effects

    def _put(self, step: Input) -> None:
        self._inputs.append(step)
        if self._task is None and not self._busy and not self._stopping:
            effects = self._work_off()
            if effects:
                self._task = asyncio.get_running_loop().create_task(self._run(effects))

    def _work_off(self) -> Sequence[GroupEffect]:
        """Work off inputs, most of which want nothing but a message; return what has to be durable before the next."""
        self._busy = True
        try:
            effects: Sequence[GroupEffect] = ()
            while self._inputs and not effects:
                effects = self._begin(self._inputs.pop(0))
            return effects
        finally:
            self._busy = False

    async def _run(self, effects: Sequence[GroupEffect]) -> None:
        try:
            while effects:
                try:
                    await self._execute(effects)
                except ENDINGS:
                    raise
                except BaseException:
                    log.exception("a root group failed on an input")
                self._wake(self.machine.deadline_ms)
                effects = self._work_off()
        finally:
            self._task = None

    def _begin(self, step: Input) -> Sequence[GroupEffect]:
        """Work off one input; return its effects from the first on that the runtime has to make durable."""
        try:
            effects = step(self._clock())
            for number, effect in enumerate(effects):
                if isinstance(effect, Save | Apply):
                    return effects[number:]
                self._do(effect)
        except ENDINGS:
            raise
        except BaseException:
            log.exception("a root group failed on an input")
        self._wake(self.machine.deadline_ms)
        return ()

    def _do(self, effect: Tell | Lead) -> None:
        match effect:
            case Tell(to=to, message=message):
                self._send(to, message)
            case Lead(leads=leads):
                if not leads:
                    self._give_up()
                self._handler.on_group_lead(self.machine.app, leads)

    async def _execute(self, effects: Sequence[GroupEffect]) -> None:
        machine, app = self.machine, self.machine.app
        known, applying = _known_before(effects), None
        try:
            for effect in effects:
                match effect:
                    case Save(after=after, entries=entries):
                        if known is not None and applying is None:
                            # Both in one transaction, mostly.
                            applying = asyncio.get_running_loop().create_task(self._apply_all(known))
                        save = effect
                        await self._insist("saving", lambda: self._handler.on_group_save(app, save))  # noqa: B023
                        await self._execute(machine.on_saved(after + len(entries), self._clock()))
                    case Apply():
                        await (self._apply_all(effect) if applying is None or effect is not known else applying)
                    case _:
                        self._do(effect)
        finally:
            if applying is not None and not applying.done():
                if self._stopping and not self._working:
                    applying.cancel()
                await asyncio.wait([applying])

    async def _apply_all(self, effect: Apply) -> None:
        for entry in effect.entries:
            await self._apply(entry)

    async def _apply(self, entry: Entry) -> None:
        """Apply an entry, or keep it until the rest of its command is there; parts of a term that ended are void."""
        place, body = entry.place, entry.body
        term, parts = self._parts
        if entry.kind in (Kind.PART, Kind.COMMAND):
            parts = [*parts, body] if term == place.term else [body]
        if entry.kind is Kind.PART:
            self._parts = place.term, parts
            return
        if entry.kind is Kind.COMMAND:
            body = b"".join(parts)
            self._parts = (0, [])
        app = self.machine.app
        await self._insist("applying", lambda: self._handler.on_group_apply(app, place, entry.kind, body))
        self.machine.on_applied(place.index)
        done = self._waiting.pop(place, None)
        if done is not None and not done.done():
            done.set_result(None)

    async def _insist(self, what: str, attempt: Callable[[], Awaitable[None]]) -> None:
        pause_s = RETRY_S_MIN
        while True:
            self._working += 1
            try:
                await attempt()
                failed = False
            except ENDINGS:
                raise
            except BaseException:
                log.exception("%s an entry of a root group failed; trying again in %.1f s", what, pause_s)
                failed = True
            finally:
                self._working -= 1
            if self._stopping:
                raise asyncio.CancelledError  # nobody may be told what comes of it any more
            if not failed:
                return
            await asyncio.sleep(pause_s)
            pause_s = min(2 * pause_s, RETRY_S_MAX)

    def _give_up(self) -> None:
        waiting = self._waiting
        self._waiting = {}
        for done in waiting.values():
            _fail(done, OvertakenError("another agent leads the job's root group now"))


def _fail(done: asyncio.Future[None], error: Exception) -> None:
    if not done.done():
        done.set_exception(error)


def _known_before(effects: Sequence[GroupEffect]) -> Apply | None:
    """Return what is to be applied of entries that were durable here before those that are to be saved.

    That is what a member mostly hears of at a time: the next entry, and that the last one is decided.
    """
    save = next((effect for effect in effects if isinstance(effect, Save)), None)
    apply = next((effect for effect in effects if isinstance(effect, Apply)), None)
    return apply if save is not None and apply is not None and apply.entries[-1].place.index <= save.after else None
