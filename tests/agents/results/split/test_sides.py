"""Agents in one process whose root group loses its majority: results of the side left, and what becomes of them."""

from __future__ import annotations

import asyncio
import contextlib
import json
import pathlib
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from elf.agents.completeness.statement import require_complete
from elf.agents.errors import BadRequestError, IncompleteError, JobSpecError, UnavailableError
from elf.agents.http.agent_service import Service
from elf.agents.http.stream import cursor_of, identity_of, read_cursor
from elf.agents.jobs.definition import load_definition
from elf.agents.master import announcement
from elf.agents.results.split import provisional
from elf.agents.wire.questions import OfSide
from elf.agents.wire.replies import value_of
from elf.agents.wire.request import encode
from elf.agents.wire.split import Partake, encode_question
from elf.overlay.contract import Verdict
from elf.overlay.ids import app_id
from tests.agents.group.test_root_group import running
from tests.overlay.cluster import wait_until
from tests.virtual.agents import Agent

pytestmark = pytest.mark.virtual

APP = app_id("sold", "shop")
SIZE_MS = 500
DEADLINE_S = 60.0


def job_text(availability: str = "partial", window: str = f", window(ts, '{SIZE_MS} milliseconds')") -> str:
    return (
        'name = "sold"\ncreator = "shop"\n'
        f'query = "SELECT product, count(*) AS n FROM orders GROUP BY product{window}"\n'
        '[columns]\nproduct = "STRING"\n[options]\nlateness = "200 ms"\nleap_after = "1 second"\n'
        f'availability = "{availability}"\n'
    )


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a copy without a leader wait a second, and ask again as soon."""
    for name, value in [("LEADERLESS_S", 1.0), ("LOOK_S", 0.1), ("ROUND_S", 0.5), ("ASK_MS", 300)]:
        monkeypatch.setattr(provisional, name, value)


class Shop:
    """Three agents; every one sells the product of its own name, again and again."""

    def __init__(self, agents: list[Agent]) -> None:
        #: Those that run, and those that do not.
        self.up, self.lost = agents, list[Agent]()
        #: (window's start, product) -> how many.
        self.truth: Counter[tuple[int, str]] = Counter()

    def service(self, at: int = 0) -> Service:
        return Service(self.up[at])

    async def sell(self) -> None:
        """Sell one of each agent that is up."""
        for agent in tuple(self.up):
            name, at_ms = agent.config.agent.name, agent.now_ms()
            with contextlib.suppress(RuntimeError):
                await agent.intakes["orders"].ingest(json.dumps({"ts": at_ms, "product": name}).encode() + b"\n")
                self.truth[at_ms // SIZE_MS * SIZE_MS, name] += 1

    async def sell_on(self) -> None:
        while True:
            await self.sell()
            await asyncio.sleep(0.05)

    async def lose(self, agent: Agent) -> None:
        self.up.remove(agent)
        self.lost.append(agent)
        await agent.stop()

    async def bring_back(self) -> None:
        """Start all that were lost again."""
        while self.lost:
            again = Agent(self.lost.pop(0).config)
            await again.start()
            self.up.append(again)


@contextlib.asynccontextmanager
async def shop(folder: pathlib.Path, text: str) -> AsyncIterator[Shop]:
    """Three agents with a job and three votes, which sell."""
    async with running(folder, 3) as agents:
        await Service(agents[0]).publish(text, "sold.toml", None, None)
        await wait_until(lambda: all(agent.copies.get(APP) is not None for agent in agents), DEADLINE_S)
        sold = Shop(agents)
        selling = asyncio.create_task(sold.sell_on())
        try:
            await until(lambda: votes(sold), lambda count: count == 3)
            await until(lambda: latest(sold), lambda result: bool(result and result["rows"]))
            yield sold
        finally:
            selling.cancel()
            await asyncio.gather(selling, return_exceptions=True)


async def until(ask: Callable[[], Awaitable[Any]], good: Callable[[Any], bool]) -> Any:
    """Ask again and again until the answer is good, and return it."""
    loop = asyncio.get_running_loop()
    end_s = loop.time() + DEADLINE_S
    while True:
        async with asyncio.timeout(DEADLINE_S):
            value = await ask()
        if good(value):
            return value
        assert loop.time() < end_s, f"not in time; last was {value}"
        await asyncio.sleep(0.05)


async def latest(sold: Shop, window: str = "latest", at: int = 0) -> Any:
    try:
        return await sold.service(at).result("shop", "sold", window, None, None)
    except UnavailableError:
        return None


async def votes(sold: Shop) -> int:
    described = await sold.service().job("shop", "sold")
    return sum(member["votes"] for member in described["group"]["members"])


def counts(result: Any) -> dict[str, int]:
    return {row["product"]: row["n"] for row in result["rows"]}


def is_partial(result: Any) -> bool:
    return bool(result) and result["completeness"]["status"] == "partial"


async def leave_one(sold: Shop, stays: Agent) -> None:
    for agent in [agent for agent in sold.up if agent is not stays]:
        await sold.lose(agent)


def master_of(sold: Shop) -> Agent:
    return next(agent for agent in sold.up if APP in agent.masters)


@pytest.mark.parametrize("stays", ["the master", "another"])
async def test_who_is_left_answers_for_its_side_until_the_others_are_back(tmp_path: pathlib.Path, stays: str) -> None:
    async with shop(tmp_path, job_text()) as sold:
        master = master_of(sold)
        last = master if stays == "the master" else next(agent for agent in sold.up if agent is not master)
        name, others = last.config.agent.name, [agent for agent in sold.up if agent is not last]
        await leave_one(sold, last)
        since_ms = last.now_ms()
        seen = await until(
            lambda: latest(sold), lambda result: is_partial(result) and result["window"]["start_ms"] > since_ms
        )
        known = seen["completeness"]
        assert sorted(known["missing"]) == sorted(agent.config.agent.name for agent in others)
        assert (known["side"], known["expected"], known["reported"]) == (name, 3, 1) and known["term"] > 0
        assert seen["master"] == last.node.contact.address
        assert counts(seen) == {name: sold.truth[seen["window"]["start_ms"], name]}
        with pytest.raises(IncompleteError, match="one side's of a job whose agents are split"):
            require_complete("shop/sold", known)
        described = await sold.service().job("shop", "sold")
        assert described["master"] == last.node.contact.address and not described["group"]["quorate"]
        own = last.copies.get(APP)
        assert own is not None
        assert (own.master.windows.through_ms or 0) < seen["window"]["end_ms"], "nothing was committed"
        ahead_ms = seen["window"]["end_ms"] + 60 * SIZE_MS
        coming = await latest(sold, f"{ahead_ms}/{ahead_ms + SIZE_MS}")
        assert (coming["completeness"]["status"], coming["completeness"]["side"]) == ("open", name)
        await sold.bring_back()
        window = f"{seen['window']['start_ms']}/{seen['window']['end_ms']}"
        final = await until(
            lambda: latest(sold, window),
            lambda result: bool(result) and result["completeness"]["status"] in ("final", "revised"),
        )
        assert counts(final) == counts(seen) and "side" not in final["completeness"]
        assert not any(agent.sides.holds(APP) for agent in sold.up)
        await until(lambda: exact(sold, since_ms), lambda wrong: wrong == [])


async def exact(sold: Shop, since_ms: int) -> list[int]:
    """Return the windows around a time that do not hold what was sold."""
    wrong: list[int] = []
    first = since_ms // SIZE_MS * SIZE_MS
    for start_ms in range(first - 2 * SIZE_MS, first + 6 * SIZE_MS, SIZE_MS):
        result = await latest(sold, f"{start_ms}/{start_ms + SIZE_MS}")
        truth = {product: count for (start, product), count in sold.truth.items() if start == start_ms}
        if result is None or counts(result) != truth:
            wrong.append(start_ms)
    return wrong


async def test_a_verdict_of_a_side_taken_for_the_jobs_own_would_lose_events_and_that_is_seen(
    tmp_path: pathlib.Path,
) -> None:
    async with shop(tmp_path, job_text()) as sold:
        last = sold.up[-1]

        def settle(tree: bytes, verdict: Verdict) -> bool:
            if last.sides.is_side(tree):
                last._background.spawn(last.intakes["orders"].settle(last.sides.tree_of(tree), verdict))
            return last.sides.is_side(tree)

        last.sides.on_verdict = settle  # type: ignore[method-assign]
        await leave_one(sold, last)
        since_ms = last.now_ms()
        seen = await until(
            lambda: latest(sold), lambda result: is_partial(result) and result["window"]["start_ms"] > since_ms
        )
        assert counts(seen)
        # What it took for settled it has forgotten on disk; memory goes with this.
        await sold.lose(last)
        healed_ms = last.now_ms()
        await sold.bring_back()
        window = f"{seen['window']['start_ms']}/{seen['window']['end_ms']}"
        final = await until(
            lambda: latest(sold, window),
            lambda result: bool(result) and not is_partial(result) and result["through_ms"] > healed_ms + 2_000,
        )
        assert counts(final) != counts(seen)


async def test_without_the_option_who_is_left_has_no_answer_of_its_own(tmp_path: pathlib.Path) -> None:
    async with shop(tmp_path, job_text("exact")) as sold:
        master = master_of(sold)
        last = next(agent for agent in sold.up if agent is not master)
        await leave_one(sold, last)
        loop = asyncio.get_running_loop()
        end_s = loop.time() + 4 * provisional.LEADERLESS_S
        while loop.time() < end_s:
            assert await latest(sold) is None and not last.sides.holds(APP)
            await asyncio.sleep(0.2)


async def test_a_side_of_several_agents_counts_those_that_come_later_too(tmp_path: pathlib.Path) -> None:
    """Of five members with a vote three are lost; of the two left one is asked late."""
    async with running(tmp_path, 5) as agents:
        await Service(agents[0]).publish(job_text(), "sold.toml", None, None)
        await wait_until(lambda: all(agent.copies.get(APP) is not None for agent in agents), DEADLINE_S)
        sold = Shop(agents)
        selling = asyncio.create_task(sold.sell_on())
        try:
            await until(lambda: votes(sold), lambda count: count == 5)
            await until(lambda: latest(sold), lambda result: bool(result and result["rows"]))
            left, deaf = agents[1], agents[3]
            unable = deaf.sides.partaking.partake
            deaf.sides.partaking.partake = lambda question: None  # type: ignore[method-assign]
            for agent in [agents[0], agents[2], agents[4]]:
                await sold.lose(agent)
            since_ms = left.now_ms()
            await until(
                lambda: latest(sold), lambda result: is_partial(result) and result["window"]["start_ms"] > since_ms
            )
            holder = next(agent for agent in sold.up if agent.sides.holds(APP))
            other = next(agent for agent in sold.up if agent is not holder)
            deaf.sides.partaking.partake = unable  # type: ignore[method-assign]
            start_ms = since_ms // SIZE_MS * SIZE_MS + SIZE_MS
            names = [agent.config.agent.name for agent in (holder, other)]
            truth = {name: sold.truth[start_ms, name] for name in names}
            window = f"{start_ms}/{start_ms + SIZE_MS}"
            for at in range(2):
                # Also of intervals that were counted before it was asked, and also asked of it.
                found = await until(
                    lambda: latest(sold, window, at),  # noqa: B023
                    lambda result: is_partial(result) and counts(result) == truth,
                )
                assert not {*names}.intersection(found["completeness"]["missing"])
        finally:
            selling.cancel()
            await asyncio.gather(selling, return_exceptions=True)


async def test_a_follower_is_sent_what_one_side_has_and_again_what_became_of_it(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # However long this takes here: all windows that closed meanwhile come one by one.
    monkeypatch.setattr(announcement, "FOLLOW_WINDOWS_MAX", 10_000)
    async with shop(tmp_path, job_text()) as sold:
        last = sold.up[0]
        told: list[tuple[Any, tuple[int, int]]] = []

        async def follow() -> None:
            async for result, position in Service(last).results("shop", "sold"):
                told.append((result, position))

        following = asyncio.create_task(follow())
        try:
            await wait_until(lambda: bool(told), DEADLINE_S)
            await leave_one(sold, last)
            await wait_until(lambda: sum(is_partial(result) for result, _ in told) >= 3, DEADLINE_S)
            partial = [(result, position) for result, position in told if is_partial(result)]
            ends = [result["window"]["end_ms"] for result, _ in partial]
            assert len({identity_of(result) for result, _ in partial}) == len(partial), "nothing is sent twice"
            assert len({position for _, position in partial}) == 1, "the position waits for the job's own master"
            # As if the reader came again now.
            cursor = cursor_of(*partial[-1])
            assert read_cursor(cursor) == (partial[-1][1], identity_of(partial[-1][0]))
            await sold.bring_back()
            await wait_until(lambda: set(ends) <= finals(told), DEADLINE_S)
            again = next(r for r, _ in told if not is_partial(r) and r["window"] == partial[-1][0]["window"])
            assert identity_of(again) != identity_of(partial[-1][0]), "no reader takes it for what it has"
        finally:
            following.cancel()
            await asyncio.gather(following, return_exceptions=True)


def finals(told: list[tuple[Any, tuple[int, int]]]) -> set[int]:
    return {
        result["window"]["end_ms"] for result, _ in told if result["completeness"]["status"] in ("final", "revised")
    }


async def test_a_side_that_holds_as_much_as_it_may_counts_no_further_and_still_answers(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(provisional, "HELD_BYTES_MAX", 0)
    async with shop(tmp_path, job_text()) as sold:
        last = sold.up[-1]
        await leave_one(sold, last)
        first = await until(lambda: latest(sold), is_partial)
        own = last.copies.get(APP)
        assert own is not None
        loop = asyncio.get_running_loop()
        end_s = loop.time() + 3.0
        while loop.time() < end_s:
            again = await latest(sold)
            assert is_partial(again) and again["through_ms"] == first["through_ms"] == own.master.windows.through_ms
            await asyncio.sleep(0.2)
        since_ms = last.now_ms()
        await sold.bring_back()
        await until(lambda: exact(sold, since_ms), lambda wrong: wrong == [])


async def test_a_job_without_windows_is_partial_on_both_sides(tmp_path: pathlib.Path) -> None:
    async with shop(tmp_path, job_text(window="")) as sold:
        last = sold.up[-1]
        gone = sold.up[0].config.agent.name
        await sold.lose(sold.up[0])
        lacking = await until(lambda: latest(sold), is_partial)
        assert lacking["completeness"]["missing"] == [gone]
        await leave_one(sold, last)
        alone = await until(
            lambda: latest(sold), lambda result: is_partial(result) and len(result["completeness"]["missing"]) == 2
        )
        assert alone["completeness"]["side"] == last.config.agent.name


async def test_an_agent_answers_no_question_of_a_side_that_concerns_nothing_of_it(tmp_path: pathlib.Path) -> None:
    async with shop(tmp_path, job_text("exact")) as sold:
        agent = sold.up[0]
        tree = agent.catalogue.running()[0].tree
        side = tree[:12] + bytes(8)

        async def ask(body: bytes) -> Any:
            answer = await agent.answers.answer(agent.node.contact.id, body)
            assert isinstance(answer, bytes)
            return value_of(answer)

        partake = encode_question(Partake(tree, side, sold.up[1].node.contact.address))
        assert await ask(encode(partake)) is None
        assert agent.node.tree(side).role == "out"
        strange = encode_question(Partake(side, tree, sold.up[1].node.contact.address))
        assert await ask(encode(strange)) is None
        assert not agent.sides.is_side(tree), "no word of a peer makes the job's own tree a side's"
        with pytest.raises(BadRequestError, match="not a question of a side"):
            await ask(encode(OfSide(b"nonsense")))


@pytest.mark.parametrize("word", ["Partial", "ap", ""])
def test_other_words_are_refused_with_those_there_are(word: str) -> None:
    with pytest.raises(JobSpecError) as refused:
        load_definition(job_text(word))
    assert refused.value.line == 9 and refused.value.message.startswith(f"availability = {word!r} is not known")


def test_parts_of_a_job_are_not_answered_for_one_by_one() -> None:
    with pytest.raises(JobSpecError, match="needs a job of one tree"):
        load_definition(job_text() + "trees = 2\n")
