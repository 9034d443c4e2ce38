"""What agents with a source are asked about it, and told through its tree. Pure."""

from __future__ import annotations

from typing import Annotated, TypeAlias

import msgspec

from elf.agents.jobs.definition import TREES_MAX
from elf.agents.wire.replicas import Request
from elf.overlay.fields import AppId
from elf.overlay.ids import partition_id

SourceName: TypeAlias = Annotated[str, msgspec.Meta(pattern=r"^[^\x00]+$")]


#: Longest list of names one reply carries.
NAMES_MAX = 10_000


class Spread(Request, frozen=True, tag="spread"):
    """Add a job record to its source's tree; asked of whoever is closest to the source's id."""

    source: SourceName
    key: str
    version: int
    body: bytes


class DescribeSource(Request, frozen=True, tag="source"):
    """Tell a source's columns (of those named) and members, and the newest known record of `job`, if any.

    Asked of an agent that has the source. `trees`: of how many of the job's parts.
    """

    source: SourceName
    names: tuple[str, ...]
    job: AppId
    trees: Annotated[int, msgspec.Meta(ge=1, le=TREES_MAX)] = 1

    @property
    def apps(self) -> list[bytes]:
        """The keys of all parts of the job."""
        return [partition_id(self.job, number) for number in range(self.trees)]


class Inspect(Request, frozen=True, tag="inspect"):
    """Tell what a running job costs an agent of its source, and which jobs it shares work with there.

    Asked of an agent that has the source.
    """

    source: SourceName
    app: AppId
