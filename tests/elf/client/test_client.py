"""Both clients against a real server: answers, names, errors, streams that break."""

from __future__ import annotations

import asyncio
import gc
import queue
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from datetime import date, datetime
from pathlib import Path
from types import FrameType
from typing import Any

import polars as pl
import pytest

import elf
from elf.agents.errors import (
    BadRequestError,
    ConfigError,
    ExpiredError,
    IncompleteError,
    JobConflictError,
    JobError,
    JobSpecError,
    UnavailableError,
    UnknownAgentError,
    UnknownJobError,
    UnknownSourceError,
)
from elf.agents.wire.result import Result
from elf.client.problems import error_of
from tests.agents.http.fake_service import STOPPED_MS, make_result
from tests.elf.fake_agent import Agent


def test_blocking_client_does_it_all(agent: Agent, tmp_path: Path) -> None:
    file = tmp_path / "visits.sql"
    file.write_text("SELECT 2")
    with elf.connect(agent.url) as client:
        assert client.publish(file).key == "me/visits"
        assert {job.key for job in client.jobs()} == {"shop/top", "me/visits"}
        result = client.query("top", key="zelda", limit=1)
        assert (result.rows, result.window and result.window.end_ms) == ([{"product": "zelda", "clicks": 5}], 60_000)
        assert result.completeness.complete
        assert client.query("shop/top", result.window or "").job == "shop/top"
        assert agent.service.asked[-1] == ("30000/60000", None, None)
        assert client.job("top")["query"] == "SELECT 1"
        assert client.tree("top").root == "aa"
        assert client.members()[0].is_self
        assert client.ingest("clicks", [{"a": 1}, {"a": 2}]) == 2
        assert client.retire("web3").unreachable[0].job == "shop/best"
        assert client.retire("web3", "top").jobs[0].job == "shop/top"
        with pytest.raises(UnknownAgentError, match="did you mean 'web3'"):
            client.retire("web/33")
        stopped = client.stop("visits")
        assert (stopped.state, stopped.ends_ms) == ("stopped", STOPPED_MS + 86_400_000)
        with pytest.raises(elf.StoppedError, match="`elf resume me/visits` takes it up again"):
            client.query("visits")
        assert [job.ends_ms for job in client.jobs()] == [None, stopped.ends_ms]
        assert client.resume("visits").what == "resume" and client.query("visits").rows
        assert client.stop("visits", "0s").ends_ms is None
        with pytest.raises(UnknownJobError):
            client.query("visits")


def test_a_running_job_is_changed_and_tells_its_history(agent: Agent, tmp_path: Path) -> None:
    file = tmp_path / "top.sql"
    file.write_text("SELECT 3")
    with elf.connect(agent.url) as client:
        assert client.update("shop/top", file).version == 2
        assert client.update("top", query="SELECT 4", options={"lateness": "5s"}, expected=2).since_ms == 180_000
        made = [client.reset("top"), client.pause("top"), client.resume("top"), client.rollback("top", 2)]
        assert [(each.version, each.what) for each in made] == [
            (4, "reset"),
            (5, "pause"),
            (6, "resume"),
            (7, "rollback"),
        ]
        assert client.leap("top").agents == ["web3"]
        with pytest.raises(JobConflictError, match="has version 7 now, not 2"):
            client.update("top", text="SELECT 5", expected=2)
        history = client.versions("top")
        assert [each.version for each in history] == list(range(1, 8))
        assert (history[2].query, history[2].until_ms, history[6].until_ms) == ("SELECT 4", 240_000, None)
    first, second = agent.service.wanted[:2]
    assert (first.definition, first.filename, first.query) == ("SELECT 3", "top.sql", None)
    assert (second.query, second.options, second.definition) == ("SELECT 4", {"lateness": "5s"}, None)
    assert agent.service.wanted[-1].version == 2


def test_a_result_may_be_required_to_be_complete(agent: Agent) -> None:
    with elf.connect(agent.url) as client:
        assert client.query("top", require="complete").rows
        facts = {"expected": 3, "reported": 2, "missing": ["web3"], "late": 0, "shed": 0, "gaps": 2, "revision": 0}
        for status, window in (("final_incomplete", "closed"), ("open", "open")):
            lacking = make_result(completeness={**facts, "status": status})
            agent.service.result_of["shop", "top"] = lacking
            with pytest.raises(IncompleteError, match=rf"window is {window}; 2 of 3 agents .*missing: web3; gaps: 2"):
                client.query("top", require="complete")
            assert client.query("top").completeness.status == status
        with pytest.raises(BadRequestError, match="write complete"):
            client.query("top", require="everything")


