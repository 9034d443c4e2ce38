"""All links of one node, apart from what connections are made of: which one counts, what waits, when one is lost.

Owns every decision over peers and links, and the surface that a node uses; opens, reads and closes nothing: WebSockets
do that in `elf.overlay.links.websocket`, simulated streams in `elf.overlay.sim.links`, and both obey this very class.
What is said when on a link is `elf.overlay.links.channel`'s. Pure. OVERLAY 6.1.

A link is lost as a whole: when it closes, falls silent, carries something illegal or its queue overflows, everything
queued is dropped and `on_lost` is called once; the machines above then send again what matters. Within a lane of one
link nothing is lost, repeated or reordered.

Two agents may call each other at the same moment. Both then prefer the connection that the agent with the lower id
opened, and the other is closed after a while. Greetings carry how often their sender has lost the receiver, so an end
that still trusts an old connection learns that its edges are void, and starts afresh.
"""

from __future__ import annotations

import abc
import logging
import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from msgspec.structs import replace

from elf.overlay.dht.auth import Secret
from elf.overlay.errors import RemoteProtocolError
from elf.overlay.ids import Contact
from elf.overlay.links import handshake
from elf.overlay.links.binding import Bound
from elf.overlay.links.channel import Channel, ChannelSettings
from elf.overlay.links.handshake import Hello
from elf.overlay.links.lanes import is_bulk, is_patient
from elf.overlay.links.offer import Offer
from elf.overlay.links.peers import COUNTERS, Link, Peer
from elf.overlay.links.proofs import NONCE_BYTES
from elf.overlay.links.renewal import Keys
from elf.overlay.links.tls import Tls
from elf.overlay.links.wire import OLDEST_VERSION, VERSION
from elf.overlay.messages import Message, decode, encode
from elf.overlay.settings import OverlaySettings

log = logging.getLogger(__name__)

T = TypeVar("T")

#: A link without any message for this long is closed.
IDLE_MS = 120_000
#: A superseded connection may still deliver for this long.
SUPERSEDED_S = 1.0


@dataclass(frozen=True, kw_only=True)
class LinkOwner:
    """Whom a node's links serve: what is called as they open, bring messages, and close."""

    #: With each message, in order per link.
    on_message: Callable[[Contact, Message], None]
    #: When a link to a peer is up.
    on_open: Callable[[Contact], None]
    #: Once when a peer's link is gone, or could not be opened.
    on_lost: Callable[[Contact], None]
    #: Now and then while links are congested, with their peers, and once when none is any more.
    on_congested: Callable[[list[Contact]], None] = lambda _: None
    #: Tells whether messages are so many that patient ones should wait for others.
    is_busy: Callable[[], bool] = lambda: False


