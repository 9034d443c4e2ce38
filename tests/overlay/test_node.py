from __future__ import annotations

import pathlib
import random
import time

import msgspec
import pytest

from elf.overlay.contract import Commit, OverlaySettings, Record
from elf.overlay.errors import NotFoundError, NotJoinedError, OverlayError, UnreachableError
from elf.overlay.ids import app_id, source_id
from elf.overlay.messages import Join
from elf.overlay.node import OverlayNode
from tests.overlay.cluster import Runtime, cluster, pack, unpack, wait_until

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
        assert runtimes[3].seen_records[-1] == Record("shop/job", 2, b"tombstone")
        assert sum(node.tree(source).role == "root" for node in nodes) == 1


async def test_multicast_reaches_every_agent_once_and_one_that_was_away_catches_up() -> None:
    async with cluster(4, grace_ms=100, heartbeat_ms=100, lease_ms=600) as (nodes, runtimes):
        master = nodes[2].contact

        def enter(index: int) -> None:
            nodes[index].join_tree(APP, member=True, root=master, control=runtimes[index].control.get(APP))

        def heard(index: int) -> list[bytes]:
            return [entry.body for _, entry in runtimes[index].controls]

        for index in range(4):
            enter(index)
        await wait_until(lambda: all(node.tree(APP).role in ("member", "root") for node in nodes))
        with pytest.raises(NotJoinedError):
            nodes[0].multicast(APP, b"x")
        with pytest.raises(NotJoinedError):
            nodes[0].multicast(source_id("nothing"), b"x")
        assert [nodes[2].multicast(APP, body) for body in (b"a", b"b")] == [1, 2]
        await wait_until(lambda: all(heard(index) == [b"a", b"b"] for index in range(4)))
        for victim, body, others in ((1, b"c", (0, 2, 3)), (2, b"d", ())):
            await nodes[victim].stop()
            if victim != 2:
                nodes[2].multicast(APP, body)
            await wait_until(lambda others=others, body=body: all(body in heard(index) for index in others))
            nodes[victim] = await start_again(nodes[victim], runtimes[victim], 70 + victim)
            await nodes[victim].join()
            enter(victim)
        nodes[2].multicast(APP, b"d")
        await wait_until(lambda: all(heard(index) == [b"a", b"b", b"c", b"d"] for index in range(4)))
        assert not any(entry.skipped for runtime in runtimes for _, entry in runtime.controls)
        assert len({node.control_mark(APP) for node in nodes}) == 1
        assert nodes[0].counters()["control_entries"] == 4


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


async def start_again(node: OverlayNode, runtime: Runtime, seed: int, secret_file: str = "") -> OverlayNode:
    """Start a node anew on its old address, with nothing but what its runtime stored."""
    address = node.contact.address
    settings = msgspec.structs.replace(node.settings, bind=address, secret_file=secret_file)
    again = OverlayNode(settings, runtime, random.Random(seed))
    await again.start()
    return again


@pytest.mark.parametrize("victim", [1, 2], ids=["member", "root"])
async def test_a_restarted_agent_ends_up_exact(victim: int) -> None:
    async with cluster(4, grace_ms=100, leap_after_ms=1_500, heartbeat_ms=100, lease_ms=600) as (nodes, runtimes):
        master = nodes[2].contact

        def enter(index: int) -> None:
            nodes[index].join_tree(APP, member=True, root=master, state=runtimes[2].state if index == 2 else None)
            for through, items in sorted(runtimes[index].snapshots.items()):
                nodes[index].seal(APP, through, pack(items) if items else None)

        def seal(through: int, *, without: int | None = None) -> None:
            for index, runtime in enumerate(runtimes):
                if index != without:
                    runtime.seal(nodes[index], APP, through, [f"{runtime.name}@{through}"])

        for index in range(4):
            enter(index)
        await wait_until(lambda: all(node.tree(APP).role in ("member", "root") for node in nodes))
        seal(1)
        seal(2)
        await nodes[victim].stop()
        seal(3, without=victim)
        runtimes[victim].snapshots[3] = [f"{runtimes[victim].name}@3"]  # sealed, never sent
        if victim != 2:
            await wait_until(lambda: bool(runtimes[2].commits) and bool(runtimes[2].commits[-1].missing))
        nodes[victim] = await start_again(nodes[victim], runtimes[victim], 77)
        await nodes[victim].join()
        enter(victim)
        await wait_until(lambda: all(node.tree(APP).role in ("member", "root") for node in nodes))
        seal(4)
        await wait_until(lambda: all(runtime.settled >= 4 for runtime in runtimes))
        seal(5)
        await wait_until(lambda: all(runtime.settled >= 5 for runtime in runtimes))
        await wait_until(lambda: not any(runtime.carry for runtime in runtimes))
        counted = runtimes[2].counted()
        assert counted == {f"agent-{i}@{through}": 1 for i in range(4) for through in range(1, 6)}