async def test_asynchronous_client_watches(agent: Agent) -> None:
    async with elf.connect(agent.url) as client:
        assert (await client.query("top")).master == "127.0.0.1:4250"
        results = client.watch("top")
        first = asyncio.ensure_future(anext(results))
        await asyncio.to_thread(agent.send, make_result(), make_result(revision=2))
        assert [(await first).completeness.revision, (await anext(results)).completeness.revision] == [1, 2]
        await results.aclose()
        assert (await client.stop("top", "2h")).ends_ms == STOPPED_MS + 7_200_000
        with pytest.raises(elf.StoppedError):
            await client.query("top")
        assert (await client.resume("top")).what == "resume"


def test_blocking_watch_ends_with_the_job(agent: Agent) -> None:
    with elf.connect(agent.url) as client:
        sender = threading.Thread(target=agent.send, args=(make_result(), make_result(end_ms=90_000), None))
        sender.start()
        assert [r.window and r.window.end_ms for r in client.watch("top")] == [60_000, 90_000]
        sender.join()


@pytest.mark.parametrize("end", [UnknownJobError("shop/top"), elf.StoppedError("job shop/top is stopped")], ids=repr)
def test_a_watch_ends_when_its_job_is_stopped(agent: Agent, end: elf.JobError) -> None:
    with elf.connect(agent.url) as client:
        sender = threading.Thread(target=agent.send, args=(make_result(), end))
        sender.start()
        assert len(list(client.watch("top"))) == 1
        sender.join()
        with pytest.raises(UnknownJobError):
            next(iter(client.watch("shop/none")))


def test_leaving_a_watch_early_closes_it(agent: Agent) -> None:
    with elf.connect(agent.url) as client:
        sender = threading.Thread(target=agent.send, args=(make_result(),))
        sender.start()
        results = client.watch("top")
        next(iter(results))
        results.close()  # type: ignore[attr-defined]
        sender.join()
        asyncio.run_coroutine_threadsafe(agent.service.wait_followers(0), agent.loop).result(60)


async def test_a_watch_survives_a_broken_connection(agent: Agent) -> None:
    async with elf.connect(agent.url) as client:
        results = client.watch("top")
        first = asyncio.ensure_future(anext(results))
        await asyncio.to_thread(agent.send, make_result())
        await first
        second = asyncio.ensure_future(anext(results))
        await asyncio.to_thread(agent.send, UnavailableError("the agent restarts"))
        asyncio.run_coroutine_threadsafe(agent.service.wait_followers(0), agent.loop).result(60)
        await asyncio.to_thread(agent.send, make_result(), make_result(end_ms=90_000))
        assert (await second).window == elf.Window(60_000, 90_000)
        await results.aclose()


