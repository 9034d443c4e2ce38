"""`OverlayNode`: one agent in the overlay, as the runtime sees it.

Owns the composition: DHT, links, requests and one `Application` per tree; it has the effects of the pure machines
executed and feeds them what happens. It takes no decision about trees or roll-ups itself. DESIGN section 6.
"""

from __future__ import annotations

import functools
import random
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Unpack

from elf.overlay import statistics
from elf.overlay.alarm import Alarm
from elf.overlay.application import Application
from elf.overlay.border import Border
from elf.overlay.contract import NEVER, ORIGIN, Answer, Handler, JoinOptions, Mark, Record, TreeView, Trust
from elf.overlay.dht import Dht, DhtSettings, Secret
from elf.overlay.effects import ContactsChanged, Effect, Input, PeerLost, Received, Tick
from elf.overlay.errors import NotJoinedError, OverlayError, started
from elf.overlay.executor import Executor
from elf.overlay.group.messages import GroupMessage
from elf.overlay.group.state import GroupHandler
from elf.overlay.groups import Groups
from elf.overlay.ids import Contact, parse_address
from elf.overlay.links.layer import LinkLayer, LinkOwner
from elf.overlay.links.renewal import read_keys
from elf.overlay.messages import Accept, Claim, Heartbeat, Join, Message, Reply, Request, Unlink, Word, contact_of
from elf.overlay.network import Network
from elf.overlay.pressure import held_back, is_busy, is_congested
from elf.overlay.requests import Requests
from elf.overlay.rollup.audit import Audits
from elf.overlay.rollup.machine import Rollup
from elf.overlay.rollup.words import spoken
from elf.overlay.routing import bounded, closer
from elf.overlay.settings import OverlaySettings
from elf.overlay.tree.machine import Role

#: Applications a node forwards for without being told to by its own runtime; a limit against hostile JOINs.
FORWARDED_MAX = 10_000


