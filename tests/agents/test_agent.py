"""An agent that starts again: in which order it takes up what it knew."""

import pathlib

import pytest

from agents.agent import Agent
from agents.catalogue import job_record, member_record
from agents.config import AgentConfig, AgentSection, ArchiveSection, OverlaySection, SourceConfig
from agents.requests import JobRecord, Member
from agents.store.records import Records
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
