"""Which lines the workers of an agent are fed: all from the first one on, however many jobs there are."""

from __future__ import annotations

import asyncio
import json
import pathlib
import shutil
from typing import Any

import msgspec
import pytest

from elf.agents.http.agent_service import Service
from elf.agents.publications import attachments
from elf.agents.settings.config import (
    AgentConfig,
    AgentSection,
    ApiSection,
    ArchiveSection,
    OverlaySection,
    SourceConfig,
)
from elf.agents.wire.positions import Json
from tests.overlay.cluster import wait_until
from tests.virtual.agents import Agent, free_port, now_ms, time_s

pytestmark = pytest.mark.virtual

NAMES = ("one", "two", "three")
LINES = 4_000


def job(name: str) -> str:
    return (
        f'name = "{name}"\ncreator = "shop"\nquery = "SELECT count(*) AS n FROM orders"\n'
        '[options]\ninterval = "1 second"\nlateness = "100ms"\n'
    )


def configure(folder: pathlib.Path, name: str, port: int, join: list[str]) -> AgentConfig:
    log = folder / f"{name}.log"
    log.touch()
    return AgentConfig(
        agent=AgentSection(name=name, data=str(folder / name), chunk_bytes=65_536),
        overlay=OverlaySection(bind=f"127.0.0.1:{port}", join=join),
        api=ApiSection(bind="127.0.0.1:0"),
        archive=ArchiveSection(enabled=False),
        sources={"orders": SourceConfig(path=str(log), columns={"product": "STRING"})},
    )


def write(folder: pathlib.Path, name: str, count: int) -> None:
    at_ms = now_ms()
    with (folder / f"{name}.log").open("a") as log:
        log.writelines(json.dumps({"ts": at_ms, "product": "p"}) + "\n" for _ in range(count))


async def answer(agent: Agent, name: str) -> Json:
    try:
        return await Service(agent).result("shop", name, "latest", None, None)
    except Exception as error:
        return {"rows": [], "completeness": {"missing": [str(error)]}}


async def test_an_agent_that_lost_its_disk_reads_its_log_again_for_all_jobs(tmp_path: pathlib.Path) -> None:
    ports = [free_port() for _ in range(3)]
    joins = [[], *[[f"127.0.0.1:{ports[0]}"]] * 2]
    configs = [
        configure(tmp_path, f"n{at}", port, join) for at, (port, join) in enumerate(zip(ports, joins, strict=True))
    ]
    agents = [Agent(config) for config in configs]
    try:
        for agent in agents:
            await agent.start()
        await wait_until(lambda: all(len(agent.catalogue.members("orders")) == 3 for agent in agents))
        for name in NAMES:
            await Service(agents[0]).publish(job(name), "job.toml", None, None)
        await wait_until(lambda: all(len(agent.attachments._trees) == 3 for agent in agents))
        for at in range(3):
            write(tmp_path, f"n{at}", LINES)

        async def are_counted(agent: Agent, lines: int) -> None:
            deadline_s = time_s() + 40
            while True:
                found = [await answer(agent, name) for name in NAMES]
                counts = [result["rows"][0]["n"] if result["rows"] else 0 for result in found]
                labels = [result["completeness"]["missing"] for result in found]
                if counts == [lines] * 3 and not any(labels):
                    return
                assert max(counts) <= lines, "nothing counts twice"
                assert time_s() < deadline_s, (counts, labels)
                await asyncio.sleep(0.1)

        await are_counted(agents[0], 3 * LINES)
        await agents[2].stop()
        shutil.rmtree(tmp_path / "n2")
        write(tmp_path, "n2", LINES)
        agents[2] = Agent(configs[2])
        await agents[2].start()
        await are_counted(agents[0], 4 * LINES)
    finally:
        for agent in agents:
            await agent.stop()


async def test_a_master_that_is_away_keeps_no_other_job_from_being_read(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(attachments, "ALL_S", 1.0)
    configs = [configure(tmp_path, "n0", free_port(), [])]
    configs.append(configure(tmp_path, "n1", free_port(), [configs[0].overlay.bind]))
    agents = [Agent(config) for config in configs]
    try:
        await agents[0].start()
        for name in NAMES:
            await Service(agents[0]).publish(job(name), "job.toml", None, None)
        await wait_until(lambda: len(agents[0].attachments._trees) == 3)
        enlist = agents[1].attachments._enlist

        async def enlist_some(record: attachments.JobRecord) -> attachments.Enlisted:
            if record.definition.name == "two":
                raise attachments.UnavailableError("it is away")
            return await enlist(record)

        monkeypatch.setattr(agents[1].attachments, "_enlist", enlist_some)
        await agents[1].start()
        await wait_until(lambda: len(agents[1].attachments._trees) == 2)
        # A job that was taken up together with another one is no longer pending once it looks again.
        await wait_until(lambda: list(agents[1].attachments.pending) == ["shop/two"])
    finally:
        for agent in agents:
            await agent.stop()


async def test_a_job_that_is_published_anew_while_it_is_taken_up_stops_nothing(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    agent = Agent(configure(tmp_path, "n0", free_port(), []))
    await agent.start()
    try:
        intake = agent.intakes["orders"]
        attach = intake.attach

        async def attach_late(*workers: Any) -> None:
            await attach(*workers)
            (job,) = agent.catalogue.running()
            agent.catalogue.learn(msgspec.structs.replace(job, instance="another", stamp_ms=job.stamp_ms + 1))

        monkeypatch.setattr(intake, "attach", attach_late)
        (first, _) = await asyncio.gather(
            Service(agent).publish(job("one"), "job.toml", None, None),
            wait_until(lambda: bool(agent.attachments._trees)),
        )
        assert [record.instance for record in agent.catalogue.running()] == ["another"]
        assert "failed" not in caplog.text and first["state"] == "running"
        # What comes next takes up the other one in its place, and finds no master that knows it.
        (other,) = agent.catalogue.running()
        following = asyncio.create_task(agent.attachments.follow(other))
        await wait_until(lambda: "shop/one" in agent.attachments.pending)
        assert not agent.attachments._trees
        assert list(agent.attachments._locks) == [other.definition.app_id]
        following.cancel()
        await wait_until(lambda: following.done() and not agent.attachments._locks)
    finally:
        await agent.stop()
