"""The listening side of links: who may knock, for how long, and how many at once.

Owns the accept loop, TLS of incoming calls, the deadline of the greeting and the limits on connections that have not
proven themselves; what a greeting is, is `elf.overlay.links.handshake`'s. Shell. A caller that fills the limits
displaces its own oldest connections first, so idle ones cost an honest caller nothing: it greets within milliseconds.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
from collections.abc import Callable
from typing import Any

from elf.overlay.links.tls import is_hang_up, refusal
from elf.overlay.links.web_defaults import set_defaults

log = logging.getLogger(__name__)

#: A caller that has not proven itself after this long is hung up on.
GREETING_S = 5.0
#: Connections that have not proven themselves, in all and from one address. Each may hold a few hundred KiB of ours, so
#: strangers get 128 MiB at most; a machine with more than 128 agents that call at once calls again a moment later.
WAITING_MAX = 512
WAITING_PER_HOST_MAX = 128
#: Pause after an accept that failed, most likely because no file descriptor is free.
RETRY_S = 0.1


set_defaults()


class _Waiting(asyncio.Protocol):
    """A connection before its greeting is done; hands everything to the HTTP server's protocol and watches its end."""

    def __init__(self, host: str, inner: asyncio.Protocol, forget: Callable[[_Waiting], None]) -> None:
        self.host = host
        self.inner = inner
        self._forget = forget
        self.transport: asyncio.Transport | None = None
        self.task: asyncio.Task[None] | None = None

    def admit(self, transport: Any) -> None:
        """Let the server have the connection."""
        self._forget(self)
        transport.set_protocol(self.inner)

    def abort(self) -> None:
        """Hang up at once, in whatever state the connection is."""
        if self.transport is not None:
            self.transport.abort()
        elif self.task is not None:
            self.task.cancel()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        self.inner.connection_made(transport)

    def data_received(self, data: bytes) -> None:
        self.inner.data_received(data)

    def eof_received(self) -> bool | None:
        return self.inner.eof_received()

    def pause_writing(self) -> None:
        self.inner.pause_writing()

    def resume_writing(self) -> None:
        self.inner.resume_writing()

    def connection_lost(self, error: Exception | None) -> None:
        self._forget(self)
        self.inner.connection_lost(error)


def admit(transport: Any) -> None:
    """Whoever called has proven itself: neither deadline nor limits apply to its connection any more."""
    waiting = transport.get_protocol()
    if isinstance(waiting, _Waiting):
        waiting.admit(transport)


class Door:
    """Accepts connections for an HTTP server, within limits.

    Args:
        listener: a bound TCP or Unix socket.
        serve: makes the HTTP server's protocol of one connection.
        tls: context of incoming calls, or None.
        refused: called with a host and a reason for each connection that is turned away.
    """

    def __init__(
        self,
        listener: socket.socket,
        serve: Callable[[], asyncio.Protocol],
        tls: ssl.SSLContext | None,
        refused: Callable[[str, str], None],
    ) -> None:
        self._listener = listener
        self._serve = serve
        #: May be changed; for who calls from then on.
        self.tls = tls
        self._refused = refused
        self._waiting: dict[_Waiting, asyncio.TimerHandle] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._pause: asyncio.TimerHandle | None = None

    def open(self) -> None:
        """Begin to listen."""
        self._listener.setblocking(False)
        self._listener.listen(512)
        self._resume()

    async def close(self) -> None:
        """Stop listening and hang up on whoever is not admitted; again does nothing."""
        if self._listener.fileno() < 0:
            return
        if self._pause is not None:
            self._pause.cancel()
        asyncio.get_running_loop().remove_reader(self._listener)
        for waiting in list(self._waiting):
            waiting.abort()
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._listener.close()

    @property
    def waiting(self) -> int:
        """How many connections have not proven themselves yet."""
        return len(self._waiting)

    def _resume(self) -> None:
        # No task waits for calls: one that is cancelled between a call and its next step would lose the connection.
        asyncio.get_running_loop().add_reader(self._listener, self._accept)

    def _accept(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            connection, address = self._listener.accept()
        except (BlockingIOError, InterruptedError, ConnectionAbortedError):
            return  # who called has gone again
        except OSError as error:
            log.error("no call can be taken: %s", error)
            loop.remove_reader(self._listener)
            self._pause = loop.call_later(RETRY_S, self._resume)
            return
        connection.setblocking(False)
        # A Unix socket's callers have no address.
        host = str(address[0]) if isinstance(address, tuple) else "this machine"
        self._make_room(host)
        waiting = _Waiting(host, self._serve(), self._forget)
        self._waiting[waiting] = loop.call_later(GREETING_S, self._expire, waiting)
        waiting.task = self._spawn(self._receive(connection, waiting))
        waiting.task.add_done_callback(lambda _: self._received(connection, waiting))

    async def _receive(self, connection: socket.socket, waiting: _Waiting) -> None:
        """Do the TLS handshake, if there is one, and let the server read."""
        timeout = GREETING_S if self.tls is not None else None
        try:
            await asyncio.get_running_loop().connect_accepted_socket(
                lambda: waiting, connection, ssl=self.tls, ssl_handshake_timeout=timeout
            )
        except (OSError, TimeoutError) as error:
            if is_hang_up(error):
                log.debug("%s has gone again", waiting.host)
            else:
                self._refused(waiting.host, refusal(error))

    def _received(self, connection: socket.socket, waiting: _Waiting) -> None:
        """Hang up unless the server reads; not in the task itself, which may be cancelled before it begins."""
        waiting.task = None
        if waiting.transport is None:
            self._forget(waiting)
            connection.close()

    def _make_room(self, host: str) -> None:
        """Hang up on the oldest connection of a host, or of all, that is one too many."""
        same = [waiting for waiting in self._waiting if waiting.host == host]
        full = same if len(same) >= WAITING_PER_HOST_MAX else list(self._waiting)
        if full is same or len(full) >= WAITING_MAX:
            self._refused(full[0].host, "too many connections that do not greet")
            self._forget(full[0])
            full[0].abort()

    def _expire(self, waiting: _Waiting) -> None:
        self._refused(waiting.host, f"no greeting within {GREETING_S:.0f} s")
        self._forget(waiting)
        waiting.abort()

    def _forget(self, waiting: _Waiting) -> None:
        timer = self._waiting.pop(waiting, None)
        if timer is not None:
            timer.cancel()

    def _spawn(self, work: Any) -> asyncio.Task[None]:
        task: asyncio.Task[None] = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task
