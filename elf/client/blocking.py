"""The client for ordinary code: the same methods as `AsyncClient`, each waiting for its answer.

The asynchronous client runs on an event loop in a thread of its own, so this one also works where a loop runs
already (notebooks). One client may be used by several threads.
"""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import threading
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterable, Iterator, Mapping
from concurrent.futures import CancelledError, Future, wait
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, Generic, Self, TypeVar

from elf.agent_url import DEFAULT_URL, TIMEOUT_S
from elf.agents.errors import BadRequestError
from elf.agents.wire.result import Result, Window
from elf.client.asynchronous import AsyncClient
from elf.client.results import (
    AuditEntry,
    Drain,
    Intervals,
    Job,
    Leap,
    Member,
    Purge,
    Reload,
    Retirement,
    Stop,
    Tree,
    Version,
)
from elf.client.trails import Notice
from elf.client.until import Until

#: An interrupted call lets go of its connection at once; never wait longer for that.
INTERRUPT_S = 1.0

T = TypeVar("T")
#: Those with connections. Who uses one at once, without `with`, leaves them, and their thread, until the end.
_open: set[Client] = set()


@atexit.register
def _close_all() -> None:
    for client in list(_open):
        client.close()


class Client:
    """Talks to agents; made by `elf.connect`.

    Use it at once, or as `with elf.connect() as client`; `async with elf.connect() as client` gives the
    asynchronous client instead. Arguments, answers and errors are those of `AsyncClient`.
    """

    def __init__(
        self,
        url: str | Iterable[str] = DEFAULT_URL,
        token: str | None = None,
        *,
        creator: str | None = None,
        creator_key: str | Path | None = None,
        timeout: float = TIMEOUT_S,
        notice: Notice | None = None,
    ) -> None:
        urls = url if isinstance(url, str) else tuple(url)
        self._new = partial(
            AsyncClient, urls, token, creator=creator, creator_key=creator_key, timeout=timeout, notice=notice
        )
        # A watch that nobody has any more is ended wherever its memory is freed, maybe by a thread that holds the lock.
        self._start_lock = threading.RLock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._inner: AsyncClient | None = None
        self._async: AsyncClient | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    async def __aenter__(self) -> AsyncClient:
        if self._async is not None:
            raise BadRequestError("this client is under `async with` already; elf.connect makes another one")
        self._async = self._new()
        return self._async

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._async is not None:
            inner = self._async
            self._async = None
            await inner.close()

    def close(self) -> None:
        """Close the connections and end the thread; the client may be used again afterwards.

        Calls of other threads that wait for an answer end with an error.
        """
        with self._start_lock:
            loop, inner = self._loop, self._inner
            if loop is None or inner is None:
                return
            _Call[None]().run(lambda call: call.begin(loop, lambda: _end(inner)))
            self._stop()
            _open.discard(self)

    def _stop(self) -> None:
        """End the thread, on whose loop nothing is under way."""
        assert self._loop is not None and self._thread is not None
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
        self._loop = self._thread = self._inner = None

    def publish(
        self,
        file: str | Path | None = None,
        *,
        text: str | None = None,
        name: str | None = None,
        creator: str | None = None,
        key: str | Path | None = None,
    ) -> Job:
        """Publish a job; see `AsyncClient.publish`."""
        return self._wait(lambda client: client.publish(file, text=text, name=name, creator=creator, key=key))

    def jobs(self) -> list[Job]:
        """List the jobs that the agent knows."""
        return self._wait(lambda client: client.jobs())

    def job(self, name: str) -> dict[str, Any]:
        """Return everything the agent tells about one job."""
        return self._wait(lambda client: client.job(name))

    def query(
        self,
        name: str,
        window: str | Window = "latest",
        *,
        key: str | None = None,
        limit: int | None = None,
        require: str | None = None,
    ) -> Result:
        """Ask a job's master for one result; see `AsyncClient.query`."""
        return self._wait(lambda client: client.query(name, window, key=key, limit=limit, require=require))

    def watch(self, name: str, *, until: Until = None) -> Iterator[Result]:
        """Follow a job; see `AsyncClient.watch`."""
        self._refuse_among_coroutines()
        return self._watch(name, until)

    def _watch(self, name: str, until: Until) -> Iterator[Result]:
        with self._start_lock:
            client = self._client()
        results = client.watch(name, until=until)
        try:
            while (result := self._wait(lambda _: _next(results), client)) is not None:
                yield result
        finally:
            # Freed on the loop's own thread, which must not wait for itself, the stream is closed by the loop.
            if threading.current_thread() is not self._thread:
                with contextlib.suppress(_ClosedError):  # the stream was closed with it
                    self._wait(lambda _: results.aclose(), client)

    def feedback(self, name: str) -> Result:
        """Return the newest result that has come to the first agent, of a job with `feedback`."""
        return self._wait(lambda client: client.feedback(name))

    def route(self, name: str, query: Any) -> Any:
        """Have a job's application answer a query; see `AsyncClient.route`."""
        return self._wait(lambda client: client.route(name, query))

    def tree(self, name: str, part: int = 0) -> Tree:
        """Return a job's reducer tree; of one with several, that of a part."""
        return self._wait(lambda client: client.tree(name, part))

    def explain(self, name: str) -> dict[str, Any]:
        """Explain a running job; see `AsyncClient.explain`."""
        return self._wait(lambda client: client.explain(name))

    def members(self) -> list[Member]:
        """List the agents that the agent knows."""
        return self._wait(lambda client: client.members())

    def update(
        self,
        name: str,
        file: str | Path | None = None,
        *,
        text: str | None = None,
        query: str | None = None,
        options: Mapping[str, str | int] | None = None,
        expected: int | None = None,
        key: str | Path | None = None,
    ) -> Version:
        """Change a running job; see `AsyncClient.update`."""
        return self._wait(
            lambda client: client.update(
                name, file, text=text, query=query, options=options, expected=expected, key=key
            )
        )

    def rollback(self, name: str, version: int | None = None) -> Version:
        """Let a running job go on as an earlier version of it; see `AsyncClient.rollback`."""
        return self._wait(lambda client: client.rollback(name, version))

    def reset(self, name: str) -> Version:
        """Empty a running job's windows; see `AsyncClient.reset`."""
        return self._wait(lambda client: client.reset(name))

    def pause(self, name: str) -> Version:
        """Let a running job count nothing."""
        return self._wait(lambda client: client.pause(name))

    def resume(self, name: str) -> Version:
        """Let a paused or stopped job go on; see `AsyncClient.resume`."""
        return self._wait(lambda client: client.resume(name))

    def leap(self, name: str) -> Leap:
        """Let a job wait no longer for stragglers; see `AsyncClient.leap`."""
        return self._wait(lambda client: client.leap(name))

    def versions(self, name: str) -> list[Version]:
        """List the versions of a job, the newest last."""
        return self._wait(lambda client: client.versions(name))

    def stop(self, name: str, keep: str | None = None) -> Stop:
        """Stop a job on all agents, for `keep` so that it can be resumed; see `AsyncClient.stop`."""
        return self._wait(lambda client: client.stop(name, keep))

    def force(self, name: str) -> None:
        """Let the first agent go on alone with a job; see `AsyncClient.force`."""
        self._wait(lambda client: client.force(name))

    def retire(self, agent: str, job: str | None = None) -> Retirement:
        """Say that an agent is gone for good; see `AsyncClient.retire`."""
        return self._wait(lambda client: client.retire(agent, job))

    def reload(self) -> Reload:
        """Have the first agent read its settings again; see `AsyncClient.reload`."""
        return self._wait(lambda client: client.reload())

    def drain(self, within: str | None = None) -> Drain:
        """Take the first agent out of service; see `AsyncClient.drain`."""
        return self._wait(lambda client: client.drain(within))

    def cancel_drain(self) -> Drain:
        """Keep the first agent in service after all; see `AsyncClient.cancel_drain`."""
        return self._wait(lambda client: client.cancel_drain())

    def purge(self, job: str | None = None, *, agent: str | None = None) -> Purge:
        """Purge a job, or what is known of an agent, everywhere; see `AsyncClient.purge`."""
        return self._wait(lambda client: client.purge(job, agent=agent))

    def audit(self, limit: int = 100) -> list[AuditEntry]:
        """Return who did what through the first agent, the newest last."""
        return self._wait(lambda client: client.audit(limit))

    def load(self, name: str, intervals: Intervals) -> None:
        """Load intervals that were computed from the archives; see `AsyncClient.load`."""
        self._wait(lambda client: client.load(name, intervals))

    def ingest(
        self,
        source: str,
        events: bytes | Iterable[Mapping[str, Any]],
        *,
        key: str | None = None,
        serial: int | None = None,
    ) -> int:
        """Push events to a source; see `AsyncClient.ingest`."""
        return self._wait(lambda client: client.ingest(source, events, key=key, serial=serial))

    def _client(self) -> AsyncClient:
        """Return the asynchronous client, its thread started on first use; called with the lock held."""
        if self._inner is None:
            loop = self._loop = asyncio.new_event_loop()
            self._thread = threading.Thread(target=loop.run_forever, name="elf-client", daemon=True)
            self._thread.start()
            try:
                self._inner = _Call[AsyncClient]().run(lambda call: call.begin(loop, self._make))
            except BaseException:
                self._stop()
                raise
            _open.add(self)
        return self._inner

    def _refuse_among_coroutines(self) -> None:
        """Refuse a call inside of the `async with` that gave another client: it would keep the event loop waiting.

        Raises:
            BadRequestError: the caller's fault.
        """
        if self._async is None:
            return
        try:
            asyncio.get_running_loop()
        except RuntimeError:  # another thread, which may wait
            return
        raise BadRequestError(
            "this client is the blocking one; under `async with` use the one that it gives: "
            "`async with elf.connect(...) as client`, then `await client.query(...)`"
        )

    async def _make(self) -> AsyncClient:
        return self._new()

    def _wait(self, call: Callable[[AsyncClient], Coroutine[Any, Any, T]], former: AsyncClient | None = None) -> T:
        """Run a call on the client's loop; if the caller is interrupted, so is the call, before this returns.

        Args:
            call: what to run.
            former: the asynchronous client of earlier calls that this one goes on with.

        Raises:
            BadRequestError: the client was closed meanwhile, or since those calls.
        """
        self._refuse_among_coroutines()

        def begin(waiting: _Call[T]) -> None:
            # Closing holds the lock, too: it meets a call that has begun, or one begins on the next loop.
            with self._start_lock:
                if former is not None and former is not self._inner:
                    raise _ClosedError
                client = self._client()
                assert self._loop is not None, "a client has a loop"
                waiting.begin(self._loop, lambda: call(client))

        return _Call[T]().run(begin)


