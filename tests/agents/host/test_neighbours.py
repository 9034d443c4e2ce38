"""Whom an agent asks for the time, what it makes of whatever they answer, and what it says of its clock."""

import asyncio
import logging
import pathlib
from typing import Any, cast

import msgspec
import pytest

from elf.agents.host.clock import Clock, Doubt
from elf.agents.host.neighbours import ASKED_MAX, Neighbours
from elf.agents.wire.agents import Introduce
from elf.agents.wire.replies import Failure, Reply, encode_reply
from elf.agents.wire.request import decode_request
from elf.overlay.dht import state
from elf.overlay.errors import UnreachableError
from elf.overlay.ids import Contact
from elf.overlay.node import OverlayNode
from elf.overlay.settings import OverlaySettings

BASE_MS = 1_767_225_600_000
#: How far the clock of the agent at a port is ahead.
Offsets = dict[int, int]


def at(port: int) -> Contact:
    return Contact.at("127.0.0.1", port)


class Node:
    """An agent's overlay, as far as neighbours go: some of them answer."""

    def __init__(self, settings: OverlaySettings) -> None:
        self.settings, self.contact = settings, at(1)
        self.links: list[Contact] = []
        self.known: list[Contact] = []
        self.answers: dict[int, Any] = {}
        self.asked: list[int] = []

    def linked(self) -> list[Contact]:
        return self.links

    def contacts(self) -> list[Contact]:
        return self.known

    async def ask(self, contact: Contact, body: bytes, timeout_ms: int) -> bytes:
        assert decode_request(body) == Introduce()
        self.asked.append(contact.port)
        await asyncio.sleep(0)
        answer = self.answers.get(contact.port)
        if answer is None:
            raise UnreachableError("no answer")
        return answer if isinstance(answer, bytes) else encode_reply(Reply(value=answer))


class Site:
    def __init__(self, *, join: tuple[str, ...] = (), contacts_file: str = "", off_ms: int = 0) -> None:
        self.up_ms, self.off_ms = 1_000, off_ms
        self.node = Node(OverlaySettings(bind="127.0.0.1:1", join=join, contacts_file=contacts_file))
        self.clock = Clock(lambda: BASE_MS + self.up_ms + self.off_ms, lambda: self.up_ms)
        self.neighbours = Neighbours(cast(OverlayNode, self.node), self.clock)

    def say(self, offsets: Offsets) -> None:
        self.node.answers = {
            port: {"name": "x", "wall_ms": BASE_MS + self.up_ms + off} for port, off in offsets.items()
        }

    async def compare(self, offsets: Offsets) -> None:
        self.say(offsets)
        self.node.asked.clear()
        await self.neighbours.compare()


async def test_an_agent_that_is_ahead_goes_by_its_neighbours_and_says_so_until_it_is_right(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    site = Site(off_ms=120_000)
    site.node.links = [at(2), at(3), at(4)]
    await site.compare({2: 0, 3: 5, 4: 120_000})
    assert site.clock() == BASE_MS + site.up_ms + 5
    ahead = "this machine's clock is 120 s ahead of what most neighbours' say: until it is right, it goes by theirs"
    assert (site.neighbours.trouble, site.clock.doubt()) == (ahead, Doubt.AHEAD)
    await site.compare({2: 0, 3: 5, 4: 120_000})
    site.off_ms = 0
    await site.compare({2: 0, 3: 5, 4: 120_000})
    assert (site.neighbours.trouble, site.clock.doubt()) == (None, Doubt.NONE)
    assert caplog.messages == [ahead, "this machine's clock is right again"]


async def test_an_agent_that_is_behind_says_so_and_nothing_else_changes() -> None:
    site = Site(off_ms=-60_000)
    site.node.links = [at(2), at(3)]
    await site.compare({2: 0, 3: 0})
    assert site.clock() == BASE_MS + site.up_ms - 60_000
    behind = "this machine's clock is 60 s behind what most neighbours' say: until it is right, its results come late"
    assert (site.neighbours.trouble, site.clock.doubt()) == (behind, Doubt.NONE)


@pytest.mark.parametrize(
    "answer",
    [
        b"\xc1nonsense",
        encode_reply(Reply(failure=Failure(kind="ElfError", message="not a request"))),
        {"wall_ms": -1},
        {"wall_ms": 1 << 60},
        {"wall_ms": "now"},
        ["wall_ms"],
        7,
    ],
)
async def test_whatever_a_neighbour_answers_moves_nothing_if_it_is_no_time(answer: Any) -> None:
    site = Site()
    site.node.links, site.node.answers = [at(2)], {2: answer}
    await site.neighbours.compare()
    assert (site.clock(), site.clock.apart_ms(), site.neighbours.trouble) == (BASE_MS + site.up_ms, None, None)
    assert site.clock.doubt() is Doubt.UNHEARD


@pytest.mark.parametrize("answer", [{"name": "of an earlier release"}, {"wall_ms": None}, {"wall_ms": 5}])
async def test_a_neighbour_that_cannot_tell_the_time_is_not_waited_for(answer: Any) -> None:
    site = Site()
    site.node.links, site.node.answers = [at(2)], {2: answer}
    await site.neighbours.compare()
    assert (site.clock.doubt(), site.clock.apart_ms()) == (Doubt.NONE, None)


async def test_only_who_is_linked_is_asked_and_few_at_once() -> None:
    site = Site()
    site.node.known = [at(1), *map(at, range(20, 40))]
    await site.compare({})
    assert site.node.asked == [] and site.clock.doubt() is Doubt.UNHEARD
    site.node.links = [at(port) for port in range(2, 20)]
    await site.compare({})
    assert len(site.node.asked) == ASKED_MAX and set(site.node.asked) <= set(range(2, 20))


async def test_who_comes_to_be_known_is_waited_for_from_the_next_job_on() -> None:
    site = Site()
    await site.compare({})
    assert site.clock.doubt() is Doubt.NONE
    site.node.known = [at(2)]
    site.neighbours.look()
    assert site.clock.doubt() is Doubt.UNHEARD
    site.node.links = [at(2)]
    await site.compare({2: 0})
    assert site.clock.doubt() is Doubt.NONE


async def test_after_a_restart_who_is_configured_or_was_known_before_is_waited_for(tmp_path: pathlib.Path) -> None:
    file = tmp_path / "contacts.json"
    state.save(file, [at(7), at(8)])
    site = Site(contacts_file=str(file), off_ms=120_000)
    await site.compare({})
    assert site.clock.doubt() is Doubt.UNHEARD
    site = Site(join=("127.0.0.1:9", "web.example:4250"), contacts_file=str(tmp_path / "none"), off_ms=120_000)
    await site.compare({})
    assert site.clock.doubt() is Doubt.UNHEARD
    site.node.links = [at(9)]
    await site.compare({9: 0})
    assert (site.clock(), site.clock.doubt()) == (BASE_MS + site.up_ms, Doubt.AHEAD)
    file.write_bytes(msgspec.json.encode({"version": 1, "contacts": ["nonsense"]}))
    site = Site(contacts_file=str(file))
    await site.compare({})
    assert (site.clock.doubt(), file.exists()) == (Doubt.NONE, True)