async def test_a_keyed_cluster_works_and_refuses_a_stranger(tmp_path: pathlib.Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("ab" * 32)
    secret.chmod(0o600)
    async with cluster(3, secret_file=str(secret)) as (nodes, runtimes):
        runtimes[1].owned[nodes[1].contact.id] = b"hello "
        assert await nodes[2].ask(nodes[1].contact, b"world") == b"hello world"
        stranger = OverlayNode(OverlaySettings(join=(nodes[0].contact.address,)), Runtime("stranger"))
        await stranger.start()
        try:
            assert await stranger.join() == 0
            with pytest.raises(UnreachableError):
                await stranger.ask(nodes[1].contact, b"world", 2_000)
        finally:
            await stranger.stop()
        assert nodes[1].counters()["links_refused"] >= 1


async def test_a_payload_that_does_not_merge_is_left_out_and_named() -> None:
    async with cluster(3, grace_ms=100, leap_after_ms=1_000) as (nodes, runtimes):
        for node in nodes:
            node.join_tree(APP, member=True, root=nodes[0].contact)
        await wait_until(lambda: all(node.tree(APP).role in ("member", "root") for node in nodes))
        nodes[1].seal(APP, 1, b"\xff not a list")
        for index in (0, 2):
            runtimes[index].seal(nodes[index], APP, 1, [f"agent-{index}@1"])
        await wait_until(lambda: bool(runtimes[0].commits))
        commit = runtimes[0].commits[0]
        assert commit.missing == ("agent-1",)
        assert set(unpack(commit.payload)) == {"agent-0@1", "agent-2@1"}


async def test_a_failing_runtime_is_asked_again() -> None:
    async with cluster(2, grace_ms=100) as (nodes, runtimes):
        failures = iter([OSError("disk full")])
        on_commit = runtimes[0].on_commit

        async def failing(app: bytes, commit: Commit) -> None:
            for error in failures:
                raise error
            await on_commit(app, commit)

        runtimes[0].on_commit = failing  # type: ignore[method-assign]
        for node in nodes:
            node.join_tree(APP, member=True, root=nodes[0].contact)
        for node, runtime in zip(nodes, runtimes, strict=True):
            runtime.seal(node, APP, 1, [runtime.name])
        await wait_until(lambda: all(runtime.settled == 1 for runtime in runtimes))
        assert nodes[0].counters()["handler_errors"] == 1
        assert set(runtimes[0].counted()) == {"agent-0", "agent-1"}


async def test_wrong_settings_are_refused_with_a_sentence() -> None:
    for settings, text in (
        (OverlaySettings(bind="0.0.0.0:0"), "no cluster secret"),
        (OverlaySettings(bind="127.0.0.1"), "HOST:PORT"),
        (OverlaySettings(bind="no.such.host.invalid:1"), "no address of a machine"),
        (
            OverlaySettings(secret_file="/nowhere/secret"),
            "secret_file = '/nowhere/secret': cannot read the cluster secret",
        ),
    ):
        node = OverlayNode(settings, Runtime("x"))
        with pytest.raises(OverlayError, match=text):
            await node.start()
        await node.stop()
    with pytest.raises(NotJoinedError):
        _ = OverlayNode(OverlaySettings(), Runtime("x")).contact


async def test_a_taken_port_is_refused() -> None:
    async with cluster(1) as (nodes, _):
        node = OverlayNode(OverlaySettings(bind=nodes[0].contact.address), Runtime("x"))
        with pytest.raises(OverlayError, match="cannot be bound: Address already in use; choose another port"):
            await node.start()
        await node.stop()


async def test_who_forgot_a_tree_says_so_to_whoever_counts_on_an_edge() -> None:
    async with cluster(2) as (nodes, _):
        root, other = nodes
        root.join_tree(APP, member=True, root=root.contact)
        root._on_message(other.contact, Join(APP, 1, root.contact.address))
        assert root.tree(APP).children == (other.contact,)
        await wait_until(lambda: root.tree(APP).children == ())
        assert other.tree(APP).role == "out"
