"""Agents that are away for a moment, or for long: what is asked again, of whom, and how it ends."""

from __future__ import annotations

import asyncio
import random
import re
import socket
import time
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
import pytest
from aiohttp import web

import elf
from elf.agents.errors import BadRequestError, ConfigError, JobConflictError, UnavailableError, UnknownJobError
from elf.client.results import Intervals
from tests.agents.http.fake_service import make_result
from tests.elf.flaky_agent import Answer, FlakyAgent, away, hang_up, problem

Call = Callable[[elf.AsyncClient], Awaitable[Any]]


def answering(value: object) -> Answer:
    return lambda: web.json_response(value)


VERSION = {"version": 2, "what": "update", "query": "SELECT 1", "made_ms": 1}
JOB = {"creator": "shop", "name": "top"}
#: Every call, and what an agent answers to it: those that may be asked twice, and those that may not.
QUESTIONS: dict[str, tuple[Call, object]] = {
    "jobs": (lambda client: client.jobs(), {"jobs": [JOB]}),
    "job": (lambda client: client.job("shop/top"), {}),
    "query": (lambda client: client.query("shop/top"), make_result()),
    "tree": (lambda client: client.tree("shop/top", 1), {"root": None, "nodes": []}),
    "explain": (lambda client: client.explain("shop/top"), {}),
    "members": (lambda client: client.members(), {"members": []}),
    "versions": (lambda client: client.versions("shop/top"), {"versions": [VERSION]}),
    "publish": (lambda client: client.publish(text="SELECT 1", name="top"), JOB),
    "stop": (lambda client: client.stop("shop/top"), {**JOB, "state": "stopped", "ends_ms": 1}),
    "ingest": (lambda client: client.ingest("clicks", [{"a": 1}]), {"accepted": 1}),
    "load": (lambda client: client.load("shop/top", Intervals("ab", 1, 2, b"")), {}),
}
CHANGES: dict[str, tuple[Call, object]] = {
    "update": (lambda client: client.update("shop/top", query="SELECT 1"), VERSION),
    "rollback": (lambda client: client.rollback("shop/top"), VERSION),
    "reset": (lambda client: client.reset("shop/top"), VERSION),
    "pause": (lambda client: client.pause("shop/top"), VERSION),
    "resume": (lambda client: client.resume("shop/top"), VERSION),
    "leap": (lambda client: client.leap("shop/top"), {"through_ms": 1, "agents": []}),
    "route": (lambda client: client.route("shop/top", 1), {"answer": 1}),
    "force": (lambda client: client.force("shop/top"), {}),
    "retire": (lambda client: client.retire("web3"), {"agent": "cc", "name": "web3"}),
    "retire of a job": (lambda client: client.retire("web3", "shop/top"), {"agent": "cc", "name": "web3"}),
}


@pytest.mark.parametrize(("ask", "answer"), QUESTIONS.values(), ids=list(QUESTIONS))
async def test_a_question_is_asked_again_until_it_is_answered(ask: Call, answer: object) -> None:
    agent = FlakyAgent(away(), hang_up, problem(502, "proxy"), last=answering(answer))
    async with agent.up(), elf.connect(agent.url) as client:
        await ask(client)
    assert len(agent.asked) == 4 and len(set(agent.asked)) == 1


@pytest.mark.parametrize(("ask", "answer"), CHANGES.values(), ids=list(CHANGES))
async def test_a_change_that_was_taken_is_not_asked_for_again(ask: Call, answer: object) -> None:
    agent = FlakyAgent(away(), last=answering(answer))
    async with agent.up(), elf.connect(agent.url) as client:
        with pytest.raises(UnavailableError, match=r"^shop/top has no master at the moment$"):
            await ask(client)
        assert len(agent.asked) == 1
    agent = FlakyAgent(hang_up, last=answering(answer))
    async with agent.up(), elf.connect(agent.url) as client:
        with pytest.raises(UnavailableError, match="may have been done, so it is not asked for again"):
            await ask(client)
        assert len(agent.asked) == 1


