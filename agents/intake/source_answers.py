"""What an agent answers about its own sources: their columns and members, and the work that jobs make there."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

from elf.agents.errors import UnavailableError
from elf.agents.intake.intake import Intake
from elf.agents.intake.source_setup import archive_folder, describe_columns
from elf.agents.settings.config import AgentConfig
from elf.agents.wire.catalogue import Catalogue
from elf.agents.wire.positions import Json
from elf.agents.wire.records import Member
from elf.agents.wire.sources import DescribeSource, Inspect
from elf.agents.worker.sharing.description import sharing_of
from elf.agents.worker.snapshot_size import Handed


class SourceAnswers:
    """Answers for one agent; asked for sources that it has.

    Args:
        config: tells the agent's settings.
        me: how it introduces itself.
        catalogue: jobs and members known here.
        intakes: the sources.
        handed: what was handed to the overlay, by a job's tree.
    """

    def __init__(
        self,
        config: Callable[[], AgentConfig],
        me: Callable[[], Member],
        catalogue: Catalogue,
        intakes: Mapping[str, Intake],
        handed: Mapping[bytes, Handed],
    ) -> None:
        self._config = config
        self._me = me
        self._catalogue = catalogue
        self._intakes = intakes
        self._handed = handed

    async def answer(self, request: DescribeSource | Inspect) -> Json:
        """Answer a request about a source."""
        if isinstance(request, Inspect):
            return self._inspect(request)
        return await self._describe(request)

    async def _describe(self, request: DescribeSource) -> Json:
        source, me = request.source, self._me()
        settings, intake = self._config().sources[source], self._intakes[source]
        described = await asyncio.to_thread(
            describe_columns, source, settings, intake.push.path, request.names, intake.pump.decoder
        )
        known = self._catalogue.members(source)
        members = {member.agent_id: member.address for member in known}
        members[me.agent_id] = me.address
        keys = {member.agent_id: member.signed.key for member in known if member.signed is not None}
        parts = [self._catalogue.job(app) for app in request.apps]
        records = [job.encode() if job else None for job in parts]
        return {**described, "address": me.address, "members": members, "keys": keys, "records": records}

    def _inspect(self, request: Inspect) -> Json:
        """Tell which other jobs share work with one here, and what it costs this agent.

        Returns:
            `{"agent", "sharing", "open_bytes", "snapshots", "snapshot_bytes"}`; sharing as of `sharing_of`, bytes those
            held now (of trees that several jobs hold, its part), and of all snapshots since this agent's start; empty
            ones do not count.

        Raises:
            UnavailableError: the job is not known here yet.
        """
        job = self._catalogue.job(request.app)
        if job is None or job.stopped:
            raise UnavailableError(f"the agent {self._me().name} has not heard of the job yet")
        pump = self._intakes[request.source].pump
        everyone = tuple(pump.workers.values())
        decoder = None if archive_folder(self._config()) is None else pump.decoder
        anyway = {} if decoder is None else decoder.columns
        workers = [each for each in everyone if each.plan.definition.first.app == request.app]
        handed = [self._handed[each.tree] for each in workers if each.tree in self._handed]
        return {
            "agent": self._me().name,
            "sharing": sharing_of(self._catalogue.plan(job.tree), everyone, anyway),
            "open_bytes": sum(each.memory_bytes for each in workers),
            "snapshots": sum(each.snapshots for each in handed),
            "snapshot_bytes": sum(each.bytes for each in handed),
        }
