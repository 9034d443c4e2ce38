"""The parts of a job whose keys are spread over several trees: which records are those of one publication.

A part is a job of its own to all that works on it: it has a key, a tree, a master with a root group, and a record in
its source's tree. Part 0 is what people name. Parts of one publication are told by its instance, to which the others
append a word of their own, so that one that is placed anew gets a new tree. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from elf.agents.errors import UnavailableError
from elf.agents.jobs.definition import TREES_MAX
from elf.agents.wire.catalogue import Catalogue
from elf.agents.wire.requests import JobRecord


def siblings(job: JobRecord, catalogue: Catalogue) -> list[JobRecord]:
    """Return the records of all parts of a publication, this one included, ascending; none if one is not known here."""
    definition = job.definition
    known = [catalogue.job(definition.app_of(part)) for part in range(definition.options.trees)]
    found = [each for each in known if each is not None and not each.stopped and each.publication == job.publication]
    return found if len(found) == len(known) else []


def trees_of(described: Mapping[str, Any]) -> int:
    """Return how many trees a job has, as another agent says; raises UnavailableError if no job can have so many."""
    trees = described["trees"]
    if not isinstance(trees, int) or not 1 <= trees <= TREES_MAX:
        raise UnavailableError(f"another agent says that a job has {str(trees)[:32]} trees; there are 1 to {TREES_MAX}")
    return trees
