"""What the HTTP door asks of the agent behind it: one protocol, no web in it.

The runtime implements `AgentService`; tests use an in-memory one. Every method may raise the errors of
`elf.agents.errors` and the two below; `elf.agents.http.problems` turns them into problem+json. Dictionaries are
JSON-ready: text, numbers, booleans, None, lists and dictionaries of these.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Annotated, Any, Protocol

import msgspec

from elf.agents.jobs.definition import TREES_MAX
from elf.agents.publications.change import Wanted
from elf.agents.wire.positions import Json, Position, Positioned, Told
from elf.overlay.fields import Interval


class Loaded(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Intervals of a job, or of one of its parts, as `elf.agents.wire.shares.LoadIntervals` has them."""

    instance: str
    first: Interval
    last: Interval
    block: bytes
    missing: tuple[str, ...] = ()
    part: Annotated[int, msgspec.Meta(ge=0, lt=TREES_MAX)] = 0


class AgentService(Protocol):
    """One agent as its HTTP API sees it."""

    async def publish(self, text: str, filename: str, name: str | None, creator: str | None) -> Json:
        """Check and publish a job from the text of its file.

        Args:
            text: TOML job file or bare SQL.
            filename: its name; the suffix tells the kind, the stem is the default name of a bare SQL job.
            name: replaces the name in the file.
            creator: the creator if the file names none.

        Returns:
            The row that `jobs` has of it.

        Raises:
            JobSpecError: the job cannot run as written.
            JobConflictError: the same creator runs another job of this name.
        """
        ...

    async def jobs(self) -> list[Json]:
        """List the jobs this agent knows.

        Returns:
            `{"creator", "name", "app_id" (hex), "source", "query", "columns" (types as published), "master", "state",
            "version", "ends_ms" (until when a stopped one can be resumed), ...}` each.
        """
        ...

    async def job(self, creator: str, name: str) -> Json:
        """Describe one job: its definition, master and status; UnknownJobError if there is none."""
        ...

    async def stop(self, creator: str, name: str, keep_ms: int | None = None) -> Json:
        """Stop a job on all agents.

        Args:
            creator: of the job.
            name: of the job.
            keep_ms: how long it can be resumed; 0: it ends for good at once. None: a day, if that is possible.

        Returns:
            `{"creator", "name", "state", "ends_ms"}`: `stopped` and until when it can be resumed, or `ended` and None.

        Raises:
            UnknownJobError: there is none.
            JobError: it can only be stopped for good.
        """
        ...

    async def change(self, creator: str, name: str, wanted: Wanted) -> Json:
        """Make another version of a running job, or take a paused or stopped one up again.

        Returns:
            `{"version", "what", "since_ms", "until_ms", "begins_ms", "made_ms", "ends_ms", "query", "columns",
            "options"}`, as the `versions` of `job` has it: effective from event time `since_ms` on, on all agents.

        Raises:
            UnknownJobError: there is no such job.
            JobSpecError: the new definition cannot run as written, or not from where the job is.
            JobConflictError: the job has another newest version than `expected`, or is paused or
                stopped.
        """
        ...

    async def leap(self, creator: str, name: str) -> Json:
        """Wait no longer for a job's stragglers in the interval that they keep waiting.

        Returns:
            `{"through_ms", "agents"}`: the interval's end, and the names of those that it is committed without.

        Raises:
            JobConflictError: nobody is waited for.
        """
        ...

    async def force(self, creator: str, name: str) -> None:
        """Let this agent go on alone with a job whose root group has lost its majority for good."""
        ...

    async def retire(self, agent: str, job: str | None) -> Json:
        """Take an agent that is gone for good off the roster of one job (`creator/name`), or of all.

        Returns:
            `{"agent", "name", "jobs": [{"job", "missing_since_ms"}], "unreachable": [{"job", "why"}]}`.

        Raises:
            UnknownAgentError: nobody knows it.
            AgentRunningError: it still answers.
        """
        ...

    async def result(self, creator: str, name: str, window: str, key: str | None, limit: int | None) -> Json:
        """Ask the job's master for one result, from anywhere; StoppedError if the job is stopped.

        Args:
            creator: of the job.
            name: of the job.
            window: `latest`, `START/END` or a length such as `300s`; well-formed, as `elf.agents.master.window_texts`
                checked.
            key: only rows whose first group key is this, as people write it; None: all.
            limit: most rows to return; None: all.

        Returns:
            The Result of the contract: job, window, columns, rows, completeness, master, hops.
        """
        ...

    def feedback(self, creator: str, name: str) -> Told:
        """Return the newest result of a job that has come to this very agent; nobody else is asked.

        Raises:
            UnknownJobError: this agent does not know the job.
            StoppedError: the job is stopped.
            JobError: the job has no feedback.
            UnavailableError: no result has come yet.
        """
        ...

    async def route(self, creator: str, name: str, query: Any) -> Any:
        """Have a job's application answer a query, at its master; both are JSON.

        Raises:
            JobError: the job has no application, or it answers with an error.
            UnavailableError: it is too busy, or its master out of reach.
        """
        ...

    def results(self, creator: str, name: str, position: Position | None = None) -> AsyncIterator[Positioned]:
        """Follow a job: the newest result at once, then each new, early or revised one.

        Errors surface on the first step.

        Args:
            creator: of the job.
            name: of the job.
            position: where an earlier follower stopped; what is newer comes instead of the newest result.
        """
        ...

    async def load(self, creator: str, name: str, loaded: Loaded) -> Json:
        """Load intervals that were computed from the agents' archives, in the place of what they are now.

        Returns:
            `{"first", "last", "edition"}`.

        Raises:
            JobError: these intervals are not to be loaded, or were computed for another publication.
        """
        ...

    async def tree(self, creator: str, name: str, part: int = 0) -> Json:
        """Describe one of the job's reducer trees: `{"root": id, "nodes": [{id, address, name, parent, role}]}`."""
        ...

    async def explain(self, creator: str, name: str) -> Json:
        """Explain a job: its plan, what it shares, its tree and its cost (`elf.agents.results.explanation`)."""
        ...

    async def members(self) -> list[Json]:
        """List the agents this one knows: `{id, address, name, sources, is_self}` each."""
        ...

    async def ingest(self, source: str, ndjson: bytes) -> int:
        """Take whole lines for a source; return how many, only after they are safe on disk (fsync).

        Raises:
            UnknownSourceError: no such source here.
            UnavailableError: the agent is full; the caller should come again later.
        """
        ...

    def health(self) -> Json:
        """Tell that the process lives, and what it is (name, version, node id)."""
        ...

    def ready(self) -> tuple[bool, list[str]]:
        """Tell whether the agent makes progress: joined, reading, committing; if not, the reasons."""
        ...

    def notes(self) -> list[str]:
        """Say what an operator should look at though the agent makes progress: whom it does not hear, say."""
        ...

    def metrics(self) -> bytes:
        """Render all metrics in the Prometheus text format."""
        ...
