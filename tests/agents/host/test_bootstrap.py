"""Why no agent answers is told apart as far as it can be from here."""

from __future__ import annotations

import asyncio
import logging
from typing import cast

import pytest

from elf.agents.host import bootstrap
from elf.agents.host.bootstrap import Entering, why_silent
from elf.overlay.node import OverlayNode


class Node:
    """An overlay that is entered at the `opens`-th try."""

    def __init__(self, opens: int) -> None:
        self.opens, self.tries = opens, 0
        self.halfway, self.go_on = asyncio.Event(), asyncio.Event()

    async def join(self) -> int:
        self.tries += 1
        if self.tries == 80:
            self.halfway.set()
            await self.go_on.wait()
        return int(self.tries >= self.opens)

    def unheard(self) -> list[str]:
        return ["datagrams from 10.0.0.9:4250 are not heard"]


async def test_what_listens_there_tells_reasons_apart() -> None:
    server = await asyncio.start_server(lambda _, writer: writer.close(), "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    assert "takes connections, but answers no datagram; is its overlay.secret_file" in await why_silent(
        f"127.0.0.1:{port}"
    )
    server.close()
    await server.wait_closed()
    assert "nothing listens there" in await why_silent(f"127.0.0.1:{port}")
    assert "no address is known" in await why_silent("no-such-name.invalid:4250")


async def test_a_silent_seed_is_looked_into_and_said_now_and_then(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(bootstrap, "RETRY_S", 0)

    async def why(seed: str) -> str:
        return f"{seed}: it is down"

    monkeypatch.setattr(bootstrap, "why_silent", why)
    caplog.set_level(logging.WARNING)
    node = Node(opens=100)
    enter = Entering(cast(OverlayNode, node), ["a:1", "b:2"])
    assert enter.reasons() == ["no agent of overlay.join answers yet", *node.unheard()]
    running = asyncio.create_task(enter.run())
    await node.halfway.wait()
    assert not enter.done
    first, *_ = enter.reasons()
    assert first == "no agent of overlay.join answers yet: a:1: it is down; b:2: it is down"
    node.go_on.set()
    await running
    assert enter.reasons() == [] and enter.joined and enter.done
    told = [record.getMessage() for record in caplog.records]
    assert told[0] == "none of a:1, b:2 answers yet"
    assert [line.startswith(first) for line in told[1:]] == [True] * 4, told


async def test_an_agent_with_nobody_to_join_through_is_in() -> None:
    node = Node(opens=1)
    enter = Entering(cast(OverlayNode, node), [])
    assert enter.joined
    assert not enter.done, "those that the last run knew were not asked yet"
    await enter.run()
    assert (node.tries, enter.reasons(), enter.done) == (1, [], True)
