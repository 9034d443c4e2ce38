"""What a pipeline makes of a job that agents run. Pure.

A table is of one definition: of a job that was changed it is the newest, for all windows. It says what the archives
hold by that definition, so neither when versions began nor pauses and resets, which are about what agents count.
"""

from __future__ import annotations

from elf.offline.asking import JobText
from elf.offline.pipeline.run import PipelineJob


def of_published(job: JobText) -> tuple[PipelineJob, str]:
    """Return what a pipeline needs of a job, and what a person should know of it; "" if it was never changed."""
    lateness_ms = job.options.lateness_ms
    found = PipelineJob(
        job.creator, job.name, job.source, job.query, job.columns, lateness_ms, names=job.agents, roster=job.roster
    )
    if len(job.versions) < 2:
        return found, ""
    return found, (
        f"{job.key} was changed while it ran: the table is of its newest definition (version "
        f"{job.versions[-1].version}), for all windows, also of when another one counted, or none in a pause"
    )
