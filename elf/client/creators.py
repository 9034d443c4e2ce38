"""Whose job a bare name means: the only one there is of it, else one's own."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from elf.agents.errors import JobError, UnknownJobError
from elf.client.attempts import Attempts
from elf.client.envelopes import Jobs
from elf.client.names import default_creator, split_name
from elf.client.results import Job


class Creators:
    """Those whom one client has met.

    Args:
        attempts: asks agents.
        own: whose jobs a bare name means first; None: the default's.
    """

    def __init__(self, attempts: Attempts, own: str | None) -> None:
        self._attempts = attempts
        self._own = own
        self._known: dict[str, str] = {}

    def own(self) -> str:
        """Return who asks."""
        return self._own or default_creator()

    def note(self, job: Job) -> None:
        """Remember that a job's name alone means this one."""
        self._known[job.name] = job.creator

    def forget(self, name: str) -> None:
        """Ask anew whose job a name means."""
        self._known.pop(name, None)

    async def path(self, name: str, tail: str, end_s: float) -> str:
        """Return the path of something of a job.

        Args:
            name: the job's, with or without its creator.
            tail: of the path, with its slash.
            end_s: agents are asked until then.

        Raises:
            JobError: the name is none, or several creators have such a job.
            UnknownJobError: nobody has.
        """
        creator, bare = split_name(name)
        return f"/v1/jobs/{creator or await self.creator_of(bare, end_s)}/{bare}{tail}"

    async def creator_of(self, name: str, end_s: float) -> str:
        """Return whose job a bare name means; arguments and errors as of `path`."""
        if name in self._known:
            return self._known[name]
        if (found := self._listed(name, await self.jobs(end_s))) is not None:
            return found
        # The agent's own list may lack a young job of ours; asking for it by its full name reaches its master.
        own = self.own()
        try:
            await self._attempts.ask("GET", f"/v1/jobs/{own}/{name}", dict[str, Any], end_s=end_s)
        except UnknownJobError:
            # One that was just started may have met the others only now, after it made the list.
            jobs = await self.jobs(end_s)
            if (found := self._listed(name, jobs)) is not None:
                return found
            raise UnknownJobError(name, [job.name for job in jobs]) from None
        return own

    async def jobs(self, end_s: float) -> list[Job]:
        """Return the jobs that an agent knows."""
        return (await self._attempts.ask("GET", "/v1/jobs", Jobs, end_s=end_s)).jobs

    def _listed(self, name: str, jobs: Iterable[Job]) -> str | None:
        """Return whose job of that name is meant, and remember it; None if there is none."""
        creators = sorted({job.creator for job in jobs if job.name == name})
        if self.own() in creators:
            creators = [self.own()]
        if len(creators) > 1:
            choices = " or ".join(f"{creator}/{name}" for creator in creators)
            raise JobError(f"several creators have a job {name!r}; write {choices}")
        if creators:
            self._known[name] = creators[0]
        return creators[0] if creators else None
