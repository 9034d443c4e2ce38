"""Jobs with signed functions on agents: who runs them, who refuses them, and who is told."""

from __future__ import annotations

import asyncio
import contextlib
import re
import time
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from elf.agents.agent import Agent
from elf.agents.errors import ElfError, JobSpecError, StoppedError
from elf.agents.http.agent_service import Service
from elf.agents.jobs.definition import load_definition
from elf.agents.publications.change import Wanted
from elf.agents.wire.catalogue import job_record
from elf.overlay.ids import source_id
from tests.agents.extensions.signed.signed_jobs import (
    COLUMNS,
    OTHER,
    SECTION,
    START_MS,
    TRUSTED,
    click,
    config_of,
    rows_of,
    signed,
    text_of,
)
from tests.agents.wire.test_catalogue import JOB

PLAIN = "SELECT count(*) AS clicks FROM clicks GROUP BY window(ts, '60 seconds')"


async def publish(agent: Agent, text: str) -> None:
    await Service(agent).publish(text, "job.toml", None, None)


async def test_a_signed_function_counts_and_only_a_signed_one_takes_its_place(tmp_path: Path) -> None:
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
            with pytest.raises(JobSpecError, match=f"this agent does not run the functions .*{why}") as caught:
                await publish(agent, text)
            assert caught.value.setting == "functions.section"
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


