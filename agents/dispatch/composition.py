"""The answers of one agent put together from what its two halves know."""

from __future__ import annotations

from collections.abc import Callable

from elf.agents.dispatch.dispatch import AddRecord, Answers
from elf.agents.dispatch.of_agent import AgentAnswers
from elf.agents.dispatch.of_job import JobAnswers
from elf.agents.host.clock import Clock
from elf.agents.intake.source_answers import SourceAnswers
from elf.agents.master_side import MasterSide
from elf.agents.purge import Purging
from elf.agents.settings.config import AgentConfig
from elf.agents.wire.purges import Purge
from elf.agents.wire.records import Member
from elf.agents.worker_side import WorkerSide
from elf.overlay.node import OverlayNode


def make_answers(
    config: Callable[[], AgentConfig],
    me: Callable[[], Member],
    node: OverlayNode,
    jobs: MasterSide,
    sources: WorkerSide,
    add_record: AddRecord,
    now_ms: Clock,
    purging: Purging,
) -> Answers:
    """Make what answers other agents.

    Args:
        config: tells the agent's settings.
        me: how it introduces itself.
        node: the overlay.
        jobs: its half that masters jobs.
        sources: its half that works on them.
        add_record: puts a record into a tree that it stands in.
        now_ms: its clock.
        purging: purges what operators order.
    """
    own = SourceAnswers(config, me, jobs.catalogue, sources.intakes, sources.attachments.handed)
    of_agent = AgentAnswers(
        me,
        node,
        jobs.catalogue,
        jobs.masters,
        jobs.applications,
        jobs.handlers() | sources.handlers() | {Purge: purging.answer},
        own.answer,
        now_ms,
    )
    of_job = JobAnswers(node, jobs.masters, jobs.sides, jobs.results, jobs.applications, now_ms)
    return Answers(node, jobs.catalogue, jobs.masters, jobs.sides, of_job, of_agent, add_record)
