"""Jobs with signed functions on agents: who runs them, who refuses them, and who is told."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from agents.agent import Agent
from agents.catalogue import job_record
from agents.changing.changing import Wanted
from agents.errors import ElfError, JobSpecError
from agents.jobs.definition import load_definition
from agents.service import Service
from overlay.ids import source_id
from tests.agents.signed.signed_jobs import COLUMNS, OTHER, SECTION, click, config_of, rows_of, signed, text_of
from tests.agents.test_catalogue import JOB


async def publish(agent: Agent, text: str) -> None:
    await Service(agent).publish(text, "job.toml", None, None)


async def test_a_signed_function_counts_and_is_updated_while_its_job_runs(tmp_path: Path) -> None:
    agent = Agent(config_of(tmp_path, "web1"))
    await agent.start()
    try:
        await publish(agent, signed(text_of("sections")))
        await click(agent, "/shop/toys/kite", "/shop/toys/train", "/shop/books/owl", "/")
        assert await rows_of(agent, "sections", 2) == [("toys", 2), ("books", 1)]
        changed = signed(text_of("sections", SECTION.replace("found[1]", "found[1].upper()")))
        made = await Service(agent).change("shop", "sections", Wanted("update", changed))
        assert (made["version"], [each["name"] for each in made["functions"]]) == (2, ["section"])
        unsigned = Wanted("update", text_of("sections"))
        with pytest.raises(JobSpecError, match="section is not signed"):
            await Service(agent).change("shop", "sections", unsigned)
        # A change of the query alone keeps the function, with its signature.
        only = Wanted("update", query=text_of("sections").partition('"""')[2].partition('"""')[0] + " LIMIT 1")
        assert (await Service(agent).change("shop", "sections", only))["version"] == 3
        since_ms = int(made["since_ms"])
        await click(agent, "/shop/toys/kite", at_ms=since_ms)
        assert await rows_of(agent, "sections", 1, since_ms // 60_000 * 60_000) == [("TOYS", 1)]
    finally:
        await agent.stop()


async def test_what_no_agent_trusts_is_refused_where_it_is_published(tmp_path: Path) -> None:
    agent = Agent(config_of(tmp_path, "web1"))
    await agent.start()
    try:
        good = signed(text_of("sections"))
        for text, why in (
            (text_of("sections"), "section is not signed"),
            (good.replace("found[1]", "found[0]", 2), "the signature of section is wrong"),
            (signed(text_of("sections"), OTHER), "section is signed with key"),
            (signed(text_of("sections", creator="other")), "list no key of 'other'"),
            (good.replace('name = "sections"', 'name = "others"'), "the signature of section is wrong"),
        ):
            with pytest.raises(JobSpecError, match=f"this agent does not run the functions .*{why}"):
                await publish(agent, text)
        assert agent.catalogue.running() == []
    finally:
        await agent.stop()


async def test_a_record_of_a_peer_with_functions_that_are_not_trusted_is_refused_and_logged(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The peer may say what it wants: what the creator has not signed is nowhere taken up."""
    agent = Agent(config_of(tmp_path, "web1"))
    await agent.start()
    try:
        definition = load_definition(signed(text_of("sections")))
        (function,) = definition.functions
        altered = replace(function, source=function.source.replace("found[1]", "found[0]"))
        for number, (creator, functions) in enumerate(
            (("shop", (altered,)), ("eve", (function,)), ("shop", (replace(function, key="", signature=""),)))
        ):
            told = replace(definition, creator=creator, columns=COLUMNS, functions=functions)
            job = replace(JOB, definition=told, stamp_ms=JOB.stamp_ms + number)
            caplog.clear()
            assert agent.add_record(source_id("clicks"), job_record(job))
            assert f"that '{creator}' sends with job {creator}/sections" in caplog.text
            assert agent.catalogue.running() == []
            assert any("misses it: this agent does not run" in why for why in Service(agent).ready()[1])
            with pytest.raises(ElfError, match="this agent does not run the functions"):
                await agent.masters.install(job, {})
        good = replace(definition, columns=COLUMNS)
        assert agent.add_record(
            source_id("clicks"), job_record(replace(JOB, definition=good, stamp_ms=JOB.stamp_ms + 9))
        )
        assert [job.definition.key for job in agent.catalogue.running()] == ["shop/sections"]
    finally:
        await agent.stop()
