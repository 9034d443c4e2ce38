"""An operator purges a job of anybody's, or an agent: nothing of it is left on any agent, nor comes back."""

from __future__ import annotations

import asyncio
import pathlib
import sqlite3

import pytest
from msgspec.structs import replace

from elf.agents.errors import ElfError, NotAdmittedError, NotCreatorError
from elf.agents.jobs.ed25519 import public_key
from elf.agents.jobs.orders import Order
from elf.agents.store.records import Records
from elf.agents.wire.catalogue import job_record, member_record
from elf.agents.wire.purges import purge_record
from elf.agents.wire.records import JobRecord, Member
from elf.overlay.contract import Record
from elf.overlay.ids import source_id
from tests.agents.owned import MINE, THEIRS, cluster, config_of
from tests.overlay.cluster import wait_until
from tests.virtual.agents import Agent, now_ms
from tests.virtual.http import client_of

pytestmark = pytest.mark.virtual

JOB = """
name = "sold"
creator = "shop"
query = "SELECT product, count(*) AS n FROM orders GROUP BY product, window(ts, '2 seconds')"
[options]
trees = 2
feedback = 10
"""
OPERATORS = {"alice": public_key(THEIRS)}
#: Tables with something of a job, by its tree or its id; the records are looked at by what is in them.
TABLES = {
    **dict.fromkeys(("workers", "snapshots", "controls", "control_entries", "root_groups", "group_entries"), "tree"),
    "held_snapshots": "tree",
    **dict.fromkeys(("masters", "history"), "app"),
}


def left_on_disk(agent: Agent, jobs: list[JobRecord]) -> list[str]:
    """Name what the state file has of jobs."""
    sql = sqlite3.connect(f"file:{agent.database.path}?mode=ro", uri=True)
    try:
        found = []
        for table, column in TABLES.items():
            for (key,) in sql.execute(f"SELECT {column} FROM {table}"):
                found += [table for job in jobs if key in (job.tree, job.definition.app_id)]
        keys = [key for (key,) in sql.execute("SELECT key FROM records")]
        return found + [key for key in keys if key.startswith("job/")]
    finally:
        sql.close()


def left_in_memory(agent: Agent, jobs: list[JobRecord]) -> list[str]:
    found = [record.key for record in agent.node.records(source_id("orders")) if record.key.startswith("job/")]
    found += [record.key for job in jobs for record in agent.node.records(job.tree)]
    found += [copy.job.definition.key for copy in agent.copies.all()]
    return found + [job.definition.key for job in agent.catalogue.jobs()]


async def test_nothing_of_a_job_outlives_its_purge(tmp_path: pathlib.Path, keys: dict[str, pathlib.Path]) -> None:
    async with (
        cluster(tmp_path, 4, OPERATORS) as agents,
        client_of(agents[0], creator_key=keys["mine"]) as mine,
        client_of(agents[1], creator_key=keys["theirs"]) as operator,
    ):
        await mine.publish(text=JOB)
        await wait_until(lambda: all(len(agent.catalogue.running()) == 2 for agent in agents))
        jobs = agents[0].catalogue.running()
        for agent in agents:
            await agent.intakes["orders"].ingest(b'{"ts": "2023-11-14T22:13:20Z", "product": "tetris"}\n', None)
        await asyncio.sleep(5)
        away = next(agent for agent in agents[2:] if not any(agent.masters.has_tree(job.tree) for job in jobs))
        here = [agent for agent in agents if agent is not away]
        await away.stop()
        with pytest.raises(NotCreatorError, match="no operator's of this agent, whose settings list alice"):
            await mine.purge("shop/sold")
        with pytest.raises(NotCreatorError):
            await operator.stop("shop/sold")
        purged = await operator.purge("shop/sold")
        assert purged.by == "alice"
        assert [each.purged for each in purged.agents] == [True] * 3
        await wait_until(lambda: not any(left_in_memory(agent, jobs) for agent in here))
        await wait_until(lambda: not any(left_on_disk(agent, jobs) for agent in here), 10)
        for agent in here:
            (entry,) = [each for each in agent.stores.audit.entries(9) if each["what"] == "purge"]
            assert (entry["who"], entry["on"]) == ("alice", "job/shop/sold")
        # Who was away hears of it, and brings nothing back.
        agents[agents.index(away)] = back = Agent(away.config)
        await back.start()
        await wait_until(lambda: not left_in_memory(back, jobs))
        await wait_until(lambda: not left_on_disk(back, jobs))
        for job in jobs:
            with pytest.raises(NotAdmittedError, match="was purged by an operator"):
                back.add_record(source_id("orders"), job_record(replace(job, stamp_ms=now_ms())))
        await asyncio.sleep(70)
        assert not any(left_in_memory(agent, jobs) or left_on_disk(agent, jobs) for agent in agents)
        # The name is free, for what is published from now on.
        await mine.publish(text=JOB)
        await wait_until(lambda: all(len(agent.catalogue.running()) == 2 for agent in agents))


