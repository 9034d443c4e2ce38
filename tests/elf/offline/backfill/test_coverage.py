"""Whose archives lack what."""

from __future__ import annotations

from elf.agents.jobs.intervals import Numbering
from elf.offline.asking import CountedAgent, Reach
from elf.offline.backfill.coverage import Coverage, whole_runs
from tests.elf.offline.backfill.asked import archived


def reach(*through_ms: int | None, until_ms: int | None = 100_000) -> Reach:
    agents = [CountedAgent(f"id{number}", f"web{number}", each) for number, each in enumerate(through_ms)]
    return Reach("instance", None if until_ms is None else 0, until_ms, agents)


def test_an_archive_has_all_events_after_the_interval_it_begins_in_and_up_to_what_was_counted() -> None:
    files = [archived("id0", 12_000, 90_000), archived("id0", 55_000, 60_000), archived("id1", 0, 90_000)]
    coverage = Coverage(files, [reach(100_000, 50_000, None, 100_000)], Numbering(10_000))
    assert [coverage.missing(interval) for interval in (1, 2, 4, 5)] == [
        ["id0", "id2", "id3"], ["id2", "id3"], ["id2", "id3"], ["id1", "id2", "id3"],
    ]  # fmt: skip
    assert coverage.unseen == ["web2", "web3"]
    assert sorted(coverage.bounds) == [1, 2, 5, 10]


def test_an_archive_lacks_what_was_read_without_a_column_that_the_query_reads() -> None:
    files = [
        archived("id0", 0, 19_999),
        archived("id0", 20_000, 29_999, 1, "event"),
        archived("id0", 25_000, 34_000, 1, "event"),
        archived("id1", 0, 90_000, 1, "event", "product"),
    ]
    coverage = Coverage(files, [reach(100_000, 100_000)], Numbering(10_000), ["product"])
    assert [coverage.missing(interval) for interval in range(1, 5)] == [[], ["id0"], ["id0"], []]
    assert {2, 4} <= set(coverage.bounds) and coverage.unseen == []


def test_of_several_parts_an_agent_was_counted_up_to_the_last_that_all_have() -> None:
    coverage = Coverage([archived("id0", 0, 90_000)], [reach(100_000), reach(30_000)], Numbering(10_000))
    assert [coverage.missing(interval) for interval in (2, 3)] == [[], ["id0"]]


def test_runs_are_split_where_coverage_changes() -> None:
    assert list(whole_runs([5, 3, 12, 1, 3], 3, 9)) == [(3, 4), (5, 9)]
    assert list(whole_runs([], 3, 3)) == [(3, 3)]
