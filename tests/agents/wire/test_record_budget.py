"""Who tells of names without end pushes out none that are known."""

import pytest

from elf.agents.errors import NotAdmittedError
from elf.agents.wire import record_budget
from elf.agents.wire.record_budget import UNHEARD_MS, Allowance, RecordBudget
from elf.overlay.contract import Record


@pytest.fixture
def budget(monkeypatch: pytest.MonkeyPatch) -> RecordBudget:
    monkeypatch.setitem(record_budget.ALLOWANCES, "job/", Allowance("jobs", 3, 8, 20))
    return RecordBudget()


def take(budget: RecordBudget, key: str, size: int) -> None:
    record = Record(key, 1, bytes(size))
    budget.check(record)
    budget.take(record)


def test_what_is_new_is_not_taken_while_there_is_no_room_and_what_is_known_may_change(budget: RecordBudget) -> None:
    for key in ("job/b", "job/c", "job/d"):
        take(budget, key, 5)
    with pytest.raises(NotAdmittedError, match="3 jobs are known here"):
        take(budget, "job/a", 1)
    take(budget, "job/b", 8)
    take(budget, "member/a", 100)
    take(budget, "feedback", 1 << 20)
    budget.drop("job/c")
    take(budget, "job/a", 5)


def test_sizes_are_bounded_one_by_one_and_together(budget: RecordBudget) -> None:
    with pytest.raises(NotAdmittedError, match="9 bytes, of 8 at most"):
        take(budget, "job/a", 9)
    take(budget, "job/a", 8)
    take(budget, "job/b", 8)
    with pytest.raises(NotAdmittedError, match="the most"):
        take(budget, "job/c", 5)
    take(budget, "job/a", 7)
    take(budget, "job/c", 5)


def hear(budget: RecordBudget, name: str, now_ms: int, *, over: bool = False) -> str | None:
    key = f"job/{name}"
    budget.check_unheard(key, now_ms, over=over)
    stale = budget.hear(key, now_ms, over=over)
    if stale is not None:
        budget.drop(stale)
    take(budget, key, 1)
    return stale


def test_jobs_known_by_hearsay_are_few_and_make_way_after_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(record_budget, "UNHEARD_MAX", 2)
    budget = RecordBudget()
    assert hear(budget, "a", 0) is hear(budget, "b", 1) is None
    with pytest.raises(NotAdmittedError, match="2 jobs whose masters have not answered are known here by hearsay"):
        hear(budget, "c", 2)
    assert hear(budget, "a", 3) is None, "it is known, and may change"
    # Those that are over are others.
    assert hear(budget, "d", 3, over=True) is hear(budget, "e", 3, over=True) is None
    with pytest.raises(NotAdmittedError, match="2 jobs that are over"):
        hear(budget, "f", 3, over=True)
    budget.confirm("job/a")
    assert hear(budget, "c", 4) is None
    with pytest.raises(NotAdmittedError):
        hear(budget, "g", 5)
    assert hear(budget, "g", 1 + UNHEARD_MS) == "job/b", "the oldest makes way"
    with pytest.raises(NotAdmittedError):
        hear(budget, "h", 3 + UNHEARD_MS)
    assert hear(budget, "a", 9 + UNHEARD_MS) is None, "one that was answered for makes way for none"
    assert hear(budget, "c", 10, over=True) is not None, "it has ended, and another one that has makes way"
