"""Applications at real agents: results to the master, words to all agents, answers to those who ask."""

from __future__ import annotations

import contextlib
import pathlib
import threading
from typing import Any, ClassVar

import pytest

import elf
from elf.agents.errors import ElfError, JobError, JobSpecError, StoppedError, UnavailableError
from elf.agents.http.agent_service import Service
from elf.agents.publications.change import Wanted
from elf.agents.wire.application_messages import Letter, Said, packed
from elf.agents.wire.changes import Leapt
from elf.agents.wire.result import Result
from elf.overlay.contract import ControlEntry, Mark
from tests.agents.applications.cluster import JOB, agents_of, have, master_of, publish, sell, until
from tests.overlay.cluster import wait_until
from tests.virtual.agents import Agent
from tests.virtual.http import client_of

pytestmark = pytest.mark.virtual

#: What instances of `Counting` have heard, by (role, agent).
seen: dict[tuple[str, str], list[Any]] = {}


class Counting(elf.Application):
    """Says to all agents what sells best, and is told by each that it was heard."""

    def __init__(self) -> None:
        self.heard = seen.setdefault((self.elf.role, self.elf.agent), [])
        self.best: str | None = None

    def on_start(self) -> None:
        assert threading.current_thread() is not threading.main_thread()
        self.heard.append("start")

    def on_result(self, result: Result) -> None:
        if result.rows and result.rows[0]["product"] != self.best:
            self.best = result.rows[0]["product"]
            self.elf.multicast({"best": self.best})
            self.elf.publish([{"best": self.best, "of": [row["product"] for row in result.rows]}], of=result)

    def on_multicast(self, message: Any) -> None:
        self.heard.append(message)
        self.elf.send_to_master({"heard": message["best"]})

    def on_recv(self, sender: str, message: Any) -> None:
        self.heard.append((sender, message))
        if self.elf.role == "master":
            self.elf.send_to(sender, f"thanks, {sender}")
        else:
            self.elf.set_timer(10)

    def on_timer(self) -> None:
        self.heard.append("timer")

    def on_route(self, asker: str, query: Any) -> Any:
        if query == "best":
            return [asker, self.best]
        raise KeyError(query)


