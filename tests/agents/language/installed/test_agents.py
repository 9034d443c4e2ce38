"""Agents that have a job's functions and agents that lack them: who counts, who refuses, who says what."""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
import urllib.error
import urllib.request
import weakref
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from elf.agents.agent import Agent
from elf.agents.errors import ElfError, JobSpecError
from elf.agents.http.agent_service import Service
from elf.agents.jobs import plan
from elf.agents.jobs.versions import Version
from elf.agents.language.installed import installed
from elf.agents.settings.config import AgentConfig, AgentSection, ArchiveSection, OverlaySection, SourceConfig
from elf.agents.wire.catalogue import Catalogue, job_record
from elf.agents.wire.records import JobRecord
from elf.overlay.ids import source_id
from tests.agents.wire.test_catalogue import JOB, newer
from tests.installing import install, install_example
from tests.ports import free_port
from tests.system.cluster import AgentProcess
from tests.virtual import agents

COLUMNS = {"path": "STRING", "cents": "BIGINT"}
LACKING = "is not in the job language, and no function of that name is installed"
MODULE = """
import elf

@elf.scalar(args=["STRING"], returns="STRING")
def agents_shout(text):
    return text.upper()
"""
SHOUTING = "SELECT agents_shout(product) AS p, count(*) AS n FROM clicks GROUP BY 1"


