"""Who tells of names without end pushes out none that are known."""

import pytest

from elf.agents.errors import NotAdmittedError
from elf.agents.wire import record_budget
from elf.agents.wire.record_budget import Allowance, RecordBudget
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
