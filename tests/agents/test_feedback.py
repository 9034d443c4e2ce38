"""New results come back to every agent of a job, also to those that come late, and nobody is asked for them."""

from __future__ import annotations

import contextlib
import pathlib
import time
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

import elf
from agents.agent import Agent
from agents.config import AgentConfig, AgentSection, ApiSection, ArchiveSection, OverlaySection, SourceConfig
from agents.errors import JobError, JobSpecError, UnavailableError, UnknownJobError
from agents.feedback import packed
from agents.http.app import make_app, serve
from agents.jobs.definition import load_definition
from agents.service import Service
from elf.client.results import Result
from overlay.messages import RECORD_BYTES_MAX
from tests.overlay.cluster import wait_until
from tests.ports import free_port

JOB = """
name = "sold"
creator = "shop"
query = "SELECT product, count(*) AS n FROM orders GROUP BY product ORDER BY n DESC, product"
[options]
interval = "500ms"
lateness = "0s"
feedback = 2
"""


def configure(folder: pathlib.Path, name: str, port: int, join: list[str]) -> AgentConfig:
    return AgentConfig(
        agent=AgentSection(name=name, data=str(folder / name)),
        overlay=OverlaySection(bind=f"127.0.0.1:{port}", join=join),
        api=ApiSection(bind="127.0.0.1:0"),
        archive=ArchiveSection(enabled=False),
        sources={"orders": SourceConfig(columns={"product": "STRING"})},
    )


async def sell(agent: Agent, *products: str) -> None:
    lines = [{"ts": time.time_ns() // 1_000_000, "product": product} for product in products]
    await Service(agent).ingest("orders", b"".join(msgspec.json.encode(line) + b"\n" for line in lines))


def best_at(agent: Agent) -> dict[str, int] | None:
    """What is sold best, as an agent has been told it; None before."""
    with contextlib.suppress(UnavailableError, UnknownJobError):
        told: dict[str, Any] = msgspec.json.decode(Service(agent).feedback("shop", "sold").body)
        return {row["product"]: row["n"] for row in told["rows"]}
    return None


async def test_each_agent_has_the_newest_result(tmp_path: pathlib.Path) -> None:
    ports = [free_port() for _ in range(3)]
    joins: list[list[str]] = [[], *[[f"127.0.0.1:{ports[0]}"]] * 2]
    configs = [configure(tmp_path, f"web{at}", ports[at], joins[at]) for at in range(3)]
    async with contextlib.AsyncExitStack() as stack:

        async def start(config: AgentConfig) -> Agent:
            agent = Agent(config)
            await agent.start()
            stack.push_async_callback(agent.stop)
            return agent

        agents = [await start(config) for config in configs[:2]]
        await wait_until(lambda: all(len(agent.catalogue.members("orders")) == 2 for agent in agents))
        await Service(agents[0]).publish(JOB, "sold.toml", None, None)
        await wait_until(lambda: all(len(agent.catalogue.running()) == 1 for agent in agents))
        await sell(agents[1], "tetris", "zelda", "tetris", "mario")
        await wait_until(lambda: all(best_at(agent) == {"tetris": 2, "mario": 1} for agent in agents), 60)
        late = await start(configs[2])
        agents.append(late)
        await wait_until(lambda: best_at(late) == {"tetris": 2, "mario": 1}, 60)
        await sell(late, *["zelda"] * 3)
        await wait_until(lambda: all(best_at(agent) == {"zelda": 4, "tetris": 2} for agent in agents), 60)
        await wait_until(lambda: len({Service(agent).feedback("shop", "sold") for agent in agents}) == 1, 60)

        async with (
            serve(make_app(Service(late), token=None, request_bytes_max=1 << 20), "127.0.0.1:0") as url,
            elf.connect(url) as client,
        ):
            told = await client.feedback("shop/sold")
            assert told.rows == [{"product": "zelda", "n": 4}, {"product": "tetris", "n": 2}]
            assert told.completeness.expected == 3 and told.cut is msgspec.UNSET


async def test_what_has_no_feedback_is_said_so(tmp_path: pathlib.Path) -> None:
    agent = Agent(configure(tmp_path, "one", free_port(), []))
    await agent.start()
    try:
        service = Service(agent)
        await service.publish(JOB.replace("feedback = 2", ""), "sold.toml", None, None)
        with pytest.raises(JobError, match="shop/sold has no feedback; publish it with `feedback = 100`"):
            service.feedback("shop", "sold")
        with pytest.raises(UnknownJobError, match="did you mean 'shop/sold'"):
            service.feedback("shop", "solt")
        await service.publish(JOB.replace('"sold"', '"other"'), "other.toml", None, None)
        with pytest.raises(UnavailableError, match="no result of shop/other has come to this agent yet"):
            service.feedback("shop", "other")
    finally:
        await agent.stop()


@pytest.mark.parametrize(
    ("option", "said"),
    [
        ("feedback = -1", "feedback = -1 is not possible"),
        ("feedback = 2\ntrees = 2", "feedback needs a job of one tree"),
    ],
)
def test_impossible_feedback_is_refused(option: str, said: str) -> None:
    with pytest.raises(JobSpecError, match=f"^8:1: {said}"):
        load_definition(JOB.replace("feedback = 2", option))


def result(rows: list[dict[str, Any]], window: dict[str, int] | None) -> dict[str, Any]:
    return {
        "job": "shop/sold",
        "window": window,
        "through_ms": 7,
        "columns": [],
        "rows": rows,
        "completeness": {"expected": 1, "reported": 1},
        "master": "127.0.0.1:1",
    }


@given(st.integers(0, 3_000), st.integers(0, 900))
def test_what_has_no_room_is_counted(count: int, size: int) -> None:
    rows = [{"number": number, "text": "é" * size} for number in range(count)]
    body = packed(result(rows, None))
    told = msgspec.json.decode(body, type=Result)
    assert len(body) <= RECORD_BYTES_MAX and told.through_ms == 7 and told.master == ""
    assert told.rows == rows[: len(told.rows)]
    cut = 0 if told.cut is msgspec.UNSET else told.cut
    assert len(told.rows) + cut == count
    assert not cut or len(body) > RECORD_BYTES_MAX // 2, "no more is left out than has to be"


def test_how_far_the_job_has_come_makes_no_new_result_of_a_window() -> None:
    one, other = (result([{"n": 1}], {"start_ms": 0, "end_ms": 5}) | {"through_ms": at} for at in (5, 6))
    assert packed(one) == packed(other)
