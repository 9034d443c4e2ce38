"""A job is changed while it runs: each interval is counted by one version, on all agents, and nothing is lost."""

from __future__ import annotations

import asyncio
import contextlib
import pathlib
import random
from typing import Any

import msgspec
import pytest

from elf.agents.errors import JobConflictError, JobError, JobSpecError, UnavailableError
from elf.agents.http.agent_service import Service
from elf.agents.jobs.definition import Definition, Options, load_definition
from elf.agents.publications import change as changing
from elf.agents.publications.change import Changing, Wanted
from elf.agents.settings.config import AgentConfig, SourceConfig
from elf.agents.wire.changes import Amend
from elf.agents.wire.questions import Describe
from tests.agents.publications.test_control import configure
from tests.agents.shop import INTERVAL_MS, Shop, change, counted_through, running, through_ms
from tests.overlay.cluster import wait_until
from tests.virtual.agents import Agent, free_port, now_ms, time_s

pytestmark = pytest.mark.virtual

JOB = """
name = "sold"
creator = "shop"
query = '''
SELECT product, count(*) AS n FROM orders WHERE kind = 'a'
GROUP BY product, window(ts, '500 milliseconds') ORDER BY product
'''
[options]
lateness = "200ms"
"""
SUMS = """
SELECT product, sum(cents) AS n FROM orders WHERE kind = 'b'
GROUP BY product, window(ts, '500 milliseconds') ORDER BY product
"""
FEW = SUMS.replace("ORDER BY", "HAVING sum(cents) > 5 ORDER BY")


@pytest.mark.parametrize("trees", [1, 3])
async def test_every_interval_is_counted_by_one_version(tmp_path: pathlib.Path, trees: int) -> None:
    async with running(tmp_path, 3) as agents:
        shop = Shop(agents)
        await Service(agents[0]).publish(f"{JOB}trees = {trees}\n", "sold.toml", None, None)
        await wait_until(lambda: all(len(agent.attachments.attached()) == 1 for agent in agents))
        shop.open()
        begun_ms = now_ms() // INTERVAL_MS * INTERVAL_MS + 2 * INTERVAL_MS
        await counted_through(agents[1], begun_ms)
        versions = [await change(agents[1], "update", query=SUMS)]
        await counted_through(agents[1], versions[-1]["since_ms"] + INTERVAL_MS)
        versions.append(await change(agents[2], "update", query=FEW))
        versions.append(await change(agents[2], "reset"))
        await counted_through(agents[0], versions[-1]["since_ms"] + INTERVAL_MS)
        versions.append(await change(agents[0], "pause"))
        await counted_through(agents[0], versions[-1]["since_ms"] + INTERVAL_MS)
        versions.append(await change(agents[1], "resume"))
        versions.append(await change(agents[1], "rollback", version=1))
        await counted_through(agents[0], versions[-1]["since_ms"] + 2 * INTERVAL_MS)
        await shop.close()
        last_ms = max(line["ts"] for line in shop.sold)
        await counted_through(agents[0], last_ms + INTERVAL_MS)
        history = (await Service(agents[2]).job("shop", "sold"))["versions"]
        assert [row["what"] for row in history] == ["publish", *(row["what"] for row in versions)]
        assert [row["version"] for row in history] == list(range(1, 8))
        seen = set()
        for start_ms in range(begun_ms, last_ms, INTERVAL_MS):
            result = await shop.settled(agents[2], start_ms, history)
            version = next(row for row in history if row["version"] == result["version"])
            known = result["completeness"]
            if version["what"] == "pause":
                assert result["rows"] == [] and known["void"] and known["status"] == "final_incomplete"
            else:
                assert known["status"] in ("final", "revised"), (start_ms, result)
            seen.add(result["version"])
        assert {1, 2, 4, 5, 7} <= seen, "3 and 6 may not have had an interval"