class OverlayNode:
    """One node; lives on one event loop and is called from there only.

    Args:
        handler: the runtime.
        rng: source of everything random; a `random.SystemRandom` unless told otherwise.
        network: clocks, sockets and links; the real ones unless told otherwise.
        groups: the runtime's part in root groups; without it this node is a member of none.
        trust: whom the runtime believes; without it everybody.
    """

    def __init__(
        self,
        settings: OverlaySettings,
        handler: Handler,
        rng: random.Random | None = None,
        *,
        network: Network | None = None,
        groups: GroupHandler | None = None,
        trust: Trust | None = None,
    ) -> None:
        self.settings = settings
        self._trust = trust
        self._handler = handler
        self._rng = rng if rng is not None else random.SystemRandom()
        self._apps: dict[bytes, Application] = {}
        self._network = network or Network()
        self._clock = self._network.clock
        self._alarm = Alarm(self._clock, self._on_due)
        #: Which claims of children are merged again, in all trees.
        self.audits = Audits(self._rng, settings.audit)
        self._border = Border(handler, self._feed, self._apps)
        self._contact: Contact | None = None
        self._dht: Dht | None = None
        self._links: LinkLayer[Any] | None = None
        self._requests: Requests | None = None
        self._executor: Executor | None = None
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
            settings=DhtSettings(
                k=settings.k,
                state_path=Path(settings.contacts_file) if settings.contacts_file else None,
            ),
            secret=secret,
            notary=bound.tls.notary if bound.tls is not None else None,
            rng=self._rng,
            clock=self._network.wall,
            on_change=lambda: self._feed_all(ContactsChanged()),
            linked=self.linked,
        )
        links: LinkLayer[Any] = self._network.links(
            bound.contact,
            agent,
            secret,
            self._rng,
            clock=self._clock,
            owner=LinkOwner(
                on_message=self._on_message,
                on_open=dht.observe,
                on_lost=self._on_lost,
                on_congested=lambda slow: links.hold(held_back(self._apps.values(), slow)),
                is_busy=lambda: is_busy(self._apps),
            ),
            settings=settings,
        )
        ask = self._handler.on_route
        self._requests = Requests(bound.contact, self._closer, self.closest, ask, links.send, self._rng)
        self._dht = dht
        self._links = links
        self.groups.agent = agent
        self._executor = Executor(links, dht, self._border, self._feed)
        try:
            await dht.start(bound.udp)
        except OSError as error:
            if bound.tcp is not None:
                bound.tcp.close()
            raise OverlayError(f"UDP {settings.bind} cannot be bound: {error.strerror}") from error
        await links.start(bound)
        self.audits.begin(self._clock())

    def renewal(self, settings: OverlaySettings) -> Callable[[], None]:
        """Read the secret and the certificates again, and return what puts them, and the agents to join, in place.

        Raises:
            OverlayError: they cannot be used, or there were none before, or would be none.
        """
        links, dht = started(self._links), started(self._dht)
        keys = read_keys(self.settings, settings, self.contact.address)

        def put() -> None:
            self.settings = settings
            links.take(keys)
            if keys.tls is not None:
                dht.certify(keys.tls.notary)

        return put

    async def stop(self) -> None:
        """Leave all trees and close everything; snapshots that are not settled stay the runtime's to keep."""
        self._alarm.stop()
        for part in (self._executor, self._border, self.groups, self._requests, self._links):
            if part is not None:
                await part.stop()
        if self._dht is not None:
            self._dht.stop()
            await self._dht.wait_stopped()
        self._apps.clear()

    async def join(self) -> int:
        """Contact the configured agents, fill the routing table, return how many agents we know; call again if 0."""
        try:
            seeds = [parse_address(text) for text in self.settings.join]
        except ValueError as error:
            raise OverlayError(f"overlay.join: {error}") from error
        return await started(self._dht).join(seeds)

    def contacts(self) -> list[Contact]:
        """Return every agent we know, ourselves not included."""
        return self._dht.contacts() if self._dht is not None else []

    def linked(self) -> list[Contact]:
        """Return the agents that a link leads to."""
        return self._links.connected() if self._links is not None else []

    async def closest(self, key: bytes, width: int = 3) -> list[Contact]:
        """Look up the agents closest to a key that respond, nearest first, this node included where it belongs."""
        return await started(self._dht).lookup(key, width)

    # ---- trees

    def join_tree(
        self, app: bytes, *, member: bool, root: Contact | None = None, **options: Unpack[JoinOptions]
    ) -> None:
        """Take part in an application's tree; calling again updates membership and root.

        `root`: the recorded master (job trees, which roll up); None: whoever is closest to `app` (source trees, records
        only).
        """
        application = self._application(app, root)
        self._execute(app, application.join(member, root, self._clock(), **options))

    def move_root(self, app: bytes, root: Contact, reign: int) -> None:
        """Heed that another root took over a tree that we may stand in, as a forwarder at least."""
        if (application := self._apps.get(app)) is not None:
            self._execute(app, application.move(root, reign, self._clock()))

    def leave_tree(self, app: bytes, *, retire: bool = True, stay: bool = False) -> None:
        """Leave an application's tree; stay a forwarder while others depend on us.

        With `retire` the root stops expecting this agent (a stop for good, not a restart). With `stay` only membership
        ends: who is the root remains so.
        """
        if (application := self._apps.get(app)) is not None:
            self._execute(app, application.leave(self._clock(), retire=retire, stay=stay))
            self._forget_if_idle(app)

    def renew(self, app: bytes) -> None:
        """Leave a tree at once and forget all that was heard in it: whoever joins again begins anew."""
        if (application := self._apps.get(app)) is not None:
            self._execute(app, application.depart(self._clock()))
            self._apps.pop(app, None)
            self._alarm.forget(app)

    def seal(self, app: bytes, through: int, payload: bytes | None) -> bool:
        """Hand over a durable snapshot, ascending `through`; None is an empty one.

        The rule that makes this exact: in the store, snapshots and verdicts are one sequence. A snapshot is sealed
        above the last verdict handled (else its data goes under a later interval), and retained until a verdict handled
        later covers it. After a restart all retained snapshots are handed over again, before new ones.
        False: a verdict through here was handled already, so there is nothing to send but that we are there and may be
        waited for again; or we are no member.

        Raises:
            OverlayError: the payload is over `PAYLOAD_BYTES_MAX` (15 MiB).
        """
        if (application := self._apps.get(app)) is None:
            return False
        taken, effects = application.seal(through, payload, self._clock())
        self._execute(app, effects)
        return taken

    def word(self, app: bytes, since: int, through: int, payload: bytes | None) -> Word | None:
        """Return our word on a snapshot of ours, for whoever may have to hand it over; None without a key."""
        agent = self.groups.agent
        return None if self._trust is None else spoken(self._trust, app, agent, since, through, payload)

    def answer_for(
        self, app: bytes, agent: str, since: int, through: int, payload: bytes | None, word: Word | None = None
    ) -> None:
        """Hand over a copy of another member's sealed snapshot, with all its data of since < interval <= through.

        It is counted if nothing else of that member is for the interval, and the verdict is that member's. `word`: what
        that one has said of it.
        """
        if (application := self._apps.get(app)) is not None and application.rollup is not None:
            claim = Claim(since, through, (agent,), payload, () if word is None else (word,))
            self._execute(app, application.rollup.answer_for(claim, self._clock()))

    def congested(self, apps: Iterable[bytes]) -> bool:
        """Tell whether the tree of one of these applications takes less than this node hands over.

        Too many own snapshots have no verdict yet, or the link to the parent is jammed: do not read on until it is
        False again. Nothing is refused or dropped meanwhile.
        """
        slow = self._links.congested() if self._links is not None else ()
        return any(is_congested(self._apps.get(app), slow) for app in apps)

    def exclude(self, app: bytes, agent: str, successor: str | None = None) -> int:
        """Never count an agent again, at the root: its disk is lost and it came back as its successor.

        Returns the last interval whose commit may hold its data; later commits that lack the successor's name it. To be
        repeated after a restart of the root.

        Raises:
            NotJoinedError: this node is not the root.
        """
        return self._rollup(app).exclude(agent, successor)

    def retire(self, app: bytes, agent: str) -> int:
        """Expect a member no more, at the root: it is gone for good; a commit that lacks its data names it once more.

        Returns the last interval whose commit still has it on the roster; to be repeated if the root restarts before a
        later one. What it sent already counts. If it comes back it is admitted again, and told what was counted.

        Raises:
            NotJoinedError: this node is not the root.
        """
        return self._rollup(app).retire(agent)

    def leap(self, app: bytes, through: int | None = None) -> tuple[int, tuple[str, ...]]:
        """Wait no longer for members that others are ahead of in the next interval, if that is `through` or before.

        Returns the interval and, at the root, whom its commit will name unless they speak within half a second.
        """
        point, silent, effects = self._rollup(app).leap(through, self._clock())
        self._execute(app, effects)
        return point, silent

    def claimed(self, app: bytes, through: int) -> tuple[list[tuple[Contact, Claim]], bool]:
        """Return what children of ours claimed of an interval a moment ago, as far as it was the sum of several.

        And whether that is all there was, and nothing forgotten.
        """
        now_ms = self._clock()
        return self.audits.remembered(app, through, now_ms), self.audits.remembers_all(now_ms)

    def doubt(self, app: bytes, child: Contact, through: int) -> tuple[int, int]:
        """Watch a child whose claim of an interval is not what it should be; returns what may be wrong, at the root.

        That is a run of intervals, both ends included: from the first that was not audited to the last that is, or is
        about to be, committed.
        """
        self.audits.watch(app, child.id)
        rollup = self._rollup(app)
        since = self.audits.since(app, child.id)
        return min(through, through if since is None else since), max(through, rollup.counted_through)

    def shut_out(self, app: bytes, peer: Contact) -> tuple[str, ...]:
        """Have no edge with a peer in a tree, now or later; returns the members that hung under it here."""
        if (application := self._apps.get(app)) is None:
            return ()
        below = () if application.rollup is None else application.rollup.below(peer.id)
        self._execute(app, application.shut_out(peer, self._clock()))
        return below

    def avoid(self, app: bytes, peer: Contact) -> None:
        """Look for another parent in a tree than a peer; if there is none, it is asked again after a while."""
        if (application := self._apps.get(app)) is not None:
            self._execute(app, application.avoid(peer, self._clock()))

    def settled(self, app: bytes) -> int:
        """Return how far verdicts are known here (NEVER before the first)."""
        rollup = self._apps[app].rollup if app in self._apps else None
        return NEVER if rollup is None or rollup.settlement is None else rollup.settlement.settled

    def tree(self, app: bytes) -> TreeView:
        """Return this node's place in an application's tree."""
        return own.tree.view() if (own := self._apps.get(app)) is not None else TreeView("out", False, None, None, ())

    def roots(self) -> int:
        """Return of how many trees this node is the root: its load when masters are placed."""
        return sum(application.tree.role is Role.ROOT for application in self._apps.values())

    # ---- records and control

    def add_record(self, app: bytes, record: Record) -> bool:
        """Apply a control record here and flood it, but do not call our own `on_record`; False: ours is not older."""
        added, effects = self._application(app, None).add_record(record)
        self._execute(app, effects)
        return added

    def forget_record(self, app: bytes, key: str) -> None:
        """Hold a record no more; `Handler.admits` is asked if a neighbour brings it back."""
        if (application := self._apps.get(app)) is not None:
            application.flood.map.forget(key)

    def records(self, app: bytes) -> list[Record]:
        """Return the records of an application that we hold, by key."""
        return application.flood.map.all() if (application := self._apps.get(app)) is not None else []

    def multicast(self, app: bytes, body: bytes) -> int:
        """Append an entry to the tree's control log and send it to every agent of the tree; returns its position.

        It goes down once our own `on_control` has made it durable. Each agent handles it at most once and in order; one
        that is away catches up when it is back, or is told that it missed some (`ControlEntry.skipped`).

        Raises:
            NotJoinedError: this node is not the root.
            OverlayError: the body is empty or over `CONTROL_BYTES_MAX`, or too many entries wait to become durable.
        """
        if (application := self._apps.get(app)) is None:
            raise NotJoinedError("only a tree's root can multicast")
        position, effects = application.multicast(body, self._clock())
        self._execute(app, effects)
        return position

    def control_mark(self, app: bytes) -> Mark:
        """Return the last control entry that our runtime has handled (ORIGIN before the first)."""
        return application.control.delivered if (application := self._apps.get(app)) is not None else ORIGIN

    # ---- requests

    async def route(self, key: bytes, body: bytes, timeout_ms: int = 5_000) -> Answer:
        """Send a request hop by hop toward a key; the first agent whose handler answers ends it (ours is asked first).

        Raises:
            NotFoundError: nobody up to the agent closest to the key answers for it.
            UnreachableError: no answer in time; asking again later may work.
        """
        return await started(self._requests).route(key, body, timeout_ms)

    async def ask(self, contact: Contact, body: bytes, timeout_ms: int = 5_000) -> bytes:
        """Send a request to one agent, whose handler sees its own id as the key; raises what `route` does."""
        return await started(self._requests).ask(contact, body, timeout_ms)

    def refused(self) -> dict[str, str]:
        """Return the agents that turn our calls away, by address, with the reason; empty while any link is up."""
        return self._links.refusals(self.contacts()) if self._links is not None else {}

    def unheard(self) -> list[str]:
        """Return, in sentences, whose datagrams of the last minute cannot be taken, for their secret or their clock."""
        return self._dht.unheard() if self._dht is not None else []

    def counters(self) -> dict[str, int]:
        """Return statistics: frames, bytes, drops by reason, commits, leaps; names are stable."""
        totals = dict(self._border.counters)
        totals |= self._links.counters if self._links is not None else {}
        totals["requests_served"] = self._requests.served if self._requests is not None else 0
        totals |= statistics.of_dht(self._dht.counters) if self._dht is not None else {}
        totals |= statistics.of_trees(self._apps.values())
        return totals

    # ---- inputs and effects

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

    def _execute(self, app: bytes, effects: Iterable[Effect]) -> None:
        started(self._executor).execute(app, effects)
        if (application := self._apps.get(app)) is not None:
            self._alarm.set(app, application.deadline_ms)

    # ---- parts

    def _application(self, app: bytes, root: Contact | None) -> Application:
        if (application := self._apps.get(app)) is None:
            admits = functools.partial(self._border.admits, app)
            application = self._apps[app] = Application(
                app, self.contact, self._bounded, self.settings, self._rng, root, admits=admits, trust=self._trust
            )
            application.audits = self.audits
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
