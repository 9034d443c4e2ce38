"""`elf explain`: of a published job through an agent, of a file without one."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from elf.cli.app import app
from elf.client import Client
from tests.elf.fake_agent import Agent

SQL = "SELECT product, sum(cents) AS cents FROM clicks WHERE event = 'click' GROUP BY product"


def run(url: str, *arguments: str | Path) -> Result:
    return CliRunner().invoke(app, ["explain", *map(str, arguments)], env={"ELF_AGENT": url, "COLUMNS": "140"})


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("elf.cli.explain.wants_json", lambda asked: asked)


def test_a_published_job_in_a_pipe_is_what_the_library_returns(agent: Agent) -> None:
    result = run(agent.url, "top")
    assert result.exit_code == 0, result.stderr
    found = json.loads(result.stdout)
    with Client(agent.url) as client:
        assert client.explain("shop/top") == found
    assert found["job"] == "shop/top" and found["cost"]["open_bytes"] == 20_480
    assert run(agent.url, "shop/tip").exit_code == 2


@pytest.mark.usefixtures("terminal")
def test_a_published_job_for_people(agent: Agent) -> None:
    shown = [" ".join(line.split()) for line in run(agent.url, "shop/top").stdout.splitlines()]
    for line in (
        "state running, version 2, master 127.0.0.1:4250",
        "versions 1 by publish",
        "2 by update, for events from 1970-01-01 00:01:00 UTC on",
        "keys product STRING",
        "aggregates count(*): has an inverse, PAO columns a0_n BIGINT",
        "shared parsing with shop/best, shop/worst",
        "PAOs, made once, with shop/best",
        "buffer trees of open intervals with shop/best",
        "columns that are parsed for this job alone: cents",
        "tree 5 agents, 2 deep, at most 3 children each, root 127.0.0.1:4250, 1 out of reach",
        "cost at web1: 20 KiB of open intervals (shared ones in part); snapshots not empty: 4 so far, 310 bytes each",
        "at the master: 7 panes, the newest of 12 rows on average and 30 at most",
    ):
        assert line in shown
    assert not [line for line in shown if line.startswith("not known")]


@pytest.mark.usefixtures("terminal")
def test_a_file_needs_no_agent_and_what_it_does_not_say_is_said(tmp_path: Path) -> None:
    file = tmp_path / "sold.sql"
    file.write_text(SQL)
    result = run("http://127.0.0.1:9", file)
    assert result.exit_code == 0, result.stderr
    assert "columns        event ?, product ?, cents ?" in result.stdout
    assert "sum(cents): inverse: ?, PAO columns ?" in result.stdout
    assert "not known" in result.stdout and "the types of product, cents, event: declare them" in result.stdout
    found = json.loads(run("http://127.0.0.1:9", file, "--json").stdout)
    assert found["tree"] is None and found["filter"] == "event = 'click'"


def test_a_mistake_in_a_file_has_its_place(tmp_path: Path) -> None:
    file = tmp_path / "sold.toml"
    file.write_text(f'name = "sold"\nquery = """\n{SQL.replace("sum", "summ")}\n"""\n')
    result = run("http://127.0.0.1:9", file)
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith(f"{file}:3:17: ") and "did you mean 'sum'" in result.stderr
    assert run("http://127.0.0.1:9", tmp_path / "none.toml").exit_code == 2
