"""Commands of who looks after a cluster: what they ask, and what they show."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from elf.agents.errors import NotCreatorError
from tests.agents.owned import MINE
from tests.elf.cli.test_jobs import lines_of, run
from tests.elf.fake_agent import Agent


@pytest.fixture
def key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    file = tmp_path / "operator.key"
    file.write_text(MINE.hex())
    file.chmod(0o600)
    monkeypatch.setenv("ELF_CREATOR_KEY_FILE", str(file))
    return file


def test_a_job_is_purged_by_an_operators_order(agent: Agent, key: Path) -> None:
    done = run(agent, "purge", "shop/top", "--yes")
    assert (done.exit_code, lines_of(done)[0]["by"]) == (0, "alice")
    ((target, order),) = agent.service.purged
    assert target == order.job == "job/shop/top"
    assert order.is_signed


def test_an_agent_is_purged_by_name_or_id(agent: Agent, key: Path) -> None:
    assert run(agent, "purge", "web1", "--member", "--yes").exit_code == 0
    assert run(agent, "purge", "0123456789abcdef", "--member", "--yes").exit_code == 0
    assert [target for target, _ in agent.service.purged] == ["member/id-of-web1", "member/0123456789abcdef"]
    wrong = run(agent, "purge", "nobody", "--member", "--yes")
    assert (wrong.exit_code, "no job expects an agent 'nobody'" in wrong.stderr) == (2, True)


def test_nothing_is_purged_without_a_key_a_word_or_the_right(
    agent: Agent, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    without = run(agent, "purge", "shop/top", "--yes")
    assert (without.exit_code, "takes an operator's key" in without.stderr) == (2, True)
    unasked = run(agent, "purge", "shop/top")
    assert (unasked.exit_code, "nothing was done" in unasked.stderr) == (130, True)
    assert agent.service.purged == []


def test_agents_that_did_not_purge_are_named(agent: Agent, key: Path) -> None:
    agent.service.unpurged = "its settings list nobody"
    done = run(agent, "purge", "shop/top", "--yes")
    assert (done.exit_code, "not on web2: its settings list nobody" in done.stderr) == (69, True)
    agent.service.fail = NotCreatorError("key 0123 is no operator's of this agent")
    refused = run(agent, "purge", "shop/top", "--yes")
    assert (refused.exit_code, "is no operator's" in refused.stderr) == (2, True)


def test_the_audit_log_is_listed(agent: Agent) -> None:
    assert run(agent, "purge", "--help").exit_code == 0
    shown = run(agent, "audit", "--limit", "5")
    assert (shown.exit_code, lines_of(shown)) == (0, [])
    assert msgspec.json.encode([]) == b"[]"
