"""Real nodes on loopback, for tests; the runtime behind them is the null runtime."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator, Callable

from elf.overlay.contract import OverlaySettings
from elf.overlay.node import OverlayNode
from tests.sweep.runtime import Runtime, pack, unpack

__all__ = ["Runtime", "cluster", "pack", "unpack", "wait_until"]


async def wait_until(condition: Callable[[], bool], seconds: float = 60.0) -> None:
    """Wait for a condition; fail with a deadline instead of sleeping for luck."""
    loop = asyncio.get_running_loop()
    end_s = loop.time() + seconds
    while not condition():
        assert loop.time() < end_s, "the condition did not come true in time"
        await asyncio.sleep(0.005)


@contextlib.asynccontextmanager
async def cluster(
    count: int, *, secret_file: str = "", **settings: int
) -> AsyncIterator[tuple[list[OverlayNode], list[Runtime]]]:
    """Start nodes that know each other."""
    nodes: list[OverlayNode] = []
    runtimes = [Runtime(f"agent-{index}") for index in range(count)]
    try:
        for index, runtime in enumerate(runtimes):
            join = (nodes[0].contact.address,) if nodes else ()
            values = OverlaySettings(agent_id=runtime.name, join=join, secret_file=secret_file, **settings)
            node = OverlayNode(values, runtime, random.Random(index))
            await node.start()
            nodes.append(node)
            if join:
                assert await node.join() > 0
        yield nodes, runtimes
    finally:
        for node in nodes:
            await node.stop()
