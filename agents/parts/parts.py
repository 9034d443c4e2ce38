"""The parts of a job whose keys are spread over several trees: which records are those of one publication.

A part is a job of its own to all that works on it: it has a key, a tree, a master with a root group, and a record in
its source's tree. Part 0 is what people name. Parts of one publication are told by its instance, to which the others
append a word of their own, so that one that is placed anew gets a new tree. Pure.
"""

from __future__ import annotations

from agents.catalogue import Catalogue
from agents.requests import JobRecord


def siblings(job: JobRecord, catalogue: Catalogue) -> list[JobRecord]:
    """Return the records of all parts of a publication, this one included, ascending; none if one is not known here."""
    definition = job.definition
    known = [catalogue.job(definition.app_of(part)) for part in range(definition.options.trees)]
    found = [each for each in known if each is not None and not each.stopped and each.publication == job.publication]
    return found if len(found) == len(known) else []
