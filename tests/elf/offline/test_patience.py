"""What nobody could answer is asked again, and not for ever."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import pytest

from elf.agents.errors import JobError, UnavailableError
from elf.offline import patience
from elf.offline.patience import patiently


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """A clock that only pauses move."""
    taken: list[float] = []
    monkeypatch.setattr(threading.Event, "wait", lambda event, pause_s: taken.append(pause_s) or event.is_set())
    monkeypatch.setattr(time, "monotonic", lambda: sum(taken))
    return taken


def answering(*answers: Exception | int) -> Callable[[], int]:
    left = iter(answers)

    def ask() -> int:
        answer = next(left)
        if isinstance(answer, Exception):
            raise answer
        return answer

    return ask


def test_a_master_that_is_away_for_a_moment_is_asked_again(pauses: list[float]) -> None:
    away = UnavailableError("no master")
    assert patiently(answering(away, away, away, 7)) == 7
    assert pauses == sorted(pauses) and len(pauses) == 3


def test_patience_ends(pauses: list[float]) -> None:
    with pytest.raises(UnavailableError, match="no master"):
        patiently(answering(*[UnavailableError("no master")] * 1_000))
    assert patience.PATIENCE_S - 4 < sum(pauses) <= patience.PATIENCE_S


def test_who_has_given_up_is_not_waited_for(pauses: list[float]) -> None:
    given_up = threading.Event()
    given_up.set()
    with pytest.raises(UnavailableError, match="no master"):
        patiently(answering(*[UnavailableError("no master")] * 1_000), given_up)
    assert len(pauses) == 1


def test_what_is_wrong_is_not_asked_again(pauses: list[float]) -> None:
    with pytest.raises(JobError, match="not whole intervals"):
        patiently(answering(JobError("not whole intervals"), 7))
    assert pauses == []
