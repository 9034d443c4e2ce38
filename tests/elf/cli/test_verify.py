"""The command verify, with Spark replaced by its report."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from elf.cli.app import app
from elf.offline.progress import Steps
from elf.offline.verify.report import Difference, Report, WindowReport
from tests.elf.fake_agent import Agent


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(app, [*map(str, arguments)], env={"COLUMNS": "120"})


@pytest.mark.parametrize(("differences", "code"), [([], 0), ([Difference(kind="cell", online=1, offline=2)], 1)])
def test_verify(
    agent: Agent, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, differences: list[Difference], code: int
) -> None:
    asked: list[Any] = []
    options: dict[str, Any] = {}

    def run_verify(
        client: Any, name: str, windows: Sequence[str], archives: Sequence[Path], master: str, **more: Any
    ) -> Report:
        asked.append((client.job(name)["name"], client.query(name, window=windows[0]).rows, windows, archives, master))
        options.update(more)
        window = WindowReport(
            start_ms=0, end_ms=1, status="final", rows_online=1, rows_offline=1, differences=differences
        )
        return Report(job=name, windows=[window])

    monkeypatch.setattr("elf.offline.verify.run.run_verify", run_verify)
    more = ("--conf", "spark.executor.memory=2g", "--html", tmp_path / "report.html", "--trust", "shop=a+b=")
    result = run("verify", "top", "--archive", tmp_path, "--window", "0/1", "--agent", agent.url, *more)
    assert result.exit_code == code
    assert options["conf"] == {"spark.executor.memory": "2g"} and options["since"] is None
    assert options["trusted"] == [("shop", "a+b=")]
    assert type(options["steps"]) is Steps, "no bars in a pipe"
    assert (tmp_path / "report.html").read_text().startswith("<!doctype html>")
    assert json.loads(result.stdout)["agrees"] == (code == 0)
    assert asked[0][2:] == (["0/1"], [tmp_path], "local[*]")


def test_verify_exits_with_0_where_labels_explain_all(
    agent: Agent, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    difference = Difference(kind="cell", online=1, offline=2, why="without missing web-2 Spark has the same")
    window = WindowReport(
        start_ms=0, end_ms=1, status="final_incomplete", rows_online=1, rows_offline=1, differences=[difference]
    )
    monkeypatch.setattr(
        "elf.offline.verify.run.run_verify", lambda *_, **more: Report(job=more["since"], windows=[window])
    )
    result = run("verify", "top", "--archive", tmp_path, "--since", "2h", "--agent", agent.url)
    assert result.exit_code == 0
    said = json.loads(result.stdout)
    assert (said["agrees"], said["explained"], said["job"]) == (False, True, "2h")
    assert said["counts"] == {"windows": 1, "agreed": 0, "skipped": 0, "differences": 1, "unexplained": 0}


def test_help_shows_the_forms_of_a_window() -> None:
    shown = " ".join(run("verify", "--help").stdout.replace("│", " ").split())
    assert all(form in shown for form in ("latest (if nothing is said)", "START/END (ISO-8601 or epoch ms)", "300s"))


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--since", "2h", "--window", "latest"], "--since names all windows since then"),
        (["--conf", "executor.memory=2g"], "is no setting of Spark; write it like spark.executor.memory=4g"),
        (["--conf", "spark.sql.ansi.enabled=true"], "it decides what their queries mean"),
        (["--trust", "shop"], "--trust 'shop' is no creator and public key; write it like --trust shop=u1mC...="),
        (["--html", "/no/such/folder/x.html"], "/no/such/folder/x.html cannot be written: No such file"),
    ],
)
def test_verify_explains_mistakes(tmp_path: Path, arguments: list[str], said: str) -> None:
    result = run("verify", "top", "--archive", tmp_path, *arguments)
    assert (result.exit_code, said in result.stderr) == (2, True), result.stderr
