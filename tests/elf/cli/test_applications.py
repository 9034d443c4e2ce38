"""Commands about what applications say."""

from __future__ import annotations

import json

import pytest

from tests.elf.cli.test_jobs import lines_of, run
from tests.elf.fake_agent import Agent


def test_what_came_back_to_the_agent_is_shown(agent: Agent) -> None:
    assert lines_of(run(agent, "feedback", "shop/top"))[0]["rows"][0] == {"product": "tetris", "clicks": 7}
    assert run(agent, "feedback", "shop/tip").exit_code == 2


def test_a_query_and_its_answer_are_json(agent: Agent) -> None:
    asked = run(agent, "route", "shop/top", '{"n": [3, null]}')
    assert (asked.exit_code, json.loads(asked.stdout)) == (0, {"asked": {"n": [3, None]}})
    refused = run(agent, "route", "shop/top", '"secret"')
    assert (refused.exit_code, "on_route failed: KeyError" in refused.stderr) == (2, True)


@pytest.mark.parametrize("query", ["tetris", "", "[" * 100_000])
def test_what_is_no_json_is_said_so(agent: Agent, query: str) -> None:
    result = run(agent, "route", "shop/top", query)
    assert (result.exit_code, "is no JSON; a text is written" in result.stderr) == (2, True)


def test_trouble_is_said_with_the_list_of_jobs(agent: Agent, monkeypatch: pytest.MonkeyPatch) -> None:
    agent.service.published["shop", "top"]["trouble"] = "application bundling is stopped: on_timer failed"
    assert lines_of(run(agent, "jobs"))[0]["trouble"].startswith("application bundling")
    monkeypatch.setattr("elf.cli.jobs.wants_json", lambda asked: asked)
    assert "shop/top: application bundling is stopped: on_timer failed" in run(agent, "jobs").stderr
