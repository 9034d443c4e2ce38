"""The asynchronous client: an agent's HTTP API as methods with typed answers.

Any agent will do: it routes each question to the job's master. Errors are those of `elf.agents.errors`; that nobody
could answer in time is an `UnavailableError`. What asking twice does not change is asked again until then, of all
agents that the client was given: questions, `publish`, `stop` and `load`. Anything else only where no agent has taken
it.
"""

from __future__ import annotations

import contextlib
import json
import re
import uuid
from collections.abc import AsyncGenerator, Iterable, Mapping
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar
from urllib.parse import quote

import msgspec

from elf.agent_url import DEFAULT_URL, TIMEOUT_S, check_timeout, urls_of
from elf.agents.errors import BadRequestError, JobError, UnknownAgentError, UnknownJobError
from elf.agents.wire.result import Result, Window
from elf.client.attempts import Attempts
from elf.client.creator_keys import read_creator_key
from elf.client.creators import Creators
from elf.client.definitions import definition_of, signed_job
from elf.client.envelopes import Accepted, Entries, Members, Versions
from elf.client.following import follow
from elf.client.names import split_name
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
from elf.client.retries import Repeat
from elf.client.trails import Notice
from elf.client.until import Until, check_until

if TYPE_CHECKING:
    from elf.agents.jobs.orders import What
    from elf.agents.wire.changes import Kind

T = TypeVar("T")


