"""Copies of a data folder: agents of one identity never run side by side unsaid."""

import asyncio
import pathlib
import shutil

import msgspec
import pytest

from elf.agents.errors import ConfigError
from elf.agents.http.agent_service import Service
from elf.agents.identity import open_state
from elf.agents.store.database import Database
from elf.agents.wire.catalogue import job_record
from elf.overlay.ids import source_id
from tests.agents.publications.test_control import JOB, configure
from tests.overlay.cluster import wait_until
from tests.virtual.agents import Agent, free_port

pytestmark = pytest.mark.virtual


def identity(folder: pathlib.Path) -> tuple[str, bytes]:
    database = open_state(folder)
    try:
        return database.agent_id, database.secret
    finally:
        database.close()


def test_a_copy_of_an_agent_that_has_told_nothing_is_another_agent(tmp_path: pathlib.Path) -> None:
    first = identity(tmp_path / "one")
    assert identity(tmp_path / "one") == first
    shutil.copytree(tmp_path / "one", tmp_path / "two")
    second = identity(tmp_path / "two")
    assert all(mine != its for mine, its in zip(first, second, strict=True)), "neither its id nor its key"
    assert [identity(tmp_path / name) for name in ("one", "two", "two")] == [first, second, second]


def test_a_moved_folder_with_something_in_it_stays_the_same_agent(tmp_path: pathlib.Path) -> None:
    first = identity(tmp_path / "one")
    database = Database(tmp_path / "one" / "state.db")
    with database.transaction() as sql:
        sql.execute("INSERT INTO root_groups VALUES (x'00', 1, '', row_checksum(x'00', 1, ''))")
    database.close()
    (tmp_path / "one").rename(tmp_path / "two")
    assert identity(tmp_path / "two") == first


async def test_copies_of_an_agent_that_counts_do_not_run_beside_each_other(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    port, other = free_port(), free_port()
    config = configure(tmp_path, "one", port, [])
    copied = configure(tmp_path, "two", other, [f"127.0.0.1:{port}"])
    agent = Agent(config)
    await agent.start()
    await Service(agent).publish(JOB, "sold.toml", None, None)
    await wait_until(lambda: bool(agent.intakes["orders"].pump.workers))
    await agent.stop()
    shutil.copytree(tmp_path / "one", tmp_path / "two")
    agent = Agent(config)
    await agent.start()
    double = Agent(copied)
    assert double.agent_id == agent.agent_id
    with pytest.raises(ConfigError, match=f"copy of the data folder of the agent at 127.0.0.1:{port}, which runs"):
        await double.start()
    # Others may tell it of jobs meanwhile.
    followed: list[object] = []
    monkeypatch.setattr(double.attachments, "follow", followed.append)
    double.on_record(source_id("orders"), job_record(agent.catalogue.running()[0]))
    for _ in range(5):
        await asyncio.sleep(0)
    assert double.catalogue.running() and not followed
    await double.stop()
    # While the one does not run, the other may take its place. Then it comes back, and does not know of the other.
    await agent.stop()
    double = Agent(copied)
    double_ends = asyncio.Event()
    double.doubles.on_refusal = double_ends.set
    await double.start()
    rejoining = msgspec.structs.replace(config.overlay, join=[f"127.0.0.1:{other}"])
    agent = Agent(msgspec.structs.replace(config, overlay=rejoining))
    agent_ends = asyncio.Event()
    agent.doubles.on_refusal = agent_ends.set
    await agent.start()
    try:
        async with asyncio.timeout(20):
            await agent_ends.wait()
        assert agent.doubles.refusal is not None and f"127.0.0.1:{other}" in str(agent.doubles.refusal)
        await wait_until(lambda: any(worker.progress.gaps for worker in double.intakes["orders"].pump.workers.values()))
        assert not double_ends.is_set()
    finally:
        await agent.stop()
    agent = Agent(msgspec.structs.replace(config, overlay=rejoining))
    with pytest.raises(ConfigError, match="which runs"):
        await agent.start()
    await agent.stop()
    await double.stop()
