"""Which jobs can be backfilled, and how long is waited for one."""

from __future__ import annotations

import pytest

from elf.agents.errors import JobError, UnavailableError
from elf.offline.backfill import ready
from elf.offline.backfill.ready import wait_ready
from tests.elf.offline.backfill.asked import QUERY, Asked, described


def nothing(what: str) -> None:
    raise AssertionError(what)


def test_jobs_that_have_no_intervals_are_refused() -> None:
    with pytest.raises(JobError, match="has no window"):
        wait_ready(Asked(described(None, window=None)), "top", nothing)


def test_a_job_without_a_result_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ready, "_LOOK_S", 0.0)
    monkeypatch.setattr(ready, "COMMIT_MS", -21_990)
    told: list[str] = []
    with pytest.raises(UnavailableError, match="has not had a result"):
        wait_ready(Asked(described(None, None)), "top", told.append)
    assert len(told) <= 1
    parts = [{"part": 0, "backfill": described(0, 10_000)["backfill"]}, {"part": 1, "trouble": "no answer"}]
    with pytest.raises(UnavailableError, match="a part of shop/top cannot be asked: no answer"):
        wait_ready(Asked(described(0, 10_000, parts=parts)), "top", nothing)


def test_an_agent_that_does_not_say_what_may_be_backfilled_is_too_old() -> None:
    with pytest.raises(JobError, match="what may be backfilled of shop/top"):
        wait_ready(Asked(described(0, 10_000, backfill=None)), "top", nothing)


def test_a_changed_job_is_as_of_the_version_that_may_be_backfilled_not_the_newest() -> None:
    first = {"version": 1, "what": "publish", "query": QUERY, "made_ms": 0, "columns": {"product": "STRING"}}
    newest = {**first, "version": 2, "what": "update", "query": QUERY.replace("product", "event"), "since_ms": 90_000}
    known = described(0, 10_000, query=newest["query"], columns={"event": "STRING"}, versions=[first, newest])
    job, plan = wait_ready(Asked({**known, "backfill": {**known["backfill"], "version": 1}}), "top", nothing)
    assert (job.query, list(plan.columns)) == (QUERY, ["product"])
    with pytest.raises(JobError, match="does not say how version 7 of shop/top counts"):
        wait_ready(Asked({**known, "backfill": {**known["backfill"], "version": 7}}), "top", nothing)


def test_trees_that_count_by_different_versions_are_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ready, "_LOOK_S", 0.0)
    first = {"version": 1, "what": "publish", "query": QUERY, "made_ms": 0, "columns": {"product": "STRING"}}
    second = {**first, "version": 2, "what": "update", "query": QUERY.replace("count(*)", "max(product)")}
    reach = described(10_000, 10_000)["backfill"]
    parts = [{"part": part, "backfill": {**reach, "version": 2 - part}} for part in range(2)]
    behind = described(10_000, 10_000, parts=parts, versions=[first, second])
    alike = {**behind, "parts": [{**each, "backfill": {**reach, "version": 2}} for each in parts]}
    told: list[str] = []
    job, _ = wait_ready(Asked(behind, behind, alike), "top", told.append)
    assert job.query == second["query"] and len(told) == 1
    monkeypatch.setattr(ready, "COMMIT_MS", -21_990)
    with pytest.raises(UnavailableError, match="not all trees of top have heard of its newest version"):
        wait_ready(Asked(behind), "top", told.append)