async def test_what_closes_at_the_master_is_heard_and_answered_by_all_agents(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    have(monkeypatch, counting=Counting)
    seen.clear()
    async with agents_of(tmp_path, 3) as agents:
        await publish(agents, "counting")
        await sell(agents[1], "tetris", "zelda", "tetris", "mario")
        master, names = master_of(agents).introduce().name, [f"web{at}" for at in range(3)]

        def told(name: str) -> list[Any]:
            return ["start", {"best": "tetris"}, (master, f"thanks, {name}"), "timer"]

        await wait_until(lambda: all(seen.get(("agent", name)) == told(name) for name in names))
        replies = seen["master", master]
        assert replies[0] == "start"
        assert sorted(replies[1:]) == [(name, {"heard": "tetris"}) for name in names]
        await sell(agents[2], *["zelda"] * 3)
        await wait_until(lambda: all({"best": "zelda"} in seen["agent", name] for name in names))

        assert await Service(agents[0]).route("shop", "sold", "best") == ["", "zelda"]
        for agent in agents:
            with pytest.raises(JobError, match="shop/sold: on_route failed: KeyError: 'worst'"):
                await Service(agent).route("shop", "sold", "worst")

        async with client_of(agents[2]) as client:
            assert await client.route("shop/sold", "best") == ["", "zelda"]

            async def is_published() -> bool:
                with contextlib.suppress(ElfError):
                    rows = (await client.feedback("shop/sold")).rows
                    return rows == [{"best": "zelda", "of": ["zelda", "tetris", "mario"]}]
                return False

            await until(is_published)
            told_back = await client.feedback("shop/sold")
            assert told_back.to_polars()["of"].to_list() == [["zelda", "tetris", "mario"]]
            assert told_back.completeness.expected == 3
            described = await client.job("shop/sold")
        assert described["application"]["master"]["state"] == "running"
        assert described["options"]["application"] == "counting"


async def test_an_application_rests_with_its_stopped_job_and_begins_anew_with_it(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    have(monkeypatch, counting=Counting)
    async with agents_of(tmp_path, 2) as agents:
        await publish(agents, "counting")
        await wait_until(lambda: sum(len(agent.applications.counts()) for agent in agents) == 3)
        await Service(agents[0]).stop("shop", "sold")
        await wait_until(lambda: not any(agent.applications.counts() for agent in agents))
        with pytest.raises(StoppedError, match="`elf resume shop/sold`"):
            await Service(agents[1]).route("shop", "sold", "best")
        seen.clear()
        await Service(agents[1]).change("shop", "sold", Wanted("resume"))
        await wait_until(lambda: sum(len(agent.applications.counts()) for agent in agents) == 3)
        await wait_until(lambda: [told[0] for told in seen.values()] == ["start"] * 3)


class Fragile(elf.Application):
    """Fails at the agents on what the master says, or at the master on what sells."""

    def on_result(self, result: Result) -> None:
        for row in result.rows:
            if row["product"] == "bomb":
                raise ValueError("it ticks")
        self.elf.multicast(len(result.rows))

    def on_multicast(self, message: Any) -> None:
        if message == 2 and self.elf.agent == "web1":
            self.elf.multicast("back")


async def test_an_application_that_fails_is_stopped_with_the_reason_and_its_job_goes_on(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    have(monkeypatch, fragile=Fragile)
    async with agents_of(tmp_path, 2) as agents:
        await publish(agents, "fragile")
        master = master_of(agents)

        def why(agent: Agent) -> str:
            return agent.applications.trouble(agent.catalogue.running()[0]) or ""

        await sell(agents[0], "tetris", "mario")
        await wait_until(lambda: "multicast is for the master; this runs at the agent" in why(agents[1]))
        assert "of job shop/sold at agent web1 is stopped: on_multicast failed: RuntimeError" in why(agents[1])
        (row,) = await Service(agents[0]).jobs()
        assert row["state"] == "running" and row["trouble"] == why(agents[1])
        await sell(agents[0], "bomb")
        await wait_until(lambda: "on_result failed: ValueError: it ticks" in why(master))
        with pytest.raises(JobError, match="on_result failed: ValueError: it ticks"):
            await Service(agents[0]).route("shop", "sold", None)
        await sell(agents[0], "bomb", "zelda")

        async def is_counted() -> bool:
            with contextlib.suppress(UnavailableError):
                result = await Service(agents[1]).result("shop", "sold", "latest", None, None)
                return sum(row["n"] for row in result["rows"]) == 5
            return False

        await until(is_counted)


async def test_a_job_whose_application_is_not_installed_is_refused(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    have(monkeypatch, counting=Counting)
    async with agents_of(tmp_path, 1) as (agent,):
        with pytest.raises(JobSpecError, match="no application 'countin' is installed; did you mean 'counting'"):
            await Service(agent).publish(JOB.format(name="sold", application="countin"), "job.toml", None, None)
        assert await Service(agent).jobs() == []
        monkeypatch.setattr("elf.agents.publications.publisher.require_application", lambda definition: None)
        said = (
            rf"at {agent.node.contact.address}, which would be the job's master: no application 'countin' is installed"
        )
        with pytest.raises(JobSpecError, match=said):
            await Service(agent).publish(JOB.format(name="sold", application="countin"), "job.toml", None, None)
        assert await Service(agent).jobs() == []


async def test_a_job_without_an_application_answers_no_queries(tmp_path: pathlib.Path) -> None:
    async with agents_of(tmp_path, 1) as (agent,):
        plain = JOB.format(name="sold", application="x").replace('application = "x"', "")
        await Service(agent).publish(plain, "job.toml", None, None)
        with pytest.raises(JobError, match="shop/sold has no application that could answer"):
            await Service(agent).route("shop", "sold", "best")


class Asking(elf.Application):
    """Asks another job's application about each result, and answers with what it was answered."""

    def __init__(self) -> None:
        self.answers: list[Any] = []
        self.results: set[str] = set()

    def on_start(self) -> None:
        if self.elf.role == "master":
            self.elf.subscribe("sold")
            self.elf.set_timer(50)

    def on_timer(self) -> None:
        self.elf.route("sold", "best")
        self.elf.route("shop/nothing", "best")

    def on_result(self, result: Result) -> None:
        self.results.add(result.job)

    def on_answer(self, answer: elf.Answer) -> None:
        self.answers.append(answer)

    def on_route(self, asker: str, query: Any) -> Any:
        return [[list(answer) for answer in self.answers], sorted(self.results)]


async def test_an_application_asks_another_jobs_and_follows_its_results(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    have(monkeypatch, counting=Counting, asking=Asking)
    async with agents_of(tmp_path, 2) as agents:
        await publish(agents, "counting")
        await sell(agents[0], "tetris")

        async def is_known() -> bool:
            with contextlib.suppress(UnavailableError):
                return bool(await Service(agents[1]).route("shop", "sold", "best") == ["", "tetris"])
            return False

        await until(is_known)
        await publish(agents, "asking", "asking")

        async def is_answered() -> bool:
            with contextlib.suppress(UnavailableError):
                answers, results = await Service(agents[0]).route("shop", "asking", None)
                if len(answers) == 2 and results == ["shop/asking", "shop/sold"]:
                    unknown, known = sorted(answers)
                    assert known == ["shop/sold", "best", ["shop/asking", "tetris"], None]
                    assert unknown[:3] == ["shop/nothing", "best", None] and "shop/nothing" in unknown[3]
                    return True
            return False

        await until(is_answered)


class Silent(elf.Application):
    """Does not answer before the test ends; asks itself, for that."""

    ended = threading.Event()
    answers: ClassVar[list[elf.Answer]] = []

    def on_start(self) -> None:
        if self.elf.role == "master":
            self.elf.route("sold", 1)

    def on_route(self, asker: str, query: Any) -> Any:
        self.ended.wait(60)

    def on_answer(self, answer: elf.Answer) -> None:
        self.answers.append(answer)


async def test_who_asks_is_told_when_no_answer_comes_in_time(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    have(monkeypatch, silent=Silent, asking=Silent)
    monkeypatch.setattr("elf.agents.applications.performer.ROUTE_MS", 300)
    async with agents_of(tmp_path, 1) as (agent,):
        await publish([agent], "silent")
        await publish([agent], "silent", "other")
        try:
            # That of the first job waits for itself, that of the other one for the first.
            # Applications run in threads, which virtual time does not wait for: an hour of it is a moment.
            await wait_until(lambda: bool(Silent.answers), 3_600)
        finally:
            Silent.ended.set()
        assert Silent.answers[0] == ("shop/sold", 1, None, "no answer of shop/sold within 300 ms")
        await wait_until(lambda: len(Silent.answers) == 2, 3_600)


class Remembering(elf.Application):
    """Says at which agents it began, and tells later ones what is said to all."""

    def on_result(self, result: Result) -> None:
        if result.rows:
            self.elf.multicast(result.rows[0]["n"])

    def on_start(self) -> None:
        seen.setdefault((self.elf.role, self.elf.agent), []).append("start")

    def on_multicast(self, message: Any) -> None:
        heard = seen[self.elf.role, self.elf.agent]
        if message not in heard:
            heard.append(message)


async def test_agents_that_come_late_catch_up_and_a_new_master_begins_anew(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    have(monkeypatch, remembering=Remembering)
    seen.clear()
    async with agents_of(tmp_path, 3) as agents:
        await publish(agents, "remembering")
        await sell(agents[0], "tetris")
        await wait_until(lambda: all(seen.get(("agent", f"web{at}")) == ["start", 1] for at in range(3)))
        old = master_of(agents)
        left = [agent for agent in agents if agent is not old]
        name = old.introduce().name
        await old.stop()
        await wait_until(lambda: any(agent.masters.jobs for agent in left))
        new = master_of(left).introduce().name
        assert new != name
        await wait_until(lambda: seen.get(("master", new)) == ["start"])
        for agent in left:
            await sell(agent, "tetris", "tetris")
        agents[agents.index(old)] = late = Agent(old.config)
        await late.start()
        await wait_until(lambda: all(5 in seen["agent", agent.introduce().name] for agent in left))
        await wait_until(lambda: seen["agent", name][2:3] == ["start"] and seen["agent", name][-1] == 5)


async def test_an_agent_that_lacks_the_application_counts_all_the_same_and_says_what_it_lacks(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    have(monkeypatch, remembering=Remembering)
    seen.clear()
    async with agents_of(tmp_path, 2) as agents:
        lacking = "no application 'remembering' is installed here"
        lacks = agents[1].applications

        def find(name: str) -> Any:
            raise JobSpecError(lacking)

        begin = lacks._begin

        def begin_without(job: Any, role: Any) -> Any:
            with monkeypatch.context() as without:
                without.setattr("elf.agents.applications.applications.find_application", find)
                return begin(job, role)

        monkeypatch.setattr(lacks, "_begin", begin_without)
        await publish(agents, "remembering")
        await sell(agents[1], "tetris")

        async def is_counted() -> bool:
            with contextlib.suppress(UnavailableError):
                result = await Service(agents[0]).result("shop", "sold", "latest", None, None)
                return bool(result["rows"] == [{"product": "tetris", "n": 1}])
            return False

        await until(is_counted)
        await wait_until(lambda: lacks.trouble(agents[1].catalogue.running()[0]) is not None)
        (row,) = await Service(agents[0]).jobs()
        assert row["trouble"] == f"application remembering does not run at web1: {lacking}"
        text = Service(agents[0]).metrics().decode()
        assert 'elf_application_stopped{job="shop/sold",role="agent"} 0.0' in text


class Listening(elf.Application):
    """Notes what it hears, and what it misses."""

    def __init__(self) -> None:
        self.heard: list[Any] = []

    def on_multicast(self, message: Any) -> None:
        self.heard.append(message)

    def on_missed(self) -> None:
        self.heard.append("missed")


async def test_entries_that_never_come_are_said_to_be_missed_and_other_entries_are_nobodys(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    have(monkeypatch, listening=Listening)
    async with agents_of(tmp_path, 1) as (agent,):
        await publish([agent], "listening")
        (job,) = agent.catalogue.running()
        bodies = [
            (Said(packed(1)).encode(), False),
            (Leapt(3).encode(), False),
            (b"", True),
            (Said(packed(2)).encode(), True),
            (b"\xc1 of another release", False),
            (Said(b"{no message").encode(), False),
            (Said(packed(3)).encode(), False),
        ]
        for position, (body, skipped) in enumerate(bodies, 1):
            await agent.applications.on_control(job.tree, ControlEntry(Mark(1, position), body, skipped=skipped))
        runner = next(each for _, role, each in agent.applications.counts() if role == "agent")
        heard = [1, "missed", "missed", 2, 3]
        await wait_until(lambda: getattr(runner.instance.application, "heard", None) == heard)
        await agent.applications.on_control(b"no tree", ControlEntry(Mark(1, 1), bodies[0][0]))
        letters = [Letter(job.tree, "agent", "agent-9", b"{"), Letter(b"t" * 20, "agent", "agent-9", b"1")]
        assert [await agent.applications.receive(letter) for letter in letters] == [True, False]
    assert not await agent.applications.receive(letters[0])
    await agent.applications.on_control(job.tree, ControlEntry(Mark(2, 9), bodies[0][0]))
    assert agent.applications.counts() == []
