"""The parts of a job: m >= 1 trees over which its keys are spread; m is 1 for most jobs. Pure.

A part is a job of its own to all that works on it: it has a key, a tree, a master with a root group, and a record in
its source's tree. The first one is what people name. Whoever has to do with a job as a whole goes through its parts.
"""

from __future__ import annotations

import functools
from typing import NamedTuple

from elf.overlay.ids import app_id, partition_id


class Part(NamedTuple):
    """One part of a job; the first one is number 0."""

    creator: str
    name: str
    number: int = 0

    @property
    def app(self) -> bytes:
        """Its key in the overlay; of the first part SHA-1 of name and creator (paper, section 2.3)."""
        return _app_of(self)

    @property
    def job(self) -> str:
        """The job as people write it."""
        return f"{self.creator}/{self.name}"

    @property
    def key(self) -> str:
        """`creator/name`, and `#number` behind it for parts other than the first."""
        return f"{self.job}#{self.number}" if self.number else self.job


@functools.lru_cache(maxsize=4_096)
def _app_of(part: Part) -> bytes:
    return partition_id(app_id(part.name, part.creator), part.number)


def parts_of(creator: str, name: str, trees: int) -> list[Part]:
    """Return the parts of a job with so many trees, the first one first."""
    return [Part(creator, name, number) for number in range(trees)]


def first_part(job: str) -> Part:
    """Return the first part of a job, by `creator/name`."""
    creator, _, name = job.partition("/")
    return Part(creator, name)
