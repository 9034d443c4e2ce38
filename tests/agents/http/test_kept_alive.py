"""Connections that wait for a next request are few; those that are answered stay."""

from __future__ import annotations

import asyncio

import pytest

from elf.agents.http import kept_alive
from elf.agents.http.app import KEPT, make_app, serve
from elf.agents.http.kept_alive import KeptAlive
from tests.agents.http.fake_service import FakeService
from tests.agents.http.test_app import GET


class Connection(asyncio.Transport):
    is_closed = False

    def close(self) -> None:
        self.is_closed = True

    def is_closing(self) -> bool:
        return self.is_closed


def test_the_one_that_has_waited_longest_goes_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept_alive, "IDLE_MAX", 3)
    kept, all_of_them = KeptAlive(), [Connection() for _ in range(6)]
    busy = all_of_them[0]
    for each in all_of_them[:4]:
        kept.begin(each)
        kept.end(each)
    assert [each.is_closed for each in all_of_them] == [True, *[False] * 5]
    busy.is_closed = False
    kept.begin(busy)
    kept.begin(all_of_them[1])
    for each in all_of_them[4:]:
        kept.end(each)
    assert not busy.is_closed and not all_of_them[1].is_closed, "they are answered"
    assert all_of_them[2].is_closed and len(kept) == 3
    all_of_them[3].close()
    kept.end(all_of_them[1])
    assert not all_of_them[4].is_closed, "who has gone makes room"


async def test_clients_that_keep_connections_keep_a_bounded_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept_alive, "IDLE_MAX", 4)
    app = make_app(FakeService(), token=None, request_bytes_max=1_000)
    async with serve(app, "127.0.0.1:0") as url, asyncio.timeout(20):
        port = int(url.rpartition(":")[2])
        connections = []
        for _ in range(12):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            connections.append((reader, writer))
            writer.write(GET.format(path="/v1/jobs").encode())
            assert b"200 OK" in await reader.readline()
        for reader, _ in connections[:8]:
            await reader.read()
        assert len(app[KEPT]) == 4
        reader, writer = connections[-1]
        writer.write(GET.format(path="/v1/jobs").encode())
        assert b"200 OK" in await reader.readuntil(b"200 OK")
        for _, writer in connections:
            writer.close()
