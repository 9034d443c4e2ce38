"""Simulated connections: in order whatever the weather, silent when a machine is gone, reset when a process is."""

from __future__ import annotations

import asyncio

from elf.overlay.sim.loop import Address, SimLoop
from elf.overlay.sim.streams import CONNECT_S, StreamEnd, Streams

LEFT, RIGHT = ("10.0.0.1", 1), ("10.0.0.2", 1)


class Both:
    """One connection from left to right and what its ends hear."""

    def __init__(self, loop: SimLoop) -> None:
        self.loop, self.streams = loop, Streams(loop)
        self.streams.up.add(LEFT)
        self.streams.listen(RIGHT, self._accepted)
        self.left: StreamEnd | None = None
        self.right: StreamEnd | None = None
        self.refused = False
        self.heard: dict[Address, list[bytes]] = {LEFT: [], RIGHT: []}
        self.closed: list[Address] = []

    def call(self) -> None:
        self.streams.connect(LEFT, RIGHT, self._called)

    async def connect(self) -> tuple[StreamEnd, StreamEnd]:
        self.call()
        await asyncio.sleep(1)
        assert self.left is not None and self.right is not None
        return self.left, self.right

    def _called(self, end: StreamEnd | None) -> None:
        self.refused = end is None
        if end is not None:
            self.left = self._watched(end)

    def _accepted(self, end: StreamEnd) -> None:
        self.right = self._watched(end)

    def _watched(self, end: StreamEnd) -> StreamEnd:
        end.on_data = self.heard[end.address].append
        end.on_closed = lambda: self.closed.append(end.address)
        return end


def test_what_is_sent_arrives_in_order_both_ways_and_before_the_end() -> None:
    loop = SimLoop(1, delay_ms=(1, 50))
    both = Both(loop)

    async def main() -> None:
        left, right = await both.connect()
        for index in range(100):
            left.send(b"%d" % index)
            right.send(b"%d" % -index)
        left.close()
        left.send(b"nothing comes after the end")
        await asyncio.sleep(1)
        assert both.heard[RIGHT] == [b"%d" % index for index in range(100)]
        assert both.heard[LEFT] == [], "a closed end hears nothing"
        assert both.closed == [RIGHT]

    loop.run(main())


def test_a_cut_keeps_what_is_sent_until_it_heals() -> None:
    loop = SimLoop(1)
    both = Both(loop)

    async def main() -> None:
        left, right = await both.connect()
        loop.cut = lambda source, target: source == LEFT
        left.send(b"1")
        left.send(b"2")
        right.send(b"the other way is open")
        await asyncio.sleep(5)
        assert both.heard == {LEFT: [b"the other way is open"], RIGHT: []}
        loop.cut = None
        left.send(b"3")
        await asyncio.sleep(1)
        assert both.heard[RIGHT] == [b"1", b"2", b"3"]

    loop.run(main())


def test_a_clog_delivers_everything_at_its_end() -> None:
    loop = SimLoop(1)
    both = Both(loop)

    async def main() -> None:
        left, _ = await both.connect()
        loop.clogged[LEFT, RIGHT] = loop.time() + 2.0
        left.send(b"1")
        await asyncio.sleep(0.1)
        left.send(b"2")
        await asyncio.sleep(1.8)
        assert both.heard[RIGHT] == []
        await asyncio.sleep(0.2)
        assert both.heard[RIGHT] == [b"1", b"2"]

    loop.run(main())


def test_a_machine_that_is_gone_says_nothing_and_once_back_refuses_the_old_connection() -> None:
    loop = SimLoop(1)
    both = Both(loop)

    async def main() -> None:
        left, right = await both.connect()
        right.vanish()
        both.streams.deafen(RIGHT)
        both.streams.up.discard(RIGHT)
        left.send(b"to nobody")
        await asyncio.sleep(10)
        assert both.closed == []
        both.streams.up.add(RIGHT)
        left.send(b"to a machine that knows nothing of this")
        await asyncio.sleep(1)
        assert both.closed == [LEFT] and both.heard[RIGHT] == []

    loop.run(main())


def test_calls_are_refused_by_a_machine_without_the_process_and_time_out_without_the_machine() -> None:
    loop = SimLoop(1)
    both = Both(loop)

    async def main() -> None:
        both.streams.deafen(RIGHT)
        both.call()
        await asyncio.sleep(0.1)
        assert both.refused
        both.refused = False
        both.streams.up.discard(RIGHT)
        both.call()
        await asyncio.sleep(CONNECT_S - 0.1)
        assert not both.refused
        await asyncio.sleep(0.2)
        assert both.refused

    loop.run(main())


def test_a_call_gets_through_when_a_cut_heals_in_time() -> None:
    loop = SimLoop(1)
    both = Both(loop)

    async def main() -> None:
        loop.cut = lambda source, target: target == LEFT
        both.call()
        await asyncio.sleep(1.5)
        assert both.left is None
        loop.cut = None
        await asyncio.sleep(1.0)
        assert both.left is not None and both.right is not None

    loop.run(main())