class _ClosedError(BadRequestError):
    """The client was closed under a call."""

    def __init__(self) -> None:
        super().__init__("this client was closed before the agent answered")


class _Call(Generic[T]):
    """A call that a loop runs in its thread while another thread waits for it.

    Unlike `asyncio.run_coroutine_threadsafe`, the coroutine is made on the loop: a caller that is interrupted between
    making it and handing it over would leave one that nobody awaits.
    """

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._task: asyncio.Task[T] | None = None
        self._answer: Future[T] = Future()

    def run(self, begin: Callable[[_Call[T]], None]) -> T:
        """Return the answer once `begin` has begun it; raises `_ClosedError` if the client ended it."""
        try:
            begin(self)
            return self._answer.result()
        except CancelledError:
            raise _ClosedError from None
        except BaseException:
            if self._loop is not None and not self._answer.done():
                with contextlib.suppress(RuntimeError):  # the loop was closed just now, and the call with it
                    self._loop.call_soon_threadsafe(self._cancel)
                wait([self._answer], INTERRUPT_S)
            raise

    def begin(self, loop: asyncio.AbstractEventLoop, make: Callable[[], Coroutine[Any, Any, T]]) -> None:
        """Have a loop run what `make` makes; the loop goes on until it has."""
        self._loop = loop
        loop.call_soon_threadsafe(self._begin, make)

    def _begin(self, make: Callable[[], Coroutine[Any, Any, T]]) -> None:
        self._task = asyncio.get_running_loop().create_task(make())
        self._task.add_done_callback(self._hand_over)

    def _cancel(self) -> None:
        if self._task is None:  # interrupted before the loop was asked
            self._answer.set_exception(CancelledError())
        else:
            self._task.cancel()

    def _hand_over(self, task: asyncio.Task[T]) -> None:
        if task.cancelled():
            self._answer.set_exception(CancelledError())
        elif error := task.exception():
            self._answer.set_exception(error)
        else:
            self._answer.set_result(task.result())


async def _next(results: AsyncGenerator[Result, None]) -> Result | None:
    return await anext(results, None)


async def _end(client: AsyncClient) -> None:
    """End all calls that are under way, so that those who wait for them are told, and close the connections."""
    calls = asyncio.all_tasks() - {asyncio.current_task()}
    for call in calls:
        call.cancel()
    await asyncio.gather(*calls, return_exceptions=True)
    # Streams that nobody asks for the next result just now.
    await asyncio.get_running_loop().shutdown_asyncgens()
    await client.close()
