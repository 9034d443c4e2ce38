"""`elf lab`: what it prints for people and for programs."""

from __future__ import annotations

import json
import logging

import pytest
from typer.testing import CliRunner

from elf.cli import lab as command
from elf.cli.app import app


def test_findings_as_json_and_the_plan_for_people() -> None:
    result = CliRunner().invoke(app, ["lab", "--agents", "12", "--jobs", "3", "--seed", "4", "--json"])
    assert result.exit_code == 0, result.output
    findings = json.loads(result.stdout)
    assert findings["plan"] == {"agents": 12, "jobs": 3, "members": 12, "seed": 4}
    assert findings["wrong"] == [] and findings["fan_in_max"] <= 16
    assert "12 agents, 3 jobs, seed 4: every agent is a member of every job" in result.stderr


def test_a_table_for_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "wants_json", lambda asked: asked)
    result = CliRunner().invoke(app, ["lab", "--agents", "12", "--jobs", "2", "--share", "0.5"])
    assert result.exit_code == 0, result.output
    for word in ("children, p99 / most", "hops to the root", "packets/s", "digest"):
        assert word in result.stdout
    assert "6 agents are members of each job" in result.stderr
    assert logging.getLogger().isEnabledFor(logging.ERROR), "silence is over with the run"


def test_mistakes_are_refused() -> None:
    assert CliRunner().invoke(app, ["lab", "--agents", "0"]).exit_code == 2
    assert CliRunner().invoke(app, ["lab", "--share", "2"]).exit_code == 2
