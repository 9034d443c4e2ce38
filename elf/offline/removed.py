"""Which hours the archives no longer have, said in a sentence: what nobody can compute any more is no difference."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from elf.agents.archive.place import Place
from elf.agents.archive.removed import EVER_MS, Removed, join_spans, read_removed
from elf.agents.language.instants import instant
from elf.offline.archives import distinct

#: Hours named in one sentence.
_NAMED_MAX = 3


def removed_records(folders: Iterable[Place], source: str) -> list[Removed]:
    """Read what all agents have removed of a source.

    Raises:
        ArchiveError: an agent's record of what it has removed is damaged.
    """
    return [record for folder in distinct(folders) for record in read_removed(folder, source)]


def removed_hours(
    records: Iterable[Removed], start_ms: int | None, end_ms: int | None, names: Mapping[str, str] | None = None
) -> str:
    """Say which hours of [start_ms, end_ms) retention has removed, and at which agents; "" if none.

    Args:
        records: of all agents.
        start_ms: begin of the time asked about; None is no bound.
        end_ms: its end.
        names: the agents' names by their ids, which the records go by.
    """
    known = names or {}
    removed = [(known.get(record.agent, record.agent), record.between(start_ms, end_ms)) for record in records]
    spans = join_spans(span for _, each in removed for span in each)
    if not spans:
        return ""
    agents = ", ".join(sorted({agent for agent, each in removed if each}))
    named = ", ".join(
        f"{'the start' if start <= EVER_MS else instant(start)}/{instant(end)}" for start, end in spans[:_NAMED_MAX]
    )
    more = f" and {len(spans) - _NAMED_MAX} more" if len(spans) > _NAMED_MAX else ""
    return f"the archive no longer has these hours: {named}{more} (removed at {agents})"
