"""Agents that are told other settings while they run: all of them hold, or none; and every line is counted once."""

from __future__ import annotations

import asyncio
import json
import os
import pathlib
import random
from collections import Counter
from typing import Any

import pytest
from msgspec.structs import replace

from elf.agents.errors import ConfigError
from elf.agents.http.agent_service import Service
from elf.agents.http.metrics import render_metrics
from elf.agents.reconfiguration import RELOADABLE, differences
from elf.agents.settings.config import (
    AgentConfig,
    AgentSection,
    ApiSection,
    ArchiveSection,
    OverlaySection,
    PrivacySection,
    SourceConfig,
)
from tests.overlay.cluster import wait_until
from tests.virtual.agents import Agent, free_port, now_ms, running

COUNT = 'name = "count"\ncreator = "shop"\nquery = """SELECT n, count(*) AS c FROM orders GROUP BY n, '
COUNT += 'window(ts, \'2 seconds\')"""\n[columns]\nn = "BIGINT"\n'


def write(log: pathlib.Path, *numbers: int) -> None:
    with log.open("a") as file:
        for number in numbers:
            file.write(json.dumps({"ts": now_ms(), "n": number}) + "\n")


def configs(folder: pathlib.Path, count: int) -> list[AgentConfig]:
    ports = [free_port() for _ in range(count)]
    found = []
    for index, port in enumerate(ports):
        log = folder / f"{index}.log"
        log.touch()
        found.append(
            AgentConfig(
                agent=AgentSection(data=str(folder / str(index)), name=f"web{index}"),
                overlay=OverlaySection(bind=f"127.0.0.1:{port}", join=[f"127.0.0.1:{ports[0]}"] if index else []),
                archive=ArchiveSection(enabled=False),
                sources={"orders": SourceConfig(path=str(log), format="json")},
            )
        )
    return found


async def tell(agent: Agent, config: AgentConfig) -> list[str]:
    agent.reconfiguration.load = lambda: config
    changed: list[str] = (await Service(agent).reload())["changed"]
    return changed