@pytest.mark.parametrize("trees", [1, 3])
async def test_intervals_become_shorter_and_longer_while_agents_sell(tmp_path: pathlib.Path, trees: int) -> None:
    """Each takes over where one of either length begins; windows of before stay as they were."""
    async with running(tmp_path, 3) as agents:
        shop, service = Shop(agents), Service(agents[2])
        await Service(agents[0]).publish(f"{JOB}trees = {trees}\n", "sold.toml", None, None)
        await wait_until(lambda: all(len(agent.attachments.attached()) == 1 for agent in agents))
        shop.open()
        begun_ms = now_ms() // INTERVAL_MS * INTERVAL_MS + 2 * INTERVAL_MS
        await counted_through(agents[1], begun_ms + INTERVAL_MS)
        lengths = {1: 500, 2: 300, 3: 300, 4: 800, 5: 500}
        versions = [await change(agents[1], "update", query=JOB.split("'''")[1].replace("500", "300"))]
        await counted_through(agents[1], versions[-1]["since_ms"] + 600)
        # What is made of such intervals goes on with them; what is not, does not.
        versions.append(await change(agents[2], "update", query=JOB.split("'''")[1].replace("500", "600")))
        await counted_through(agents[1], versions[-1]["since_ms"] + 600)
        versions.append(await change(agents[2], "update", query=SUMS.replace("500", "800")))
        await counted_through(agents[1], versions[-1]["since_ms"] + 800)
        versions.append(await change(agents[0], "rollback", version=1))
        await counted_through(agents[1], versions[-1]["since_ms"] + 1_000)
        await shop.close()
        last_ms = max(line["ts"] for line in shop.sold)
        await counted_through(agents[0], last_ms + INTERVAL_MS)
        history = (await service.job("shop", "sold"))["versions"]
        assert {row["version"]: row["interval_ms"] for row in history} == lengths
        assert [row["begins_ms"] for row in history[2:]] == [history[at]["since_ms"] for at in (1, 3, 4)]
        seen = set()
        for row in history:
            length_ms = row["interval_ms"]
            first_ms, until_ms = row["since_ms"] or begun_ms, row["until_ms"] or last_ms // length_ms * length_ms
            assert first_ms % length_ms == until_ms % length_ms == 0
            for start_ms in range(first_ms, until_ms, length_ms):
                result = await shop.settled(agents[2], start_ms, history, length_ms)
                known = result["completeness"]
                assert known["status"] in ("final", "revised"), (start_ms, result)
                seen.add(result["version"])
        assert seen == set(lengths)
        with pytest.raises(JobSpecError, match="would be 600001 ms; both begin together only every"):
            await change(agents[0], "update", query=SUMS.replace("500 milliseconds", "600001 milliseconds"))
        with pytest.raises(JobError, match="made of whole intervals of 300 ms"):
            await service.result(
                "shop", "sold", f"{versions[0]['since_ms']}/{versions[0]['since_ms'] + 500}", None, None
            )


class Typing:
    """Has a type for whatever is asked."""

    async def load(self, text: str, filename: str, name: str | None, creator: str | None) -> Definition:
        return load_definition(text, filename=filename, name=name, creator=creator)

    async def typed(self, definition: Definition) -> Definition:
        return definition


@pytest.mark.parametrize(
    ("window", "options", "interval_ms", "note"),
    [
        ("40 seconds", {}, 20_000, ""),
        (
            "30 seconds",
            {},
            None,
            "its option interval (20 seconds) does not divide the new window and is dropped: intervals are 30 seconds "
            "long now; set another one with --set interval=...",
        ),
        ("30 seconds", {"interval": "15s"}, 15_000, ""),
    ],
)
async def test_an_interval_that_a_new_window_cannot_keep_is_dropped_aloud(
    window: str, options: dict[str, str | int], interval_ms: int | None, note: str
) -> None:
    query = "SELECT count(*) AS n FROM orders GROUP BY window(ts, '{}')"
    running_ = Definition(
        name="sold",
        creator="shop",
        source="orders",
        query=query.format("60 seconds"),
        options=Options(interval_ms=20_000),
    )
    asked: list[Amend] = []

    async def ask(key: str, request: Any, timeout_ms: int) -> tuple[Any, list[str]]:
        if isinstance(request, Amend):
            asked.append(request)
            return {"version": 2}, []
        return msgspec.to_builtins(running_), []

    wanted = Wanted("update", query=query.format(window), options=options)
    made = await Changing(ask, Typing(), random.Random(1)).change("shop", "sold", wanted)
    assert made == ({"version": 2, "note": note} if note else {"version": 2})
    assert asked[0].definition is not None and asked[0].definition.options.interval_ms == interval_ms


async def test_a_change_waits_for_a_master_that_is_away_for_a_moment(monkeypatch: pytest.MonkeyPatch) -> None:
    """To look at the job first, too: what could not be looked at was refused at once."""
    monkeypatch.setattr(changing, "RETRY_S", 0.01)
    query = "SELECT count(*) AS n FROM orders GROUP BY window(ts, '60 seconds')"
    running_ = Definition(name="sold", creator="shop", source="orders", query=query)
    asked: list[Any] = []

    async def ask(key: str, request: Any, timeout_ms: int) -> tuple[Any, list[str]]:
        asked.append(type(request))
        if len(asked) % 3:
            raise UnavailableError("shop/sold has no master at the moment")
        return {"version": 2} if isinstance(request, Amend) else msgspec.to_builtins(running_), []

    made = await Changing(ask, Typing(), random.Random(1)).change("shop", "sold", Wanted("update", query=query))
    assert (made, asked) == ({"version": 2}, [Describe] * 3 + [Amend] * 3)


