"""Back-pressure through real nodes: a slow root makes its members rest, a jammed link is felt two levels below."""

from __future__ import annotations

import asyncio
import random
from typing import cast

import pytest

from elf.overlay.contract import Commit
from elf.overlay.ids import app_id
from elf.overlay.links.websocket import Links
from elf.overlay.pressure import BUSY_TREES, is_busy
from elf.overlay.rollup import own as rollup
from tests.overlay.cluster import cluster, wait_until

APP = app_id("job", "shop")


async def test_a_slow_root_makes_its_members_rest_and_then_everything_arrives(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rollup, "UNSETTLED_MAX", 40)
    async with cluster(2, grace_ms=100, leap_after_ms=60_000) as (nodes, runtimes):
        gate = asyncio.Event()
        commit_at_once = runtimes[0].on_commit

        async def commit_slowly(app: bytes, commit: Commit) -> None:
            await gate.wait()
            await commit_at_once(app, commit)

        runtimes[0].on_commit = commit_slowly  # type: ignore[method-assign]
        for node in nodes:
            node.join_tree(APP, member=True, root=nodes[0].contact)
        await wait_until(lambda: nodes[1].tree(APP).role == "member")
        assert not nodes[1].congested([APP])
        through = 0
        while not nodes[1].congested([APP]):
            through += 1
            for node, runtime in zip(nodes, runtimes, strict=True):
                runtime.seal(node, APP, through, [f"{runtime.name}@{through}"])
            await asyncio.sleep(0)
            assert through <= 41, "it never rests"
        assert through == 41
        gate.set()
        await wait_until(lambda: all(runtime.settled == through for runtime in runtimes))
        assert not any(node.congested([APP]) for node in nodes)
        assert set(runtimes[0].counted().values()) == {1}
        assert len(runtimes[0].counted()) == 2 * through
        assert not nodes[1].congested([b"unknown".ljust(20)])


async def test_many_bytes_without_a_verdict_are_congestion_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rollup, "UNSETTLED_BYTES_MAX", 10_000)
    async with cluster(1, grace_ms=100) as (nodes, runtimes):
        gate = asyncio.Event()

        async def never(app: bytes, commit: Commit) -> None:
            await gate.wait()

        runtimes[0].on_commit = never  # type: ignore[method-assign]
        nodes[0].join_tree(APP, member=True, root=nodes[0].contact)
        await wait_until(lambda: nodes[0].tree(APP).role == "root")
        for through in (1, 2):
            assert not nodes[0].congested([APP])
            runtimes[0].seal(nodes[0], APP, through, ["x" * 6_000])
        assert nodes[0].congested([APP])
        nodes[0].leave_tree(APP)
        assert not nodes[0].congested([APP])


async def test_a_jam_travels_down_and_everything_arrives_when_it_dissolves() -> None:
    async with cluster(5, grace_ms=200, leap_after_ms=60_000, fan_in_max=2) as (nodes, runtimes):
        top, noise = nodes[0], random.Random(1)
        for node in nodes:
            node.join_tree(APP, member=True, root=top.contact)
        await wait_until(lambda: all(node.tree(APP).role in ("member", "root") for node in nodes))
        by_contact = {node.contact: node for node in nodes}
        low = next(node for node in nodes if node.tree(APP).parent not in (None, top.contact))
        middle = by_contact[low.tree(APP).parent or top.contact]
        above = by_contact[middle.tree(APP).parent or top.contact]
        links = [cast(Links, node._links) for node in (above, middle)]
        through = 0

        def seal_all() -> None:
            nonlocal through
            through += 1
            for node, runtime in zip(nodes, runtimes, strict=True):
                runtime.seal(node, APP, through, [f"{runtime.name}@{through}", noise.randbytes(100_000).hex()])

        seal_all()
        await wait_until(lambda: all(runtime.settled == through for runtime in runtimes))
        links[0].hold([middle.contact])
        while not low.congested([APP]):
            if through < 80:
                seal_all()
            await asyncio.sleep(0.02)
            assert links[0]._peers[middle.contact.id].held
        assert middle.congested([APP])
        assert links[1]._peers[low.contact.id].held, "the middle takes less of those below it"
        assert not links[1]._peers[above.contact.id].held
        links[0].hold([])
        await wait_until(lambda: all(runtime.settled == through for runtime in runtimes))
        await wait_until(lambda: not any(node.congested([APP]) for node in nodes))
        await wait_until(lambda: not links[1]._peers[low.contact.id].held)
        assert len(runtimes[0].counted()) == 2 * 5 * through
        assert set(runtimes[0].counted().values()) == {1}
        assert not any(node.counters()["links_lost"] for node in nodes)


def test_a_node_of_many_trees_is_busy() -> None:
    assert not is_busy(range(BUSY_TREES))
    assert is_busy(range(BUSY_TREES + 1))
