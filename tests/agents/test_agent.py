"""An agent that starts again: in which order it takes up what it knew."""

import asyncio
import pathlib

import msgspec
import pytest
from msgspec.structs import replace

from elf.agents.archive.layout import list_files
from elf.agents.archive.remote import open_url
from elf.agents.errors import ConfigError
from elf.agents.http.agent_service import Service
from elf.agents.master.master import MasterState
from elf.agents.settings.config import AgentConfig, AgentSection, ArchiveSection, OverlaySection, SourceConfig
from elf.agents.store.panes import Panes
from elf.agents.store.records import Records
from elf.agents.wire.catalogue import job_record, member_record
from elf.agents.wire.records import JobRecord, Member
from elf.overlay.contract import Record
from elf.overlay.fields import SERIAL_MAX
from elf.overlay.ids import source_id
from tests.agents.archive.archived import read_archive
from tests.agents.wire.test_catalogue import JOB
from tests.virtual.agents import Agent, time_s

pytestmark = pytest.mark.virtual


async def test_other_agents_are_known_by_name_before_the_first_job_is_taken_up(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Taking up a job waits for disks, while a master here answers already; its labels name whoever is missing."""
    config = AgentConfig(
        agent=AgentSection(data=str(tmp_path)),
        overlay=OverlaySection(bind="127.0.0.1:0"),
        archive=ArchiveSection(enabled=False),
        sources={"clicks": SourceConfig()},
    )
    agent, names = Agent(config), list[str]()
    records = Records(agent.database)
    other = Member(agent_id="id9", name="web9", address="127.0.0.1:9", sources=("clicks",))
    for record in (job_record(JOB), member_record(other, 1)):
        records.put(source_id("clicks"), record)

    async def follow(job: JobRecord) -> None:
        names.append(agent.catalogue.name_of("id9"))

    monkeypatch.setattr(agent.attachments, "follow", follow)
    monkeypatch.setattr(agent.stores.checkpoints, "worker", lambda tree: object())
    await agent.start()
    await agent.stop()
    assert names[0] == "web9"


async def test_an_agent_starts_whatever_its_last_run_has_stored(tmp_path: pathlib.Path) -> None:
    config = AgentConfig(
        agent=AgentSection(data=str(tmp_path)),
        overlay=OverlaySection(bind="127.0.0.1:0"),
        archive=ArchiveSection(enabled=False),
        sources={"clicks": SourceConfig()},
    )
    agent, tree = Agent(config), source_id("clicks")
    records = Records(agent.database)
    # Another release took jobs that this one refuses, and a peer took us for gone with the last version there is.
    refused = replace(JOB, definition=replace(JOB.definition, query="SELECT nonsense FROM clicks"))
    us = Member(agent_id=agent.agent_id, name="us", address="127.0.0.1:9", sources=("clicks",), gone=True)
    for record in (Record("job/garbage", 1, b"\xff"), job_record(refused), member_record(us, SERIAL_MAX)):
        records.put(tree, record)
    app = refused.definition.app_id
    Panes(agent.database).create(app, refused.encode(), msgspec.msgpack.encode(MasterState()))
    Panes(agent.database).create(b"a" * 20, b"\xff", b"\xff")
    await agent.start()
    await agent.stop()
    assert agent.catalogue.running() == []
    assert agent.copies.get(app) is None


COUNT = 'name = "count"\ncreator = "shop"\nquery = "SELECT n, count(*) AS c FROM clicks GROUP BY n"\n'


def copying(folder: pathlib.Path, url: str) -> AgentConfig:
    (folder / "clicks.log").write_text('{"ts": "2020-01-01T00:00:00Z", "n": 1}\n')
    return AgentConfig(
        agent=AgentSection(data=str(folder / "data")),
        overlay=OverlaySection(bind="127.0.0.1:0"),
        archive=ArchiveSection(copy_to=url),
        sources={"clicks": SourceConfig(path=str(folder / "*.log"), columns={"n": "BIGINT"})},
    )


async def test_an_agent_copies_its_archive_to_a_url_and_tells_how_far_it_is(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("elf.agents.archive.mirror.TURN_S", 0.05)
    agent, copy = Agent(copying(tmp_path, "memory://of-an-agent/elf")), open_url("memory://of-an-agent/elf")
    try:
        await agent.start()
        await Service(agent).publish(COUNT, "count.toml", None, None)
        deadline = time_s() + 60
        while not await asyncio.to_thread(list_files, copy, "clicks"):
            assert time_s() < deadline
            await asyncio.sleep(0.05)
        text = Service(agent).metrics().decode()
    finally:
        await agent.stop()
    assert read_archive(copy, "clicks")["n"].to_list() == [1]
    assert agent.sources.mirror is not None and agent.sources.mirror.bytes > 0
    for line in ("copied_bytes_total ", "copy_waiting_files ", "copy_failures_total 0.0"):
        assert f"\nelf_archive_{line}" in text


async def test_an_agent_whose_copy_needs_a_package_says_so_before_it_reads_anything(tmp_path: pathlib.Path) -> None:
    agent = Agent(copying(tmp_path, "abfs://box@account/elf"))
    said = r"^archive\.copy_to = abfs://box@account/elf: .* is not installed; install it with: pip install adlfs$"
    with pytest.raises(ConfigError, match=said):
        await agent.start()
    await agent.stop()
    assert agent.intakes == {} and not (tmp_path / "data" / "archive").exists()
