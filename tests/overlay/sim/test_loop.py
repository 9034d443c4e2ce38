"""The simulated network itself: time jumps, datagrams obey the weather, nothing hangs."""

from __future__ import annotations

import asyncio
import time

import pytest

from elf.overlay.sim.loop import SimLoop, SimulationStalledError


class Mailbox(asyncio.DatagramProtocol):
    def __init__(self) -> None:
        self.mail: list[tuple[float, bytes, tuple[str, int]]] = []
        self.closed = False

    def datagram_received(self, data: bytes, addr: tuple[str, int]) -> None:
        self.mail.append((asyncio.get_running_loop().time(), data, addr))

    def connection_lost(self, exc: Exception | None) -> None:
        self.closed = True


async def open_box(loop: SimLoop, host: str) -> tuple[asyncio.DatagramTransport, Mailbox]:
    transport, protocol = await loop.create_datagram_endpoint(Mailbox, local_addr=(host, 1))
    return transport, protocol


def test_an_hour_passes_at_once() -> None:
    loop, began = SimLoop(), time.monotonic()
    loop.run(asyncio.sleep(3600))
    assert loop.now_ms == 3_600_000
    assert time.monotonic() - began < 5


def test_waiting_for_nothing_is_an_error_and_not_a_hang() -> None:
    async def main() -> None:
        await asyncio.get_running_loop().create_future()

    with pytest.raises(SimulationStalledError):
        SimLoop().run(main())


def test_leftover_tasks_are_ended() -> None:
    loop, ended = SimLoop(), []

    async def forever() -> None:
        try:
            await asyncio.sleep(1_000_000)
        finally:
            ended.append(True)

    async def main() -> asyncio.Task[None]:
        task = asyncio.create_task(forever())
        await asyncio.sleep(3)
        return task

    assert loop.run(main()).cancelled()
    assert ended == [True]


def test_datagrams_take_their_time_and_arrive_whole() -> None:
    loop = SimLoop(3, delay_ms=(10, 20))

    async def main() -> None:
        left, _ = await open_box(loop, "10.0.0.1")
        right, box = await open_box(loop, "10.0.0.2")
        for index in range(50):
            left.sendto(b"%d" % index, ("10.0.0.2", 1))
        left.sendto(b"nobody there", ("10.0.0.3", 1))
        await asyncio.sleep(1)
        assert all(0.010 <= at <= 0.020 and source == ("10.0.0.1", 1) for at, _, source in box.mail)
        assert sorted(int(data) for _, data, _ in box.mail) == list(range(50))
        assert [int(data) for _, data, _ in box.mail] != list(range(50)), "a network reorders"
        assert (loop.sent, loop.lost) == (51, 1)
        right.close()
        right.close()
        right.sendto(b"late", ("10.0.0.1", 1))
        await asyncio.sleep(0)
        assert box.closed and right.is_closing() and loop.sent == 51

    loop.run(main())


def test_loss_size_and_cuts() -> None:
    loop = SimLoop(3, loss=0.5, mtu_bytes=100)

    async def main() -> None:
        left, _ = await open_box(loop, "10.0.0.1")
        _, box = await open_box(loop, "10.0.0.2")
        for _ in range(400):
            left.sendto(b"x", ("10.0.0.2", 1))
        await asyncio.sleep(1)
        assert 150 < len(box.mail) < 250
        loop.loss = 0.0
        box.mail.clear()
        left.sendto(bytes(101), ("10.0.0.2", 1))
        loop.cut = lambda source, destination: source[0] == "10.0.0.1"
        left.sendto(b"x", ("10.0.0.2", 1))
        await asyncio.sleep(1)
        assert box.mail == []
        with pytest.raises(OSError, match="in use"):
            await open_box(loop, "10.0.0.1")

    loop.run(main())


def test_names_and_threads_stay_inside() -> None:
    loop = SimLoop(names={"seed": ["10.0.0.1", "2001:db8::1"]})

    async def main() -> None:
        infos = await loop.getaddrinfo("seed", 4250)
        assert [info[4][:2] for info in infos] == [("10.0.0.1", 4250), ("2001:db8::1", 4250)]
        with pytest.raises(OSError, match="unknown"):
            await loop.getaddrinfo("elsewhere", 1)
        assert await asyncio.to_thread(sum, [1, 2]) == 3
        with pytest.raises(ZeroDivisionError):
            await asyncio.to_thread(lambda: 1 // 0)

    loop.run(main())
