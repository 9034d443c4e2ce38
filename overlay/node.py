"""`OverlayNode`: one agent in the overlay, as the runtime sees it (`contract.Overlay`).

Owns the composition: DHT, links, requests and one `Application` per tree; it executes the effects of the pure machines
and feeds them what happens. It takes no decision about trees or roll-ups itself. DESIGN section 6.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Coroutine, Iterable
from pathlib import Path
from typing import Any, Unpack

from overlay import statistics
from overlay.alarm import Alarm
from overlay.application import Application
from overlay.border import Border
from overlay.contract import NEVER, ORIGIN, Answer, Handler, JoinOptions, Mark, Record, TreeView
from overlay.dht import Dht, Secret
from overlay.effects import (
    Apply,
    ContactsChanged,
    Deliver,
    Effect,
    Input,
    LookedUp,
    Lookup,
    Merge,
    Notify,
    PeerLost,
    Persist,
    Received,
    Send,
    Suspect,
    Tick,
)
from overlay.errors import NotJoinedError, OverlayError, started
from overlay.group.messages import GroupMessage
from overlay.group.state import GroupHandler
from overlay.groups import Groups
from overlay.ids import Contact, parse_address
from overlay.links.layer import LinkLayer
from overlay.messages import Accept, Claim, Heartbeat, Join, Message, Reply, Request, Unlink, contact_of
from overlay.network import Network
from overlay.pressure import held_back, is_congested
from overlay.requests import Requests
from overlay.rollup.machine import Rollup
from overlay.routing import bounded, closer
from overlay.settings import OverlaySettings
from overlay.tree.machine import Role

log = logging.getLogger(__name__)

#: Applications a node forwards for without being told to by its own runtime; a limit against hostile JOINs.
FORWARDED_MAX = 10_000


class OverlayNode:
    """One node; lives on one event loop and is called from there only.

    Args:
        handler: the runtime.
        rng: source of everything random; a `random.SystemRandom` unless told otherwise.
        network: clocks, sockets and links; the real ones unless told otherwise.
        groups: the runtime's part in root groups; without it this node is a member of none.
    """

    def __init__(
        self,
        settings: OverlaySettings,
        handler: Handler,
        rng: random.Random | None = None,
        *,
        network: Network | None = None,
        groups: GroupHandler | None = None,
    ) -> None:
        self.settings = settings
        self._handler = handler
        self._rng = rng if rng is not None else random.SystemRandom()
        self._apps: dict[bytes, Application] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._network = network or Network()
        self._clock = self._network.clock
        self._alarm = Alarm(self._clock, self._on_due)
        self._border = Border(handler, self._feed, self._apps)
        self._contact: Contact | None = None
        self._dht: Dht | None = None
        self._links: LinkLayer[Any] | None = None
        self._requests: Requests | None = None
        self.groups = Groups(groups, self._send, self._clock, self._rng)

    # ---- life

    @property
    def contact(self) -> Contact:
        """This node; known after `start`."""
        return started(self._contact)

    async def start(self) -> None:
        """Open UDP and TCP on the same port.

        Raises:
            OverlayError: the addresses or the secret cannot be used; the operator's fault.
        """
        settings = self.settings
        secret = Secret.load(settings.secret_file) if settings.secret_file else None
        bound = await self._network.bind(settings, secure=secret is not None)
        self._contact = bound.contact
        agent = settings.agent_id or bound.contact.address
        dht = Dht(
            bound.contact,
            k=settings.k,
            secret=secret,
            rng=self._rng,
            clock=self._network.wall,
            times=self._network.dht_times,
            on_change=lambda: self._feed_all(ContactsChanged()),
            linked=lambda: self._links.connected() if self._links is not None else (),
            state_path=Path(settings.contacts_file) if settings.contacts_file else None,
        )
        links: LinkLayer[Any] = self._network.links(
            bound.contact,
            agent,
            secret,
            self._rng,
            clock=self._clock,
            on_message=self._on_message,
            on_open=dht.observe,
            on_lost=self._on_lost,
            on_congested=lambda slow: links.hold(held_back(self._apps.values(), slow)),
            heartbeat_ms=settings.heartbeat_ms,
            lease_ms=settings.lease_ms,
        )
        ask = self._handler.on_route
        self._requests = Requests(bound.contact, self._closer, self.closest, ask, links.send, self._rng)
        self._dht, self._links, self.groups.agent = dht, links, agent
        try:
            await dht.start(bound.udp)
        except OSError as error:
            if bound.tcp is not None:
                bound.tcp.close()
            raise OverlayError(f"UDP {settings.bind} cannot be bound: {error.strerror}") from error
        await links.start(bound)

    async def stop(self) -> None:
        """Leave all trees and close everything; snapshots that are not settled stay the runtime's to keep."""
        self._alarm.stop()
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._border.stop()
        for part in (self.groups, self._requests, self._links):
            if part is not None:
                await part.stop()
        if self._dht is not None:
            self._dht.stop()
            await self._dht.wait_stopped()
        self._apps.clear()

    async def join(self) -> int:
        """Contact the configured agents and fill the routing table; returns how many agents we know."""
        try:
            seeds = [parse_address(text) for text in self.settings.join]
        except ValueError as error:
            raise OverlayError(f"overlay.join: {error}") from error
        return await started(self._dht).join(seeds)

    def contacts(self) -> list[Contact]:
        """Return every agent we know, ourselves not included."""
        return self._dht.contacts() if self._dht is not None else []

    async def closest(self, key: bytes, width: int = 3) -> list[Contact]:
        """Look up the agents closest to a key that respond, nearest first."""
        return await started(self._dht).lookup(key, width)

    # ---- trees

    def join_tree(
        self, app: bytes, *, member: bool, root: Contact | None = None, **options: Unpack[JoinOptions]
    ) -> None:
        """Take part in an application's tree; see `contract.Overlay`."""
        application = self._application(app, root)
        self._execute(app, application.join(member, root, self._clock(), **options))

    def move_root(self, app: bytes, root: Contact, reign: int) -> None:
        """Heed that another root took over a tree; see `contract.Overlay`."""
        application = self._apps.get(app)
        if application is not None:
            self._execute(app, application.move(root, reign, self._clock()))

    def leave_tree(self, app: bytes, *, retire: bool = True) -> None:
        """Leave an application's tree; stay a forwarder while others depend on us."""
        if (application := self._apps.get(app)) is not None:
            self._execute(app, application.leave(self._clock(), retire=retire))
            self._forget_if_idle(app)

    def seal(self, app: bytes, through: int, payload: bytes | None) -> bool:
        """Hand over a durable snapshot; see `contract.Overlay`."""
        if (application := self._apps.get(app)) is None:
            return False
        taken, effects = application.seal(through, payload, self._clock())
        self._execute(app, effects)
        return taken

    def answer_for(self, app: bytes, agent: str, since: int, through: int, payload: bytes | None) -> None:
        """Hand over a copy of another member's sealed snapshot; see `contract.Overlay`."""
        if (application := self._apps.get(app)) is not None and application.rollup is not None:
            self._execute(app, application.rollup.answer_for(Claim(since, through, (agent,), payload), self._clock()))

    def congested(self, apps: Iterable[bytes]) -> bool:
        """Tell whether a tree of these takes less than this node hands over; see `contract.Overlay`."""
        slow = self._links.congested() if self._links is not None else ()
        return any(is_congested(self._apps.get(app), slow) for app in apps)

    def exclude(self, app: bytes, agent: str, successor: str | None = None) -> int:
        """Never count an agent again; see `contract.Overlay`."""
        return self._rollup(app).exclude(agent, successor)

    def retire(self, app: bytes, agent: str) -> int:
        """Expect a member no more; see `contract.Overlay`."""
        return self._rollup(app).retire(agent)

    def leap(self, app: bytes, through: int | None = None) -> tuple[int, tuple[str, ...]]:
        """Wait no longer for who is silent; see `contract.Overlay`."""
        point, silent, effects = self._rollup(app).leap(through, self._clock())
        self._execute(app, effects)
        return point, silent

    def settled(self, app: bytes) -> int:
        """Return how far verdicts are known here (NEVER before the first)."""
        rollup = self._apps[app].rollup if app in self._apps else None
        return NEVER if rollup is None or rollup.settlement is None else rollup.settlement.settled

    def tree(self, app: bytes) -> TreeView:
        """Return this node's place in an application's tree."""
        application = self._apps.get(app)
        return application.tree.view() if application is not None else TreeView("out", False, None, None, ())

    def roots(self) -> int:
        """Return of how many trees this node is the root."""
        return sum(application.tree.role is Role.ROOT for application in self._apps.values())

    # ---- records and control

    def add_record(self, app: bytes, record: Record) -> bool:
        """Apply a control record here and flood it; False if we hold the same or a newer one."""
        added, effects = self._application(app, None).add_record(record)
        self._execute(app, effects)
        return added

    def records(self, app: bytes) -> list[Record]:
        """Return the records of an application that we hold, by key."""
        application = self._apps.get(app)
        return application.flood.map.all() if application is not None else []

    def multicast(self, app: bytes, body: bytes) -> int:
        """Append an entry to the tree's control log; see `contract.Overlay`."""
        if (application := self._apps.get(app)) is None:
            raise NotJoinedError("only a tree's root can multicast")
        position, effects = application.multicast(body, self._clock())
        self._execute(app, effects)
        return position

    def control_mark(self, app: bytes) -> Mark:
        """Return the last control entry that our runtime has handled (ORIGIN before the first)."""
        application = self._apps.get(app)
        return application.control.delivered if application is not None else ORIGIN

    # ---- requests

    async def route(self, key: bytes, body: bytes, timeout_ms: int = 5_000) -> Answer:
        """Send a request hop by hop toward a key; see `contract.Overlay`."""
        return await started(self._requests).route(key, body, timeout_ms)

    async def ask(self, contact: Contact, body: bytes, timeout_ms: int = 5_000) -> bytes:
        """Send a request to one agent; see `contract.Overlay`."""
        return await started(self._requests).ask(contact, body, timeout_ms)

    def refused(self) -> dict[str, str]:
        """Return which agents turn our calls away, and why; see `contract.Overlay`."""
        return self._links.refusals(self.contacts()) if self._links is not None else {}

    def counters(self) -> dict[str, int]:
        """Return statistics; names are stable."""
        totals = dict(self._border.counters)
        totals |= self._links.counters if self._links is not None else {}
        totals["requests_served"] = self._requests.served if self._requests is not None else 0
        totals |= statistics.of_dht(self._dht.counters) if self._dht is not None else {}
        totals |= statistics.of_trees(self._apps.values())
        return totals

    # ---- inputs

    def _on_message(self, sender: Contact, message: Message) -> None:
        assert self._links is not None
        if isinstance(message, GroupMessage):
            return self.groups.on_message(sender, message)
        match message:
            case Request():
                started(self._requests).on_request(sender, message)
            case Reply():
                started(self._requests).on_reply(sender, message)
            case Join(app=app, root=root) if app not in self._apps:
                if len(self._apps) < FORWARDED_MAX:
                    self._application(app, contact_of(root) if root is not None else None)
                    self._feed(app, Received(sender, message))
                    self._forget_if_idle(app)
            case Accept(app=app, epoch=epoch) | Heartbeat(app=app, epoch=epoch) if app not in self._apps:
                self._links.send(sender, Unlink(app, epoch))  # of an edge that we forgot with the tree
            case _:
                self._feed(message.app, Received(sender, message))

    def _on_lost(self, peer: Contact) -> None:
        started(self._dht).suspect(peer)
        started(self._requests).on_lost(peer)
        self.groups.on_lost(peer)
        self._feed_all(PeerLost(peer))

    def _feed_all(self, event: Input) -> None:
        for app in list(self._apps):
            self._feed(app, event)

    def _feed(self, app: bytes, event: Input) -> None:
        if (application := self._apps.get(app)) is not None:
            self._execute(app, application.handle(event, self._clock()))

    def _on_due(self, apps: list[bytes]) -> None:
        for app in apps:
            self._feed(app, Tick())
            self._forget_if_idle(app)

    # ---- effects

    def _execute(self, app: bytes, effects: Iterable[Effect]) -> None:
        assert self._links is not None and self._dht is not None
        for effect in effects:
            match effect:
                case Send(to=to, message=message):
                    self._links.send(to, message)
                case Merge(ticket=ticket, payloads=payloads):
                    self._border.merge(app, ticket, payloads)
                case Persist(commit=commit):
                    self._border.persist(app, commit)
                case Notify(verdict=verdict):
                    self._border.notify(app, verdict)
                case Apply(record=record):
                    self._border.apply(app, record)
                case Deliver(entry=entry):
                    self._border.deliver(app, entry)
                case Lookup():
                    self._spawn(self._look_up(app))
                case Suspect(contact=contact):
                    self._dht.suspect(contact)
        application = self._apps.get(app)
        if application is not None:
            self._alarm.set(app, application.deadline_ms)

    async def _look_up(self, app: bytes) -> None:
        try:
            found = await started(self._dht).lookup(app)
        except OverlayError as error:
            log.debug("lookup for a tree failed: %s", error)
            found = []
        self._feed(app, LookedUp(tuple(found)))

    # ---- parts

    def _application(self, app: bytes, root: Contact | None) -> Application:
        if (application := self._apps.get(app)) is None:
            application = Application(app, self.contact, self._bounded, self.settings, self._rng, root)
            self._apps[app] = application
        return application

    def _rollup(self, app: bytes) -> Rollup:
        if (application := self._apps.get(app)) is None or application.rollup is None:
            raise NotJoinedError("only a job's root can do that")
        return application.rollup

    def _forget_if_idle(self, app: bytes) -> None:
        if (application := self._apps.get(app)) is not None and application.is_idle:
            del self._apps[app]
            self._alarm.forget(app)

    def _closer(self, key: bytes) -> list[Contact]:
        return closer(self.contacts(), self.contact.id, key)

    def _bounded(self, key: bytes) -> list[Contact]:
        return bounded(self.contacts(), self.contact.id, key)

    def _send(self, to: Contact, message: Message) -> None:
        started(self._links).send(to, message)

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