@pytest.mark.parametrize(("ask", "answer"), CHANGES.values(), ids=list(CHANGES))
async def test_a_change_that_nobody_took_is_asked_for_again(ask: Call, answer: object) -> None:
    agent = FlakyAgent(last=answering(answer))
    async with elf.connect(agent.url) as client:
        asked = asyncio.ensure_future(ask(client))
        await asyncio.sleep(0.3)
        assert not asked.done()
        async with agent.up():
            await asked
    assert len(agent.asked) == 1


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (problem(404, "unknown-job"), UnknownJobError),
        (problem(401, "unauthorized"), ConfigError),
        (problem(409, "job-conflict"), JobConflictError),
        (problem(409, "incomplete"), elf.IncompleteError),
        (problem(500, "internal"), UnavailableError),
        (lambda: web.Response(body=b"<html>"), UnavailableError),
        (lambda: web.Response(body=b"<html>", status=404), UnavailableError),
    ],
)
async def test_what_is_wrong_is_not_asked_again(answer: Answer, error: type[Exception]) -> None:
    agent, other = FlakyAgent(answer), FlakyAgent()
    async with agent.up(), other.up(), elf.connect([agent.url, other.url]) as client:
        with pytest.raises(error):
            await client.job("shop/top")
    assert (len(agent.asked), len(other.asked)) == (1, 0)


@pytest.mark.parametrize("kind", ["refuses", "is away", "is silent"])
async def test_the_deadline_is_kept_and_the_end_says_what_was_tried(kind: str) -> None:
    said = {
        "refuses": r"^no agent answers at {url}.* \(asked \d+ times in [01]\.\d s\)$",
        "is away": r"^shop/top has no master at the moment \(asked \d+ times in [01]\.\d s\)$",
        "is silent": r"^the agent at {url} is busy: it has taken the request, and did not answer in time$",
    }
    agent = FlakyAgent(last=away())
    begun_s = time.monotonic()
    async with elf.connect(agent.url, timeout=1.5) as client:
        with pytest.raises(UnavailableError) as caught, socket.socket() as silent:
            if kind == "is silent":
                silent.bind(("127.0.0.1", int(agent.url.rpartition(":")[2])))
                silent.listen()
            if kind == "is away":
                async with agent.up():
                    await client.query("shop/top")
            await client.query("shop/top")
    assert re.match(said[kind].format(url=re.escape(agent.url)), str(caught.value)), caught.value
    assert time.monotonic() - begun_s < 10
    assert kind != "is away" or 3 <= len(agent.asked) <= 20


async def test_finding_out_whose_job_it_is_counts_too() -> None:
    agent = FlakyAgent(*[away()] * 3, answering({"jobs": [JOB]}), last=away(1))
    begun_s = asyncio.get_running_loop().time()
    async with agent.up(), elf.connect(agent.url, timeout=2) as client:
        with pytest.raises(UnavailableError, match="no master"):
            await client.query("top")
    assert asyncio.get_running_loop().time() - begun_s <= 2.5


async def test_an_agent_that_waits_for_another_says_how_long() -> None:
    agent = FlakyAgent(away(1), away(1))
    begun_s = asyncio.get_running_loop().time()
    async with agent.up(), elf.connect(agent.url) as client:
        await client.jobs()
    assert asyncio.get_running_loop().time() - begun_s >= 2
    async with agent.up(), elf.connect(agent.url, timeout=2) as client:
        agent.answers.append(away(60))
        with pytest.raises(UnavailableError, match=r"moment$"):
            await client.jobs()


async def test_another_agent_is_asked_and_stays_the_one_that_is_asked_first() -> None:
    gone, stuck, well = FlakyAgent(), socket.create_server(("127.0.0.1", 0)), FlakyAgent()
    with stuck:
        urls = [gone.url, f"http://127.0.0.1:{stuck.getsockname()[1]}", f"{well.url}/"]
        async with well.up(), elf.connect(",".join(urls), timeout=2) as client:
            assert await client.jobs()
            begun_s = asyncio.get_running_loop().time()
            assert await client.jobs()
            assert asyncio.get_running_loop().time() - begun_s < 0.9, "nobody waits for the others again"
    assert well.asked == ["GET /v1/jobs"] * 2


async def test_the_end_tells_of_all_agents() -> None:
    gone, away_for_long = FlakyAgent(), FlakyAgent(last=away())
    async with away_for_long.up(), elf.connect((gone.url, away_for_long.url), timeout=0.5) as client:
        with pytest.raises(UnavailableError) as caught:
            await client.jobs()
    assert re.fullmatch(
        rf"none of 2 agents could answer in 0\.\d s: no agent answers at {gone.url}; .* \(asked \d times\); "
        rf"{away_for_long.url}: shop/top has no master at the moment \(asked \d times\)",
        str(caught.value),
    ), caught.value


