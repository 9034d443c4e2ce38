"""Members of a tree that alter what they merge, in virtual time over shipped agents."""

from __future__ import annotations

import asyncio
import contextlib
import pathlib
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import msgspec
import pytest

from elf.agents.http.agent_service import Service
from elf.agents.wire.audits import Recheck, Show
from elf.agents.wire.records import JobRecord
from elf.overlay.effects import Send
from elf.overlay.messages import Settle
from tests.agents.audits.trees import Feed, corrupt, deep, inner, levels, one_more, root_of, with_fan_in
from tests.overlay.cluster import wait_until
from tests.virtual.agents import Agent, now_ms

pytestmark = pytest.mark.virtual


@contextlib.asynccontextmanager
async def fed(agents: list[Agent], seconds: float) -> AsyncIterator[Feed]:
    """Push events all the while, and for so long at most."""
    feed = Feed(agents)
    task = asyncio.get_running_loop().create_task(feed.run(seconds))
    try:
        yield feed
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def labels(agent: Agent, feed: Feed, first_ms: int, last_ms: int) -> dict[int, dict[str, Any]]:
    """Return what is said of the windows between two times, by their start; none is wrong without saying so."""
    found: dict[int, dict[str, Any]] = {}
    for start in range(first_ms // 1_000 * 1_000, last_ms, 1_000):
        answer = msgspec.to_builtins(
            await Service(agent).result("shop", "sold", f"{start}/{start + 1_000}", None, None)
        )
        label = found[start] = answer["completeness"]
        counted = sum(row["n"] for row in answer["rows"])
        assert counted == feed.pushed[start] or label["gaps"] or label["missing"], (start, counted, label)
        assert counted <= feed.pushed[start] or label["gaps"]
    return found


def found_by(agents: list[Agent]) -> set[str]:
    """Return the addresses of all whom these agents take for rogue."""
    return {found.address for each in agents for _, found in each.sources.auditor.findings.found()}


def answering(agent: Agent, request: type, answer: Callable[[Any], Awaitable[Any]]) -> None:
    """Let an agent answer a kind of question as it likes."""
    agent.answers._of_agent._here = {**agent.answers._of_agent._here, request: answer}  # type: ignore[dict-item]


def parents_of(agents: list[Agent], job: JobRecord, address: str) -> list[str]:
    """Return those that have the agent at an address as a child."""
    return [
        each.node.contact.address
        for each in agents
        if address in [child.address for child in each.node.tree(job.tree).children]
    ]


async def test_an_honest_tree_is_found_right(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with_fan_in(monkeypatch, 2)
    async with deep(tmp_path, 8, "100 %") as (agents, job):
        assert max(levels(agents, job).values()) >= 2
        await Feed(agents).run(20)
        counts = root_of(agents, job).sources.auditor.findings.counts
        assert counts["right"] > 15
        assert counts["wrong"] == counts["undecided"] == 0


@pytest.mark.parametrize("level", [1, 2])
async def test_whoever_alters_what_it_merges_is_found_at_once_and_shut_out(
    level: int, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At 100 %: the first altered interval has a gap; who hangs deeper is named by its own parent."""
    with_fan_in(monkeypatch, 2)
    async with deep(tmp_path, 10, "100 %") as (agents, job), fed(agents, 99) as feed:
        await asyncio.sleep(5)
        rogue, root, began_ms = inner(agents, job, level), root_of(agents, job), now_ms()
        honest, address = [each for each in agents if each is not rogue], rogue.node.contact.address
        await asyncio.sleep(3)
        parents = parents_of(honest, job, address)
        altered_ms = now_ms()
        corrupt(rogue, one_more)
        await wait_until(lambda: root.sources.auditor.findings.has_shut(job.tree, address))
        assert now_ms() - altered_ms < 4_000
        assert root.sources.auditor.findings.counts["wrong"] <= 2
        await asyncio.sleep(20)
        assert found_by(honest) == {address}
        assert any(rogue.introduce().name in note and "alters what it merges" in note for note in Service(root).notes())
        known = levels(honest, job)
        assert len(known) == len(honest), "all others have a way to the root"
        # Whom its parent names, all others take in still, as a leaf mostly: the parent may be the one that lies.
        left = parents_of(honest, job, address)
        assert not left if level == 1 else not set(left) & set(parents)
        said = await labels(honest[0], feed, began_ms, now_ms() - 3_000)
        before = [label for start, label in said.items() if began_ms <= start < altered_ms - 2_000]
        during = [label for start, label in said.items() if altered_ms - 2_000 <= start < altered_ms + 4_000]
        after = [label for start, label in said.items() if start > altered_ms + 12_000]
        assert before and all(label["status"] == "final" for label in before), "they were all audited"
        assert any(label["status"] == "final_incomplete" and label["gaps"] for label in during)
        assert after and all(label["missing"] in ([], [rogue.introduce().name]) for label in after)


async def test_at_1_percent_it_is_found_within_200_intervals_and_all_before_is_a_gap(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_fan_in(monkeypatch, 2)
    async with deep(tmp_path, 5, "1 %") as (agents, job), fed(agents, 400) as feed:
        rogue, root = inner(agents, job, 1), root_of(agents, job)
        began_ms = now_ms()
        corrupt(rogue, one_more)
        findings = root.sources.auditor.findings
        while not findings.has_shut(job.tree, rogue.node.contact.address):
            await asyncio.sleep(1)
            assert now_ms() - began_ms < 200_000
        await asyncio.sleep(3)
        said = await labels(root, feed, began_ms + 1_000, min(began_ms + 20_000, now_ms() - 3_000))
        assert said and all(label["gaps"] for label in said.values())
        assert found_by([each for each in agents if each is not rogue]) == {rogue.node.contact.address}


async def names_another(agents: list[Agent], rogue: Agent, job: JobRecord) -> None:
    other = next(each for each in agents if each not in (rogue, root_of(agents, job)))

    async def answer(_: Recheck) -> str:
        return other.node.contact.address

    answering(rogue, Recheck, answer)


async def answers_nothing(agents: list[Agent], rogue: Agent, job: JobRecord) -> None:
    async def answer(_: Recheck) -> None:
        await asyncio.sleep(60)

    answering(rogue, Recheck, answer)


async def settles_at_once(agents: list[Agent], rogue: Agent, job: JobRecord) -> None:
    """Tell those below that they are counted before anybody can ask them."""
    execute = rogue.node._execute

    def settle(app: bytes, effects: Any) -> None:
        effects = list(effects)
        rollup = rogue.node._apps[app].rollup if app in rogue.node._apps else None
        for each in list(effects):
            if app == job.tree and rollup is not None and isinstance(each, Send) and hasattr(each.message, "claim"):
                through = each.message.claim.through
                for child in rollup._children.values():
                    forged = Settle(app, rollup.term, rollup.committed, through, ())
                    effects.append(Send(child.child, forged))
        execute(app, effects)

    rogue.node._execute = settle  # type: ignore[method-assign]


@pytest.mark.parametrize("lie", [names_another, answers_nothing, settles_at_once])
async def test_a_rogue_that_lies_about_it_is_found_all_the_same(
    lie: Callable[[list[Agent], Agent, JobRecord], Awaitable[None]],
    tmp_path: pathlib.Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with_fan_in(monkeypatch, 2)
    async with deep(tmp_path, 6, "100 %") as (agents, job), fed(agents, 99):
        await asyncio.sleep(5)
        rogue, root = inner(agents, job, 1), root_of(agents, job)
        corrupt(rogue, one_more)
        await lie(agents, rogue, job)
        address = rogue.node.contact.address
        await wait_until(lambda: root.sources.auditor.findings.has_shut(job.tree, address))
        assert address not in {child.address for child in root.node.tree(job.tree).children}
        mine = {each.address for _, each in root.sources.auditor.findings.found() if not each.by}
        assert mine == {address}, "nobody else is shut out on its word"


async def test_who_does_not_show_what_it_signed_is_said(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_fan_in(monkeypatch, 2)
    async with deep(tmp_path, 6, "100 %") as (agents, job), fed(agents, 99):
        rogue, root = inner(agents, job, 1), root_of(agents, job)

        async def hide(_: Show) -> None:
            return None

        answering(rogue, Show, hide)
        name = rogue.introduce().name
        await wait_until(lambda: any(f"{name} does not show" in note for note in Service(root).notes()))
        assert not found_by(agents)


async def test_nobody_is_shut_out_on_anybodys_word_but_the_masters(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_fan_in(monkeypatch, 2)
    async with deep(tmp_path, 6, "1 %") as (agents, job):
        before = levels(agents, job)
        rogue = inner(agents, job, 1)
        for each in agents:
            if each is not rogue:
                rogue.sources.auditor._tell_all(job.tree, each.node.contact.address)
        await asyncio.sleep(20)
        assert levels(agents, job) == before
        assert not any(each.node._apps[job.tree].tree.shut for each in agents)
