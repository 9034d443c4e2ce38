"""Asking agents over HTTP until one of them answers or the time is over: the shell around `elf.client.retries`.

A client that was given several agents asks them all, and first whoever answered last. It asks no others: agents know
each other's overlay addresses and not where their APIs are, most of which listen on loopback only, and a token must not
go to whom nobody has named.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncGenerator, Mapping
from typing import Any, TypeAlias, TypeVar

import aiohttp
import msgspec

from elf.agents.errors import UnavailableError
from elf.agents.wire.result import Result
from elf.client.events import EventReader
from elf.client.problems import refuse_closed
from elf.client.retries import Course, Failure, Repeat, Trouble
from elf.client.sessions import LostError, Sessions
from elf.client.trails import AttemptError, Notice, Trail, broken, interrupted, refused

#: What may change something is waited for so long once it was sent, whatever the deadline: given up, nobody would know
#: whether it was done.
CHANGE_S = 30.0
#: Three heartbeats of the agent: a stream that is silent for longer is dead.
SILENCE_S = 30.0
#: To the HTTP library no time at all would be as much as one likes.
_LIMIT_S_MIN = 0.001

#: A result, and what to go on after it with.
Cursored: TypeAlias = tuple[str | None, Result]
T = TypeVar("T")


class Attempts:
    """Asks the agents that a client was given.

    Args:
        agents: URL of an API -> the token for it, if it has one of its own.
        token: for all others.
        timeout_s: how long a question may take, tries and pauses in all.
        notice: is told once of each question that takes longer than usual, and why.
    """

    def __init__(
        self, agents: Mapping[str, str | None], token: str | None, timeout_s: float, notice: Notice | None
    ) -> None:
        self.timeout_s = timeout_s
        self._urls = tuple(agents)
        self._notice = notice
        self._rng = random.Random()
        #: Who answered last.
        self._answered = 0
        self._sessions = Sessions(agents, token)

    async def close(self) -> None:
        """Close the connections."""
        await self._sessions.close()

    def end_s(self, least_s: float = 0.0) -> float:
        """Return the deadline of what is asked for now, by the event loop's clock; it is so far off at least."""
        return _now_s() + max(self.timeout_s, least_s)

    def begin(self, end_s: float, repeat: Repeat = Repeat.ALWAYS, *, here: bool = False) -> Trail:
        """Begin with a question; arguments as of `ask`."""
        urls, first = (self._urls[:1], 0) if here else (self._urls, self._answered)
        return Trail(urls, Course(len(urls), first, repeat, _now_s(), end_s), self._rng, self._notice)

    async def failed(self, trail: Trail, attempt: AttemptError) -> None:
        """Return when the next try is due; raises the error that a trail ends with."""
        await asyncio.sleep(trail.failed(attempt, _now_s()))

    async def ask(
        self,
        method: str,
        path: str,
        kind: type[T],
        *,
        end_s: float,
        repeat: Repeat = Repeat.ALWAYS,
        here: bool = False,
        params: Mapping[str, str] | None = None,
        body: bytes | None = None,
        media: str = "application/json",
        headers: Mapping[str, str] | None = None,
    ) -> T:
        """Return the first answer, decoded.

        Args:
            method: of HTTP.
            path: what is asked for.
            kind: what the answer is.
            end_s: the deadline, as `end_s` returned it.
            repeat: after which failures it may be asked for again.
            here: it is for the first agent and no other.
            params: what comes after the question mark.
            body: what is sent.
            media: the type of that.
            headers: what else the agent is told, each time.

        Raises:
            UnavailableError: nobody answered in time; the text says what was tried.
            ElfError: the error that the answer stands for.
        """
        trail = self.begin(end_s, repeat, here=here)
        while True:
            limit_s = max(trail.limit_s(_now_s()), _LIMIT_S_MIN)
            total_s = limit_s if method == "GET" else max(limit_s, CHANGE_S)
            sent: dict[str, Any] = {
                "params": params,
                "timeout": aiohttp.ClientTimeout(total_s, sock_connect=limit_s),
                "headers": {**({} if body is None else {"Content-Type": media}), **(headers or {})},
                "body": body,
            }
            try:
                answer = await self._attempt(method, trail.url, path, kind, sent)
            except AttemptError as attempt:
                await self.failed(trail, attempt)
                continue
            if not here:
                self._answered = trail.agent
            return answer

    async def _attempt(self, method: str, url: str, path: str, kind: type[T], sent: Mapping[str, Any]) -> T:
        """Send one request and decode the answer; raises AttemptError."""
        refuse_closed(self._sessions)
        try:
            async with self._sessions.request(method, url, path, **sent) as response:
                body = await response.read()
                if not response.ok:
                    raise refused(url, response, body)
                return msgspec.json.decode(body, type=kind)
        except (aiohttp.ClientError, OSError, LostError) as error:
            raise broken(url, error.__cause__ if isinstance(error, LostError) else error) from error
        except msgspec.DecodeError as error:
            what = UnavailableError(f"{url} answers, but not as an elf agent does ({error})")
            raise AttemptError(Failure(Trouble.FINAL), what) from None

    async def stream(self, trail: Trail, path: str, seen: str | None) -> AsyncGenerator[Cursored, None]:
        """Yield the results that the agent whose turn it is sends.

        Raises:
            AttemptError: it does not, or no more.
        """
        refuse_closed(self._sessions)
        url, limit_s = trail.url, max(trail.limit_s(_now_s()), _LIMIT_S_MIN)
        headers = {"Accept": "text/event-stream"} | ({"Last-Event-ID": seen} if seen else {})
        timeout = aiohttp.ClientTimeout(sock_connect=limit_s, sock_read=SILENCE_S)
        reader = EventReader()
        try:
            async with self._sessions.request("GET", url, path, headers=headers, timeout=timeout) as response:
                if not response.ok:
                    raise refused(url, response, await response.read())
                self._answered = trail.agent
                async for data in response.content.iter_any():
                    for event in reader.feed(data):
                        if event.kind == "problem":
                            raise interrupted(url, event.data)
                        yield event.id, msgspec.json.decode(event.data, type=Result)
        except (aiohttp.ClientError, OSError, LostError) as error:
            raise broken(url, error.__cause__ if isinstance(error, LostError) else error) from error
        except msgspec.DecodeError as error:
            what = UnavailableError(f"{url} sent a result we cannot read ({error})")
            raise AttemptError(Failure(Trouble.FINAL), what) from None


def _now_s() -> float:
    return asyncio.get_running_loop().time()
