"""Requests over a network of a few agents in virtual time: who is asked, how ways end, what is given up and when."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

import pytest

from elf.overlay import messages
from elf.overlay import requests as requests_module
from elf.overlay.contract import PAYLOAD_BYTES_MAX
from elf.overlay.errors import NotFoundError, OverlayError, UnreachableError
from elf.overlay.ids import Contact, distance
from elf.overlay.messages import HOPS_MAX, Reply, Request
from elf.overlay.requests import ACCEPTED, FOUND, UNREACHABLE, Requests
from elf.overlay.sim.loop import SimLoop

KEY = bytes(20)
DELAY_S = 0.001


class Net:
    """Agents in order of their distance to KEY, nearest first; each knows those that `knows` says."""

    def __init__(self, count: int) -> None:
        found = [Contact.at("10.0.0.1", port) for port in range(1, count + 1)]
        self.contacts = sorted(found, key=lambda contact: distance(contact.id, KEY))
        self.knows: list[list[int]] = [list(range(count)) for _ in range(count)]
        self.answers: list[bytes | Contact | None] = [None] * count
        self.asked: list[int] = []
        self.sent: list[Request | Reply] = []
        self.dead: set[int] = set()
        self.deaf: set[int] = set()
        self.slow_s: dict[int, float] = {}
        self.nodes = [self._node(index) for index in range(count)]

    def _node(self, index: int) -> Requests:
        me = self.contacts[index]

        def closer(key: bytes) -> list[Contact]:
            known = [self.contacts[i] for i in self.knows[index]]
            nearer = [c for c in known if distance(c.id, key) < distance(me.id, key)]
            return sorted(nearer, key=lambda contact: distance(contact.id, key))

        async def find(key: bytes) -> list[Contact]:
            alive = [c for i, c in enumerate(self.contacts) if i not in self.dead]
            return sorted(alive, key=lambda contact: distance(contact.id, key))[:3]

        async def ask(key: bytes, body: bytes, path: Sequence[str]) -> bytes | Contact | None:
            self.asked.append(index)
            await asyncio.sleep(self.slow_s.get(index, 0))
            return self.answers[index]

        def send(to: Contact, message: Request | Reply) -> None:
            self.carry(index, self.contacts.index(to), message)

        return Requests(me, closer, find, ask, send, random.Random(index))

    def carry(self, source: int, target: int, message: Request | Reply) -> None:
        self.sent.append(message)
        loop = asyncio.get_running_loop()
        if target in self.dead:
            loop.call_later(DELAY_S, self.nodes[source].on_lost, self.contacts[target])
        elif target not in self.deaf:
            loop.call_later(DELAY_S, self.deliver, source, target, messages.encode(message))

    def deliver(self, source: int, target: int, data: bytes) -> None:
        message = messages.decode(data)
        if isinstance(message, Request):
            self.nodes[target].on_request(self.contacts[source], message)
        else:
            assert isinstance(message, Reply)
            self.nodes[target].on_reply(self.contacts[source], message)

    def addresses(self, *indexes: int) -> tuple[str, ...]:
        return tuple(self.contacts[index].address for index in indexes)


def simulate(main: Callable[[], Coroutine[Any, Any, None]]) -> None:
    SimLoop().run(main())


def test_a_request_ends_at_the_first_that_answers_and_the_answer_names_the_way() -> None:
    async def main() -> None:
        net = Net(6)
        net.knows = [[], [0], [1], [2], [3], [4]]
        net.answers[1] = b"found"
        answer = await net.nodes[5].route(KEY, b"", 1_000)
        assert (answer.body, answer.path) == (b"found", net.addresses(4, 3, 2, 1))
        assert net.asked == [5, 4, 3, 2, 1]
        net.answers[5] = b"own"
        assert (await net.nodes[5].route(KEY, b"", 1_000)).path == ()

    simulate(main)


def test_the_next_candidate_is_tried_when_one_is_gone_or_silent() -> None:
    async def main() -> None:
        net = Net(4)
        net.answers[0] = net.answers[1] = net.answers[2] = b"x"
        net.dead = {0}
        net.deaf = {1}
        begin_s = asyncio.get_running_loop().time()
        answer = await net.nodes[3].route(KEY, b"", 5_000)
        assert answer.path == net.addresses(2)
        assert asyncio.get_running_loop().time() - begin_s < requests_module.SILENT_S + 0.1

    simulate(main)


def test_an_agent_that_works_on_its_answer_is_waited_for_and_asked_once() -> None:
    async def main() -> None:
        net = Net(3)
        net.answers[0] = b"slow"
        net.slow_s[0] = 3.0
        assert (await net.nodes[2].route(KEY, b"", 5_000)).body == b"slow"
        assert net.asked.count(0) == 1
        assert [m.status for m in net.sent if isinstance(m, Reply)] == [ACCEPTED, FOUND]
        with pytest.raises(UnreachableError, match=r"in time|within"):
            await net.nodes[2].route(KEY, b"", 2_000)
        net.slow_s[0] = 0
        net.sent.clear()
        await net.nodes[2].route(KEY, b"", 2_000)
        assert [m.status for m in net.sent if isinstance(m, Reply)] == [FOUND], "a quick answer is one message"

    simulate(main)


def test_an_agent_that_is_busy_is_told_from_one_that_does_not_answer() -> None:
    async def main() -> None:
        net = Net(3)
        net.answers[0] = b"slow"
        net.slow_s = {0: 9.0, 2: 9.0}
        for asker in (1, 0):  # of others, and of oneself
            with pytest.raises(UnreachableError, match=rf"^{net.contacts[0].address} is busy: it has"):
                await net.nodes[asker].ask(net.contacts[0], b"", 2_000)
        net.deaf = {0}
        with pytest.raises(UnreachableError, match=rf"^no answer from {net.contacts[0].address} in time$"):
            await net.nodes[1].ask(net.contacts[0], b"", 2_000)

    simulate(main)


def test_a_late_answer_of_one_passed_by_changes_nothing() -> None:
    async def main() -> None:
        net = Net(3)
        net.answers[0], net.answers[1] = b"late", b"first"
        held: list[tuple[int, int, Request | Reply]] = []
        carry = net.carry

        def hold(source: int, target: int, message: Request | Reply) -> None:
            if source == 0:
                held.append((source, target, message))
            else:
                carry(source, target, message)

        net.carry = hold  # type: ignore[method-assign]
        answer = await net.nodes[2].route(KEY, b"", 5_000)
        assert answer.body == b"first"
        for late in held:
            carry(*late)
        await asyncio.sleep(1)
        assert net.asked == [2, 0, 1]

    simulate(main)


def test_who_knows_nobody_closer_looks_the_key_up_before_it_says_no() -> None:
    async def main() -> None:
        net = Net(5)
        net.knows = [[], [], [], [2], [3]]
        net.answers[0] = b"x"
        answer = await net.nodes[4].route(KEY, b"", 1_000)
        assert answer.path == net.addresses(3, 2, 0)
        net.answers[0] = None
        with pytest.raises(NotFoundError, match="nobody answers"):
            await net.nodes[4].route(KEY, b"", 1_000)
        net.dead = {0, 1}
        with pytest.raises(NotFoundError):
            await net.nodes[4].route(KEY, b"", 1_000)

    simulate(main)


def test_ways_in_circles_end() -> None:
    async def main() -> None:
        net = Net(3)
        net.answers[0], net.answers[1] = net.contacts[1], net.contacts[0]
        with pytest.raises(UnreachableError, match="each say that the other knows"):
            await net.nodes[2].route(KEY, b"", 1_000)
        assert net.asked == [2, 0, 1, 1, 0], "once over each candidate"
        net.answers[1] = net.contacts[1]
        with pytest.raises(NotFoundError):
            await net.nodes[2].route(KEY, b"", 1_000)

    simulate(main)


def test_the_last_hop_may_still_answer_but_not_pass_on() -> None:
    async def main() -> None:
        net = Net(3)
        way = tuple(f"10.9.9.9:{port}" for port in range(1, HOPS_MAX + 1))
        net.deliver(2, 1, messages.encode(Request(b"i" * 8, KEY, b"", way, False, 1_000)))
        await asyncio.sleep(1)
        [reply] = [m for m in net.sent if isinstance(m, Reply)]
        assert reply.status == UNREACHABLE
        assert b"hops" in reply.body
        net.answers[1] = b"here"
        net.deliver(2, 1, messages.encode(Request(b"j" * 8, KEY, b"", way, False, 1_000)))
        await asyncio.sleep(1)
        assert net.sent[-1] == Reply(b"j" * 8, FOUND, b"here", way)

    simulate(main)


def test_one_neighbour_cannot_keep_out_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(requests_module, "SERVED_OF_ONE_MAX", 4)
    monkeypatch.setattr(requests_module, "SERVED_MAX", 6)

    async def main() -> None:
        net = Net(4)
        net.answers[0] = b"x"
        net.slow_s[0] = 2.0

        async def ask(source: int) -> str:
            try:
                return (await net.nodes[source].ask(net.contacts[0], b"", 3_000)).decode()
            except UnreachableError as error:
                return str(error)

        outcomes = await asyncio.gather(*(ask(source) for source in (1, 1, 1, 1, 1, 2, 2, 3)))
        assert outcomes == ["x"] * 4 + ["this agent is too busy", "x", "x", "this agent is too busy"]
        assert await ask(1) == "x", "room again"

    simulate(main)


def test_stopping_tells_those_who_wait() -> None:
    async def main() -> None:
        net = Net(2)
        net.slow_s[0] = 60.0
        task = asyncio.get_running_loop().create_task(net.nodes[1].ask(net.contacts[0], b"", 100_000))
        await asyncio.sleep(1)
        await net.nodes[1].stop()
        with pytest.raises(UnreachableError, match="stopping"):
            await task
        await net.nodes[0].stop()

    simulate(main)


def test_only_the_agent_that_was_asked_may_answer_and_once() -> None:
    async def main() -> None:
        net = Net(3)
        net.answers[0] = b"true"
        net.slow_s[0] = 0.5
        task = asyncio.get_running_loop().create_task(net.nodes[2].ask(net.contacts[0], b"", 5_000))
        await asyncio.sleep(0.1)
        [request] = [m for m in net.sent if isinstance(m, Request)]
        net.nodes[2].on_reply(net.contacts[1], Reply(request.id, FOUND, b"false", ()))
        net.nodes[2].on_reply(net.contacts[0], Reply(b"x" * 8, FOUND, b"false", ()))
        assert await task == b"true"
        net.nodes[2].on_reply(net.contacts[0], Reply(request.id, FOUND, b"again", ()))

    simulate(main)


def test_too_large_requests_and_answers_are_refused_with_a_sentence() -> None:
    async def main() -> None:
        net = Net(2)
        with pytest.raises(OverlayError, match="over the limit"):
            await net.nodes[1].route(KEY, bytes(PAYLOAD_BYTES_MAX + 1), 1_000)
        net.answers[0] = bytes(PAYLOAD_BYTES_MAX + 1)
        with pytest.raises(UnreachableError, match="too large"):
            await net.nodes[1].ask(net.contacts[0], b"", 1_000)

    simulate(main)
