"""Hours of which an agent that results count has nothing in the archive."""

from __future__ import annotations

from pathlib import Path

from elf.agents.archive.layout import HOUR_MS, ArchivedFile, FileEntry
from elf.offline.verify.coverage import Coverage


def archived(agent: str, first_hour: int, last_hour: int) -> ArchivedFile:
    times = {"first_ms": first_hour * HOUR_MS, "last_ms": last_hour * HOUR_MS + 5}
    entry = FileEntry("", "clicks", agent, 1, rows=2, bytes=1, sha256="", columns={}, **times)
    return ArchivedFile(Path("x"), entry)


def test_an_agent_that_is_counted_without_files_is_named_with_the_hours() -> None:
    coverage = Coverage({"id-1": "web-1"}, ["web-1", "web-2", "web-3"])
    files = [archived("id-1", 0, 3), archived("web-2", 0, 0), archived("web-2", 3, 3)]
    coverage.note(files, (0, 4 * HOUR_MS), [{"missing": []}, {"missing": ["web-3"]}])
    two, three = coverage.gaps()
    assert two.startswith("web-2 is counted by results") and "1970-01-01T01:00:00Z to 1970-01-01T03:00:00Z" in two
    assert three.startswith("web-3 ") and "1970-01-01T00:00:00Z to 1970-01-01T04:00:00Z" in three
    assert "--archive" in three


def test_one_that_every_label_names_as_missing_is_no_gap() -> None:
    coverage = Coverage({}, ["web-1"])
    coverage.note([], (0, HOUR_MS), [{"missing": ["web-1"]}])
    assert coverage.gaps() == []


def test_no_more_is_said_of_an_hour_than_was_looked_at() -> None:
    coverage = Coverage({}, ["web-1"])
    for end_ms in (HOUR_MS - 10_000, HOUR_MS - 5_000):
        coverage.note([], (end_ms - 5_000, end_ms), [{"missing": []}])
    (gap,) = coverage.gaps()
    assert "from 1970-01-01T00:59:45Z to 1970-01-01T00:59:55Z" in gap