async def counts(agent: Agent, since_ms: int) -> Counter[int]:
    """Count the events of all windows since a time, each by its number."""
    found: Counter[int] = Counter()
    for start_ms in range(since_ms // 2_000 * 2_000, now_ms(), 2_000):
        result = await Service(agent).result("shop", "count", f"{start_ms}/{start_ms + 2_000}", None, None)
        for row in result["rows"]:
            found[row["n"]] += row["c"]
    return found


async def latest(agent: Agent) -> Any:
    return await Service(agent).result("shop", "count", "latest", None, None)


@pytest.mark.virtual
async def test_nothing_changes_if_anything_is_wrong(tmp_path: pathlib.Path) -> None:
    (config,) = configs(tmp_path, 1)
    async with running([config]) as (agent,):
        service, held = Service(agent), agent.config

        def broken() -> AgentConfig:
            raise ConfigError("agent.toml:7:3: there is no setting 'paht'; did you mean 'path'?")

        agent.reconfiguration.load = broken
        with pytest.raises(ConfigError, match="7:3"):
            await service.reload()
        ready, _ = service.ready()
        (note,) = service.notes()
        assert ready and agent.config is held
        assert note.startswith("runs on the settings of ") and "agent.toml:7:3: there is no setting" in note
        assert b"elf_config_reload_success 0.0" in render_metrics(agent)
        # A source that cannot be read, after another one that could.
        key = PrivacySection(ip="hash", key_file="/nowhere")
        more = {"fine": SourceConfig(), "wrong": SourceConfig(format="json", privacy=key)}
        descriptors = len(os.listdir("/proc/self/fd"))
        with pytest.raises(ConfigError, match=r"sources\.wrong\.privacy\.key_file"):
            await tell(agent, replace(config, sources={**config.sources, **more}))
        assert set(agent.intakes) == {"orders"} and len(os.listdir("/proc/self/fd")) == descriptors
        assert await tell(agent, config) == []
        assert service.notes() == [] and b"elf_config_reload_success 1.0" in render_metrics(agent)


@pytest.mark.virtual
async def test_what_takes_a_restart_is_refused_by_name(tmp_path: pathlib.Path) -> None:
    (config,) = configs(tmp_path, 1)
    async with running([config]) as (agent,):
        other = replace(
            config,
            agent=replace(config.agent, name="another", log_level="debug"),
            overlay=replace(config.overlay, bind="127.0.0.1:1"),
            sources={},
        )
        with pytest.raises(ConfigError, match=r"^agent\.name, overlay\.bind: cannot be changed while the agent runs"):
            await tell(agent, other)
        assert set(agent.intakes) == {"orders"} and agent.config is config
        await tell(agent, replace(config, archive=replace(config.archive, retain="7d", bytes_max=1 << 30)))
        assert agent.config.archive.retain == "7d"


def test_what_differs_is_named() -> None:
    old, new = AgentConfig(sources={"a": SourceConfig(), "b": SourceConfig()}), AgentConfig()
    new = replace(new, sources={"b": SourceConfig(format="json"), "c": SourceConfig()}, api=ApiSection(open=True))
    assert sorted(differences(old, new)) == ["api.open", "sources.a", "sources.b", "sources.c"]
    sections = {name: getattr(old, name).__struct_fields__ for name in old.__struct_fields__ if name != "sources"}
    assert {f"{name}.{field}" for name, fields in sections.items() for field in fields} >= RELOADABLE


@pytest.mark.virtual
async def test_a_source_that_is_left_is_waited_for_by_no_window_and_goes_on_when_it_is_back(
    tmp_path: pathlib.Path,
) -> None:
    all_configs = configs(tmp_path, 3)
    async with running(all_configs) as agents:
        await Service(agents[0]).publish(COUNT, "count.toml", None, None)
        await wait_until(lambda: all(each.intakes["orders"].pump.workers for each in agents))
        began_ms = now_ms()
        for index in range(3):
            write(tmp_path / f"{index}.log", index)
        await asyncio.sleep(0.5)
        # Whoever is the master goes first: it stays that.
        master = next(each for each in agents if each.masters.jobs)
        leaving = [master, next(each for each in agents if each is not master)]
        for each in leaving:
            assert await tell(each, replace(each.config, sources={})) == ["sources.orders"]
        left = [agents.index(each) for each in leaving]
        for index in left:
            write(tmp_path / f"{index}.log", 10 + index)  # read when it is back
        await wait_until(lambda: not any(each.intakes for each in leaving))
        await asyncio.sleep(8.0)
        # What had been read by then is in its window, and nobody was waited for, or is missing.
        assert await counts(master, began_ms) == {0: 1, 1: 1, 2: 1}
        label = (await latest(master))["completeness"]
        assert label["expected"] == 1 and label["missing"] == [] and label["status"] == "final"
        members = agents[0].catalogue.members("orders")
        assert [each.name for each in members] == [each.config.agent.name for each in agents if each not in leaving]
        for each, config in zip(agents, all_configs, strict=True):
            await tell(each, config)
        await wait_until(lambda: all(each.intakes["orders"].pump.workers for each in agents))
        await asyncio.sleep(8.0)
        assert await counts(master, began_ms) == {0: 1, 1: 1, 2: 1, **{10 + index: 1 for index in left}}
        assert (await latest(master))["completeness"]["expected"] == 3


@pytest.mark.virtual
@pytest.mark.parametrize("seed", range(4))
async def test_every_line_is_counted_once_whatever_is_changed(tmp_path: pathlib.Path, seed: int) -> None:
    """Paths go back and forth, sources come and go, agents stop in between, and a third of the changes is refused."""
    rng, number = random.Random(seed), 0
    all_configs = configs(tmp_path, 3)
    async with running(all_configs) as agents:
        await Service(agents[0]).publish(COUNT, "count.toml", None, None)
        await wait_until(lambda: all(each.intakes["orders"].pump.workers for each in agents))
        began_ms = now_ms()
        for _ in range(40):
            index = rng.randrange(3)
            agent, config = agents[index], all_configs[index]
            for log in range(3):
                lines = rng.randint(0, 3)
                # To what its agent follows, or did, or will.
                write(tmp_path / f"{log}{rng.choice(('', '', 'b'))}.log", *range(number, number + lines))
                number += lines
            path = str(tmp_path / f"{index}{rng.choice(('', 'b'))}.log")
            source = SourceConfig(path=path, format=rng.choice(("json", "")), columns={"n": "BIGINT"})
            wanted = replace(config, sources={"orders": source} if rng.random() < 0.8 else {})
            if rng.random() < 1 / 3:
                with pytest.raises(ConfigError):
                    await tell(agent, replace(wanted, overlay=replace(wanted.overlay, k=7)))
            else:
                await tell(agent, wanted)
                config = all_configs[index] = wanted
            if rng.random() < 0.1:
                await agent.stop()
                agent = agents[index] = Agent(config)
                await agent.start()
            await asyncio.sleep(rng.uniform(0.0, 1.5))
        both = [
            replace(each, sources={"orders": SourceConfig(path=str(tmp_path / f"{index}*.log"), format="json")})
            for index, each in enumerate(all_configs)
        ]
        for agent, config in zip(agents, both, strict=True):
            await tell(agent, config)
        await wait_until(lambda: all(each.intakes["orders"].pump.workers for each in agents))
        await asyncio.sleep(15.0)
        assert await counts(agents[0], began_ms) == dict.fromkeys(range(number), 1)
        read = sum(each.intakes["orders"].pump.counters.read for each in agents)
        assert read == number
        assert all(not each.reconfiguration.notes() for each in agents)


@pytest.mark.virtual
async def test_the_secret_is_changed_without_a_restart(tmp_path: pathlib.Path) -> None:
    """Appended everywhere, put first everywhere, the old one dropped: as the documents say."""
    old, new = "11" * 32, "22" * 32
    plain = configs(tmp_path, 3)
    found = []
    for index, config in enumerate(plain):
        file = tmp_path / f"{index}.secret"
        file.write_text(old)
        file.chmod(0o600)
        found.append(replace(config, overlay=replace(config.overlay, secret_file=str(file))))
    late = found.pop()
    async with running(found) as agents:
        await Service(agents[0]).publish(COUNT, "count.toml", None, None)
        await wait_until(lambda: all(each.intakes["orders"].pump.workers for each in agents))
        began_ms = now_ms()
        for number, text in enumerate((f"{old}\n{new}\n", f"{new}\n{old}\n", new)):
            for index, (agent, config) in enumerate(zip(agents, found, strict=True)):
                (tmp_path / f"{index}.secret").write_text(text)
                assert await tell(agent, config) == []
                await asyncio.sleep(1.0)
                write(tmp_path / f"{index}.log", 10 * number + index)
        with pytest.raises(ConfigError, match="64 hexadecimal digits"):
            (tmp_path / "0.secret").write_text("short")
            await tell(agents[0], found[0])
        with pytest.raises(ConfigError, match="cannot be set, or left out"):
            await tell(agents[0], plain[0])
        (tmp_path / "2.secret").write_text(new)
        agents.append(Agent(late))
        await agents[2].start()
        await wait_until(lambda: all(len(each.catalogue.members("orders")) == 3 for each in agents))
        await asyncio.sleep(8.0)
        assert await counts(agents[2], began_ms) == dict.fromkeys((0, 1, 10, 11, 20, 21), 1)
