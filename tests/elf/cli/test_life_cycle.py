"""Commands to one running agent about itself: what they ask, and what they show."""

from __future__ import annotations

import pytest

from elf.agents.errors import ConfigError
from tests.agents.http.fake_service import STOPPED_MS
from tests.elf.cli.test_jobs import lines_of, run
from tests.elf.fake_agent import Agent


def test_settings_are_read_again(agent: Agent) -> None:
    done = run(agent, "reload")
    assert (done.exit_code, lines_of(done)) == (0, [{"changed": ["sources.access"], "since_ms": STOPPED_MS}])


def test_settings_that_are_wrong_are_the_operators_to_mend(agent: Agent, monkeypatch: pytest.MonkeyPatch) -> None:
    async def refuse() -> None:
        raise ConfigError("agent.toml:7:3: there is no setting 'paht'; did you mean 'path'?")

    monkeypatch.setattr(agent.service, "reload", refuse)
    done = run(agent, "reload")
    assert done.exit_code == 78 and done.stderr.startswith("elf: agent.toml:7:3: there is no setting 'paht'; did you")


def test_an_agent_is_taken_out_of_service_and_called_back(agent: Agent) -> None:
    done = run(agent, "drain", "--within", "90s")
    assert (done.exit_code, lines_of(done), agent.service.drained_s) == (0, [{"sources": ["access"]}], 90.0)
    assert lines_of(run(agent, "drain", "--cancel")) == [{"sources": ["access"]}]
    assert run(agent, "drain", "--within", "soon").exit_code == 2
