"""The main job on five real agents: every window equals an independent computation, event for event, and Spark's."""

from __future__ import annotations

import pathlib
from typing import TYPE_CHECKING, Any

import pytest

import elf
from elf.demo.clicks import START_MS, generate
from elf.offline.verify.run import run_verify
from tests.system.cluster import AgentProcess, make_agents, running, wait_until
from tests.system.oracle import shop_job, shop_windows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

AGENTS = 5
EVENTS = 1_000_000
RATE_PER_S = 250  # per agent: 200,000 events are 800 s


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> list[pathlib.Path]:
    folder = tmp_path_factory.mktemp("logs")
    paths = []
    for agent in range(AGENTS):
        path = folder / f"clicks-{agent}.log"
        with path.open("wb") as file:
            for chunk in generate(agent, EVENTS // AGENTS, START_MS, RATE_PER_S):
                file.write(chunk)
        paths.append(path)
    return paths


@pytest.fixture(scope="module")
def agents(tmp_path_factory: pytest.TempPathFactory, logs: list[pathlib.Path]) -> Any:
    settings = {"format": "json", "columns": {"price_cents": "BIGINT"}}
    made = make_agents(tmp_path_factory.mktemp("agents"), [{"clicks": {"path": str(log), **settings}} for log in logs])
    with running(made):
        yield made


def test_every_window_equals_duckdb_and_spark_and_every_agent_answers_alike(
    spark: SparkSession, agents: list[AgentProcess], logs: list[pathlib.Path]
) -> None:
    expected = shop_windows(logs, 300_000, 30_000)
    last_end_ms = max(expected) + 300_000
    with elf.connect(agents[0].url) as client:
        published = client.publish(text=shop_job(300, 30))
        assert published.master in {agent.overlay for agent in agents}
        wait_until(
            lambda: (client.job("shop/micro-promotion")["through_ms"] or 0) >= last_end_ms,
            f"commits through {last_end_ms}",
            deadline_s=120,
        )
        spans = [f"{start_ms}/{start_ms + 300_000}" for start_ms in expected]
        for start_ms, span in zip(expected, spans, strict=True):
            result = client.query("shop/micro-promotion", window=span)
            assert [tuple(row.values()) for row in result.rows] == expected[start_ms], span
            assert result.completeness.status == "final", result.completeness
            assert result.completeness.reported == AGENTS

        report = run_verify(client, "shop/micro-promotion", spans, [agent.archive for agent in agents])
        assert report.agrees, report

    one = spans[len(spans) // 2]
    answers = []
    for agent in agents:
        with elf.connect(agent.url) as client:
            answers.append(client.query("shop/micro-promotion", window=one))
    assert len({str((answer.rows, answer.window)) for answer in answers}) == 1
    assert sum(1 for answer in answers if answer.hops) == AGENTS - 1, "only the master answers without a hop"

    for agent in agents:
        ends = agent.counters("clicks")
        assert ends["read"] == EVENTS // AGENTS
        assert ends["read"] == sum(count for end, count in ends.items() if end != "read")
