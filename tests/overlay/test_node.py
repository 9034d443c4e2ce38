from __future__ import annotations

import time

import pytest

from overlay.contract import Record
from overlay.errors import NotFoundError
from overlay.ids import app_id, source_id

from .cluster import cluster, wait_until

APP = app_id("job", "shop")


async def test_five_nodes_roll_up_one_job() -> None:
    async with cluster(5, grace_ms=200) as (nodes, runtimes):
        master = nodes[2].contact
        for node in nodes:
            node.join_tree(APP, member=True, root=master)
        await wait_until(lambda: all(node.tree(APP).role in ("member", "root") for node in nodes))
        for through in (10, 11, 13):
            for node, runtime in zip(nodes, runtimes, strict=True):
                runtime.seal(node, APP, through, [f"{runtime.name}@{through}"])
        await wait_until(lambda: all(runtime.settled == 13 for runtime in runtimes))
        assert [commit.through for commit in runtimes[2].commits] == [10, 11, 13]
        assert all(commit.reported == tuple(r.name for r in runtimes) for commit in runtimes[2].commits)
        assert all(not commit.missing for commit in runtimes[2].commits)
        counted = runtimes[2].counted()
        assert len(counted) == 15
        assert set(counted.values()) == {1}
        assert nodes[2].tree(APP).root == master
        assert not any(verdict.missing for runtime in runtimes for verdict in runtime.verdicts if verdict.through >= 10)


async def test_records_flood_to_members_of_a_source_tree_also_late_ones() -> None:
    source = source_id("clicks")
    async with cluster(4) as (nodes, runtimes):
        for node in nodes[:3]:
            node.join_tree(source, member=True)
        await wait_until(lambda: all(node.tree(source).role in ("member", "root") for node in nodes[:3]))
        assert nodes[1].add_record(source, Record("shop/job", 1, b"definition"))
        assert not nodes[1].add_record(source, Record("shop/job", 1, b"definition"))
        await wait_until(lambda: all(node.records(source) for node in nodes[:3]))
        nodes[0].add_record(source, Record("shop/job", 2, b"tombstone"))
        nodes[3].join_tree(source, member=True)
        await wait_until(lambda: all([r.version for r in node.records(source)] == [2] for node in nodes))
        assert runtimes[3].seen_records == [Record("shop/job", 2, b"tombstone")]
        assert sum(node.tree(source).role == "root" for node in nodes) == 1


async def test_route_goes_hop_by_hop_and_follows_a_recorded_master() -> None:
    async with cluster(5) as (nodes, runtimes):
        order = sorted(range(5), key=lambda i: int.from_bytes(nodes[i].contact.id) ^ int.from_bytes(APP))
        near, far, other = order[0], order[-1], order[2]
        runtimes[near].owned[APP] = b"near:"
        answer = await nodes[far].route(APP, b"hello")
        assert answer.body == b"near:hello"
        assert answer.path[-1] == nodes[near].contact.address
        assert len(answer.path) >= 1
        del runtimes[near].owned[APP]
        runtimes[near].recorded[APP] = nodes[other].contact
        runtimes[other].owned[APP] = b"master:"
        answer = await nodes[far].route(APP, b"hello")
        assert answer.body == b"master:hello"
        assert answer.path[-2:] == (nodes[near].contact.address, nodes[other].contact.address)
        runtimes[other].owned[nodes[other].contact.id] = b"me:"
        assert await nodes[far].ask(nodes[other].contact, b"x") == b"me:x"
        with pytest.raises(NotFoundError, match="nobody answers"):
            await nodes[far].route(source_id("nothing"), b"")
        with pytest.raises(NotFoundError):
            await nodes[far].ask(nodes[near].contact, b"")


async def test_route_is_fast_on_loopback() -> None:
    async with cluster(3) as (nodes, runtimes):
        for runtime in runtimes:
            runtime.owned[runtime.name.encode().ljust(20, b"-")] = b""
        target = nodes[1].contact
        runtimes[1].owned[target.id] = b""
        await nodes[0].ask(target, b"")
        times = []
        for _ in range(200):
            begin = time.perf_counter()
            await nodes[0].ask(target, b"x" * 200)
            times.append(time.perf_counter() - begin)
        assert sorted(times)[100] < 0.05
