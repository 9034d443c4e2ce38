"""The command backfill, with Spark replaced by its report."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from elf.agents.archive.layout import DamagedFileError
from elf.cli.app import app
from elf.offline.backfill.run import Backfill
from elf.offline.progress import Steps
from elf.offline.session import OfflineError
from tests.elf.fake_agent import Agent

DAY_MS = 86_400_000


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(app, [*map(str, arguments)], env={"COLUMNS": "120"})


@pytest.mark.parametrize("intervals", [0, 3])
def test_what_was_loaded_is_said(
    agent: Agent,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    intervals: int,
) -> None:
    asked: list[Any] = []

    def run_backfill(
        client: Any, name: str, since_ms: int, archives: list[Path], master: str, **options: Any
    ) -> Backfill:
        asked.append((client.job(name)["name"], time.time() * 1000 - since_ms, archives, master, options["incomplete"]))
        assert type(options["steps"]) is Steps, "no bars in a pipe"
        asked[-1] += (options["conf"],)
        options["say"]("a moment")
        return Backfill("shop/top", 0, 30_000, intervals, 7, 1_000, ("web\x1b2",), ("no more is retained",))

    monkeypatch.setattr("elf.offline.backfill.run.run_backfill", run_backfill)
    monkeypatch.setattr("elf.cli.backfill.wants_json", lambda asked: asked)
    arguments = ("backfill", "top", "--since", "2d", "--archive", tmp_path, "--agent", agent.url)
    shown = run(*arguments)
    assert shown.exit_code == 0
    assert ("nothing to backfill" in shown.stdout) == (intervals == 0)
    assert ("3 intervals from 1970-01-01 00:00:00 to 1970-01-01 00:00:30 UTC" in shown.stdout) == (intervals == 3)
    assert all(word in shown.stderr for word in ("a moment", "no more is retained", "web\\x1b2"))
    assert (asked[0][0], *asked[0][2:]) == ("top", [tmp_path], "local[*]", False, {})
    assert abs(asked[0][1] - 2 * DAY_MS) < 60_000
    more = ("--json", "--incomplete", "--master", "spark://m:7077", "--conf", "spark.executor.memory=2g")
    assert json.loads(run(*arguments, *more).stdout)["intervals"] == intervals
    assert run(*arguments, "--since", "2026-01-01").exit_code == 0
    assert abs(time.time() * 1000 - asked[2][1] - 1_767_225_600_000) < 60_000
    assert asked[1][3:] == ("spark://m:7077", True, {"spark.executor.memory": "2g"})


def test_mistakes_are_one_sentence(
    agent: Agent,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    def refuse(*_: Any, **__: Any) -> Backfill:
        raise OfflineError("no archive of web2 is among the folders given")

    monkeypatch.setattr("elf.offline.backfill.run.run_backfill", refuse)
    arguments = ("backfill", "top", "--archive", tmp_path, "--agent", agent.url)
    refused = run(*arguments)
    assert (refused.exit_code, refused.stdout) == (2, "")
    assert "no archive of web2" in refused.stderr
    wrong = run(*arguments, "--since", "yesterday")
    assert wrong.exit_code == 2
    assert "'yesterday' is not a time; write ISO-8601" in wrong.stderr and "a duration such as 2h" in wrong.stderr
    refused = run(*arguments, "--conf", "executor.memory=2g")
    assert (refused.exit_code, refused.stdout) == (2, "")
    assert "'executor.memory=2g' is no setting of Spark; write it like spark.executor.memory=4g" in refused.stderr


def test_a_damaged_archive_is_no_wrong_usage(agent: Agent, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def refuse(*_: Any, **__: Any) -> Backfill:
        raise DamagedFileError("a/x.parquet: its bytes are not those that agent web1 wrote")

    monkeypatch.setattr("elf.offline.backfill.run.run_backfill", refuse)
    result = run("backfill", "top", "--archive", tmp_path, "--agent", agent.url)
    said = "elf: a/x.parquet: its bytes are not those that agent web1 wrote\n"
    assert (result.exit_code, result.stdout, result.stderr) == (1, "", said)