@pytest.mark.parametrize(
    "ask",
    [
        lambda client: client.feedback("shop/top"),
        lambda client: client.force("shop/top"),
        lambda client: client.ingest("clicks", b"{}\n"),
    ],
)
async def test_what_is_for_one_agent_is_asked_of_no_other(ask: Call) -> None:
    gone, other = FlakyAgent(), FlakyAgent()
    async with other.up(), elf.connect([gone.url, other.url], timeout=0.5) as client:
        with pytest.raises(UnavailableError, match=f"no agent answers at {gone.url}"):
            await ask(client)
        assert await client.jobs()
        with pytest.raises(UnavailableError, match=f"no agent answers at {gone.url}"):
            await ask(client)
    assert other.asked == ["GET /v1/jobs"]


async def test_feedback_that_has_not_come_is_not_waited_for() -> None:
    agent = FlakyAgent(away(), hang_up, last=answering(make_result()))
    async with agent.up(), elf.connect(agent.url) as client:
        with pytest.raises(UnavailableError, match=r"moment$"):
            await client.feedback("shop/top")
        assert len(agent.asked) == 1
        assert (await client.feedback("shop/top")).rows


async def test_a_job_that_an_agent_hears_of_while_it_is_asked_is_found_by_its_bare_name() -> None:
    nothing = answering({"jobs": []})
    agent = FlakyAgent(
        nothing, away(), problem(404, "unknown-job"), answering({"jobs": [JOB]}), last=answering(make_result())
    )
    async with agent.up(), elf.connect(agent.url, creator="me") as client:
        assert (await client.query("top")).job == "shop/top"
    assert agent.asked[-1] == "GET /v1/jobs/shop/top/result"


async def test_a_watch_goes_on_where_it_was_lost_with_another_agent() -> None:
    def streaming(end_ms: int) -> Answer:
        data = msgspec.json.encode(make_result(end_ms=end_ms)).decode()
        return lambda: web.Response(text=f"id: {end_ms}\ndata: {data}\n\n", content_type="text/event-stream")

    cut = streaming(60_000)

    def lost() -> web.StreamResponse:
        answer = cut()
        assert isinstance(answer, web.Response)
        answer.headers["Content-Length"] = str(1 << 20)  # of which the end never comes
        return answer

    first, second = FlakyAgent(away(), lost), FlakyAgent(away(), streaming(90_000), problem(404, "unknown-job"))
    async with elf.connect([first.url, second.url], timeout=5) as client:
        results = client.watch("shop/top")
        async with first.up():
            assert (await anext(results)).window == elf.Window(30_000, 60_000)
        async with second.up():
            assert [result.window async for result in results] == [elf.Window(60_000, 90_000)]
    assert second.seen == ["60000", "60000"]
    assert len(second.asked) == 2, "a stream that ends is at its end"


async def test_a_timeout_and_agents_must_be_possible() -> None:
    for wrong in (0, -1, float("nan"), float("inf")):
        with pytest.raises(ConfigError, match="timeout"):
            async with elf.connect(timeout=wrong):
                pass
    for urls in ((), "", "http://a,,http://b", ["web1"]):
        with pytest.raises(ConfigError, match="URL"):
            async with elf.connect(urls):
                pass


def test_the_blocking_client_asks_again_too() -> None:
    rng, begun_s = random.Random(1), time.monotonic()
    url = f"http://127.0.0.1:{rng.randrange(2, 9)}"
    with elf.connect(iter([url]), timeout=0.5) as client:
        for _ in range(2):
            with pytest.raises(UnavailableError, match=r"asked \d times in 0\.\d s"):
                client.jobs()
            client.close()
    assert time.monotonic() - begun_s < 10


async def test_pushes_may_be_numbered_by_whoever_has_a_name() -> None:
    agent = FlakyAgent(last=answering({"accepted": 1}))
    async with agent.up(), elf.connect(agent.url) as client:
        with pytest.raises(BadRequestError, match="give key="):
            await client.ingest("clicks", [{"a": 1}], serial=1)
        assert not agent.asked
        assert await client.ingest("clicks", [{"a": 1}], key="shipper-1", serial=1) == 1
