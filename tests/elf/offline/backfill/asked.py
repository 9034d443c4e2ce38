"""An agent that describes a job with something to backfill, and files of its archives."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from elf.agents.archive.layout import ArchivedFile, FileEntry
from elf.client.results import Intervals

QUERY = "SELECT product, count(*) AS n FROM clicks GROUP BY product, window(ts, '10 seconds')"


def archived(agent: str, first_ms: int, last_ms: int, size: int = 1, *columns: str, rows: int = 1) -> ArchivedFile:
    entry = FileEntry(
        path="", source="clicks", agent=agent, sequence=1, rows=rows, bytes=size, sha256="", first_ms=first_ms,
        last_ms=last_ms, columns={"ts": "TIMESTAMP", **dict.fromkeys(columns or ("product",), "STRING")},
    )  # fmt: skip
    return ArchivedFile(Path("x.parquet"), entry)


class Asked:
    """An agent that describes a job, each time as the next of some descriptions."""

    def __init__(self, *answers: dict[str, Any]) -> None:
        self.answers, self.loaded = list(answers), list[Intervals]()

    def job(self, name: str) -> dict[str, Any]:
        return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]

    def load(self, name: str, intervals: Intervals) -> None:
        self.loaded.append(intervals)


def described(until_ms: int | None, *through_ms: int | None, **changes: Any) -> dict[str, Any]:
    agents = [{"agent": f"id{i}", "name": f"web{i}", "through_ms": each} for i, each in enumerate(through_ms)]
    first_ms = None if until_ms is None else 0
    known = {"instance": "i", "first_ms": first_ms, "until_ms": until_ms, "agents": agents}
    job = {"creator": "shop", "name": "top", "source": "clicks", "query": QUERY, "columns": {"product": "STRING"}}
    window = {"size_ms": 10_000, "slide_ms": 10_000}
    return {**job, "options": {}, "backfill": known, "interval_ms": 10_000, "window": window, **changes}