class LinkLayer(abc.ABC, Generic[T]):
    """All links of one node; a subclass says how connections (`T`) are opened, written to and closed.

    Args:
        me: this node; `agent`: its name.
        clock: milliseconds that never step back.
        owner: what the links are for.
        settings: the node's.
    """

    def __init__(
        self,
        me: Contact,
        agent: str,
        secret: Secret | None,
        rng: random.Random,
        *,
        clock: Callable[[], int],
        owner: LinkOwner,
        settings: OverlaySettings,
    ) -> None:
        self.me = me
        self.agent = agent
        self.counters = dict.fromkeys(COUNTERS, 0)
        #: Agents that turned our last call away, by address, with the reason.
        self.refused: dict[str, str] = {}
        self._secret = secret
        self._rng = rng
        self._clock = clock
        self._frame_secret = secret
        self._owner = owner
        self._slow = False
        self._settings = ChannelSettings(heartbeat_ms=settings.heartbeat_ms, lease_ms=settings.lease_ms)
        #: What this node speaks.
        self.offer = Offer(OLDEST_VERSION, VERSION, release=settings.release)
        self._incarnation = rng.getrandbits(62)
        self._peers: dict[bytes, Peer[T]] = {}
        self._losses: dict[bytes, int] = {}
        self._looked_ms = clock()
        self._stopping = False

    # ---- what a node uses

    @abc.abstractmethod
    async def start(self, bound: Bound) -> None:
        """Take calls on what was bound."""

    def take(self, keys: Keys) -> None:
        """Go on with other keys; links that are open stay so, certificates show with the next ones."""
        if keys.secret is not None and self._secret is not None:
            self._secret.become(keys.secret)
        if keys.tls is not None:
            self.certify(keys.tls)

    def certify(self, tls: Tls) -> None:
        """Show, and ask for, certificates by other contexts from the next connection on."""

    @abc.abstractmethod
    async def stop(self) -> None:
        """Close all links."""

    def send(self, to: Contact, message: Message) -> None:
        """Queue a message; opens a link if there is none. A failure is told by `on_lost`."""
        if self._stopping:
            return
        peer = self._peers.get(to.id)
        if peer is None:
            peer = self._peers[to.id] = Peer(to)
        self.counters["messages_out"] += 1
        patient = is_patient(message) and self._owner.is_busy()
        trouble = peer.offer(encode(message), bulk=is_bulk(message), patient=patient)
        if trouble is not None:
            log.warning("link to %s is given up: %s", to.address, trouble)
            # Not from inside a machine's effects: losing the peer is an input of its own.
            self._later(0.0, self._lose, peer)
        elif peer.link is not None:
            if not patient:  # or the next look at all links takes it along, if nothing does before
                self._write_soon(peer.link)
        elif not peer.calling:
            peer.calling = True
            self._call(peer)

    def congested(self) -> list[Contact]:
        """Return the peers that take less than they are sent: whoever produces for them should rest."""
        return [peer.contact for peer in self._peers.values() if peer.link is not None and peer.link.channel.congested]

    def hold(self, contacts: Iterable[Contact]) -> None:
        """Take bulk messages of these peers at a trickle, of all others freely; replaces the last call."""
        held = {contact.id for contact in contacts}
        for peer in self._peers.values():
            peer.held = peer.contact.id in held
            if peer.link is not None:
                peer.link.channel.hold(peer.held)
                self._write_if_ready(peer.link)

    def connected(self) -> list[Contact]:
        """Return the peers with a link."""
        return [peer.contact for peer in self._peers.values() if peer.link is not None]

    def refusals(self, known: Iterable[Contact]) -> dict[str, str]:
        """Return who of the agents known turns our calls away, and why; nobody while there is any link.

        An agent with another certificate, or without TLS among others with it, is heard in the DHT but takes no part.
        """
        if self.connected():
            return {}
        addresses = {contact.address for contact in known}
        return {address: why for address, why in self.refused.items() if address in addresses}

    # ---- what connections are made of

    @abc.abstractmethod
    def _call(self, peer: Peer[T]) -> None:
        """Begin to open a connection and to greet; ends with `_adopt` or `_give_up`."""

    @abc.abstractmethod
    def _write_soon(self, link: Link[T]) -> None:
        """Send what the channel has to say after the work at hand, if this is its peer's link then."""

    @abc.abstractmethod
    def _hang_up(self, link: Link[T]) -> None:
        """Close a connection, which may be closed already."""

    @abc.abstractmethod
    def _later(self, wait_s: float, function: Callable[..., None], *args: Any) -> None:
        """Call something after a while, or after the work at hand."""

    # ---- one link of each peer

    def _hello(self, other: bytes) -> Hello:
        nonce = self._rng.randbytes(NONCE_BYTES)
        losses, lease_ms = self._losses.get(other, 0), self._settings.lease_ms
        return Hello(self.me.address, self.agent, self._incarnation, losses, nonce, lease_ms, self.offer)

    def _link(self, end: T, mine: Hello, theirs: Hello, *, calling: bool) -> Link[T]:
        """Return the link of a connection whose greeting is done."""
        caller, answerer = (mine, theirs) if calling else (theirs, mine)
        framer = handshake.framer(self._frame_secret, caller, answerer, calling=calling)
        now_ms = self._clock()
        settings = replace(self._settings, lease_ms=max(mine.lease_ms, theirs.lease_ms))
        channel = Channel(framer, settings, now_ms)
        return Link(theirs.contact, theirs, caller.contact.id, mine.losses, end, channel, now_ms)

    def _is_current(self, link: Link[T]) -> bool:
        peer = self._peers.get(link.contact.id)
        return peer is not None and peer.link is link

    def _adopt(self, link: Link[T]) -> bool:
        """Make a new connection the peer's link, or keep it for reading only; False if it is void already."""
        peer = self._peers.get(link.contact.id)
        if peer is not None and peer.link is not None and peer.link.theirs.session != link.theirs.session:
            self._lose(peer)
            peer = None
        if link.losses != self._losses.get(link.contact.id, 0):
            return False  # we lost this peer while the greeting was under way; it must not take us for unchanged
        if peer is None:
            peer = self._peers.setdefault(link.contact.id, Peer(link.contact))
        old = peer.link
        if old is not None and old.opened_by != link.opened_by and old.opened_by < link.opened_by:
            self._later(SUPERSEDED_S, self._drop, link)
            return True
        peer.use(link)
        if old is not None:
            self._later(SUPERSEDED_S, self._drop, old)
        self._write_soon(link)
        self.counters["links_opened"] += 1
        self.refused.pop(peer.contact.address, None)
        self._owner.on_open(peer.contact)
        return True

    def _receive(self, link: Link[T], frame: bytes) -> None:
        """Take a frame off a connection.

        Raises:
            RemoteProtocolError: the connection is to be dropped for it.
        """
        channel, counters = link.channel, self.counters
        counters["frames_in"] += 1
        counters["bytes_in"] += len(frame)
        for data in channel.received(frame, self._clock()):
            if link.over:
                return  # lost by what came before; nothing may come after `on_lost`
            counters["messages_in"] += 1
            self._owner.on_message(link.contact, decode(data))
        if channel.failure is not None:
            raise RemoteProtocolError(channel.failure)
        self._write_if_ready(link)

    def _write_if_ready(self, link: Link[T]) -> None:
        if link.channel.ready:
            self._write_soon(link)

    def _give_up(self, peer: Peer[T]) -> None:
        """A call failed: the peer is lost, unless it has called us meanwhile."""
        peer.calling = False
        if peer.link is None:
            self._lose(peer)

    def _drop(self, link: Link[T]) -> None:
        """End one connection; its peer is lost if this was its link."""
        peer = self._peers.get(link.contact.id)
        if peer is not None and peer.link is link:
            self._lose(peer)
        else:
            self._hang_up(link)

    def _lose(self, peer: Peer[T]) -> None:
        """Forget a peer with all that is queued for it, and tell."""
        if self._peers.get(peer.contact.id) is not peer:
            return
        del self._peers[peer.contact.id]
        self._losses[peer.contact.id] = self._losses.get(peer.contact.id, 0) + 1
        link = peer.link
        peer.link = None
        peer.waiting.clear()
        if link is not None:
            link.over = True
            self.counters["links_lost"] += 1
            self._hang_up(link)
        if not self._stopping:
            self._owner.on_lost(peer.contact)

    # ---- time

    @property
    def _look_s(self) -> float:
        """How long to wait between two looks at all links."""
        return self._settings.heartbeat_ms / 2000

    def _look_after_links(self) -> None:
        """Let quiet channels speak, end silent and idle ones, tell of congested ones; due every `_look_s`."""
        now_ms = self._clock()
        # After a pause of our own, what was sent to us meanwhile must be read before anybody is called silent.
        slept = now_ms - self._looked_ms > self._settings.heartbeat_ms
        self._looked_ms = now_ms
        congested = self.congested()
        if congested or self._slow:
            self._slow = bool(congested)
            self._owner.on_congested(congested)
        for peer in list(self._peers.values()):
            link = peer.link
            if link is None:
                continue
            channel = link.channel
            channel.tick(now_ms)
            link.count(self.counters, now_ms)
            if channel.is_lost(now_ms) and not slept:
                trouble = channel.failure or f"silent for {now_ms - channel.heard_ms} ms"
                log.info("link with %s is lost: %s", link.contact.address, trouble)
                self._lose(peer)
            elif now_ms - link.used_ms > IDLE_MS and not channel.queued_bytes:
                self._lose(peer)
            elif channel.ready or channel.patient or now_ms >= channel.due_ms:
                self._write_soon(link)
