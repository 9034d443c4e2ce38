"""Shares and news of parts, for tests of those that put them together."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from elf.agents.completeness.label import Label
from elf.agents.master.announcement import Rest, Told
from elf.agents.master.results import Span
from elf.agents.results.shares import Shared
from elf.agents.wire.records import JobRecord
from tests.agents.plans import plan_of

DEFINITION = plan_of(options="trees = 3").definition


def record(part: int = 0, publication: str = "one") -> JobRecord:
    """The record of a part."""
    return JobRecord(
        definition=msgspec.structs.replace(DEFINITION, part=part),
        master_host="127.0.0.1",
        master_port=4_000 + part,
        published_ms=0,
        instance=publication if part == 0 else f"{publication}.{part}",
        stamp_ms=0,
    )


def shared(part: int, span: Span | None, through_ms: int | None) -> Shared:
    """A share without rows."""
    job = record(part)
    label = Label(0, 1, 2)
    return Shared(
        job=job, span=span, through_ms=through_ms, edition=1, version=1, label=label, gaps=0, names={}, columns=[]
    )


def told(
    part: int, edition: int, through_ms: int | None, spans: Sequence[Span | None] = (), **rests: tuple[Span, int]
) -> Told:
    """What is new of a part."""
    found = {name: Rest(*rest) for name, rest in rests.items()}
    return Told(job=record(part), edition=edition, through_ms=through_ms, spans=list(spans), rests=found)