async def test_strangers_and_members_without_an_operators_key_purge_nothing(
    tmp_path: pathlib.Path, keys: dict[str, pathlib.Path]
) -> None:
    async with cluster(tmp_path, 2, OPERATORS) as agents, client_of(agents[0], creator_key=keys["mine"]) as mine:
        await mine.publish(text=JOB)
        await wait_until(lambda: all(len(agent.catalogue.running()) == 2 for agent in agents))
        forged = Order(key="", what="purge", job="job/shop/sold", made_ms=now_ms()).signed(MINE)
        lies = [forged, replace(forged, key=OPERATORS["alice"]), replace(forged, signature="")]
        for lie in lies:
            agents[1].node.add_record(source_id("orders"), replace(purge_record(lie), version=lie.made_ms))
            with pytest.raises(ElfError):
                await agents[0].purging.heed(lie)
        await asyncio.sleep(40)
        assert all(len(agent.catalogue.running()) == 2 for agent in agents)


async def test_a_purge_is_remembered_before_anything_is_erased(
    tmp_path: pathlib.Path, keys: dict[str, pathlib.Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    async with cluster(tmp_path, 1, OPERATORS) as agents, client_of(agents[0], creator_key=keys["theirs"]) as operator:
        await operator.publish(text=JOB)
        jobs = agents[0].catalogue.running()

        async def crash(order: Order) -> None:
            raise OSError("power is gone")

        monkeypatch.setattr(agents[0].purging, "_erase", crash)
        await operator.purge("shop/sold")
        assert left_in_memory(agents[0], jobs)
        await agents[0].stop()
        agents[0] = Agent(agents[0].config)
        await agents[0].start()
        assert not left_in_memory(agents[0], jobs)
        assert not left_on_disk(agents[0], jobs)


async def test_a_purge_that_no_disk_has_is_asked_for_again(
    tmp_path: pathlib.Path, keys: dict[str, pathlib.Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    async with cluster(tmp_path, 1, OPERATORS) as agents, client_of(agents[0], creator_key=keys["theirs"]) as operator:
        await operator.publish(text=JOB)
        jobs = agents[0].catalogue.running()

        def refuse(self: Records, app: bytes, record: Record) -> None:
            raise OSError("No space left on device")

        with monkeypatch.context() as full:
            full.setattr(Records, "put", refuse)
            (told,) = (await operator.purge("shop/sold")).agents
        assert not told.purged and "No space left on device" in told.why
        assert left_in_memory(agents[0], jobs)
        (told,) = (await operator.purge("shop/sold")).agents
        assert told.purged
        assert not left_in_memory(agents[0], jobs)


async def test_an_agent_that_never_was_is_purged_and_one_that_lives_comes_back(
    tmp_path: pathlib.Path, keys: dict[str, pathlib.Path]
) -> None:
    async with cluster(tmp_path, 2, OPERATORS) as agents, client_of(agents[0], creator_key=keys["theirs"]) as operator:
        tree = source_id("orders")
        ghost = Member(agent_id="beef" * 8, name="ghost", address="10.0.0.9:4250", sources=("orders",))
        record = member_record(ghost, now_ms())
        agents[1].add_record(tree, record)
        await wait_until(lambda: all(agent.catalogue.member(ghost.agent_id) for agent in agents))
        await operator.purge(agent=ghost.agent_id)
        await operator.purge(agent="a1")
        await wait_until(lambda: not any(agent.catalogue.member(ghost.agent_id) for agent in agents))
        with pytest.raises(NotAdmittedError):
            agents[1].add_record(tree, record)
        agents[1].membership.introduce_to(tree)
        await wait_until(lambda: agents[0].catalogue.member(agents[1].agent_id) is not None)
        keys_of = [[each.key for each in agent.node.records(tree)] for agent in agents]
        assert all(f"member/{ghost.agent_id}" not in each for each in keys_of)


def test_settings_name_operators_by_their_keys(tmp_path: pathlib.Path) -> None:
    assert config_of(tmp_path, 0, [1], OPERATORS).api.operators == OPERATORS
    for wrong in ({"alice": "x"}, {"Alice!": OPERATORS["alice"]}):
        with pytest.raises(ElfError, match=r"api\.operators"):
            config_of(tmp_path, 0, [1], wrong)


def test_what_is_no_order_is_no_record_of_a_purge(tmp_path: pathlib.Path) -> None:
    from elf.agents.wire.catalogue import Catalogue

    order = Order(key="", what="purge", job="job/shop/sold", made_ms=5).signed(MINE)
    good = purge_record(order)
    Catalogue().admit(b"", good, 5)
    wrong = (
        replace(good, body=b"x"),
        replace(good, key="purge/job/shop/other"),
        replace(good, version=6),
        purge_record(replace(order, signature="")),
        purge_record(Order(key="", what="end", job="job/shop/sold", made_ms=5).signed(MINE)),
        Record("purge/job/shop/sold", 5, b""),
    )
    for record in wrong:
        with pytest.raises(NotAdmittedError):
            Catalogue().admit(b"", record, 5)
