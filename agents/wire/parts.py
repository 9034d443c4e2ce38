"""The parts of a job as other agents tell of them: which records are those of one publication, and what lists hold.

Parts of one publication are told by its instance, to which those other than the first append a word of their own, so
that one that is placed anew gets a new tree. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from elf.agents.errors import UnavailableError
from elf.agents.jobs.definition import TREES_MAX
from elf.agents.jobs.parts import Part, parts_of
from elf.agents.wire.catalogue import Catalogue
from elf.agents.wire.records import JobRecord


def siblings(job: JobRecord, catalogue: Catalogue) -> list[JobRecord]:
    """Return the records of all parts of a publication, this one included, ascending; none if one is not known here."""
    known = [catalogue.job(part.app) for part in job.definition.parts]
    found = [each for each in known if each is not None and not each.stopped and each.publication == job.publication]
    return found if len(found) == len(known) else []


def parts_told(first: Part, described: Mapping[str, Any]) -> list[Part]:
    """Return the parts that a job has, as another agent says; raises UnavailableError if no job can have so many."""
    trees = described["trees"]
    if not isinstance(trees, int) or not 1 <= trees <= TREES_MAX:
        raise UnavailableError(f"another agent says that a job has {str(trees)[:32]} trees; there are 1 to {TREES_MAX}")
    return parts_of(first.creator, first.name, trees)


def parts_left(first: Part, rows: Iterable[Mapping[str, Any]]) -> list[Part]:
    """Return the parts that may be left of a job without the first one, ascending; none where no row is of one.

    Args:
        first: of the job.
        rows: the jobs that agents know, and all their parts, as `listing.summary` makes them.
    """
    left = [parts_told(first, row) for row in rows if row["part"] and _first_of(row) == first]
    return max(left, key=len, default=[])[1:]


def whole_jobs(rows: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the rows of jobs, each once; one of which only parts other than the first are left is `in part`."""
    known = list(rows)
    whole = {_first_of(row).job: row for row in known if not row["part"]}
    for row in known:
        whole.setdefault(_first_of(row).job, {**row, "state": "in part"})
    return [whole[key] for key in sorted(whole)]


def _first_of(row: Mapping[str, Any]) -> Part:
    return Part(row["creator"], row["name"])
