"""An agent that is taken out of service while it runs: no window lacks anything of it, names it, or waits for it."""

from __future__ import annotations

import asyncio
import pathlib

import pytest

from elf.agents.errors import UnavailableError
from elf.agents.http.agent_service import Service
from tests.agents.test_reconfiguration import COUNT, configs, counts, latest, write
from tests.overlay.cluster import wait_until
from tests.virtual.agents import Agent, now_ms, running

pytestmark = pytest.mark.virtual


async def test_nobody_waits_for_who_has_left(tmp_path: pathlib.Path) -> None:
    async with running(configs(tmp_path, 3)) as agents:
        await Service(agents[0]).publish(COUNT, "count.toml", None, None)
        await wait_until(lambda: all(each.intakes["orders"].pump.workers for each in agents))
        master = next(each for each in agents if each.masters.jobs)
        other = next(each for each in agents if each is not master)
        began_ms, ended = now_ms(), asyncio.Event()
        for index in range(3):
            write(tmp_path / f"{index}.log", index)
        master.on_departed = ended.set
        service = Service(master)
        assert await service.drain(30.0) == {"sources": ["orders"]}
        await asyncio.sleep(0.5)
        assert service.ready() == (False, ["drains: it reads no more, and ends"])
        with pytest.raises(UnavailableError, match="elf drain --cancel"):
            await service.reload()
        await asyncio.wait_for(ended.wait(), 10.0)
        assert not master.masters.jobs  # another one leads
        await master.stop()
        await asyncio.sleep(8.0)
        assert await counts(other, began_ms) == {0: 1, 1: 1, 2: 1}
        label = (await latest(other))["completeness"]
        assert (label["expected"], label["missing"], label["status"]) == (2, [], "final")
        back = agents[agents.index(master)] = Agent(master.reconfiguration.left or master.config)
        await back.start()
        write(tmp_path / f"{agents.index(back)}.log", 7)
        await wait_until(lambda: bool(back.intakes["orders"].pump.workers))
        await asyncio.sleep(8.0)
        assert await counts(other, began_ms) == {0: 1, 1: 1, 2: 1, 7: 1}


async def test_who_is_called_back_goes_on(tmp_path: pathlib.Path) -> None:
    async with running(configs(tmp_path, 2)) as agents:
        await Service(agents[0]).publish(COUNT, "count.toml", None, None)
        await wait_until(lambda: all(each.intakes["orders"].pump.workers for each in agents))
        began_ms, service = now_ms(), Service(agents[1])
        agents[1].on_departed = lambda: pytest.fail("it was called back")
        write(tmp_path / "1.log", 1)
        await service.drain(30.0)
        await asyncio.sleep(0.5)
        assert await service.cancel_drain() == {"sources": ["orders"]}
        write(tmp_path / "1.log", 2)
        await wait_until(lambda: bool(agents[1].intakes["orders"].pump.workers))
        await asyncio.sleep(8.0)
        assert service.ready() == (True, [])
        assert await counts(agents[0], began_ms) == {1: 1, 2: 1}
        assert (await latest(agents[0]))["completeness"]["expected"] == 2


async def test_what_is_not_handed_on_in_time_is_missing_under_its_name(tmp_path: pathlib.Path) -> None:
    slow = COUNT.replace("2 seconds", "1 minute")
    async with running(configs(tmp_path, 2)) as agents:
        await Service(agents[0]).publish(slow, "count.toml", None, None)
        await wait_until(lambda: all(each.intakes["orders"].pump.workers for each in agents))
        began_ms, ended = now_ms(), asyncio.Event()
        write(tmp_path / "1.log", 1)
        agents[1].on_departed = ended.set
        await Service(agents[1]).drain(3.0)
        await asyncio.wait_for(ended.wait(), 10.0)
        assert not agents[1].intakes
        await asyncio.sleep(90.0)
        start_ms = began_ms // 60_000 * 60_000
        found = await Service(agents[0]).result("shop", "count", f"{start_ms}/{start_ms + 60_000}", None, None)
        assert found["completeness"]["missing"] == ["web1"]
