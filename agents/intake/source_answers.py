"""What an agent answers about its own sources: their columns and members, and the work that jobs make there."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from elf.agents.errors import UnavailableError
from elf.agents.intake.source_setup import archive_folder, describe_columns
from elf.agents.master.results import Json
from elf.agents.wire.requests import DescribeSource, Inspect
from elf.agents.worker.sharing.description import sharing_of

if TYPE_CHECKING:
    from elf.agents.agent import Agent


class OwnSources:
    """Answers for one agent; asked for sources that it has."""

    def __init__(self, agent: Agent) -> None:
        self._agent = agent

    async def answer(self, request: DescribeSource | Inspect) -> Json:
        """Answer a request about a source."""
        if isinstance(request, Inspect):
            return self._inspect(request)
        return await self._describe(request)

    async def _describe(self, request: DescribeSource) -> Json:
        agent, source = self._agent, request.source
        settings, spool = agent.config.sources[source], agent.intakes[source].push.path
        described = await asyncio.to_thread(describe_columns, source, settings, spool, request.names)
        members = {member.agent_id: member.address for member in agent.catalogue.members(source)}
        address = members[agent.agent_id] = agent.node.contact.address
        parts = [agent.catalogue.job(app) for app in request.apps]
        records = [job.encode() if job else None for job in parts]
        return {**described, "address": address, "members": members, "records": records}

    def _inspect(self, request: Inspect) -> Json:
        """Tell which other jobs share work with one here, and what it costs this agent.

        Returns:
            `{"agent", "sharing", "open_bytes", "snapshots", "snapshot_bytes"}`; sharing as of `sharing_of`, bytes those
            held now (of trees that several jobs hold, its part), and of all snapshots since this agent's start; empty
            ones do not count.

        Raises:
            UnavailableError: the job is not known here yet.
        """
        agent = self._agent
        job = agent.catalogue.job(request.app)
        if job is None or job.stopped:
            raise UnavailableError(f"the agent {agent.introduce().name} has not heard of the job yet")
        pump = agent.intakes[request.source].pump
        everyone = tuple(pump.workers.values())
        anyway = pump.columns if archive_folder(agent.config) is not None else {}
        workers = [each for each in everyone if each.plan.definition.first.app == request.app]
        handed = [agent.attachments.handed[each.tree] for each in workers if each.tree in agent.attachments.handed]
        return {
            "agent": agent.introduce().name,
            "sharing": sharing_of(agent.catalogue.plan(job.tree), everyone, anyway),
            "open_bytes": sum(each.memory_bytes for each in workers),
            "snapshots": sum(each.snapshots for each in handed),
            "snapshot_bytes": sum(each.bytes for each in handed),
        }