def passed_minute_ms(now_ms: int) -> int:
    """Return when a whole minute began that has passed."""
    return (now_ms // 60_000 - 2) * 60_000


#: One by the clock of this machine.
START_MS = passed_minute_ms(time.time_ns() // 1_000_000)


def text_of(name: str, query: str) -> str:
    options = '[options]\nlateness = "0s"\nleap_after = "300ms"\n'
    return f'name = "{name}"\ncreator = "shop"\nquery = """\n{query}"""\n{options}'


async def publish(agent: Agent, query: str) -> str:
    """Publish a job whose master has its functions; where it has not, publishing is refused with a sentence."""
    for number in range(40):
        try:
            await Service(agent).publish(text_of(f"typical{number}", query), "job.toml", None, None)
        except JobSpecError as error:
            assert LACKING in str(error)
        else:
            return f"typical{number}"
    raise AssertionError("of forty jobs this agent is the master of none")


async def closed(agent: Agent, name: str) -> dict[str, Any]:
    """Ask for the job's window until it has closed, and has what this agent knows, which may have been leapt over."""
    deadline_s, last = time.monotonic() + 60, None
    while time.monotonic() < deadline_s:
        with contextlib.suppress(ElfError):
            window = f"{START_MS}/{START_MS + 60_000}"
            last = await Service(agent).result("shop", name, window, None, None)
            if (
                last["completeness"]["status"] != "open"
                and last["completeness"]["missing"] == ["web2"]
                and last["rows"]
            ):
                return last
        await asyncio.sleep(0.05)
    raise AssertionError(f"the window did not close: {last}")


def publish_there(agent: AgentProcess, text: str) -> str:
    """Publish through another process; return what it says."""
    body = json.dumps({"definition": text, "filename": "job.toml"}).encode()
    request = urllib.request.Request(f"{agent.url}/v1/jobs", body, {"Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:
            return str(answer.read().decode())
    except urllib.error.HTTPError as error:
        return error.read().decode()


async def test_who_has_the_functions_counts_and_who_lacks_them_is_missing_by_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    query = install_example(tmp_path / "site", monkeypatch)
    port = free_port()
    config = AgentConfig(
        agent=AgentSection(name="web1", data=str(tmp_path / "web1")),
        overlay=OverlaySection(bind=f"127.0.0.1:{port}"),
        archive=ArchiveSection(enabled=False),
        sources={"clicks": SourceConfig(columns=COLUMNS)},
    )
    agent, other = (
        Agent(config),
        AgentProcess(tmp_path, "web2", {"clicks": {"columns": COLUMNS}}, [f"127.0.0.1:{port}"]),
    )
    try:
        await agent.start()
        await asyncio.to_thread(other.start)
        said = await asyncio.to_thread(publish_there, other, text_of("typical", query))
        assert f"section() {LACKING}" in json.loads(said)["detail"]
        name = await publish(agent, query)
        clicks = [("/shop/toys/kite", 100), ("/shop/toys/train", 400), ("/shop/toys/doll", 0), ("/", 20_000)]
        lines = [{"ts": START_MS + at, "path": path, "cents": cents} for at, (path, cents) in enumerate(clicks)]
        await Service(agent).ingest("clicks", "".join(json.dumps(line) + "\n" for line in lines).encode())
        result = await closed(agent, name)
        rows = [(row["section"], row["band"], row["clicks"], round(row["typical"], 6)) for row in result["rows"]]
        assert rows == [("toys", "low", 2, 200.0), (None, "high", 1, 20_000.0)]
        label = result["completeness"]
        # math.log fails on one event, which its label accounts for; the other agent never counts.
        assert (label["status"], label["expected"], label["gaps"]) == ("final_incomplete", 2, 1)
        assert Service(agent).ready() == (True, [])
        reasons = await asyncio.to_thread(other.get_reasons)
        assert any(
            f"job shop/{name} cannot run on this agent, and misses it" in why and LACKING in why for why in reasons
        )
        assert f"control record job/shop/{name} cannot be used here" in other.messages()
    finally:
        await asyncio.to_thread(other.stop)
        await agent.stop()


@pytest.mark.virtual
async def test_an_agent_says_that_it_lacks_a_function_until_the_job_ends(tmp_path: Path) -> None:
    config = AgentConfig(
        agent=AgentSection(data=str(tmp_path)),
        overlay=OverlaySection(bind="127.0.0.1:0"),
        archive=ArchiveSection(enabled=False),
        sources={"clicks": SourceConfig()},
    )
    agent = agents.Agent(config)
    await agent.start()
    try:
        job = replace(JOB, definition=replace(JOB.definition, query=SHOUTING))
        assert agent.add_record(source_id("clicks"), job_record(job))
        is_ready, (why,) = Service(agent).ready()
        assert not is_ready and f"misses it: 1:8: agents_shout() {LACKING}" in why
        assert agent.add_record(source_id("clicks"), job_record(newer(job, stopped=True)))
        assert Service(agent).ready() == (True, [])
    finally:
        await agent.stop()


@pytest.mark.virtual
async def test_lines_that_were_read_while_a_function_was_lacking_are_missing_by_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(
        tmp_path, monkeypatch, "shouting", {"agents_shout": "agents_module:agents_shout"}, {"agents_module": MODULE}
    )
    keyed = "FROM clicks GROUP BY 1, window(ts, '60 seconds')"
    config = AgentConfig(
        agent=AgentSection(name="web1", data=str(tmp_path / "web1")),
        overlay=OverlaySection(bind=f"127.0.0.1:{agents.free_port()}"),
        archive=ArchiveSection(enabled=False),
        sources={"clicks": SourceConfig(columns=COLUMNS)},
    )
    start_ms = passed_minute_ms(agents.now_ms())

    async def run(at: int, *jobs: str) -> dict[str, Any]:
        """Run the agent until a click more is in the window of the jobs; return the last one's."""
        agent = agents.Agent(config)
        await agent.start()
        try:
            for name, key in {"plain": "path", "shouting": "agents_shout(path)"}.items() if at == 0 else ():
                text = text_of(name, f"SELECT {key} AS p, count(*) AS n {keyed}")
                await Service(agent).publish(text + 'interval = "1s"\n', "job.toml", None, None)
            if at == 1:
                assert any("job shop/shouting cannot run" in why for why in Service(agent).ready()[1])
            line = json.dumps({"ts": start_ms + at, "path": "a"}) + "\n"
            await Service(agent).ingest("clicks", line.encode())
            deadline_s, result = agents.time_s() + 60, None
            for name in jobs:
                clicks = at + 1 if name == "plain" else 1
                # Long enough for what the agent had to say after it has begun again to be in the label.
                through_ms = agents.now_ms() + 2_500 if (at, name) == (2, "shouting") else 0
                while (
                    result is None
                    or sum(row["n"] for row in result["rows"]) < clicks
                    or result["through_ms"] < through_ms
                ):
                    assert agents.time_s() < deadline_s, result
                    with contextlib.suppress(ElfError):
                        window = f"{start_ms}/{start_ms + 60_000}"
                        result = await Service(agent).result("shop", name, window, None, None)
                    await asyncio.sleep(0.02)
                last, result = result, None
            return last
        finally:
            await agent.stop()

    first = await run(0, "plain", "shouting")
    assert first["completeness"]["missing"] == []
    with monkeypatch.context() as without:
        without.setattr(installed, "_installed", installed.Installed({}, {}, {}, {}))
        # Another process knows no plans of this one.
        without.setattr(plan, "_plans", weakref.WeakValueDictionary())
        await run(1, "plain")
    last = await run(2, "plain", "shouting")
    label = last["completeness"]
    assert (label["status"], label["missing"]) == ("final_incomplete", ["web1"])


def test_a_job_is_usable_once_its_function_is_installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(installed, "_installed", installed.Installed({}, {}, {}, {}))
    catalogue, job = Catalogue(), replace(JOB, definition=replace(JOB.definition, query=SHOUTING))
    with pytest.raises(JobSpecError, match="no function of that name"):
        catalogue.learn(job)
    assert [each for each, _ in catalogue.unusable("clicks")] == [job]
    assert catalogue.unusable("other") == [] and catalogue.running() == []
    install(
        tmp_path, monkeypatch, "shouting", {"agents_shout": "agents_module:agents_shout"}, {"agents_module": MODULE}
    )
    catalogue.learn(job)
    assert catalogue.unusable("clicks") == [] and catalogue.running() == [job]


def test_a_job_that_cannot_be_followed_in_a_change_goes_on_as_it_was_and_ends_with_the_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(installed, "_installed", installed.Installed({}, {}, {}, {}))
    catalogue = Catalogue()
    catalogue.learn(JOB)
    changed = replace(JOB.definition, query=SHOUTING, version=2)
    versions = (*JOB.history, Version(number=2, definition=changed, what="update", since=5, begins=5, pao_kind=2))
    updated = newer(JOB, definition=changed, versions=versions)
    with pytest.raises(JobSpecError, match="no function of that name"):
        catalogue.learn(updated)
    assert catalogue.running() == [JOB] and [each for each, _ in catalogue.unusable("clicks")] == [updated]
    ended: JobRecord = newer(updated, stopped=True)
    catalogue.learn(ended)
    assert catalogue.running() == [] and catalogue.is_over(JOB.tree) and catalogue.unusable("clicks") == []
    # What comes late of it does not bring it back.
    catalogue.learn(updated)
    assert catalogue.unusable("clicks") == []
