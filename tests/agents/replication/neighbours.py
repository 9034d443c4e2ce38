"""The overlay and the catalogue as copies see them: agents a1 to a4 of source clicks, and what they are asked."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine
from typing import Any

from elf.agents.jobs.definition import load_definition
from elf.agents.wire.catalogue import Catalogue, job_record, member_record
from elf.agents.wire.records import JobRecord, Member
from elf.agents.wire.replies import Reply, encode_reply
from elf.agents.wire.request import AnyRequest, decode_request
from elf.overlay.contract import NEVER, TreeView
from elf.overlay.errors import UnreachableError
from elf.overlay.ids import Contact, distance
from elf.overlay.messages import Word

#: What an agent has said of its snapshots, whichever.
WORD = Word(0, 1, b"", bytes(64))
JOB = """
name = "{name}"
creator = "shop"
query = "SELECT {query} FROM clicks GROUP BY window(ts, '1 second')"
[options]
{options}
"""


def job_of(options: str = "", *, name: str = "job", query: str = "count(*) AS n") -> JobRecord:
    definition = load_definition(JOB.format(name=name, query=query, options=options))
    return JobRecord(
        definition=definition, master_host="10.0.0.1", master_port=1, published_ms=1, instance="i", stamp_ms=1
    )


class Node:
    """The overlay of agent a1."""

    def __init__(self) -> None:
        self.contact = Contact.at("10.0.0.1", 1)
        self.member, self.verdicts = True, NEVER
        self.silent: set[str] = set()
        self.asked: list[tuple[str, AnyRequest]] = []
        self.reply: Callable[[str, AnyRequest], Any] = lambda address, request: True
        self.answers: list[tuple[str, int, int, bytes | None]] = []
        #: What those answered for had said themselves.
        self.words: list[Word | None] = []

    async def ask(self, contact: Contact, body: bytes, timeout_ms: int) -> bytes:
        request = decode_request(body)
        self.asked.append((contact.address, request))
        if contact.address in self.silent:
            raise UnreachableError("no answer in time")
        return encode_reply(Reply(value=self.reply(contact.address, request)))

    def tree(self, app: bytes) -> TreeView:
        return TreeView("member" if self.member else "out", self.member, None, None, ())

    def word(self, app: bytes, since: int, through: int, payload: bytes | None) -> Word | None:
        return WORD

    def settled(self, app: bytes) -> int:
        return self.verdicts

    def answer_for(
        self, app: bytes, agent: str, since: int, through: int, payload: bytes | None, word: Word | None = None
    ) -> None:
        self.answers.append((agent, since, through, payload))
        self.words.append(word)


class Neighbourhood:
    """Agent a1 among four, and the jobs they know."""

    def __init__(self, *jobs: JobRecord) -> None:
        self.node, self.catalogue = Node(), Catalogue()
        for job in jobs:
            self.catalogue.learn_record(job_record(job))
        for number in range(1, 5):
            member = Member(
                agent_id=f"a{number}", name=f"web{number}", address=f"10.0.0.{number}:1", sources=("clicks",)
            )
            self.catalogue.learn_record(member_record(member, 1))
        self.tasks: set[asyncio.Task[None]] = set()

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        self.tasks.add(asyncio.ensure_future(work))

    async def rest(self) -> None:
        while self.tasks:
            await self.tasks.pop()

    async def end(self) -> None:
        for task in self.tasks:
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)

    def near(self) -> list[str]:
        others = [Contact.at(f"10.0.0.{number}", 1) for number in (2, 3, 4)]
        return [each.address for each in sorted(others, key=lambda each: distance(each.id, self.node.contact.id))]


async def wait_for(condition: Callable[[], object], what: str) -> None:
    """Wait until a condition holds; fail loudly when it does not in time."""
    end_s = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < end_s, f"not in time: {what}"
        await asyncio.sleep(0.005)
