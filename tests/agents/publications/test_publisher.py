"""Publishing from several agents: nobody waits for a publication whose outcome is known."""

from __future__ import annotations

import asyncio
import pathlib
import random
from typing import Any

import pytest

from elf.agents.errors import JobConflictError, JobSpecError, UnavailableError
from elf.agents.group import holds
from elf.agents.http.agent_service import Service
from elf.agents.jobs.definition import load_definition
from elf.agents.language.query import columns_read
from elf.agents.publications import publisher as publishing
from elf.agents.publications.change import Wanted
from elf.agents.wire.replies import Reply, encode_reply
from elf.overlay.contract import Answer
from elf.overlay.errors import NotFoundError, UnreachableError
from tests.agents.results.shares import record
from tests.agents.shop import running

pytestmark = pytest.mark.virtual

JOB = """
name = "sold"
creator = "shop"
query = "SELECT product, count(*) AS n FROM orders GROUP BY product, window(ts, '500 milliseconds')"
"""


async def test_a_job_is_published_again_from_another_agent_at_once(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a stop and after a refusal; a hold that nobody lets go of would outlast the test."""
    monkeypatch.setattr(holds, "HOLD_MS", 3_600_000)
    async with running(tmp_path, 2) as (one, other):
        for text in (JOB, JOB + "[options]\ntrees = 2\n"):
            for agent in (one, other):
                await Service(agent).publish(text, "job.toml", None, None)
                await Service(agent).stop("shop", "sold", 0)

        def refuse(definition: Any) -> None:
            raise JobSpecError("no application of that name")

        with monkeypatch.context() as refusing:
            refusing.setattr("elf.agents.group.masters.require_application", refuse)
            with pytest.raises(JobSpecError, match="no application"):
                await Service(one).publish(JOB, "job.toml", None, None)
        assert (await Service(other).publish(JOB, "job.toml", None, None))["state"] == "running"


async def test_what_would_seal_too_often_is_neither_published_nor_made_of_a_job_that_runs(
    tmp_path: pathlib.Path,
) -> None:
    async with running(tmp_path, 1) as (agent,):
        with pytest.raises(JobSpecError, match="the shortest are 100 ms"):
            await Service(agent).publish(JOB.replace("500 ", "5 "), "job.toml", None, None)
        await Service(agent).publish(JOB, "job.toml", None, None)
        for wanted in (
            Wanted(change="update", options={"interval": "10ms"}),
            Wanted(change="update", query="SELECT count(*) AS n FROM orders GROUP BY window(ts, '7 milliseconds')"),
        ):
            with pytest.raises(JobSpecError, match="the shortest are 100 ms"):
                await Service(agent).change("shop", "sold", wanted)
        (known,) = await Service(agent).jobs()
        assert known["version"] == 1


async def test_of_two_that_publish_at_once_one_wins_and_the_other_finds_its_job(tmp_path: pathlib.Path) -> None:
    async with running(tmp_path, 2) as agents:

        async def publish(number: int, text: str) -> Any:
            return await Service(agents[number]).publish(text, "job.toml", None, None)

        same = await asyncio.gather(publish(0, JOB), publish(1, JOB))
        assert same[0]["master"] == same[1]["master"] and same[0]["published_ms"] == same[1]["published_ms"]
        texts = [JOB.replace("sold", "other"), JOB.replace("sold", "other").replace("count(*)", "sum(cents)")]
        found = await asyncio.gather(*(publish(*each) for each in enumerate(texts)), return_exceptions=True)
        assert sum(isinstance(each, JobConflictError) for each in found) == 1, found
        assert sum(isinstance(each, dict) for each in found) == 1


async def test_agents_that_seek_their_places_in_the_tree_are_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(publishing, "SPREAD_S", 0)
    answers: list[Any] = [NotFoundError("nobody"), NotFoundError("nobody"), Answer(encode_reply(Reply(value=True)), ())]

    class Node:
        async def route(self, key: bytes, body: bytes) -> Answer:
            answer = answers.pop(0)
            if isinstance(answer, Exception):
                raise answer
            return answer  # type: ignore[no-any-return]

    publisher = publishing.Publisher(Node(), set, random.Random(1))  # type: ignore[arg-type]
    assert await publisher.spread(record()) and not answers
    answers += [UnreachableError("down"), NotFoundError("not asked any more")]
    with pytest.raises(UnavailableError, match="source 'clicks' could not be told: down"):
        await publisher.spread(record())
    answers[:] = [NotFoundError("nobody")] * publishing.SPREAD_TRIES
    with pytest.raises(UnavailableError, match="could not be told: nobody"):
        await publisher.spread(record())
    assert not answers


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        (["product", "ts"], "source 'orders' has no column 'prodct'; did you mean 'product'"),
        ([], "source 'orders' has no lines yet, so nothing is known of column 'prodct'"),
    ],
)
def test_a_column_without_a_type_is_missing_or_the_source_has_no_lines_yet(fields: list[str], said: str) -> None:
    definition = load_definition(JOB.replace("product", "prodct"), filename="job.toml")
    read = columns_read(definition.query)
    with pytest.raises(JobSpecError) as refused:
        publishing._typed(definition, read, {"columns": {}, "fields": fields})
    assert said in str(refused.value) and refused.value.hint == "or declare its type under [columns]"
