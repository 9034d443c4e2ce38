"""The asynchronous client: one agent's HTTP API as methods with typed answers.

Any agent will do: it routes each question to the job's master. Errors are those of `elf.agents.errors`; an agent that
cannot be reached is an `UnavailableError`.
"""

from __future__ import annotations

import asyncio
import contextlib
import io
import json
from collections.abc import AsyncGenerator, Iterable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar
from urllib.parse import quote

import aiohttp
import msgspec

from elf.agent_url import DEFAULT_URL, check_url
from elf.agents.errors import JobError, StoppedError, UnavailableError, UnknownJobError
from elf.agents.wire.result import Result, Window
from elf.client.definitions import definition_of, signed_job
from elf.client.envelopes import Accepted, Jobs, Members, Versions
from elf.client.events import EventReader
from elf.client.names import default_creator, split_name
from elf.client.problems import error_of, refuse_closed, unreachable
from elf.client.results import Intervals, Job, Leap, Member, Retirement, Stop, Tree, Version
from elf.client.until import Until, check_until, is_reached

TIMEOUT_S = 30.0
#: Three heartbeats of the agent: a stream that is silent for longer is dead.
SILENCE_S = 30.0
RETRY_S = (0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 5.0, 5.0)

T = TypeVar("T")


class AsyncClient:
    """Talks to one agent; use it as `async with elf.connect(url) as client`.

    Args:
        url: the agent's API.
        token: its API token, if it has one.
        creator: whose jobs a bare name means first; default: $ELF_CREATOR, else the operating system's user.
    """

    def __init__(self, url: str = DEFAULT_URL, token: str | None = None, *, creator: str | None = None) -> None:
        check_url(url)
        self.url = url.rstrip("/")
        self._creator = creator
        self._creators: dict[str, str] = {}
        headers = {"User-Agent": "elf"} | ({"Authorization": f"Bearer {token}"} if token else {})
        self._session = aiohttp.ClientSession(headers=headers, timeout=aiohttp.ClientTimeout(TIMEOUT_S))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connections."""
        await self._session.close()

    async def publish(
        self,
        file: str | Path | None = None,
        *,
        text: str | None = None,
        name: str | None = None,
        creator: str | None = None,
        key: str | Path | None = None,
    ) -> Job:
        """Publish a job from a file (TOML, or bare SQL ending in .sql), or from its text.

        Args:
            file: the job's file.
            text: the job's text instead; SQL if it begins with SELECT or WITH, else TOML.
            name: replaces the file's name; bare SQL in `text` needs it.
            creator: the creator if the file names none; default: one's own.
            key: file with the secret key that functions of the job's own are signed with (`elf keygen --signing`).

        Raises:
            JobSpecError: the job cannot run as written; carries line, column and hint.
            JobConflictError: another definition runs under this name and creator.
        """
        text, filename = definition_of(file, text, name)
        creator = creator or self._own_creator()
        if key is not None:
            text = signed_job(file, text, filename, key, name, creator)
        body = {"definition": text, "filename": filename, "name": name, "creator": creator}
        job = await self._ask("POST", "/v1/jobs", Job, json=body)
        self._creators[job.name] = job.creator
        return job

    async def jobs(self) -> list[Job]:
        """List the jobs that the agent knows."""
        return (await self._ask("GET", "/v1/jobs", Jobs)).jobs

    async def job(self, name: str) -> dict[str, Any]:
        """Return everything the agent tells about one job, running or stopped."""
        return await self._ask("GET", await self._path(name), dict[str, Any])

    async def query(
        self,
        name: str,
        window: str | Window = "latest",
        *,
        key: str | None = None,
        limit: int | None = None,
        require: str | None = None,
    ) -> Result:
        """Ask a job's master for one result.

        Args:
            name: `name` or `creator/name`.
            window: `latest`, `START/END` (ISO-8601 or epoch ms), a length such as `300s`, or another result's window.
            key: only rows whose first group key is this; a JobError if it can be none of its type.
            limit: most rows to return.
            require: `complete` for a result of a closed window that lacks nothing, or none at all.

        Raises:
            IncompleteError: it is not as required, or not yet.
            StoppedError: the job is stopped; the text says how to get it back, and until when.
        """
        options = {"window": str(window), "key": key, "limit": limit, "require": require}
        parameters = {option: str(value) for option, value in options.items() if value is not None}
        try:
            return await self._ask("GET", await self._path(name, "/result"), Result, params=parameters)
        except UnknownJobError:
            self._creators.pop(name, None)
            raise

    async def feedback(self, name: str) -> Result:
        """Return the newest result that has come to this very agent, of a job with `feedback`; nobody else is asked.

        Of a job with an application, what that has published.

        Raises:
            JobError: the job has no feedback.
            UnavailableError: no result has come to the agent yet.
        """
        return await self._ask("GET", await self._path(name, "/feedback"), Result)

    async def route(self, name: str, query: Any) -> Any:
        """Have a job's application answer a query, at the job's master; both are made of what JSON has.

        Raises:
            JobError: the job has no application, or it answers with an error.
        """
        path = await self._path(name, "/route")
        return (await self._ask("POST", path, dict[str, Any], json={"query": query}))["answer"]

    async def watch(self, name: str, *, until: Until = None) -> AsyncGenerator[Result, None]:
        """Follow a job: yield its newest result, then each new or revised one until it is stopped, or `is_reached`.

        A lost connection is taken up again where it was lost; each result comes once.

        Raises:
            UnavailableError: the agent is gone and did not come back.
        """
        check_until(until)
        path = await self._path(name, "/stream")
        seen: str | None = None
        failures = 0
        while True:
            try:
                async with contextlib.aclosing(self._stream(path, seen)) as stream:
                    async for cursor, result in stream:
                        seen, failures = cursor, 0
                        yield result
                        if is_reached(result, until):
                            break
                return
            except (UnknownJobError, StoppedError):
                if seen is None:
                    raise
                return
            except UnavailableError:
                if failures >= len(RETRY_S) or (seen is None and failures == 0):
                    raise
                await asyncio.sleep(RETRY_S[failures])
                failures += 1

    async def tree(self, name: str, part: int = 0) -> Tree:
        """Return a job's reducer tree; of one with several, that of a part."""
        return await self._ask("GET", await self._path(name, f"/tree?part={part}" if part else "/tree"), Tree)

    async def explain(self, name: str) -> dict[str, Any]:
        """Explain a running job: its plan, what it shares with others, its tree and its cost.

        Fields are those of `elf explain` in a pipe; None where something is not known, and `unknown` says so.
        """
        return await self._ask("GET", await self._path(name, "/explain"), dict[str, Any])

    async def members(self) -> list[Member]:
        """List the agents that the agent knows."""
        return (await self._ask("GET", "/v1/members", Members)).members

    async def update(
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
        """Change a running job on all agents, from one interval on: its whole definition, or query and options alone.

        Args:
            name: `name` or `creator/name`.
            file: a job file that takes the place of the definition.
            text: its text instead; SQL if it begins with SELECT or WITH, else TOML.
            query: only the query is another.
            options: only these options are others, as `[options]` of a job file has them.
            expected: the number that the newest version has to have.
            key: as of `publish`.

        Raises:
            JobSpecError: it cannot run as written, or not from where the job is.
            JobConflictError: the job has another newest version than expected, or is paused or stopped.
        """
        body: dict[str, Any] = {"query": query, "options": dict(options or {}), "expected": expected}
        if file is not None or text is not None:
            bare = split_name(name)[1]
            definition, filename = definition_of(file, text, bare)
            if key is not None:
                creator = split_name(name)[0] or await self._creator_of(bare)
                definition = signed_job(file, definition, filename, key, bare, creator)
            body |= {"definition": definition, "filename": filename}
        return await self._change(name, "update", body)

    async def rollback(self, name: str, version: int | None = None) -> Version:
        """Let a running job go on as an earlier version of it, by default the one before the newest."""
        return await self._change(name, "rollback", {"version": version})

    async def reset(self, name: str) -> Version:
        """Empty a running job's windows, together on all agents: from one interval on they begin anew."""
        return await self._change(name, "reset", {})

    async def pause(self, name: str) -> Version:
        """Let a running job count nothing, from one interval on; windows say so."""
        return await self._change(name, "pause", {})

    async def resume(self, name: str) -> Version:
        """Let a paused or stopped job go on; what came meanwhile is not counted, and windows say so.

        Raises:
            UnknownJobError: there is no such job, or no more: it was not resumed in time.
            JobConflictError: it is neither paused nor stopped.
        """
        return await self._change(name, "resume", {})

    async def leap(self, name: str) -> Leap:
        """Let a job wait no longer for stragglers in the interval that they keep waiting; results name them.

        Raises:
            JobConflictError: nobody is waited for.
        """
        return await self._ask("POST", await self._path(name, "/leap"), Leap)

    async def versions(self, name: str) -> list[Version]:
        """List the versions of a job that it remembers, the newest last."""
        return (await self._ask("GET", await self._path(name, "/versions"), Versions)).versions

    async def _change(self, name: str, change: str, body: Mapping[str, Any]) -> Version:
        given = {field: value for field, value in body.items() if value is not None}
        return await self._ask("POST", await self._path(name, "/versions"), Version, json={"change": change, **given})

    async def stop(self, name: str, keep: str | None = None) -> Stop:
        """Stop a job on all agents; `resume` takes it up again, with its windows.

        Args:
            name: `name` or `creator/name`.
            keep: how long it can be resumed, such as `2h`, 7 days at most; then all of it is freed. `0s`: it ends for
                good at once. Default: a day, or, for jobs with `availability = "partial"`, `0s`.

        Raises:
            JobError: it can only be stopped for good.
        """
        parameters = {} if keep is None else {"keep": keep}
        stopped = await self._ask("DELETE", await self._path(name), Stop, params=parameters)
        if stopped.ends_ms is None:
            self._creators.pop(name, None)
        return stopped

    async def force(self, name: str) -> None:
        """Let the agent asked go on alone with a job whose root group has lost its majority for good.

        What a majority decided and this agent did not hear of is lost, and if the other members live after all, two
        masters count: for disasters only.

        Raises:
            JobError: the agent keeps no copy of the job, or the group has a leader, as far as it knows.
        """
        await self._ask("POST", f"{await self._path(name)}/force", dict[str, Any])

    async def retire(self, agent: str, job: str | None = None) -> Retirement:
        """Say that an agent is gone for good: jobs expect it no more; if it comes back it is admitted again.

        Args:
            agent: its name, address or id.
            job: only this job, `name` or `creator/name`; None: all jobs, those published later too.

        Raises:
            UnknownAgentError: no job expects it.
            AgentRunningError: it still answers.
        """
        place = "/v1" if job is None else await self._path(job)
        return await self._ask("DELETE", f"{place}/members/{quote(agent, safe='')}", Retirement)

    async def load(self, name: str, intervals: Intervals) -> None:
        """Load intervals that were computed from the agents' archives into a job, in the place of what they are now.

        Raises:
            JobError: these intervals are not to be loaded, or were computed for another publication.
        """
        body, headers = msgspec.msgpack.encode(intervals), {"Content-Type": "application/msgpack"}
        path = await self._path(name, "/intervals")
        await self._ask("POST", path, dict[str, Any], data=io.BytesIO(body), headers=headers)

    async def ingest(self, source: str, events: bytes | Iterable[Mapping[str, Any]]) -> int:
        """Push events to a source; returns how many lines are safe on the agent's disk.

        Args:
            source: a source of this very agent.
            events: NDJSON lines, or mappings that become such.
        """
        lines = events if isinstance(events, bytes) else "".join(json.dumps(e) + "\n" for e in events).encode()
        path, headers = f"/v1/ingest/{quote(source, safe='')}", {"Content-Type": "application/x-ndjson"}
        return (await self._ask("POST", path, Accepted, data=io.BytesIO(lines), headers=headers)).accepted

    async def _path(self, name: str, tail: str = "") -> str:
        creator, bare = split_name(name)
        return f"/v1/jobs/{creator or await self._creator_of(bare)}/{bare}{tail}"

    async def _creator_of(self, name: str) -> str:
        """Find whose job a bare name means: the only one there is, else one's own."""
        if name in self._creators:
            return self._creators[name]
        jobs = await self.jobs()
        creators = sorted({job.creator for job in jobs if job.name == name})
        if self._own_creator() in creators:
            creators = [self._own_creator()]
        if len(creators) > 1:
            choices = " or ".join(f"{creator}/{name}" for creator in creators)
            raise JobError(f"several creators have a job {name!r}; write {choices}")
        if creators:
            self._creators[name] = creators[0]
            return creators[0]
        # The agent's own list may lack a young job of ours; asking for it by its full name reaches its master.
        try:
            await self._ask("GET", f"/v1/jobs/{self._own_creator()}/{name}", dict[str, Any])
        except UnknownJobError:
            raise UnknownJobError(name, [job.name for job in jobs]) from None
        return self._own_creator()

    def _own_creator(self) -> str:
        return self._creator or default_creator()

    async def _ask(self, method: str, path: str, kind: type[T], **options: Any) -> T:
        """Send one request and decode the answer, or raise the error it stands for."""
        refuse_closed(self._session)
        try:
            async with self._session.request(method, self.url + path, **options) as response:
                body = await response.read()
                if not response.ok:
                    raise error_of(response.status, body, self.url)
                return msgspec.json.decode(body, type=kind)
        except (aiohttp.ClientError, OSError) as error:
            raise unreachable(self.url, error) from error
        except msgspec.DecodeError as error:
            raise UnavailableError(f"{self.url} answers, but not as an elf agent does ({error})") from None

    async def _stream(self, path: str, seen: str | None) -> AsyncGenerator[tuple[str | None, Result], None]:
        refuse_closed(self._session)
        headers = {"Accept": "text/event-stream"} | ({"Last-Event-ID": seen} if seen else {})
        timeout = aiohttp.ClientTimeout(sock_connect=TIMEOUT_S, sock_read=SILENCE_S)
        reader = EventReader()
        try:
            async with self._session.get(self.url + path, headers=headers, timeout=timeout) as response:
                if not response.ok:
                    raise error_of(response.status, await response.read(), self.url)
                async for data in response.content.iter_any():
                    for event in reader.feed(data):
                        if event.kind == "problem":
                            raise error_of(500, event.data, self.url)
                        yield event.id, msgspec.json.decode(event.data, type=Result)
        except (aiohttp.ClientError, OSError) as error:
            raise unreachable(self.url, error) from error
        except msgspec.DecodeError as error:
            raise UnavailableError(f"{self.url} sent a result we cannot read ({error})") from None
