"""A job as a row of lists, and what of it tells one publication from another. Pure."""

from __future__ import annotations

from agents.masters.results import Json
from agents.requests import JobRecord


def summary(job: JobRecord) -> Json:
    """The row of a job in lists."""
    definition = job.definition
    return {
        "creator": definition.creator,
        "name": definition.name,
        "app_id": definition.app_id.hex(),
        "source": definition.source,
        "query": definition.query,
        "columns": definition.columns,
        "master": job.master.address,
        "state": "stopped" if job.stopped else "paused" if job.history[-1].is_paused else "running",
        "version": definition.version,
        "trees": definition.options.trees,
        "part": definition.part,
        "published_ms": job.published_ms,
    }


def content_of(job: JobRecord) -> object:
    """Return what makes a publication of a job the same as another."""
    definition = job.definition
    return definition.source, definition.query, definition.columns, definition.options
