"""Real nodes on loopback and a handler that stands for the runtime, for tests."""

from __future__ import annotations

import asyncio
import contextlib
import random
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence

import msgspec

from overlay.contract import NEVER, Commit, OverlaySettings, Record, RollupState, Verdict
from overlay.ids import Contact
from overlay.node import OverlayNode


async def wait_until(condition: Callable[[], bool], seconds: float = 10.0) -> None:
    """Wait for a condition; fail with a deadline instead of sleeping for luck."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "the condition did not come true in time"
        await asyncio.sleep(0.005)


def pack(items: Sequence[str]) -> bytes:
    return msgspec.msgpack.encode(list(items))


def unpack(payload: bytes | None) -> list[str]:
    return msgspec.msgpack.decode(payload, type=list[str]) if payload is not None else []


class Runtime:
    """A small agent runtime: durable snapshots in a dict, payloads are lists of item names."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.owned: dict[bytes, bytes] = {}
        self.recorded: dict[bytes, Contact] = {}
        self.seen_records: list[Record] = []
        self.commits: list[Commit] = []
        self.verdicts: list[Verdict] = []
        self.state: RollupState | None = None
        self.settled = NEVER
        self.snapshots: dict[int, list[str]] = {}
        self.carry: list[str] = []

    async def on_route(self, key: bytes, body: bytes, path: Sequence[str]) -> bytes | Contact | None:
        if key in self.owned:
            return self.owned[key] + body
        return self.recorded.get(key)

    def on_record(self, app: bytes, record: Record) -> None:
        self.seen_records.append(record)

    async def on_commit(self, app: bytes, commit: Commit) -> None:
        self.commits.append(commit)
        self.state = RollupState.decode(commit.state.encode())

    async def on_verdict(self, app: bytes, verdict: Verdict) -> None:
        self.verdicts.append(verdict)
        self.settled = verdict.through
        for through in [t for t in self.snapshots if t <= verdict.through]:
            items = self.snapshots.pop(through)
            if verdict.missing:
                self.carry += items

    def merge(self, app: bytes, payloads: Sequence[bytes]) -> bytes:
        return pack([item for payload in payloads for item in unpack(payload)])

    def seal(self, node: OverlayNode, app: bytes, through: int, items: Sequence[str]) -> None:
        """Store a snapshot, then hand it over; through is raised above the last verdict, as the contract says."""
        through = max(through, self.settled + 1)
        self.snapshots[through] = [*items, *self.carry]
        self.carry = []
        node.seal(app, through, pack(self.snapshots[through]) if self.snapshots[through] else None)

    def counted(self) -> Counter[str]:
        return Counter(item for commit in self.commits for item in unpack(commit.payload))


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