async def test_a_stopped_job_goes_on_with_another_function_and_its_windows(tmp_path: Path) -> None:
    agent = Agent(config_of(tmp_path, "web1"))
    await agent.start()
    try:
        good = text_of("plain", query=PLAIN).partition("[functions")[0]
        await publish(agent, good)
        bad = SECTION.replace("    found", "    while path == '/': pass\n    found")
        await publish(agent, signed(text_of("sections", bad)))
        await click(agent, "/shop/toys/kite", "/shop/toys/train")
        assert await rows_of(agent, "sections", 1) == [("toys", 2)]
        await click(agent, "/", "/shop/toys/kite", at_ms=START_MS + 1_000)
        job = await listed(agent, "sections", "stopped")
        reason = "its functions take too long: more than 1.0 s of a processor for one call (at web1)"
        assert job["trouble"] == reason and job["functions"] == [{"name": "section", "key": TRUSTED["shop"]}]
        assert (await listed(agent, "plain", "running")).get("trouble") is None
        with pytest.raises(StoppedError, match=r"is stopped \(its functions take too long"):
            await Service(agent).result("shop", "sections", "latest", None, None)
        # The other job of the same source has counted all of it.
        assert await rows_of(agent, "plain", 1, wanted=[(4,)]) == [(4,)]
        # Resumed, with another function, it goes on with its windows; what was left out is in a label.
        changing, better = Service(agent), signed(text_of("sections", SECTION.replace("found[1]", "found[1].upper()")))
        await changing.change("shop", "sections", Wanted("resume"))
        made = await changing.change("shop", "sections", Wanted("update", better))
        since_ms = int(made["since_ms"])
        await click(agent, "/", "/shop/toys/kite", at_ms=since_ms)
        assert await rows_of(agent, "sections", 1, since_ms // 60_000 * 60_000) == [("TOYS", 1)]
        history = (await changing.job("shop", "sections"))["versions"]
        assert [(each["what"], each["why"]) for each in history] == [
            ("publish", ""),
            ("stop", reason),
            ("resume", ""),
            ("update", ""),
        ]
    finally:
        await agent.stop()


async def test_who_does_not_trust_the_creator_is_missing_by_name_and_says_so(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    first = Agent(config_of(tmp_path, "web1"))
    second = Agent(config_of(tmp_path, "web2", trusted={}, join=[first.config.overlay.bind]))
    try:
        await start(first, second)
        refusal = "this agent does not run the functions .section. that 'shop' sends with job shop/"
        with pytest.raises(JobSpecError, match=refusal):
            await publish(second, signed(text_of("sections")))
        for number in range(40):
            name = f"sections{number}"
            try:
                await publish(first, signed(text_of(name)))
            except JobSpecError as error:
                # The other one would be its master.
                assert re.match(refusal, str(error))
            else:
                break
        await click(first, "/shop/toys/kite")
        assert await rows_of(first, name, 1) == [("toys", 1)]
        label: dict[str, Any] = {}
        deadline_s = time.monotonic() + 60
        while label.get("missing") != ["web2"]:
            assert time.monotonic() < deadline_s, label
            window = f"{START_MS}/{START_MS + 60_000}"
            label = (await Service(first).result("shop", name, window, None, None))["completeness"]
            await asyncio.sleep(0.05)
        assert (label["status"], label["expected"]) == ("final_incomplete", 2)
        assert any(re.search(f"job shop/{name} cannot run on this agent, .*{refusal}", why) for why in ready(second))
        assert re.search(f"control record job/shop/{name} cannot be used here: {refusal}", caplog.text)
        assert ready(first) == []
    finally:
        for agent in (first, second):
            await agent.stop()


async def start(*agents: Agent) -> None:
    """Start agents, and wait until they know each other."""
    for agent in agents:
        await agent.start()
    deadline_s = time.monotonic() + 60
    while any(len(agent.catalogue.members("clicks")) < len(agents) for agent in agents):
        assert time.monotonic() < deadline_s
        await asyncio.sleep(0.02)


def ready(agent: Agent) -> list[str]:
    """Return why an agent is not ready."""
    return Service(agent).ready()[1]


HOSTILE = {
    "loops": ("    while True: pass", "its functions take too long: more than 1.0 s of a processor"),
    "allocates": ("    a = [path]\n    while True: a += a", "its functions need more than 256 MiB of memory"),
    "raises": ("    raise ValueError(path)", "its function section fails on every event: ValueError: /shop/toys/"),
    "opens": ("    import socket", "its function section fails on every event: ImportError: socket cannot be imported"),
    "forks": ("    load('posix').fork()", "its functions made a system call that they may not make"),
}
LOADING = """
def load(name):
    kinds = ().__class__.__base__.__subclasses__()
    return [kind for kind in kinds if kind.__name__ == "BuiltinImporter"][0].load_module(name)
"""


async def test_whatever_functions_do_their_jobs_stop_with_the_reason_and_others_miss_nothing(tmp_path: Path) -> None:
    first = Agent(config_of(tmp_path, "web1"))
    second = Agent(config_of(tmp_path, "web2", join=[first.config.overlay.bind]))
    agents, began_ms = (first, second), time.time_ns() // 1_000_000
    try:
        await start(*agents)
        plain = text_of("plain", query=PLAIN).partition("[functions")[0]
        await publish(first, plain.replace('leap_after = "300ms"\n', "").replace('"0s"', '"1s"'))
        for name, (body, _) in HOSTILE.items():
            await publish(first, signed(text_of(name, f"{LOADING}\ndef section(path):\n{body}\n    return path")))
        deadline_s, count, running = time.monotonic() + 60, 0, list(HOSTILE)
        while running:
            assert time.monotonic() < deadline_s, running
            for agent in agents:
                # One more than the failures with which a function that never answers is given up.
                await click(agent, *["/shop/toys/kite"] * 33, at_ms=time.time_ns() // 1_000_000 - 100)
                count += 33
            rows = {row["name"]: row for row in await Service(second).jobs()}
            running = [name for name in HOSTILE if rows[name]["state"] != "stopped"]
            await asyncio.sleep(0.1)
        for name, (_, why) in HOSTILE.items():
            assert rows[name]["trouble"].startswith(why) and rows[name]["trouble"][-9:-2] == "(at web"
        assert rows["plain"]["state"] == "running"
        labels = [each["completeness"] for each in await counted(first, began_ms, count)]
        assert [(label["missing"], label["gaps"]) for label in labels] == [([], 0)] * len(labels)
    finally:
        for agent in agents:
            await agent.stop()


async def counted(agent: Agent, since_ms: int, count: int) -> list[dict[str, Any]]:
    """Return the windows of the plain job since a time, once they have so many clicks together."""
    deadline_s, found = time.monotonic() + 60, []
    while time.monotonic() < deadline_s:
        starts = range(since_ms // 60_000 * 60_000, time.time_ns() // 1_000_000, 60_000)
        with contextlib.suppress(ElfError):
            found = [
                await Service(agent).result("shop", "plain", f"{start_ms}/{start_ms + 60_000}", None, None)
                for start_ms in starts
            ]
            if sum(row["clicks"] for each in found for row in each["rows"]) == count:
                return found
        await asyncio.sleep(0.05)
    raise AssertionError(f"these are not {count} clicks: {found}")


async def listed(agent: Agent, name: str, state: str) -> dict[str, Any]:
    """Return a job's row of the list once it is in a state."""
    deadline_s, rows = time.monotonic() + 60, []
    while time.monotonic() < deadline_s:
        rows = [row for row in await Service(agent).jobs() if row["name"] == name]
        if rows and rows[0]["state"] == state:
            return rows[0]
        await asyncio.sleep(0.05)
    raise AssertionError(f"the job {name} is not {state}: {rows}")
