"""Commands ask again until an agent answers or their time is over, and say so."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterable

import pytest
from aiohttp import web
from typer.testing import CliRunner, Result

from elf.cli.app import app
from tests.agents.http.fake_service import make_result
from tests.elf.flaky_agent import FlakyAgent, away, hang_up


async def run(*arguments: str, agents: str = "") -> Result:
    return await asyncio.to_thread(CliRunner().invoke, app, arguments, env={"ELF_AGENT": agents} if agents else None)


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a person wait for the answer."""
    monkeypatch.setattr("elf.cli.connection.is_watched", lambda: True)


async def test_a_command_asks_again_and_says_nothing_of_it_in_a_script() -> None:
    agent = FlakyAgent(away(1), hang_up, last=lambda: web.json_response(make_result()))
    async with agent.up():
        result = await run("query", "shop/top", agents=agent.url)
    assert (result.exit_code, result.stderr, len(agent.asked)) == (0, "", 3)
    assert '"tetris"' in result.stdout


@pytest.mark.usefixtures("terminal")
async def test_a_person_is_told_what_is_waited_for() -> None:
    agent = FlakyAgent(away(1), away(1), last=lambda: web.json_response(make_result()))
    async with agent.up():
        result = await run("query", "shop/top", agents=agent.url)
    assert result.exit_code == 0
    assert re.fullmatch(r"elf: shop/top has no master at the moment; asking again, for \d+ s at most\n", result.stderr)


async def test_a_command_outlives_an_agent_that_is_started_again() -> None:
    agent = FlakyAgent(last=lambda: web.json_response(make_result()))
    async with agent.up():
        assert (await run("query", "shop/top", agents=agent.url)).exit_code == 0
    asked = asyncio.ensure_future(run("query", "shop/top", agents=agent.url))
    done, _ = await asyncio.wait([asked], timeout=0.5)
    assert not done
    async with agent.up():
        assert (await asked).exit_code == 0


def ways(urls: Iterable[str]) -> list[tuple[list[str], str]]:
    """Return the ways to name several agents: options, and $ELF_AGENT."""
    urls = list(urls)
    return [
        (["--agent", ",".join(urls)], ""),
        ([word for url in urls for word in ("--agent", url)], ""),
        ([], ",".join(urls)),
        ([], " ".join(urls)),
        (["--agent", ", ".join(urls)], "http://127.0.0.1:9"),
    ]


@pytest.mark.parametrize("way", range(5))
async def test_several_agents_may_be_named(way: int) -> None:
    gone, well = FlakyAgent(), FlakyAgent()
    options, variable = ways([gone.url, well.url])[way]
    async with well.up():
        result = await run("jobs", *options, agents=variable)
    assert (result.exit_code, well.asked) == (0, ["GET /v1/jobs"]), result.stderr


async def test_the_end_says_whom_it_has_asked_how_often_and_why_in_vain() -> None:
    gone, lost = FlakyAgent(), FlakyAgent(last=away())
    async with lost.up():
        result = await run("query", "shop/top", "--timeout", "0.5", agents=f"{gone.url},{lost.url}")
    assert (result.exit_code, result.stdout) == (69, "")
    assert re.fullmatch(
        rf"elf: none of 2 agents could answer in 0\.\d s: no agent answers at {gone.url}; .* \(asked \d times?\); "
        rf"{lost.url}: shop/top has no master at the moment \(asked \d times?\)\n",
        result.stderr,
    ), result.stderr
