"""Commands that change a running job."""

from __future__ import annotations

from pathlib import Path

import pytest

from elf.agents.errors import JobSpecError
from elf.cli.jobs import describe_state
from elf.client import Job
from tests.elf.cli.test_jobs import lines_of, run
from tests.elf.fake_agent import Agent


def test_a_job_is_updated_from_a_file_or_in_part(agent: Agent, tmp_path: Path) -> None:
    file = tmp_path / "top.toml"
    file.write_text("query = 'SELECT 2'")
    assert lines_of(run(agent, "update", "shop/top", file))[0]["version"] == 2
    changed = run(agent, "update", "top", "--set", "lateness=5s", "--set", "feedback=10", "--expect", "2")
    assert (changed.exit_code, lines_of(changed)[0]["options"]) == (0, {"lateness": "5s", "feedback": 10})
    assert run(agent, "update", "top", "--query", "SELECT 3").exit_code == 0
    assert [wanted.query for wanted in agent.service.wanted] == [None, None, "SELECT 3"]
    assert agent.service.wanted[0].definition == "query = 'SELECT 2'"
    overtaken = run(agent, "update", "top", "--query", "SELECT 4", "--expect", "1")
    assert (overtaken.exit_code, "has version 4 now, not 1" in overtaken.stderr) == (2, True)


def test_what_an_update_drops_is_said(agent: Agent) -> None:
    agent.service.note = "its option interval is dropped"
    made = run(agent, "update", "top", "--query", "SELECT 3")
    assert (made.exit_code, made.stderr) == (0, "its option interval is dropped\n")


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        ((), "give either FILE, or --query or --set"),
        (("job.toml", "--query", "SELECT 1"), "give either FILE, or --query or --set"),
        (("--set", "lateness"), "--set 'lateness' is not OPTION=VALUE, such as lateness=5s"),
        (("--set", "lateness=5s", "--expect", "-1"), "Invalid value for '--expect'"),
    ],
)
def test_what_is_to_change_has_to_be_clear(agent: Agent, arguments: tuple[str, ...], why: str) -> None:
    result = run(agent, "update", "top", *arguments)
    assert (result.exit_code, why in result.stderr) == (2, True)
    assert agent.service.wanted == []


def test_a_file_of_another_job_does_not_take_the_place_of_this_one(agent: Agent, tmp_path: Path) -> None:
    file = tmp_path / "fresh.toml"
    file.write_text('name = "fresh"\nquery = "SELECT 2"')
    result = run(agent, "update", "shop/top", file)
    assert result.exit_code == 2 and f"{file} defines job 'fresh', not 'shop/top'" in result.stderr
    assert agent.service.wanted == []


def test_what_is_wrong_with_a_file_is_shown_in_it(agent: Agent, tmp_path: Path) -> None:
    file = tmp_path / "top.toml"
    file.write_text('name = "top"\nquery = """\nSELECT product FROM clicks GROUP BY product, wrong(1)\n"""\n')
    agent.service.fail = JobSpecError("no function wrong", line=1, column=44)
    result = run(agent, "update", "shop/top", file)
    assert result.exit_code == 2 and f"{file}:3:" in result.stderr


def test_stragglers_are_leapt_over(agent: Agent, monkeypatch: pytest.MonkeyPatch) -> None:
    assert lines_of(run(agent, "leap", "top")) == [{"through_ms": 60_000, "agents": ["web3"]}]
    monkeypatch.setattr("elf.cli.changes.wants_json", lambda asked: asked)
    assert run(agent, "leap", "top").stdout == "top goes on to 1970-01-01 00:01:00 UTC without web3\n"


def test_the_other_changes_and_the_history(agent: Agent, monkeypatch: pytest.MonkeyPatch) -> None:
    for command in ("reset", "pause", "resume", "rollback"):
        assert lines_of(run(agent, command, "top"))[0]["what"] == command
    assert lines_of(run(agent, "rollback", "top", "--to", "2"))[0]["version"] == 6
    assert agent.service.wanted[-1].version == 2
    assert [row["version"] for row in lines_of(run(agent, "history", "top"))] == list(range(1, 7))
    monkeypatch.setattr("elf.cli.changes.wants_json", lambda asked: asked)
    told = run(agent, "reset", "top")
    assert told.stdout == "top has version 7 (reset), for events from 1970-01-01 00:07:00 UTC on\n"
    shown = run(agent, "history", "top").stdout
    assert "the beginning" in shown and "1970-01-01 00:02:00 UTC" in shown and "SELECT 1" in shown
    assert "never" not in shown
    overtaken, newest = agent.service.published["shop", "top"]["versions"][-2:]
    overtaken["until_ms"] = newest["since_ms"] = overtaken["since_ms"]
    assert "never" in run(agent, "history", "top").stdout


def test_a_job_is_stopped_and_resumed(agent: Agent, monkeypatch: pytest.MonkeyPatch) -> None:
    stopped = run(agent, "stop", "top", "--keep", "2h")
    assert stopped.exit_code == 0
    assert stopped.stderr == (
        "shop/top is stopped; until 2001-09-09 03:46:40 UTC this takes it up again: elf resume shop/top\n"
    )
    asked = run(agent, "query", "top")
    assert (asked.exit_code, "`elf resume shop/top` takes it up again" in asked.stderr) == (2, True)
    assert [(job["state"], job["ends_ms"]) for job in lines_of(run(agent, "jobs"))] == [("stopped", 1_000_007_200_000)]
    monkeypatch.setattr("elf.cli.jobs.wants_json", lambda asked: asked)
    assert "stopped, ends within a minute" in run(agent, "jobs").stdout
    assert lines_of(run(agent, "resume", "top"))[0]["what"] == "resume"
    assert run(agent, "query", "top").exit_code == 0
    ended = run(agent, "stop", "top", "--keep", "0s")
    assert (ended.exit_code, ended.stderr) == (0, "shop/top has ended for good\n")


@pytest.mark.parametrize("keep", ["8d", "forever", "-1s", ""])
def test_how_long_a_stopped_job_is_kept_has_to_be_clear(agent: Agent, keep: str) -> None:
    refused = run(agent, "stop", "top", "--keep", keep)
    assert refused.exit_code == 2 and "use a duration such as 24h, 7 days at most, or 0s to end" in refused.stderr
    assert run(agent, "query", "top").exit_code == 0


@pytest.mark.parametrize(
    ("left_ms", "told"),
    [
        (86_399_000, "stopped, 23 h 59 min left to resume it"),
        (3_600_000, "stopped, 1 h 0 min left to resume it"),
        (119_000, "stopped, 1 min left to resume it"),
        (59_000, "stopped, ends within a minute"),
        (-5, "stopped, ends within a minute"),
    ],
)
def test_the_time_that_is_left_is_told(left_ms: int, told: str) -> None:
    job = Job(creator="shop", name="top", state="stopped", ends_ms=7_000 + left_ms)
    assert describe_state(job, 7_000) == told
    assert describe_state(Job(creator="shop", name="top", state="running"), 7_000) == "running"