async def test_who_was_away_counts_what_it_reads_then_by_the_version_of_its_time(tmp_path: pathlib.Path) -> None:
    ports = [free_port(), free_port()]
    logs = [tmp_path / f"orders{at}.log" for at in range(2)]
    sold: list[dict[str, Any]] = []

    def sell(*places: int) -> None:
        at_ms = now_ms()
        lines = [{"ts": at_ms, "product": "x", "kind": kind, "cents": 2} for kind in "ab"]
        for place in places:
            sold.extend(lines)
            with logs[place].open("ab") as file:
                file.write(b"".join(msgspec.json.encode(line) + b"\n" for line in lines))

    def config(at: int) -> AgentConfig:
        made = configure(tmp_path, f"web{at}", ports[at], [f"127.0.0.1:{ports[0]}"] * at)
        columns = {"product": "STRING", "kind": "STRING", "cents": "BIGINT"}
        made.sources["orders"] = SourceConfig(path=str(logs[at]), columns=columns)
        return made

    async with contextlib.AsyncExitStack() as stack:
        agents = [Agent(config(at)) for at in range(2)]
        sell(0, 1)
        for agent in agents:
            await agent.start()
        stack.push_async_callback(lambda: agents[0].stop())
        stack.push_async_callback(lambda: agents[1].stop())
        await wait_until(lambda: all(len(agent.catalogue.members("orders")) == 2 for agent in agents))
        job = JOB.replace('lateness = "200ms"', 'lateness = "200ms"\nleap_after = "500ms"')
        await Service(agents[0]).publish(job, "sold.toml", None, None)
        await wait_until(lambda: all(len(agent.attachments.attached()) == 1 for agent in agents))
        away = 0 if agents[1].catalogue.running()[0].master == agents[1].node.contact else 1
        here = 1 - away
        sell(0, 1)
        await counted_through(agents[here], now_ms() // INTERVAL_MS * INTERVAL_MS)
        await agents[away].stop()
        made = await change(agents[here], "update", query=SUMS)
        while now_ms() < made["since_ms"] + 2 * INTERVAL_MS:
            sell(0, 1)
            await asyncio.sleep(0.1)
        agents[away] = Agent(config(away))
        await agents[away].start()
        last_ms = sold[-1]["ts"] // INTERVAL_MS * INTERVAL_MS
        for start_ms in range(made["since_ms"] - INTERVAL_MS, last_ms + 1, INTERVAL_MS):
            due = [line for line in sold if start_ms <= line["ts"] < start_ms + INTERVAL_MS]
            n = sum(line["cents"] for line in due if line["kind"] == "b")
            n = n if start_ms >= made["since_ms"] else sum(line["kind"] == "a" for line in due)
            deadline = time_s() + 60
            while True:
                window = f"{start_ms}/{start_ms + INTERVAL_MS}"
                result = await Service(agents[here]).result("shop", "sold", window, None, None)
                if result["completeness"]["status"] in ("final", "revised"):
                    break
                assert time_s() < deadline, (start_ms, result["completeness"])
                await asyncio.sleep(0.1)
            assert [row["n"] for row in result["rows"]] == [n] * bool(due), (start_ms, made)


@pytest.mark.parametrize("trees", [1, 3])
async def test_a_straggler_is_leapt_over_by_hand_and_corrects_the_result(tmp_path: pathlib.Path, trees: int) -> None:
    # Nobody waits by hand for an agent whose link is lost, as it is on a busy machine.
    async with running(tmp_path, 3, lease_ms=20_000) as agents:
        shop = Shop(agents)
        job = JOB.replace('lateness = "200ms"', f'lateness = "200ms"\nleap_after = "1h"\ntrees = {trees}')
        await Service(agents[0]).publish(job, "sold.toml", None, None)
        await wait_until(lambda: all(len(agent.attachments.attached()) == 1 for agent in agents))
        await counted_through(agents[0], now_ms() // INTERVAL_MS * INTERVAL_MS)
        with pytest.raises(JobConflictError, match="nobody keeps job shop/sold waiting"):
            while True:  # between two intervals somebody may be waited for
                await asyncio.sleep(0.05)
                await Service(agents[1]).leap("shop", "sold")
        master = agents[0].catalogue.running()[0].master
        slow = next(agent for agent in agents if agent.node.contact != master)
        intake = slow.intakes["orders"]
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(intake.pump, "watermark_ms", lambda: None)
            shop.open()
            deadline, stood_ms, said = time_s() + 60, await through_ms(agents[0]), list[str]()
            while True:
                assert time_s() < deadline, f"{slow.introduce()} is not named: {said[-3:]}"
                try:
                    leapt = await Service(agents[1]).leap("shop", "sold")
                    if slow.introduce().name in leapt["agents"]:
                        break
                    said.append(str(leapt))
                except JobConflictError as error:
                    said.append(str(error))
                await asyncio.sleep(0.1)
            assert leapt["through_ms"] > stood_ms
            await counted_through(agents[0], leapt["through_ms"])
            await shop.close()
            window = f"{leapt['through_ms'] - INTERVAL_MS}/{leapt['through_ms']}"
            result = await Service(agents[1]).result("shop", "sold", window, None, None)
            assert slow.introduce().name in result["completeness"]["missing"]
        deadline = time_s() + 60
        while (await Service(agents[1]).result("shop", "sold", window, None, None))["completeness"]["missing"]:
            assert time_s() < deadline
            await asyncio.sleep(0.1)
        history = (await Service(agents[1]).job("shop", "sold"))["versions"]
        result = await shop.settled(agents[1], leapt["through_ms"] - INTERVAL_MS, history)
        assert result["completeness"]["missing"] == []


@pytest.mark.parametrize("trees", [1, 3])
async def test_five_agents_race_while_the_master_goes(tmp_path: pathlib.Path, trees: int) -> None:
    async with running(tmp_path, 5) as agents:
        shop = Shop(agents)
        await Service(agents[0]).publish(f"{JOB}trees = {trees}\n", "sold.toml", None, None)
        await wait_until(lambda: all(len(agent.attachments.attached()) == 1 for agent in agents))
        shop.open()
        first_ms = now_ms() // INTERVAL_MS * INTERVAL_MS + INTERVAL_MS
        await counted_through(agents[0], first_ms)

        async def race(live: list[Agent]) -> list[int]:
            """All change the job at once; returns the numbers of the versions that they were told of."""
            kinds = [
                ("update", {"query": SUMS}),
                ("reset", {}),
                ("update", {"query": FEW}),
                ("reset", {}),
            ]
            asked = [change(agent, kind, **more) for agent, (kind, more) in zip(live, [*kinds, kinds[0]], strict=False)]
            answers = await asyncio.gather(*asked, return_exceptions=True)
            failed = [each for each in answers if isinstance(each, BaseException)]
            assert all(isinstance(each, UnavailableError | JobConflictError) for each in failed), failed
            return [each["version"] for each in answers if not isinstance(each, BaseException)]

        told = await race(agents)
        assert sorted(told) == list(range(2, 7)), "each has a number of its own"
        await shop.close()
        master = agents[0].catalogue.running()[0].master
        gone = next(agent for agent in agents if agent.node.contact == master)
        gone_name = gone.introduce().name
        agents.remove(gone)
        shop.agents = live = agents
        shop.open()
        stopping = asyncio.create_task(gone.stop())
        told += await race(live)
        await stopping
        deadline = time_s() + 60
        while True:
            with contextlib.suppress(UnavailableError):
                told.append((await change(live[0], "reset"))["version"])
                break
            assert time_s() < deadline
            await asyncio.sleep(0.1)
        assert len(set(told)) == len(told)
        history = (await Service(live[1]).job("shop", "sold"))["versions"]
        assert [row["version"] for row in history] == list(range(1, len(history) + 1))
        assert set(told) <= {row["version"] for row in history}
        tree = live[0].catalogue.running()[0].tree
        newest = [version.number for version, _ in live[0].catalogue.versions(tree).all]

        def numbers(agent: Agent) -> list[int]:
            return [version.number for version, _ in agent.catalogue.versions(tree).all]

        await wait_until(lambda: all(numbers(agent) == newest for agent in live), 60)
        runs = [[each.version.since for each in agent.catalogue.versions(tree).all] for agent in live]
        assert all(each == runs[0] for each in runs)
        start_ms, deadline = history[-1]["since_ms"], time_s() + 60
        while True:
            await counted_through(live[0], start_ms + INTERVAL_MS)
            result = await shop.settled(live[1], start_ms, history)
            rows = {row["product"]: row["n"] for row in result["rows"]}
            known = result["completeness"]
            # Nobody has said that the one that went is gone for good.
            if {*known["missing"]} <= {gone_name} and rows == shop.expected(start_ms, history[-1]):
                break
            assert time_s() < deadline, "no window is complete after all has come to rest"
            start_ms += INTERVAL_MS
        await shop.close()
        last_ms = max(line["ts"] for line in shop.sold)
        await counted_through(live[0], last_ms + INTERVAL_MS)
        for start_ms in range(first_ms, last_ms, INTERVAL_MS):
            await shop.settled(live[2], start_ms, history)