class AsyncClient:
    """Talks to agents; use it as `async with elf.connect(url) as client`.

    Args:
        url: an agent's API, or those of several.
        token: their API token, if they have one.
        creator: whose jobs a bare name means first; default: $ELF_CREATOR, else the operating system's user.
        timeout: seconds within which a question is asked, again where that may help. What changes something and was
            sent is waited for up to 30 s.
        notice: is told, in a sentence, when a question takes more than a second because it has to be asked again.
        creator_key: file with the key that jobs which are published belong to, and that changes of them need; default:
            $ELF_CREATOR_KEY_FILE, else what `elf keygen --creator` has made, if it has.
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
        check_timeout(timeout)
        self._key = read_creator_key(None if creator_key is None else Path(creator_key))
        self._attempts = Attempts(urls_of(url), token, timeout, notice)
        self._creators = Creators(self._attempts, creator)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connections."""
        await self._attempts.close()

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
        creator = creator or self._creators.own()
        if key is not None:
            text = signed_job(file, text, filename, key, name, creator)
        body = {"definition": text, "filename": filename, "name": name, "creator": creator}
        order = {} if self._key is None else self._key.publish(text, filename, name, creator)
        end_s = self._attempts.end_s()
        job = await self._attempts.ask("POST", "/v1/jobs", Job, end_s=end_s, body=_json(body), headers=order)
        self._creators.note(job)
        return job

    async def jobs(self) -> list[Job]:
        """List the jobs that the agent knows."""
        return await self._creators.jobs(self._attempts.end_s())

    async def job(self, name: str) -> dict[str, Any]:
        """Return everything the agent tells about one job, running or stopped."""
        return await self._ask("GET", name, "", dict[str, Any])

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
            return await self._ask("GET", name, "/result", Result, params=parameters)
        except UnknownJobError:
            self._creators.forget(name)
            raise

    async def feedback(self, name: str) -> Result:
        """Return the newest result that has come to the first agent, of a job with `feedback`; nobody else is asked.

        Of a job with an application, what that has published.

        Raises:
            JobError: the job has no feedback.
            UnavailableError: no result has come to the agent yet.
        """
        return await self._ask("GET", name, "/feedback", Result, repeat=Repeat.UNANSWERED, here=True)

    async def route(self, name: str, query: Any) -> Any:
        """Have a job's application answer a query, at the job's master; both are made of what JSON has.

        Raises:
            JobError: the job has no application, or it answers with an error.
        """
        body = _json({"query": query})
        return (await self._ask("POST", name, "/route", dict[str, Any], repeat=Repeat.UNTAKEN, body=body))["answer"]

    async def watch(self, name: str, *, until: Until = None) -> AsyncGenerator[Result, None]:
        """Follow a job: yield its newest result, then each new or revised one until it is stopped, or `is_reached`.

        A lost connection is taken up again where it was lost, with any of the agents; each result comes once.

        Raises:
            UnavailableError: no agent answers, or none that follows the job for 30 s, or `timeout` if that is longer.
        """
        check_until(until)
        end_s = self._attempts.end_s()
        path = await self._creators.path(name, "/stream", end_s)
        async with contextlib.aclosing(follow(self._attempts, path, end_s, until)) as results:
            async for result in results:
                yield result

    async def tree(self, name: str, part: int = 0) -> Tree:
        """Return a job's reducer tree; of one with several, that of a part."""
        return await self._ask("GET", name, "/tree", Tree, params={"part": str(part)} if part else None)

    async def explain(self, name: str) -> dict[str, Any]:
        """Explain a running job: its plan, what it shares with others, its tree and its cost.

        Fields are those of `elf explain` in a pipe; None where something is not known, and `unknown` says so.
        """
        return await self._ask("GET", name, "/explain", dict[str, Any])

    async def members(self) -> list[Member]:
        """List the agents that the agent knows."""
        return (await self._attempts.ask("GET", "/v1/members", Members, end_s=self._attempts.end_s())).members

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
                creator = split_name(name)[0] or await self._creators.creator_of(bare, self._attempts.end_s())
                definition = signed_job(file, definition, filename, key, bare, creator)
            body |= {"definition": definition, "filename": filename}
            return await self._change(name, "update", body, definition=(definition, filename))
        return await self._change(name, "update", body, query=query, options=options)

    async def rollback(self, name: str, version: int | None = None) -> Version:
        """Let a running job go on as an earlier version of it, by default the one before the newest."""
        return await self._change(name, "rollback", {"version": version}, back=True, version=version)

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
        order = await self._order(name, "leap")
        return await self._ask("POST", name, "/leap", Leap, repeat=Repeat.UNTAKEN, headers=order)

    async def versions(self, name: str) -> list[Version]:
        """List the versions of a job that it remembers, the newest last."""
        return (await self._ask("GET", name, "/versions", Versions)).versions

    async def _change(self, name: str, change: Kind, body: Mapping[str, Any], **other: Any) -> Version:
        given = {field: value for field, value in body.items() if value is not None}
        sent, order = _json({"change": change, **given}), await self._order(name, change, **other)
        return await self._ask("POST", name, "/versions", Version, repeat=Repeat.UNTAKEN, body=sent, headers=order)

    async def _order(self, name: str, what: What, **other: Any) -> dict[str, str]:
        """Return the header that goes with a change of a job of this creator; arguments as of `CreatorKey.change`."""
        return {} if self._key is None else self._key.change(what, await self._known(name), **other)

    async def _known(self, name: str) -> dict[str, Any]:
        """Return what agents tell of a job, or of the parts that are left of it; nothing if there is none."""
        with contextlib.suppress(UnknownJobError):
            return await self.job(name)
        end_s = self._attempts.end_s()
        rows = (await self._attempts.ask("GET", "/v1/jobs", dict[str, Any], end_s=end_s))["jobs"]
        creator, bare = split_name(name)
        wanted = (creator or self._creators.own(), bare)
        return next((row for row in rows if (row["creator"], row["name"]) == wanted), {})

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
        order = {} if self._key is None else self._key.stop(await self._known(name), keep)
        stopped = await self._ask("DELETE", name, "", Stop, params=parameters, headers=order)
        if stopped.ends_ms is None:
            self._creators.forget(name)
        return stopped

    async def force(self, name: str) -> None:
        """Let the first agent go on alone with a job whose root group has lost its majority for good.

        What a majority decided and this agent did not hear of is lost, and if the other members live after all, two
        masters count: for disasters only.

        Raises:
            JobError: the agent keeps no copy of the job, or the group has a leader, as far as it knows.
        """
        await self._ask("POST", name, "/force", dict[str, Any], repeat=Repeat.UNTAKEN, here=True)

    async def retire(self, agent: str, job: str | None = None) -> Retirement:
        """Say that an agent is gone for good: jobs expect it no more; if it comes back it is admitted again.

        Args:
            agent: its name, address or id.
            job: only this job, `name` or `creator/name`; None: all jobs, those published later too.

        Raises:
            UnknownAgentError: no job expects it.
            AgentRunningError: it still answers.
        """
        tail, once = f"/members/{quote(agent, safe='')}", Repeat.UNTAKEN
        if job is not None:
            order = await self._order(job, "retire")
            return await self._ask("DELETE", job, tail, Retirement, repeat=once, headers=order)
        end_s = self._attempts.end_s()
        return await self._attempts.ask("DELETE", f"/v1{tail}", Retirement, end_s=end_s, repeat=once)

    async def reload(self) -> Reload:
        """Have the first agent read its settings again: all that changed holds when this returns, or nothing.

        Raises:
            ConfigError: its file is wrong, or changes what takes a restart.
            UnavailableError: not now.
        """
        end_s = self._attempts.end_s()
        return await self._attempts.ask("POST", "/v1/reload", Reload, end_s=end_s, repeat=Repeat.UNTAKEN, here=True)

    async def drain(self, within: str | None = None) -> Drain:
        """Take the first agent out of service: it hands on what it has, and ends; nobody waits for it.

        Args:
            within: how long that may take, as `60s`; what is not handed on by then is missing under its name.
        """
        end_s = self._attempts.end_s()
        params = {} if within is None else {"within": within}
        once = Repeat.UNTAKEN
        return await self._attempts.ask("POST", "/v1/drain", Drain, end_s=end_s, repeat=once, here=True, params=params)

    async def cancel_drain(self) -> Drain:
        """Keep the first agent, which was to be taken out of service, in it."""
        end_s = self._attempts.end_s()
        return await self._attempts.ask("DELETE", "/v1/drain", Drain, end_s=end_s, repeat=Repeat.UNTAKEN, here=True)

    async def purge(self, job: str | None = None, *, agent: str | None = None) -> Purge:
        """Purge a job, or what is known of an agent, everywhere; it takes an operator's key (`creator_key`).

        Args:
            job: `name` or `creator/name`, of any creator: nothing of it stays anywhere.
            agent: an agent's name, or its id (as `Member.agent` has it): it is not known any more until it says so
                again. Whether jobs still wait for it is `retire`'s.

        Raises:
            NotCreatorError: the key is no operator's.
            UnknownAgentError: nobody knows an agent of that name.
        """
        if self._key is None:
            raise JobError("to purge takes an operator's key: elf keygen --creator, and [api] operators of all agents")
        if (job is None) == (agent is None):
            raise JobError("purge takes either a job or agent=...")
        if job is not None:
            creator, bare = split_name(job)
            target = f"job/{creator or await self._creators.creator_of(bare, self._attempts.end_s())}/{bare}"
        else:
            target = f"member/{await self._agent_of(agent or '')}"
        path, end_s = f"/v1/records/{quote(target)}", self._attempts.end_s()
        return await self._attempts.ask("DELETE", path, Purge, end_s=end_s, headers=self._key.purge(target))

    async def _agent_of(self, named: str) -> str:
        members = await self.members()
        found = sorted({each.agent for each in members if named in (each.name, each.address, each.agent)})
        if len(found) > 1:
            raise JobError(f"{len(found)} agents are called {named!r}; name one by its id: {', '.join(found)}")
        if found or re.fullmatch("[0-9a-f]{8,128}", named):
            return found[0] if found else named
        raise UnknownAgentError(named, [each.name for each in members])

    async def audit(self, limit: int = 100) -> list[AuditEntry]:
        """Return who did what through the first agent, the newest last."""
        end_s, parameters = self._attempts.end_s(), {"limit": str(limit)}
        answer = await self._attempts.ask("GET", "/v1/audit", Entries, end_s=end_s, params=parameters, here=True)
        return answer.entries

    async def load(self, name: str, intervals: Intervals) -> None:
        """Load intervals that were computed from the agents' archives into a job, in the place of what they are now.

        Raises:
            JobError: these intervals are not to be loaded, or were computed for another publication.
        """
        body, order = msgspec.msgpack.encode(intervals), await self._order(name, "load")
        media = "application/msgpack"
        await self._ask("POST", name, "/intervals", dict[str, Any], body=body, media=media, headers=order)

    async def ingest(
        self,
        source: str,
        events: bytes | Iterable[Mapping[str, Any]],
        *,
        key: str | None = None,
        serial: int | None = None,
    ) -> int:
        """Push events to a source; returns how many lines are safe on the agent's disk.

        They count once, however often they are sent: the agent knows them by a key, and remembers it for an hour.

        Args:
            source: a source of the first agent.
            events: NDJSON lines, or mappings that become such.
            key: what they are known by, up to 128 visible ASCII characters, for who sends them again after an error, or
                a restart of his own; unless given, one is made up for this call and its tries.
            serial: a number that rises with each push under this key, which is the name of whoever pushes, one after
                the other, then: the agent remembers the last one, however many there are.

        Raises:
            UnavailableError: the agent is not there, or takes no more for now; or the connection broke, and nobody
                knows whether it has them.
            KeyReusedError: other events were pushed under that key.
        """
        if serial is not None and key is None:
            raise BadRequestError("a serial is of whoever pushes: give key=, a name of his own")
        numbered = {} if serial is None else {"Push-Serial": str(serial)}
        lines = events if isinstance(events, bytes) else "".join(json.dumps(e) + "\n" for e in events).encode()
        answer = await self._attempts.ask(
            "POST",
            f"/v1/ingest/{quote(source, safe='')}",
            Accepted,
            end_s=self._attempts.end_s(),
            here=True,
            body=lines,
            media="application/x-ndjson",
            headers={"Idempotency-Key": key or uuid.uuid4().hex, **numbered},
        )
        return answer.accepted

    async def _ask(self, method: str, name: str, tail: str, kind: type[T], **how: Any) -> T:
        """Ask for something of a job, within one deadline; arguments as of `Attempts.ask`."""
        end_s = self._attempts.end_s()
        return await self._attempts.ask(method, await self._creators.path(name, tail, end_s), kind, end_s=end_s, **how)


def _json(body: Mapping[str, Any]) -> bytes:
    return json.dumps(body).encode()
