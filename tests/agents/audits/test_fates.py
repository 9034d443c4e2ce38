"""Members that make verdicts up for those below them, in virtual time over shipped agents."""

from __future__ import annotations

import asyncio
import pathlib
from collections.abc import Iterable

import pytest

from elf.agents.audits.fates import Fates
from elf.agents.wire.records import JobRecord
from elf.overlay.contract import Absence
from elf.overlay.effects import Effect, Send
from elf.overlay.messages import Settle, Status
from tests.agents.audits.test_whole_agents import fed, labels
from tests.agents.audits.trees import deep, inner, with_fan_in
from tests.overlay.cluster import wait_until
from tests.virtual.agents import Agent, now_ms

pytestmark = pytest.mark.virtual


def tell(rogue: Agent, job: JobRecord, *, missing: bool, ahead: int) -> None:
    """Tell all that hang under a member that they are missing from, or in, commits that are to come."""
    rollup = rogue.node._apps[job.tree].rollup
    assert rollup is not None
    for child in rollup._children.values():
        names = tuple(agent for agent in rollup._below.agents() if rollup._below.edge_of(agent) == child.child.id)
        through = rollup.committed + ahead
        settle = Settle(job.tree, rollup.term, rollup.committed, through, names if missing else ())
        rogue.node._execute(job.tree, [Send(child.child, settle)])
        for name in names:
            runs = (Absence(rollup.committed, through),) if missing else ()
            status = Status(job.tree, name, rollup.term, through, runs)
            rogue.node._execute(job.tree, [Send(child.child, status)])


@pytest.mark.parametrize(("missing", "ahead"), [(True, 1), (True, 9), (False, 9), (False, 1 << 20)])
async def test_what_a_member_makes_up_is_not_heeded_and_harms_nothing(
    missing: bool, ahead: int, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_fan_in(monkeypatch, 2)
    async with deep(tmp_path, 6, "1 %") as (agents, job), fed(agents, 99) as feed:
        await asyncio.sleep(5)
        rogue, began_ms = inner(agents, job, 1), now_ms()
        below = [each for each in agents if each.node.tree(job.tree).parent == rogue.node.contact]
        tell(rogue, job, missing=missing, ahead=ahead)
        await wait_until(lambda: all(each.sources.fates.refused for each in below))
        await asyncio.sleep(20)
        said = await labels(agents[0], feed, began_ms, now_ms() - 3_000)
        later = [label for start, label in said.items() if start > began_ms + 12_000]
        assert later and all(label["status"] in ("final", "revised") for label in later), "all of them count again"


def deny_at_once(rogue: Agent, job: JobRecord) -> None:
    """Tell all below, as soon as they are handed up, that they were not counted."""
    execute = rogue.node._execute

    def deny(app: bytes, effects: Iterable[Effect]) -> None:
        effects = list(effects)
        execute(app, effects)
        if app == job.tree and any(isinstance(each, Send) and hasattr(each.message, "claim") for each in effects):
            tell(rogue, job, missing=True, ahead=1)

    rogue.node._execute = deny  # type: ignore[method-assign]


@pytest.mark.parametrize("believes", [False, True])
async def test_events_count_twice_only_where_verdicts_are_believed(
    believes: bool, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def believe(*_: object) -> bool:
        return True

    if believes:
        monkeypatch.setattr(Fates, "is_true", believe)
    with_fan_in(monkeypatch, 2)
    async with deep(tmp_path, 6, "0 %") as (agents, job), fed(agents, 99) as feed:
        await asyncio.sleep(5)
        rogue, began_ms = inner(agents, job, 1), now_ms()
        deny_at_once(rogue, job)
        await asyncio.sleep(30)
        if not believes:
            await labels(agents[0], feed, began_ms, now_ms() - 3_000)
            return
        with pytest.raises(AssertionError):
            await labels(agents[0], feed, began_ms, now_ms() - 3_000)