@pytest.mark.parametrize(
    "error",
    [
        JobSpecError("no such column", line=3, column=8, hint="product"),
        JobSpecError("no FROM"),
        JobSpecError("not signed", setting="functions.section"),
        JobConflictError("another definition"),
        ExpiredError("no longer retained"),
        UnknownJobError("shop/tip", ["shop/top"]),
        UnknownSourceError("click", ["clicks"]),
        UnavailableError("away"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_errors_arrive_as_they_left(agent: Agent, error: Exception) -> None:
    agent.service.fail = error
    # What may help is asked again, but not after the deadline: agents say to wait for a second.
    with elf.connect(agent.url, timeout=0.5) as client, pytest.raises(type(error)) as caught:
        client.jobs()
    assert str(caught.value) == str(error)
    for member in ("line", "column", "hint", "nearest", "setting"):
        assert getattr(caught.value, member, None) == getattr(error, member, None)


def test_a_token_that_lacks_is_a_matter_of_configuration(guarded_agent: Agent) -> None:
    with elf.connect(guarded_agent.url) as client, pytest.raises(ConfigError, match="token"):
        client.jobs()
    with elf.connect(guarded_agent.url, token="s3cret") as client:
        assert client.jobs()


def test_nobody_there() -> None:
    nobody = "http://127.0.0.1:9"
    with elf.connect(nobody, timeout=0.5) as client, pytest.raises(UnavailableError, match="no agent answers"):
        client.query("shop/top")
    with pytest.raises(ConfigError, match="URL"):
        elf.connect("127.0.0.1:9").jobs()


def test_what_answers_and_is_no_agent_is_told_by_its_url() -> None:
    for body in (b"404: Not Found", b"", b"[]"):
        error = error_of(404, body, "http://127.0.0.1:4250")
        assert isinstance(error, UnavailableError)
        assert "http://127.0.0.1:4250 is no elf agent's API (status 404)" in str(error)


def test_a_bare_name_means_the_only_job_then_ones_own(agent: Agent) -> None:
    with elf.connect(agent.url) as client:
        assert client.query("top").job == "shop/top"
    agent.service.add("lab", "top")
    with elf.connect(agent.url) as client, pytest.raises(JobError, match=r"lab/top or shop/top"):
        client.query("top")
    agent.service.add("me", "top")
    with elf.connect(agent.url) as client:
        assert client.query("top").job == "me/top"
    with elf.connect(agent.url, creator="lab") as client:
        assert client.query("top").job == "lab/top"
        with pytest.raises(UnknownJobError, match="'tap'; did you mean 'top'"):
            client.query("tap")


@pytest.mark.parametrize("name", ["", "/", "a/b/c", "Top", "a/", "../x"])
def test_impossible_names_are_not_even_asked(agent: Agent, name: str) -> None:
    with elf.connect(agent.url) as client, pytest.raises(JobError, match="CREATOR/NAME"):
        client.query(name)


def test_the_creator_of_a_job_is_oneself_unless_said(agent: Agent) -> None:
    with elf.connect(agent.url) as client:
        assert client.publish(text="SELECT 3", name="a").creator == "me"
        assert client.publish(text="SELECT 3", name="b", creator="you").creator == "you"


def test_publish_wants_one_readable_text(agent: Agent, tmp_path: Path) -> None:
    (tmp_path / "bad.sql").write_bytes(b"\xff")
    with elf.connect(agent.url) as client:
        for bad in ({}, {"text": "SELECT 3"}, {"file": "x", "text": "y"}, {"file": "/no/such.toml"}):
            with pytest.raises(JobError):
                client.publish(**bad)
        with pytest.raises(JobError, match="UTF-8"):
            client.publish(tmp_path / "bad.sql")


def test_frames_have_the_types_of_the_columns() -> None:
    columns = [
        {"name": n, "type": t}
        for n, t in [("a", "BIGINT"), ("b", "DOUBLE"), ("c", "STRING"), ("d", "DATE"), ("e", "TIMESTAMP"), ("f", "INT")]
    ]
    rows = [
        {"a": 1, "b": 2, "c": "x", "d": "2026-11-20", "e": "2026-11-20T12:00:00.000001Z", "f": None},
        dict.fromkeys("abcdef"),
    ]
    result = elf.client.results.msgspec.convert(make_result(columns=columns, rows=rows), Result)
    frame = result.to_polars()
    types = [pl.Int64(), pl.Float64(), pl.String(), pl.Date(), pl.Datetime("us"), pl.Int32()]
    assert frame.dtypes == types
    assert frame.row(0) == (1, 2.0, "x", date(2026, 11, 20), datetime(2026, 11, 20, 12, 0, 0, 1), None)
    empty = elf.client.results.msgspec.convert(make_result(columns=columns, rows=[]), Result)
    assert empty.to_polars().dtypes == types


def test_arrays_have_the_type_of_their_elements() -> None:
    columns = [
        {"name": n, "type": t} for n, t in [("a", "ARRAY<INT>"), ("b", "ARRAY<TIMESTAMP>"), ("c", "ARRAY<DATE>")]
    ]
    rows = [{"a": [1, 2], "b": ["2026-11-20T12:00:00.000001Z"], "c": ["2026-11-20"]}, {"a": [], "b": [], "c": []}]
    frame = elf.client.results.msgspec.convert(make_result(columns=columns, rows=rows), Result).to_polars()
    assert frame.dtypes == [pl.List(pl.Int32()), pl.List(pl.Datetime("us")), pl.List(pl.Date())]
    assert frame.row(0) == ([1, 2], [datetime(2026, 11, 20, 12, 0, 0, 1)], [date(2026, 11, 20)])


def test_a_client_that_nobody_closes_ends_quietly(agent: Agent) -> None:
    code = (
        f"import elf\nprint(len(elf.connect({agent.url!r}).jobs()))\nclient = elf.connect({agent.url!r})\nclient.jobs()"
    )
    done = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip().isdigit() and done.stderr == ""


async def test_the_blocking_client_is_refused_where_it_gave_another_one(agent: Agent) -> None:
    client = elf.connect(agent.url)
    async with client as given:
        assert await given.jobs()
        for call in (client.jobs, lambda: client.watch("top"), lambda: client.query("top")):
            with pytest.raises(
                BadRequestError, match=r"blocking one; .* `async with elf\.connect\(\.\.\.\) as client`"
            ):
                call()
        assert await asyncio.to_thread(client.jobs) == await given.jobs()  # a thread of its own may wait
        with pytest.raises(BadRequestError, match="under `async with` already; elf"):
            async with client:
                raise AssertionError("one of the two would never be closed")
    async with client as given:
        assert await given.jobs()
    # Notebooks run a loop, too, and use the blocking client; that holds up nobody else.
    assert client.jobs()
    client.close()


async def test_a_closed_client_says_so(agent: Agent) -> None:
    async with elf.connect(agent.url) as client:
        await client.jobs()
    with pytest.raises(BadRequestError, match="this client is closed"):
        await client.jobs()
    with pytest.raises(BadRequestError, match="until = 'x' is not known; there is 'converged'"):
        await anext(client.watch("shop/top", until="x"))  # type: ignore[arg-type]


def test_a_client_may_be_used_again_and_left_open(agent: Agent) -> None:
    client = elf.connect(agent.url)
    client.close()
    assert client.jobs()
    client.close()
    assert client.jobs()
    client.close()


@pytest.mark.parametrize("kind", ["query", "watch"])
def test_closing_a_client_ends_the_calls_of_other_threads(kind: str) -> None:
    said: queue.Queue[BaseException] = queue.Queue()
    before = set(threading.enumerate())
    with socket.create_server(("127.0.0.1", 0)) as silent:
        client = elf.connect(f"http://127.0.0.1:{silent.getsockname()[1]}", creator="shop")

        def ask() -> None:
            try:
                if kind == "query":
                    client.query("shop/top")
                else:
                    next(client.watch("shop/top"))
            except BaseException as error:
                said.put(error)

        thread = threading.Thread(target=ask, daemon=True)
        thread.start()
        silent.settimeout(60)
        connection, _ = silent.accept()
        with connection:
            client.close()
            error = said.get(timeout=60)
            thread.join(60)
    assert isinstance(error, BadRequestError)
    assert str(error) == "this client was closed before the agent answered"
    assert set(threading.enumerate()) <= before


def watching(client: elf.Client, agent: Agent) -> Iterator[elf.Result]:
    """Follow a job of which one result has come."""
    results = client.watch("shop/top")
    sender = threading.Thread(target=agent.send, args=(make_result(),))
    sender.start()
    next(results)
    sender.join()
    return results


def test_a_watch_that_is_freed_while_its_client_is_closed_holds_nobody_up(agent: Agent) -> None:
    client = elf.connect(agent.url)
    results = watching(client, agent)

    def close() -> None:
        nonlocal results
        with client._start_lock:
            del results
        client.close()

    thread = threading.Thread(target=close, daemon=True)
    thread.start()
    thread.join(60)
    assert not thread.is_alive()


def test_a_watch_may_be_freed_by_the_thread_of_its_loop(agent: Agent) -> None:
    with elf.connect(agent.url) as client:
        results = watching(client, agent)
        assert client._loop is not None
        client._loop.call_soon_threadsafe(results.close)  # type: ignore[attr-defined]
        asyncio.run_coroutine_threadsafe(agent.service.wait_followers(0), agent.loop).result(60)
        assert client.jobs(), "and the client goes on"


def test_a_client_that_cannot_be_made_leaves_no_thread() -> None:
    before = set(threading.enumerate())
    client = elf.connect("web1")
    for _ in range(2):
        with pytest.raises(ConfigError, match="'web1' is not an agent's URL"):
            client.jobs()
    assert set(threading.enumerate()) <= before


def test_a_client_may_be_closed_while_others_use_it(agent: Agent) -> None:
    client = elf.connect(agent.url)
    answers: list[object] = []

    def ask() -> None:
        for _ in range(100):
            try:
                answers.append(client.jobs())
            except Exception as error:
                answers.append(error)

    threads = [threading.Thread(target=ask, daemon=True) for _ in range(3)]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        client.close()
    client.close()
    assert len(answers) == 300
    errors = [answer for answer in answers if not isinstance(answer, list)]
    assert all(isinstance(error, BadRequestError) for error in errors), errors


def test_a_watch_does_not_go_on_after_its_client_was_closed(agent: Agent) -> None:
    client = elf.connect(agent.url)
    results = watching(client, agent)
    client.close()
    assert client.jobs(), "used again"
    with pytest.raises(BadRequestError, match="this client was closed"):
        next(results)
    client.close()


@pytest.mark.parametrize("step", range(1, 9))
def test_a_call_may_be_interrupted_at_any_step(agent: Agent, recwarn: pytest.WarningsRecorder, step: int) -> None:
    left = step

    def interrupt(frame: FrameType, event: str, _: object) -> Any:
        nonlocal left
        left -= event == "line" and frame.f_code.co_name in {"_wait", "begin", "run"}
        if left == 0:
            raise KeyboardInterrupt
        return interrupt

    with elf.connect(agent.url) as client:
        assert client.jobs()
        sys.settrace(interrupt)
        with pytest.raises(KeyboardInterrupt):
            client.members()
        sys.settrace(None)
        assert client.members(), "and the client goes on"
        gc.collect()
    assert not [str(warning.message) for warning in recwarn.list], "nothing was begun and never awaited"
