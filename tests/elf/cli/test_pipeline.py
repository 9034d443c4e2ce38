"""The command pipeline, with Spark's part replaced."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from elf.cli.app import app
from elf.offline.pipeline.run import Done, PipelineJob, Settings
from elf.offline.progress import Steps
from tests.elf.fake_agent import Agent

JOB = """name = "top"
creator = "ops"
query = "SELECT product, count(*) AS n FROM clicks GROUP BY product, window(ts, '60 seconds')"
[options]
lateness = "7s"
[columns]
product = "STRING"
"""
TOTAL = 'name = "all"\nquery = "SELECT count(*) AS n FROM clicks"\n'


class Ran:
    """What the command asked for, and what it is told."""

    def __init__(self) -> None:
        self.asked: list[tuple[PipelineJob, Settings]] = []
        self.tells: list[Done] = []
        self.interrupted = False

    def run_pipeline(self, job: PipelineJob, settings: Settings, **more: Any) -> None:
        assert type(more["steps"]) is Steps, "no bars in a pipe"
        self.asked.append((job, settings))
        for done in self.tells:
            more["done"](done)
        if self.interrupted:
            raise KeyboardInterrupt


@pytest.fixture
def ran(monkeypatch: pytest.MonkeyPatch) -> Ran:
    ran = Ran()
    monkeypatch.setattr("elf.offline.pipeline.run.run_pipeline", ran.run_pipeline)
    return ran


@pytest.fixture
def file(tmp_path: Path) -> Path:
    (tmp_path / "top.toml").write_text(JOB)
    return tmp_path / "top.toml"


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the folders `a` and `b` be archives."""
    monkeypatch.chdir(tmp_path)
    for name in ("a", "b"):
        (tmp_path / name / "source=clicks").mkdir(parents=True)


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(app, ["pipeline", *map(str, arguments)], env={"COLUMNS": "120"})


def test_a_job_file(ran: Ran, file: Path, tmp_path: Path) -> None:
    ran.tells = [Done(3, 2, 0, 180_000, 4, 5_000)]
    more = ("--since", "2026-01-01T00:00:00Z", "--trigger", "30s", "--conf", "spark.executor.memory=2g")
    result = run(file, "--archive", "a", "--archive", "b", "--out", tmp_path, *more)
    assert result.exit_code == 0, result.stderr
    ((job, settings),) = ran.asked
    assert (job.creator, job.name, job.source, job.lateness_ms) == ("ops", "top", "clicks", 7_000)
    assert job.columns == {"product": "STRING"}
    conf = {"spark.executor.memory": "2g"}
    assert settings == Settings([Path("a"), Path("b")], tmp_path, 1_767_225_600_000, 30_000, "local[*]", conf)
    known = {"windows": 3, "with_rows": 2, "start_ms": 0, "end_ms": 180_000, "files": 4, "events": 5_000}
    assert json.loads(result.stdout) == {"job": "ops/top", "table": str(tmp_path / "ops/top")} | known


def test_a_published_job(ran: Ran, agent: Agent, tmp_path: Path) -> None:
    result = run("top", "--archive", "a", "--out", tmp_path, "--agent", agent.url)
    assert result.exit_code == 0, result.stderr
    ((job, settings),) = ran.asked
    assert job.name == "top" and "SELECT" in job.query
    assert settings.trigger_ms is None and settings.since_ms is None and "nothing new that has ended" in result.stderr


def test_a_terminal_is_told_in_words(ran: Ran, file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("elf.cli.pipeline.wants_json", lambda asked: asked)
    ran.tells = [Done(3, 2, 0, 180_000, 4, 5_000), Done(1, 1, None, None, 1, 2)]
    shown = run(file, "--archive", "a", "--out", tmp_path, "--since", "7d").stdout.splitlines()
    assert shown == [
        "ops/top: 3 windows from 1970-01-01 00:00:00 to 1970-01-01 00:03:00 UTC, of 4 files with 5,000 events",
        "ops/top: the total, of 1 file with 2 events",
    ]
    since_ms = ran.asked[0][1].since_ms
    assert since_ms is not None and abs(time.time() * 1_000 - 7 * 86_400_000 - since_ms) < 600_000


def test_ctrl_c_ends_it(ran: Ran, file: Path, tmp_path: Path) -> None:
    ran.interrupted = True
    assert run(file, "--archive", "a", "--out", tmp_path, "--trigger", "1s").exit_code == 130


@pytest.mark.parametrize(
    ("job", "arguments", "said"),
    [
        (JOB, ["--trigger", "often"], "is not a duration"),
        (JOB, ["--since", "often"], "or a duration such as 2h or 7d"),
        (TOTAL, ["--since", "7d"], "counts from a fixed time"),
        (JOB.replace("GROUP BY", "GRUOP BY"), ["--since", "7d"], "job.toml:3:"),
        (JOB.replace("count(*)", "cnt(*)", 1).replace("SELECT", "SELCT"), [], "job.toml:3:"),
        (JOB, ["--conf", "executor.memory=2g"], "is no setting of Spark"),
    ],
)
def test_mistakes_are_explained(ran: Ran, tmp_path: Path, job: str, arguments: list[str], said: str) -> None:
    (tmp_path / "job.toml").write_text(job)
    result = run(tmp_path / "job.toml", "--archive", "a", "--out", tmp_path, *arguments)
    assert (result.exit_code, said in " ".join(result.stderr.split())) == (2, True), result.stderr
    assert not ran.asked
