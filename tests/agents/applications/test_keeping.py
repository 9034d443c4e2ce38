"""What an application keeps: its next master has it, whichever agent that is."""

from __future__ import annotations

import asyncio
import contextlib
import pathlib
from typing import Any

import pytest

import elf
from elf.agents.applications import applications, performer
from elf.agents.errors import UnavailableError
from elf.agents.http.agent_service import Service
from elf.agents.master.commands import Remember, decode_command, encode_command
from elf.agents.wire.application_messages import KEPT_BYTES_MAX
from elf.agents.wire.result import Result
from elf.overlay.errors import OverlayError
from elf.overlay.ids import app_id
from tests.agents.applications.cluster import agents_of, have, master_of, publish, sell, until
from tests.overlay.cluster import wait_until
from tests.virtual.agents import Agent, time_s

pytestmark = pytest.mark.virtual

APP = app_id("sold", "shop")


class Numbering(elf.Application):
    """Gives each best seller a number that no master ever gives again, and says what it began with."""

    def on_start(self) -> None:
        self.began = self.elf.kept
        if self.elf.role == "master":
            self.numbers = dict(self.elf.kept or {})

    def on_result(self, result: Result) -> None:
        best = result.rows[0]["product"] if result.rows else None
        if best is not None and best not in self.numbers:
            self.numbers[best] = len(self.numbers) + 1
            self.elf.keep(["what is overwritten by the same callback is never seen"])
            self.elf.keep(self.numbers)
            self.elf.multicast(best)

    def on_route(self, asker: str, query: Any) -> Any:
        if query == "break":
            self.elf.keep("lost")
        return {"began": self.began, "numbers": self.numbers}


async def told(agent: Agent, query: str = "what") -> Any:
    """Ask the application, once it is there."""
    deadline = time_s() + 60
    while True:
        try:
            return await Service(agent).route("shop", "sold", query)
        except UnavailableError:
            assert time_s() < deadline
            await asyncio.sleep(0.02)


async def test_the_next_master_has_what_was_kept_and_so_has_one_that_starts_again(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    have(monkeypatch, numbering=Numbering)
    async with agents_of(tmp_path, 3) as agents:
        await publish(agents, "numbering")
        assert (await told(agents[0]))["began"] is None
        old = master_of(agents)

        async def has(numbers: dict[str, int]) -> bool:
            return bool((await told(agents[0]))["numbers"] == numbers)

        await sell(agents[0], "tetris")
        await until(lambda: has({"tetris": 1}))
        await wait_until(lambda: all(kept_at(agent) == b'{"tetris":1}' for agent in agents))
        left = [agent for agent in agents if agent is not old]
        await old.stop()
        agents[:] = left
        await wait_until(lambda: any(agent.masters.jobs for agent in agents))
        await until(lambda: has({"tetris": 1}))
        assert (await told(agents[1]))["began"] == {"tetris": 1}
        await sell(agents[0], "zelda", "zelda")
        await until(lambda: has({"tetris": 1, "zelda": 2}))
        back = Agent(old.config)
        agents.append(back)
        await back.start()
        await wait_until(lambda: kept_at(back) == b'{"tetris":1,"zelda":2}')
        # Of another publication nothing is known.
        await Service(agents[0]).stop("shop", "sold", 0)
        await wait_until(lambda: not any(agent.masters.jobs for agent in agents))
        await publish(agents, "numbering")
        assert (await told(agents[0]))["began"] is None


def kept_at(agent: Agent) -> bytes | None:
    copy = agent.copies.get(APP)
    return None if copy is None else copy.master.state.kept


async def test_a_master_that_was_another_meanwhile_begins_anew_with_what_that_one_kept(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However soon it leads again: what its application knows is of before."""
    have(monkeypatch, numbering=Numbering)
    monkeypatch.setattr(applications, "LOOK_S", 600.0)
    async with agents_of(tmp_path, 3) as agents:
        await publish(agents, "numbering")
        first = master_of(agents)
        await first.applications.look()
        tree = first.masters.job(APP).tree
        other = next(agent for agent in agents if agent is not first)
        await sell(first, "tetris")
        await wait_until(lambda: all(kept_at(agent) == b'{"tetris":1}' for agent in agents))

        async def lead(agent: Agent) -> None:
            def is_master() -> bool:
                for each in agents:
                    if each is not agent and APP in each.masters:
                        with contextlib.suppress(OverlayError):
                            each.node.groups.hand_over(tree, agent.agent_id)
                return APP in agent.masters

            await wait_until(is_master)

        await lead(other)
        await other.masters.decide(APP, Remember(b'{"tetris":1,"zelda":2}'))
        await lead(first)
        await wait_until(lambda: kept_at(first) == b'{"tetris":1,"zelda":2}')
        with pytest.raises(UnavailableError, match="begins just now"):
            await Service(first).route("shop", "sold", "what")
        await sell(first, "mario", "mario", "mario")
        await until(lambda: has_lost(first))
        await first.applications.look()
        assert (await told(first))["began"] == {"tetris": 1, "zelda": 2}


async def test_what_the_group_does_not_decide_is_lost_and_the_application_goes_on(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    have(monkeypatch, numbering=Numbering)
    monkeypatch.setattr(performer, "KEEP_S", 0.05)
    async with agents_of(tmp_path, 1) as (agent,):
        await publish([agent], "numbering")
        decide = agent.masters.decide

        async def undecided(app: bytes, command: Any) -> None:
            if isinstance(command, Remember):
                await asyncio.Event().wait()
            await decide(app, command)

        monkeypatch.setattr(agent.masters, "decide", undecided)
        for _ in range(2):
            await told(agent, "break")
        await until(lambda: lost(agent, 2))
        assert kept_at(agent) is None
        assert (await Service(agent).job("shop", "sold"))["application"]["master"]["state"] == "running"


async def lost(agent: Agent, count: int) -> bool:
    return bool((await Service(agent).job("shop", "sold"))["application"]["master"]["lost"] == count)


async def has_lost(agent: Agent) -> bool:
    return not await lost(agent, 0)


def test_in_virtual_time_a_new_master_has_what_was_kept_too() -> None:
    simulation = elf.Simulation(Numbering, ["web1", "web2"])
    assert simulation.kept is None
    simulation.close([{"product": "tetris", "n": 2}])
    simulation.close([{"product": "zelda", "n": 2}])
    assert simulation.kept == {"tetris": 1, "zelda": 2}
    simulation.fail_master("web2")
    assert simulation.route("what") == {"began": simulation.kept, "numbers": simulation.kept}
    assert simulation.agent("web1").began is None, "at the master only"  # type: ignore[attr-defined]


def test_a_command_holds_no_more_than_can_be_kept() -> None:
    full = Remember(b"x" * KEPT_BYTES_MAX)
    assert decode_command(encode_command(full)) == full
    with pytest.raises(ValueError, match="length"):
        decode_command(encode_command(Remember(b"x" * (KEPT_BYTES_MAX + 1))))
