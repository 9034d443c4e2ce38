"""New results come back to every agent of a job, also to those that come late, and nobody is asked for them."""

from __future__ import annotations

import asyncio
import contextlib
import pathlib
from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any

import msgspec
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from elf.agents.errors import JobError, JobSpecError, UnavailableError, UnknownJobError
from elf.agents.http.agent_service import Service
from elf.agents.jobs.definition import load_definition
from elf.agents.results.feedback import RETRY_S, Feedback, packed
from elf.agents.settings.config import AgentConfig
from elf.agents.wire.records import FEEDBACK_KEY
from elf.agents.wire.result import Result
from elf.overlay.contract import Record
from elf.overlay.control.records import RecordMap
from elf.overlay.messages import RECORD_BYTES_MAX
from tests.agents.publications.test_control import configure
from tests.overlay.cluster import wait_until
from tests.virtual.agents import Agent, free_port, now_ms
from tests.virtual.http import client_of

pytestmark = pytest.mark.virtual

JOB = """
name = "sold"
creator = "shop"
query = "SELECT product, count(*) AS n FROM orders GROUP BY product ORDER BY n DESC, product"
[options]
interval = "500ms"
lateness = "0s"
feedback = 2
"""


async def sell(agent: Agent, *products: str) -> None:
    lines = [{"ts": now_ms(), "product": product} for product in products]
    await Service(agent).ingest("orders", b"".join(msgspec.json.encode(line) + b"\n" for line in lines))


def best_at(agent: Agent) -> dict[str, int] | None:
    """What is sold best, as an agent has been told it; None before."""
    with contextlib.suppress(UnavailableError, UnknownJobError):
        told: dict[str, Any] = msgspec.json.decode(Service(agent).feedback("shop", "sold").body)
        return {row["product"]: row["n"] for row in told["rows"]}
    return None


@pytest.mark.parametrize("trees", [1, 3])
async def test_each_agent_has_the_newest_result(tmp_path: pathlib.Path, trees: int) -> None:
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
        await Service(agents[0]).publish(f"{JOB}trees = {trees}\n", "sold.toml", None, None)
        await wait_until(lambda: all(len(agent.catalogue.running()) == trees for agent in agents))
        await sell(agents[1], "tetris", "zelda", "tetris", "mario")
        await wait_until(lambda: all(best_at(agent) == {"tetris": 2, "mario": 1} for agent in agents), 60)
        late = await start(configs[2])
        agents.append(late)
        await wait_until(lambda: best_at(late) == {"tetris": 2, "mario": 1}, 60)
        await sell(late, *["zelda"] * 3)
        await wait_until(lambda: all(best_at(agent) == {"zelda": 4, "tetris": 2} for agent in agents), 60)
        await wait_until(lambda: len({Service(agent).feedback("shop", "sold") for agent in agents}) == 1, 60)

        async with client_of(late) as client:
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


def test_impossible_feedback_is_refused() -> None:
    with pytest.raises(JobSpecError, match=r"^8:1: feedback = -1 is not possible"):
        load_definition(JOB.replace("feedback = 2", "feedback = -1"))


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


class Tree:
    """The records of a job's tree: of equal keys the latest version stays."""

    def __init__(self) -> None:
        self.held = RecordMap()

    def records(self, tree: bytes) -> list[Record]:
        return self.held.all()

    def add_record(self, tree: bytes, record: Record) -> bool:
        return self.held.apply(record)


class Master:
    """The master of one job, whose results are said one after the other."""

    def __init__(self, *answers: Any, joined: bool = False) -> None:
        job, self.joined = load_definition(JOB), joined
        self.record = SimpleNamespace(definition=job, tree=b"tree")
        self.answers, self.edition, self.asked = list(answers), 99, 0
        self.windows = self

    @property
    def jobs(self) -> list[Any]:
        return [self.record]

    def job(self, app: bytes) -> Any:
        return self.record

    async def changed(self, app: bytes, edition: int, wait_ms: int) -> Any:
        if not self.answers:
            raise UnknownJobError("no master any more")
        self.edition += 1
        return self

    def has_others(self, app: bytes) -> bool:
        return self.joined

    def master(self, app: bytes) -> Any:
        return self

    async def followed(self, app: bytes, limit: int) -> AsyncIterator[Any]:
        while self.answers:
            answer = self.answers.pop(0)
            if isinstance(answer, BaseException):
                raise answer
            yield answer
        raise UnknownJobError("no master any more")

    async def newest(self, app: bytes, limit: int) -> Any:
        self.asked += 1
        answer = self.answers.pop(0)
        if isinstance(answer, BaseException):
            raise answer
        return answer


async def told_by(master: Master, tree: Tree) -> list[Any]:
    """Let a master tell all its answers; return the rows that stay."""
    feedback = Feedback(tree, master, master, None)  # type: ignore[arg-type]
    await asyncio.wait_for(feedback._follow(b"app"), 30)
    return list(msgspec.json.decode(tree.held.all()[0].body)["rows"])


async def test_what_a_lost_master_had_said_does_not_stay_above_what_holds() -> None:
    tree = Tree()
    window = {"start_ms": 0, "end_ms": 5}
    tree.add_record(b"tree", Record(FEEDBACK_KEY, 100_000, packed(result([{"n": 10}], window))))
    assert await told_by(Master(result([{"n": 8}], window)), tree) == [{"n": 8}]
    assert await told_by(Master(result([{"n": 8}], window), result([{"n": 9}], window)), tree) == [{"n": 9}]


async def test_of_a_job_over_others_the_newest_window_is_told_again_when_it_changes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("elf.agents.results.feedback.OTHERS_S", 0)
    old, new = ({"start_ms": at, "end_ms": at + 5} for at in (0, 5))
    results = [result([{"n": n}], window) for n, window in ((1, old), (2, new), (3, new), (4, old))]
    assert await told_by(Master(*results, joined=True), Tree()) == [{"n": 3}]
    waiting = [results[0], UnavailableError("what it reads is stopped"), results[1]]
    assert await told_by(Master(*waiting, joined=True), Tree()) == [{"n": 2}]


async def test_a_failure_ends_nothing_and_is_not_tried_again_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    pauses: list[float] = []
    sleep = asyncio.sleep

    async def pause(seconds: float) -> None:
        pauses.append(seconds)
        await sleep(0)

    monkeypatch.setattr("elf.agents.results.feedback.asyncio.sleep", pause)
    failures = (pl.exceptions.PanicException("a date of the year 14645"), OSError("no disk"), JobError("none yet"))
    assert await told_by(Master(*failures, result([{"n": 1}], None)), Tree()) == [{"n": 1}]
    assert pauses == [RETRY_S, RETRY_S]


def test_a_label_that_has_no_room_is_no_result() -> None:
    plain = result([{"n": 1}], None)
    plain["completeness"]["missing"] = [f"web{number:030d}" for number in range(15_000)]
    with pytest.raises(UnavailableError, match="without any row the result has"):
        packed(plain)
