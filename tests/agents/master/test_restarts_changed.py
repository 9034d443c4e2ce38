"""A master that comes back from disk after its job was changed answers as it did before."""

from __future__ import annotations

import pathlib

import pytest

from elf.agents.store.panes import Kind
from elf.agents.wire.positions import Json
from elf.overlay.contract import NEVER
from tests.agents.master.backfilled import FEWER, SUMMED, Job, history
from tests.agents.plans import CUMULATIVE, plan_of

TOTAL = plan_of(CUMULATIVE)
OTHER = plan_of("SELECT product, count(*) AS n FROM clicks WHERE cents > 1 GROUP BY product")
RANKED = plan_of(CUMULATIVE + " HAVING n > 1")
CUMULATIVES = {
    "updated": history(("publish", TOTAL, NEVER, NEVER, 0), ("update", OTHER, 5, 5, 2)),
    "ranked": history(("publish", TOTAL, NEVER, NEVER, 0), ("update", RANKED, 5, NEVER, 0)),
    "reset": history(("publish", TOTAL, NEVER, NEVER, 0), ("pause", TOTAL, 3, NEVER, 0), ("reset", TOTAL, 5, 5, 3)),
    "paused": history(
        ("publish", TOTAL, NEVER, NEVER, 0), ("pause", TOTAL, 3, NEVER, 0), ("resume", TOTAL, 5, NEVER, 0)
    ),
}


def answer(job: Job) -> Json:
    result = job.master.windows.result(None, None, None, str)
    return {"rows": result.rows, **result.completeness}


@pytest.mark.parametrize("name", CUMULATIVES)
@pytest.mark.parametrize("step", [1, 3])
def test_a_job_without_window(tmp_path: pathlib.Path, name: str, step: int) -> None:
    versions = CUMULATIVES[name]
    with Job(tmp_path, versions) as job:
        for through in range(1, 12, step):
            new = range(max(through - step, 0) + 1, through + 1)
            told = {agent: {number: 5 for number in (2, 3)} for agent in ("w1", "w2")}
            rows = [(at, "a") for at in new if not versions.at(at).version.is_paused]
            job.commit(through, rows, None, told)
            before = answer(job)
            assert before["gaps"] == 0
            job.restart()
            assert answer(job) == before


def test_a_reset_total_lacks_nothing_of_what_a_disk_has_lost_before(tmp_path: pathlib.Path) -> None:
    told = {agent: {3: 5} for agent in ("w1", "w2")}
    with Job(tmp_path, CUMULATIVES["reset"]) as job:
        job.commit(2, [(1, "a")], None)
        job.lose(Kind.LABEL)
        job.restart()
        assert answer(job)["gaps"] == 1
        job.commit(4, [], None)
        assert answer(job)["gaps"] == 1
        for through in (6, 7):
            job.commit(through, [(through, "a")], None, told)
            assert answer(job)["gaps"] == 0 and answer(job)["missing"] == []
            job.restart()
            assert answer(job)["gaps"] == 0


def test_a_job_with_windows(tmp_path: pathlib.Path) -> None:
    versions = history(("publish", SUMMED, NEVER, NEVER, 0), ("update", FEWER, 5, 5, 2), ("reset", FEWER, 9, 9, 3))
    with Job(tmp_path, versions) as job:
        for through in range(1, 15, 2):
            job.commit(through, [(through - 1, "a"), (through, "b")], None, {"w1": {2: 5, 3: 9}, "w2": {2: 5, 3: 9}})
            before = [job.ask(last - 1, last) for last in range(1, through + 1)]
            job.restart()
            assert [job.ask(last - 1, last) for last in range(1, through + 1)] == before
