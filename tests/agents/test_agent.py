"""An agent that starts again: in which order it takes up what it knew."""

import pathlib

import msgspec
import pytest
from msgspec.structs import replace

from agents.agent import Agent
from agents.catalogue import job_record, member_record
from agents.config import AgentConfig, AgentSection, ArchiveSection, OverlaySection, SourceConfig
from agents.masters.master import MasterState
from agents.requests import JobRecord, Member
from agents.store.panes import Panes
from agents.store.records import Records
from overlay.contract import Record
from overlay.fields import SERIAL_MAX
from overlay.ids import source_id
from tests.agents.test_catalogue import JOB


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
    monkeypatch.setattr(agent._checkpoints, "worker", lambda tree: object())
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
