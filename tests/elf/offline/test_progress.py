"""How far long work is: on a terminal, and not in a pipe."""

from __future__ import annotations

import io
import re
import time
from types import SimpleNamespace
from typing import Any

import pytest
from rich.console import Console
from rich.progress import MofNCompleteColumn, Progress, TextColumn

from elf.offline.progress import ShownSteps, Steps, shown


class Tracker:
    """One job with two stages: 3 of 8 tasks are done, and one stage that has gone meanwhile."""

    def __init__(self) -> None:
        self.asked = 0

    def getActiveJobsIds(self) -> list[int]:
        self.asked += 1
        return [7, 8]

    def getJobInfo(self, job: int) -> Any:
        return SimpleNamespace(stageIds=[1, 2, 3]) if job == 7 else None

    def getStageInfo(self, stage: int) -> Any:
        return {
            1: SimpleNamespace(numTasks=6, numCompletedTasks=3),
            2: SimpleNamespace(numTasks=2, numCompletedTasks=0),
        }.get(stage)


def test_tasks_events_files_and_windows_are_shown() -> None:
    out, tracker = io.StringIO(), Tracker()
    columns = (TextColumn("{task.description}"), MofNCompleteColumn(), TextColumn("{task.fields[detail]}"))
    with Progress(*columns, console=Console(file=out, force_terminal=True, width=100), auto_refresh=False) as progress:
        steps = ShownSteps(progress)
        steps.total("windows", 10)
        steps.checking(2)
        steps.checked()
        steps.checking(3)
        steps.done(4, "7 rows loaded")
        spark: Any = SimpleNamespace(sparkContext=SimpleNamespace(statusTracker=lambda: tracker))
        with steps.computing(spark, 8_000):
            deadline = time.monotonic() + 20
            while tracker.asked < 2 and time.monotonic() < deadline:
                time.sleep(0.01)
        progress.refresh()
    said = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", out.getvalue())
    assert "3,000 events, 3 of 8 tasks" in said
    assert re.search(r"windows +4/10 +7 rows loaded", said) and re.search(r"files checked +1/5", said)


def test_nothing_is_drawn_unless_wanted(capsys: pytest.CaptureFixture[str]) -> None:
    with shown(False) as steps:
        assert type(steps) is Steps
        steps.total("windows", 3)
        steps.say("starting")
        steps.done(1)
    assert capsys.readouterr() == ("", "")
    with shown(True) as steps:
        assert isinstance(steps, ShownSteps)


def test_what_is_printed_meanwhile_goes_to_a_file_where_it_should(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Bars on a terminal, results into a file: rich would take the results for its own."""
    monkeypatch.setenv("FORCE_COLOR", "1")
    with shown(True) as steps:
        steps.total("windows", 3)
        print("a row")
    assert capsys.readouterr().out == "a row\n"
